//! What a word index is: pieces of files, words, postings, ranks. Nothing here knows about timelines.
//!
//! A file is read in *pieces*, so that thousands of timelines find work in a few files. A word belongs to the piece in
//! which it begins: a piece skips the word that runs into it and reads on behind its end until its own last word is
//! complete. Pieces are therefore independent of each other, and the index does not depend on where the cuts are.
//!
//! A cut is always at an ASCII byte that is neither letter nor digit, so no UTF-8 sequence is ever torn apart.

use std::collections::HashMap;
use std::fs::File;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use crate::survey::TextFile;

/// Number of maps the index is spread over; a word's hash says which one is its own.
pub(crate) const SHARDS: usize = 512;

/// How many of the commonest words are reported.
const TOP: usize = 10;

/// The same hash in every process, so that digests can be compared.
type Hash = BuildHasherDefault<DefaultHasher>;

/// A part of a file, small enough for one timeline to read at a time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Piece {
    /// Index of the file in the survey.
    pub(crate) file: usize,
    start: u64,
    end: u64,
}

/// Hands out the pieces of all files, one after the other.
#[derive(Debug)]
pub(crate) struct Pieces {
    file: usize,
    offset: u64,
    size: u64,
    done: u64,
    total: u64,
}

impl Pieces {
    /// Pieces such that each of `timelines` gets about one, within 1 to 16 KiB: smaller ones would measure opening
    /// files, larger ones would let the texts waiting in the queue outweigh the timelines.
    pub(crate) fn new(files: &[TextFile], timelines: usize) -> Self {
        let total: u64 = files.iter().map(|file| file.len).sum();
        let size = (total / timelines as u64).clamp(1 << 10, 16 << 10);
        Self {
            file: 0,
            offset: 0,
            size,
            done: 0,
            total,
        }
    }

    /// The next piece, and the share of all bytes handed out so far, in percent.
    pub(crate) fn next(&mut self, files: &[TextFile]) -> Option<(Piece, u64)> {
        while self.offset >= files.get(self.file)?.len {
            self.file += 1;
            self.offset = 0;
        }
        let start = self.offset;
        let end = (start + self.size).min(files[self.file].len);
        self.offset = end;
        self.done += end - start;
        Some((
            Piece {
                file: self.file,
                start,
                end,
            },
            self.done * 100 / self.total,
        ))
    }
}

fn is_word_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || !byte.is_ascii()
}

/// Reads the words that begin in `piece` of the file at `path`.
///
/// # Errors
/// Those of the operating system. A file that became shorter is no error: what is left is read.
pub(crate) fn read_piece(path: &Path, piece: Piece) -> io::Result<Vec<u8>> {
    let mut file = File::open(path)?;
    // One byte more at the front tells whether a word runs into this piece.
    let from = piece.start.saturating_sub(1);
    file.seek(SeekFrom::Start(from))?;
    let length = piece.end - from;
    // Room for the end of the last word too, so that the buffer seldom grows.
    let mut text = Vec::with_capacity(length as usize + 64);
    file.by_ref().take(length).read_to_end(&mut text)?;
    if piece.start > 0 {
        let foreign = text.iter().take_while(|&&byte| is_word_byte(byte)).count();
        text.drain(..foreign);
        if text.is_empty() {
            // All of it is inside one huge word that began before: its end is not searched for here.
            return Ok(text);
        }
    }
    while text.last().is_some_and(|&byte| is_word_byte(byte)) {
        let known = text.len();
        if file.by_ref().take(64).read_to_end(&mut text)? == 0 {
            break;
        }
        if let Some(cut) = text[known..].iter().position(|&byte| !is_word_byte(byte)) {
            text.truncate(known + cut);
            break;
        }
    }
    Ok(text)
}

/// How often a word occurs in one piece, and the shard it belongs to.
#[derive(Debug)]
pub(crate) struct Counted {
    pub(crate) shard: usize,
    word: Box<str>,
    count: u64,
}

/// Counts the words of a text, sorted by shard so that each shard's lock is taken once.
///
/// A word is a run of letters and digits that starts with a letter and is at least two characters long; upper and
/// lower case are the same.
pub(crate) fn count(text: &[u8]) -> Vec<Counted> {
    let mut counts: HashMap<Box<str>, u64, Hash> = HashMap::default();
    let mut lower = String::new();
    for word in String::from_utf8_lossy(text).split(|c: char| !c.is_alphanumeric()) {
        let mut characters = word.chars();
        if !characters.next().is_some_and(char::is_alphabetic) || characters.next().is_none() {
            continue;
        }
        lower.clear();
        lower.extend(word.chars().flat_map(char::to_lowercase));
        match counts.get_mut(lower.as_str()) {
            Some(count) => *count += 1,
            None => {
                counts.insert(lower.as_str().into(), 1);
            }
        }
    }
    let mut counted: Vec<Counted> = counts
        .into_iter()
        .map(|(word, count)| Counted {
            shard: shard_of(&word),
            word,
            count,
        })
        .collect();
    counted.sort_unstable_by_key(|counted| counted.shard);
    counted
}

/// The hash's upper half, for the maps themselves use its lower bits.
fn shard_of(word: &str) -> usize {
    (Hash::default().hash_one(word) >> 32) as usize % SHARDS
}

/// One part of the index: for each word its number and the files it occurs in.
#[derive(Debug, Default)]
pub(crate) struct Shard(HashMap<Box<str>, Posting, Hash>);

#[derive(Debug, Default, Hash)]
struct Posting {
    count: u64,
    /// Sorted, each file once.
    files: Vec<u32>,
}

impl Shard {
    /// Adds what was counted in a piece of `file`.
    pub(crate) fn add(&mut self, counted: &Counted, file: usize) {
        let file = u32::try_from(file).expect("a survey ends before 2^32 files");
        if !self.0.contains_key(&counted.word) {
            self.0.insert(counted.word.clone(), Posting::default());
        }
        let posting = self
            .0
            .get_mut(&counted.word)
            .expect("it was just made sure of");
        posting.count += counted.count;
        if let Err(place) = posting.files.binary_search(&file) {
            posting.files.insert(place, file);
        }
    }

    /// Ranks every `stripes`-th word from the `first` on.
    pub(crate) fn rank(&self, first: usize, stripes: usize, ranking: &mut Ranking) {
        for (word, posting) in self.0.iter().skip(first).step_by(stripes) {
            ranking.distinct += 1;
            ranking.words += posting.count;
            let hash = Hash::default().hash_one((word, posting));
            ranking.digest = ranking.digest.wrapping_add(hash);
            ranking.offer(posting.count, word);
        }
    }
}

/// What is known of a set of words; two sets become one by [`Ranking::merge`], in any order.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Ranking {
    /// The commonest words, the commonest first; equally common ones by the alphabet.
    pub(crate) top: Vec<(u64, Box<str>)>,
    /// Number of different words.
    pub(crate) distinct: u64,
    /// Number of words.
    pub(crate) words: u64,
    /// A sum over all words of the hash of word, number and files: equal for equal indexes.
    pub(crate) digest: u64,
}

impl Ranking {
    fn offer(&mut self, count: u64, word: &str) {
        let place = self
            .top
            .partition_point(|(other_count, other)| (*other_count, word) > (count, other));
        if place < TOP {
            self.top.truncate(TOP - 1);
            self.top.insert(place, (count, word.into()));
        }
    }

    /// Adds the ranking of other words to this one.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.distinct += other.distinct;
        self.words += other.words;
        self.digest = self.digest.wrapping_add(other.digest);
        for (count, word) in &other.top {
            self.offer(*count, word);
        }
    }
}
