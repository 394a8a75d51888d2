//! Part 4: fork-join. The longest passage that stands in two files, by loops and a sort that are cut when a core asks for work.

use std::path::Path;

use indicatif::{HumanBytes, HumanCount};

use crate::passage::longest;
use crate::show::counted;
use crate::texts::{LOOKED_AT, Passage, Text};
use crate::{rivals, texts};

/// Lines of the passage that are shown, and characters of a line.
const SHOWN: (usize, usize) = (6, 90);

/// What part 5 goes on with.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) texts: Vec<Text>,
    pub(crate) passage: Option<Passage>,
}

/// Searches the text files below `root` on one core and on all, and prints what it found.
///
/// # Errors
/// A sentence for the user: there is no text, a side could not be started, or it found something else.
pub(crate) fn run(root: &Path, runs: usize) -> Result<Found, String> {
    let texts = texts::below(root)?;
    let size = texts.iter().map(|text| text.bytes.len() as u64).sum();
    println!(
        "   Of {} in {}: the longest passage that stands in two of them.",
        HumanBytes(size),
        counted(texts.len(), "file")
    );
    println!("   One program, three times the verbs: examples/tour/passage.rs, examples/rivals/verbs.rs.\n");
    let passage = rivals::compare(runs, |with, laps| longest(with, &texts, laps))?;
    println!("\n   All found the same.");
    match &passage {
        Some(passage) => show(passage, &texts, root),
        None => println!("   No passage stands in two files."),
    }
    Ok(Found { texts, passage })
}

fn show(passage: &Passage, texts: &[Text], root: &Path) {
    let [first, second] = passage.owners(texts).map(|text| name(text, root));
    let more = if passage.length == LOOKED_AT { " or more" } else { "" };
    println!("   {} bytes{more} stand in {first} and in {second}:\n", HumanCount(passage.length as u64));
    let text = String::from_utf8_lossy(passage.text(texts));
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    for line in lines.iter().take(SHOWN.0) {
        // Whatever a file holds, the terminal gets no orders from it.
        let shown = line.chars().take(SHOWN.1).map(|c| if c.is_control() { ' ' } else { c });
        println!("   │ {}", shown.collect::<String>());
    }
    if lines.len() > SHOWN.0 {
        println!("   │ … and {} more", counted(lines.len() - SHOWN.0, "line"));
    }
}

/// A text's file, as seen from the folder.
pub(crate) fn name(text: &Text, root: &Path) -> String {
    text.path.strip_prefix(root).unwrap_or(&text.path).display().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rivals::{Laps, With};

    fn texts(texts: &[&str]) -> Vec<Text> {
        texts.iter().map(|text| Text { path: "memory".into(), bytes: text.as_bytes().to_vec() }).collect()
    }

    /// The length of the longest common passage from all pairs of places.
    fn of_all_pairs(texts: &[Text]) -> usize {
        let places: Vec<_> = (0..texts.len()).flat_map(|file| texts::word_starts(texts, file)).collect();
        let pairs = places.iter().flat_map(|&a| places.iter().map(move |&b| (a, b)));
        pairs.filter_map(|(a, b)| Passage::common(texts, a, b)).map(|passage| passage.length).max().unwrap_or(0)
    }

    #[test]
    fn all_sides_find_the_passage_that_all_pairs_give() {
        let long = format!("{} ", "long".repeat(30)).repeat(40);
        assert!(long.len() > LOOKED_AT, "{} bytes are looked at to their end", long.len());
        for words in [
            &["the cat sat", "a cat sat on the mat", "cat"][..],
            &["one file with one file with one file in it"],
            &["alone", "", "..."],
            &["same", "same"],
            &[&"one two three four ".repeat(600), "two three five four one two three"],
            &[&long, &format!("x {long}"), "to be"],
            &[],
        ] {
            let texts = texts(words);
            let expected = of_all_pairs(&texts);
            let found = |with| longest(with, &texts, &mut Laps::new());
            assert_eq!(found(With::Plain).map_or(0, |passage| passage.length), expected, "{words:.40?}");
            assert_eq!(found(With::Tasks), found(With::Plain), "{words:.40?}");
            assert_eq!(found(With::Rayon), found(With::Plain), "{words:.40?}");
        }
    }

    #[test]
    fn a_passage_is_in_two_files_and_begins_with_a_word() {
        let texts = texts(&["again and again and again", "- and again: xyz", "xyz"]);
        let passage = longest(With::Tasks, &texts, &mut Laps::new()).expect("there is one");
        assert_eq!(passage.text(&texts), b"and again");
    }
}
