//! The search of part 4 on all cores, by rayon.

use std::cmp::Ordering;
use std::ops::Range;

use rayon::prelude::*;

fn map_reduce<T: Send>(
    range: Range<usize>,
    map: impl Fn(usize) -> T + Sync + Send,
    reduce: impl Fn(T, T) -> T + Sync + Send,
) -> Option<T> {
    range.into_par_iter().map(map).reduce_with(reduce)
}

fn sort_by<T: Send>(slice: &mut [T], compare: impl Fn(&T, &T) -> Ordering + Sync) {
    slice.par_sort_unstable_by(compare);
}

#[expect(clippy::duplicate_mod, reason = "the same source on all sides is the point")]
#[path = "passage.rs"]
pub(crate) mod passage;
