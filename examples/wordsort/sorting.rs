//! The program that all sides run: words are counted twice, by map and reduce and by sorting all of them, and then ranked.
//!
//! ```text
//!   pieces of texts ──map_reduce──► counts ────────────────────────────────┐
//!          └──map──► all words ──stable sort──► equal ones side by side ──►┴──► unstable sort by the count, then the alphabet
//! ```
//!
//! The sort of all words is stable, so the first of equal ones is the one that comes first in the texts.

use std::collections::HashMap;

use crate::rivals::{Laps, With};
use crate::split;

/// A piece of a text has about so many bytes: enough that a table of its words pays, and few enough to keep all cores busy.
const PIECE: usize = 32 << 10;

/// A piece of a text, without words cut in two.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Piece<'t> {
    /// Number of the text.
    file: u32,
    text: &'t str,
}

/// A word somewhere.
#[derive(Debug, Clone, Copy)]
struct Word<'t> {
    word: &'t str,
    file: u32,
}

/// A word, how often it occurs, and the text that is the first to have it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ranked<'t> {
    pub(crate) word: &'t str,
    pub(crate) count: u64,
    pub(crate) first: usize,
}

/// Cuts the texts in pieces, in their order.
pub(crate) fn pieces(texts: &[String]) -> Vec<Piece<'_>> {
    let mut pieces = Vec::new();
    for (file, mut text) in (0..).zip(texts.iter().map(String::as_str)) {
        while !text.is_empty() {
            let (first, rest) = cut(text, PIECE);
            pieces.push(Piece { file, text: first });
            text = rest;
        }
    }
    pieces
}

/// At least `size` bytes, up to the end of a word, and the rest.
fn cut(text: &str, size: usize) -> (&str, &str) {
    let Some(from) = (size..text.len()).find(|at| text.is_char_boundary(*at)) else { return (text, "") };
    let end = text[from..].find(|c: char| !c.is_alphanumeric());
    text.split_at(end.map_or(text.len(), |end| from + end))
}

/// All words, the commonest first; equally common ones by the alphabet.
pub(crate) fn rank<'t>(with: With, pieces: &[Piece<'t>], laps: &mut Laps) -> Vec<Ranked<'t>> {
    let counts = with.map_reduce(pieces, count, merge).unwrap_or_default();
    laps.end("count: map_reduce");
    let mut words = with.map(pieces, words).concat();
    laps.end("all words: map");
    with.sort_by(&mut words, |a, b| a.word.cmp(b.word));
    laps.end("all words: stable sort");
    let equal = words.chunk_by(|a, b| a.word == b.word);
    let mut ranked: Vec<_> = equal
        .map(|equal| Ranked { word: equal[0].word, count: equal.len() as u64, first: equal[0].file as usize })
        .collect();
    // Counted in two ways: that both say the same is part of the result.
    ranked.retain(|word| counts.get(word.word) == Some(&word.count));
    laps.end("compare both counts");
    with.sort_unstable_by(&mut ranked, |a, b| b.count.cmp(&a.count).then(a.word.cmp(b.word)));
    laps.end("rank: unstable sort");
    ranked
}

fn words<'t>(piece: &Piece<'t>) -> Vec<Word<'t>> {
    split::words(piece.text).map(|word| Word { word, file: piece.file }).collect()
}

type Counts<'t> = HashMap<&'t str, u64>;

fn count<'t>(piece: &Piece<'t>) -> Counts<'t> {
    let mut counts = Counts::new();
    for word in split::words(piece.text) {
        *counts.entry(word).or_default() += 1;
    }
    counts
}

/// The smaller one into the larger one: their order does not matter to a sum.
fn merge<'t>(a: Counts<'t>, b: Counts<'t>) -> Counts<'t> {
    let (mut more, fewer) = if a.len() < b.len() { (b, a) } else { (a, b) };
    for (word, count) in fewer {
        *more.entry(word).or_default() += count;
    }
    more
}
