//! The texts of parts 4 and 5, in memory, and passages of them.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use crate::pieces::is_word_byte;
use crate::survey::Survey;

/// So much text is read, in bytes: enough to keep all cores busy for a while.
const READ: u64 = 4 << 20;

/// So many bytes behind a place are looked at. Without a bound the comparisons of copies of a file would not end.
pub(crate) const LOOKED_AT: usize = 4096;

/// A file in memory.
#[derive(Debug)]
pub(crate) struct Text {
    pub(crate) path: PathBuf,
    pub(crate) bytes: Vec<u8>,
}

/// A place in a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    file: u32,
    at: u32,
}

/// The same bytes in two texts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Passage {
    /// In bytes, at most [`LOOKED_AT`].
    pub(crate) length: usize,
    places: [Place; 2],
}

/// The texts below `root`, up to [`READ`] bytes of them. A file that cannot be read is left out: part 2 has named it.
///
/// # Errors
/// A sentence for the user if `root` cannot be used, or there is no text.
pub(crate) fn below(root: &Path) -> Result<Vec<Text>, String> {
    let survey = Survey::below(root)?;
    let mut left = READ;
    let mut texts = Vec::new();
    for file in survey.files {
        let mut bytes = Vec::new();
        let read = File::open(&file.path).and_then(|file| file.take(left).read_to_end(&mut bytes));
        if read.is_ok() && !bytes.is_empty() {
            left -= bytes.len() as u64;
            texts.push(Text { path: file.path, bytes });
        }
    }
    match texts.is_empty() {
        true => Err(format!("{}: no text in it; name a folder with text files", root.display())),
        false => Ok(texts),
    }
}

/// Where the words of a text begin.
pub(crate) fn word_starts(texts: &[Text], file: usize) -> Vec<Place> {
    let bytes = &texts[file].bytes;
    let begins = |&at: &usize| is_word_byte(bytes[at]) && (at == 0 || !is_word_byte(bytes[at - 1]));
    let place = |at| Place { file: file as u32, at: at as u32 };
    (0..bytes.len()).filter(begins).map(place).collect()
}

impl Place {
    /// What is looked at of the text from here.
    pub(crate) fn text(self, texts: &[Text]) -> &[u8] {
        let rest = &texts[self.file as usize].bytes[self.at as usize..];
        &rest[..rest.len().min(LOOKED_AT)]
    }
}

impl Passage {
    /// What two places of different texts have in common.
    pub(crate) fn common(texts: &[Text], first: Place, second: Place) -> Option<Passage> {
        if first.file == second.file {
            return None;
        }
        let pairs = first.text(texts).iter().zip(second.text(texts));
        let length = pairs.take_while(|(a, b)| a == b).count();
        (length > 0).then_some(Passage { length, places: [first, second] })
    }

    /// The two texts that have it.
    pub(crate) fn owners<'t>(&self, texts: &'t [Text]) -> [&'t Text; 2] {
        self.places.map(|place| &texts[place.file as usize])
    }

    /// The passage itself.
    pub(crate) fn text<'t>(&self, texts: &'t [Text]) -> &'t [u8] {
        &self.places[0].text(texts)[..self.length]
    }
}
