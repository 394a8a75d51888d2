//! The same result by other means: no pieces, no tables that are merged, no sort of ours.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::sorting::Ranked;
use crate::split;

/// Compares with a count of whole texts that the standard library has sorted.
///
/// # Errors
/// A sentence for the user that names the first difference.
pub(crate) fn check(ranked: &[Ranked<'_>], texts: &[String]) -> Result<(), String> {
    let mut counts: BTreeMap<&str, (u64, usize)> = BTreeMap::new();
    for (file, text) in texts.iter().enumerate() {
        for word in split::words(text) {
            counts.entry(word).or_insert((0, file)).0 += 1;
        }
    }
    let mut expected: Vec<_> = counts.into_iter().map(|(word, (count, first))| Ranked { word, count, first }).collect();
    // Stable, and they are in the order of the alphabet.
    expected.sort_by_key(|word| Reverse(word.count));
    let place = (0..expected.len().max(ranked.len())).find(|place| expected.get(*place) != ranked.get(*place));
    place.map_or(Ok(()), |place| {
        let [found, should] = [ranked.get(place), expected.get(place)].map(|word| match word {
            Some(Ranked { word, count, first }) => format!("{word:?}, {count} times, first in text {first}"),
            None => "nothing".to_owned(),
        });
        Err(format!("place {place} of the words is {found}, and should be {should}: a bug, please report it"))
    })
}
