//! The longest passage that stands in two files, written once for one core and for all.
//!
//! This file is compiled three times: below `on_one_core.rs`, `on_rayon.rs` and `on_tasks.rs`, whose two functions are all that differs. It does not
//! know on what it runs.
//!
//! All places where a word begins are sorted by the text that follows. Then the two places in question are neighbours: what lies between
//! two places has at least as much in common with each of them as they have.

use super::{map_reduce, sort_by};
use crate::texts::{Passage, Place, Text, word_starts};

/// The longest passage, the first by the alphabet if several are as long. `None` if no word begins two texts' passages alike.
pub(crate) fn longest(texts: &[Text]) -> Option<Passage> {
    let mut places: Vec<Place> = map_reduce(
        0..texts.len(),
        |file| word_starts(texts, file),
        |mut some, mut others| {
            some.append(&mut others);
            some
        },
    )?;
    sort_by(&mut places, |a, b| a.text(texts).cmp(b.text(texts)).then(a.cmp(b)));
    map_reduce(
        1..places.len(),
        |n| Passage::common(texts, places[n - 1], places[n]),
        |first, second| if length(&second) > length(&first) { second } else { first },
    )?
}

fn length(passage: &Option<Passage>) -> usize {
    passage.as_ref().map_or(0, |passage| passage.length)
}
