//! The longest passage that stands in two files, by fork-join.
//!
//! All places where a word begins are sorted by the text that follows. Then the two places in question are neighbours: what lies between
//! two places has at least as much in common with each of them as they have.

use crate::rivals::{Laps, With};
use crate::texts::{Passage, Place, Text, word_starts};

/// So many neighbours are looked at in a row.
const ROW: usize = 1 << 12;

/// The longest passage, the first by the alphabet if several are as long. `None` if no two texts have a word's first letter in common.
pub(crate) fn longest(with: With, texts: &[Text], laps: &mut Laps) -> Option<Passage> {
    let files: Vec<usize> = (0..texts.len()).collect();
    let mut places = with.map(&files, |&file| word_starts(texts, file)).concat();
    laps.end("places: map");
    with.sort_unstable_by(&mut places, |a, b| a.text(texts).cmp(b.text(texts)).then(a.cmp(b)));
    laps.end("all places: sort");
    let rows: Vec<&[Place]> = (1..places.len()).step_by(ROW).map(|n| row(&places, n)).collect();
    let longest = with.map_reduce(&rows, |row| in_row(texts, row), longer);
    laps.end("neighbours: map_reduce");
    longest.flatten()
}

/// The places from `n` on, as many as are looked at in a row, and the one before them.
fn row(places: &[Place], n: usize) -> &[Place] {
    &places[n - 1..places.len().min(n + ROW)]
}

/// The longest passage of two neighbours.
fn in_row(texts: &[Text], places: &[Place]) -> Option<Passage> {
    places.windows(2).map(|pair| Passage::common(texts, pair[0], pair[1])).reduce(longer).flatten()
}

/// The first of the two, unless the second is longer.
fn longer(first: Option<Passage>, second: Option<Passage>) -> Option<Passage> {
    let length = |passage: &Option<Passage>| passage.as_ref().map_or(0, |passage| passage.length);
    if length(&second) > length(&first) { second } else { first }
}
