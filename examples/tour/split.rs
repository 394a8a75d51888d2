//! What a word is.

/// The words of a text: runs of letters and digits that start with a letter and are at least two characters long.
pub(crate) fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric()).filter(|word| {
        let mut characters = word.chars();
        characters.next().is_some_and(char::is_alphabetic) && characters.next().is_some()
    })
}
