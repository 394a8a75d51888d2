//! What a word index is: words, postings, ranks. Nothing here knows about timelines.

use std::collections::HashMap;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};

use crate::split;

/// Number of maps the index is spread over; a word's hash says which one is its own.
pub(crate) const SHARDS: usize = 512;

/// How many of the commonest words are reported.
const TOP: usize = 10;

/// The same hash in every process, so that digests can be compared.
type Hash = BuildHasherDefault<DefaultHasher>;

/// How often a word occurs in one piece, and the shard it belongs to.
#[derive(Debug)]
pub(crate) struct Counted {
    pub(crate) shard: usize,
    word: Box<str>,
    count: u64,
}

/// Counts the [words](split::words) of a text; upper and lower case are the same.
pub(crate) fn count(text: &[u8]) -> impl Iterator<Item = Counted> + use<> {
    let mut counts: HashMap<Box<str>, u64, Hash> = HashMap::default();
    let mut lower = String::new();
    for word in split::words(&String::from_utf8_lossy(text)) {
        lower.clear();
        lower.extend(word.chars().flat_map(char::to_lowercase));
        match counts.get_mut(lower.as_str()) {
            Some(count) => *count += 1,
            None => {
                counts.insert(lower.as_str().into(), 1);
            }
        }
    }
    counts.into_iter().map(|(word, count)| Counted { shard: shard_of(&word), word, count })
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
    pub(crate) fn add(&mut self, counted: Counted, file: usize) {
        let file = u32::try_from(file).expect("a survey ends before 2^32 files");
        let posting = self.0.entry(counted.word).or_default();
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
        let place = self.top.partition_point(|(other_count, other)| (*other_count, word) > (count, other));
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

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "The cat, the CAT & th\u{e9}\u{2014}cat; a 2nd x9 stra\u{df}e.\n\nthe";

    fn indexed() -> Shard {
        let mut shard = Shard::default();
        for counted in count(TEXT.as_bytes()) {
            shard.add(counted, 0);
        }
        shard
    }

    #[test]
    fn words_start_with_a_letter_and_have_two_characters_in_lower_case() {
        let mut ranking = Ranking::default();
        indexed().rank(0, 1, &mut ranking);
        let top: Vec<(u64, &str)> = ranking.top.iter().map(|(n, word)| (*n, &**word)).collect();
        assert_eq!(top, [(3, "cat"), (3, "the"), (1, "stra\u{df}e"), (1, "th\u{e9}"), (1, "x9")]);
    }

    #[test]
    fn stripes_of_a_shard_make_up_the_whole() {
        let shard = indexed();
        let mut whole = Ranking::default();
        shard.rank(0, 1, &mut whole);
        let mut striped = Ranking::default();
        for first in 0..4 {
            let mut stripe = Ranking::default();
            shard.rank(first, 4, &mut stripe);
            striped.merge(&stripe);
        }
        assert_eq!(striped, whole, "in four stripes");
    }
}
