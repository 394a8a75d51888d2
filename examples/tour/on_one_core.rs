//! The search of part 4 on one core: loops and sorts of the standard library.

use std::cmp::Ordering;
use std::ops::Range;

fn map_reduce<T>(range: Range<usize>, map: impl Fn(usize) -> T, reduce: impl Fn(T, T) -> T) -> Option<T> {
    range.map(map).reduce(reduce)
}

fn sort_by<T>(slice: &mut [T], compare: impl Fn(&T, &T) -> Ordering) {
    slice.sort_unstable_by(compare);
}

#[path = "passage.rs"]
pub(crate) mod passage;
