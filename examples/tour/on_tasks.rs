//! The search of part 4 on all cores, by the fork-join face of the tasks language.

use std::cmp::Ordering;
use std::ops::Range;

use proto_lang_tasks::{over, sort_unstable_by};

fn map_reduce<T: Send>(
    range: Range<usize>,
    map: impl Fn(usize) -> T + Sync,
    reduce: impl Fn(T, T) -> T + Sync,
) -> Option<T> {
    over(range).map_reduce(map, reduce)
}

fn sort_by<T: Send>(slice: &mut [T], compare: impl Fn(&T, &T) -> Ordering + Sync) {
    sort_unstable_by(slice, compare);
}

#[expect(clippy::duplicate_mod, reason = "the same source on all sides is the point")]
#[path = "passage.rs"]
pub(crate) mod passage;
