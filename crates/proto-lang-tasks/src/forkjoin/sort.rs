//! Parallel sorts: std's sorts for the pieces, forks around them, and nothing but what slices offer.
//!
//! *Stable*: the pieces are sorted, then merged in pairs. A merge of two large runs is cut in two smaller ones that are independent: of both runs together the
//! first half is found (a binary search), and the end of the left run changes places with the beginning of the right one.
//!
//! ```text
//!          left run          right run
//!     ├── first ──┼──────┼── first ──┼──────┤
//!                 └─── rotate ───────┘
//!     ├── first ──┼── first ──┼──────┼──────┤     each half is two runs again
//! ```
//!
//! A small merge is std's own: its stable sort finds the two runs, and merges them with a buffer.
//!
//! *Unstable*: halves around the median (`select_nth_unstable_by`), each sorted by itself.
//!
//! Whatever a comparison does, std keeps all elements in the slice; what is done here is swaps. So there is no unsafe code to be right.
//!
//! **Tried.** A merge through a buffer of our own, which saves the rotation: it needs unsafe code that is right when a comparison panics.

use std::cmp::Ordering;

use proto_core::{available_parallelism, divisible, join};

/// Pieces of fewer elements are not cut.
const LEAST: usize = 4096;

/// Blocks of fewer bytes are swapped by one core.
const SWAP: usize = 256 << 10;

/// As [`slice::sort`]: stable, in parallel.
///
/// # Panics
///
/// If a comparison panics; all elements are still in the slice then, in no particular order.
///
/// # Examples
///
/// ```
/// let mut words = "no wake-up is lost and nothing runs twice".split(' ').collect::<Vec<_>>();
/// proto_lang_tasks::sort(&mut words);
/// assert_eq!(words[..4], ["and", "is", "lost", "no"]);
/// ```
#[track_caller]
pub fn sort<T: Ord + Send>(slice: &mut [T]) {
    sort_by(slice, T::cmp);
}

/// As [`slice::sort_by`]: stable, in parallel.
///
/// # Panics
///
/// As [`sort`], and perhaps if `compare` is no total order.
///
/// # Examples
///
/// ```
/// let mut numbers = [0.5, -1.0, 2.5];
/// proto_lang_tasks::sort_by(&mut numbers, |a: &f64, b| b.total_cmp(a));
/// assert_eq!(numbers, [2.5, 0.5, -1.0]);
/// ```
#[track_caller]
pub fn sort_by<T: Send, F: Fn(&T, &T) -> Ordering + Sync>(slice: &mut [T], compare: F) {
    match pieces_of(slice) {
        1 => slice.sort_by(compare),
        pieces => divisible(|_| Merge(&compare).sort(slice, pieces)),
    }
}

/// As [`slice::sort_by_key`]: stable, in parallel.
///
/// # Panics
///
/// As [`sort`], also if `key` panics.
///
/// # Examples
///
/// ```
/// let mut words = ["three", "two", "one"];
/// proto_lang_tasks::sort_by_key(&mut words, |word| word.len());
/// assert_eq!(words, ["two", "one", "three"]);
/// ```
#[track_caller]
pub fn sort_by_key<T: Send, K: Ord, F: Fn(&T) -> K + Sync>(slice: &mut [T], key: F) {
    sort_by(slice, |a, b| key(a).cmp(&key(b)));
}

/// As [`slice::sort_unstable`]: in parallel, without a buffer.
///
/// # Panics
///
/// As [`sort`].
///
/// # Examples
///
/// ```
/// let mut numbers = (0..10_000u64).map(|n| n * 7919 % 10_000).collect::<Vec<_>>();
/// proto_lang_tasks::sort_unstable(&mut numbers);
/// assert!(numbers.is_sorted());
/// ```
#[track_caller]
pub fn sort_unstable<T: Ord + Send>(slice: &mut [T]) {
    sort_unstable_by(slice, T::cmp);
}

/// As [`slice::sort_unstable_by`]: in parallel, without a buffer.
///
/// # Panics
///
/// As [`sort_by`].
///
/// # Examples
///
/// ```
/// let mut numbers = [2, 3, 1];
/// proto_lang_tasks::sort_unstable_by(&mut numbers, |a, b| b.cmp(a));
/// assert_eq!(numbers, [3, 2, 1]);
/// ```
#[track_caller]
pub fn sort_unstable_by<T: Send, F: Fn(&T, &T) -> Ordering + Sync>(slice: &mut [T], compare: F) {
    match pieces_of(slice) {
        1 => slice.sort_unstable_by(compare),
        _ if slice.is_sorted_by(|a, b| compare(a, b).is_le()) => {}
        _ if slice.is_sorted_by(|a, b| compare(a, b).is_ge()) => slice.reverse(),
        pieces => divisible(|_| quicksort(slice, pieces, &compare)),
    }
}

/// As [`slice::sort_unstable_by_key`]: in parallel, without a buffer.
///
/// # Panics
///
/// As [`sort_by_key`].
///
/// # Examples
///
/// ```
/// let mut numbers = [-3i32, 2, -1];
/// proto_lang_tasks::sort_unstable_by_key(&mut numbers, |n| n.abs());
/// assert_eq!(numbers, [-1, 2, -3]);
/// ```
#[track_caller]
pub fn sort_unstable_by_key<T: Send, K: Ord, F: Fn(&T) -> K + Sync>(slice: &mut [T], key: F) {
    sort_unstable_by(slice, |a, b| key(a).cmp(&key(b)));
}

/// In how many pieces a slice is cut: two for each core, so that one which comes late finds something; a power of two.
fn pieces_of<T>(slice: &[T]) -> usize {
    let cores = available_parallelism().get();
    let useful = slice.len() / LEAST;
    if cores == 1 || useful < 2 { 1 } else { (2 * cores).next_power_of_two().min(useful.next_power_of_two()) }
}

fn quicksort<T: Send, F: Fn(&T, &T) -> Ordering + Sync>(slice: &mut [T], pieces: usize, compare: &F) {
    if pieces <= 1 || slice.len() < 2 {
        return slice.sort_unstable_by(compare);
    }
    let (less, _, more) = slice.select_nth_unstable_by(slice.len() / 2, compare);
    join(|| quicksort(less, pieces / 2, compare), || quicksort(more, pieces / 2, compare));
}

/// The stable sort by this comparison.
struct Merge<'f, F>(&'f F);

impl<F> Merge<'_, F> {
    fn sort<T: Send>(&self, slice: &mut [T], pieces: usize)
    where
        F: Fn(&T, &T) -> Ordering + Sync,
    {
        if pieces <= 1 {
            return slice.sort_by(self.0);
        }
        let middle = slice.len() / 2;
        let (left, right) = slice.split_at_mut(middle);
        join(|| self.sort(left, pieces / 2), || self.sort(right, pieces / 2));
        self.merge(slice, middle, pieces);
    }

    /// Merges the sorted runs `slice[..middle]` and `slice[middle..]`, in so many pieces.
    fn merge<T: Send>(&self, slice: &mut [T], middle: usize, pieces: usize)
    where
        F: Fn(&T, &T) -> Ordering + Sync,
    {
        let goes_before = |a: &T, b: &T| (self.0)(a, b).is_lt();
        let (left, right) = slice.split_at(middle);
        let (Some(last), Some(first)) = (left.last(), right.first()) else { return };
        if !goes_before(first, last) {
            return;
        }
        // What is in its place already.
        let begin = left.partition_point(|a| !goes_before(first, a));
        let end = middle + right.partition_point(|b| goes_before(b, last));
        let (slice, middle) = (&mut slice[begin..end], middle - begin);
        if pieces <= 1 || slice.len() < 2 * LEAST {
            return slice.sort_by(self.0);
        }
        let half = slice.len() / 2;
        let (left, right) = slice.split_at(middle);
        // Of both runs together, `half` elements come first: `lefts` of the left one. Of equals the left one's come first.
        let (mut lefts, mut most) = (half.saturating_sub(right.len()), half.min(left.len()));
        while lefts < most {
            let probe = lefts + (most - lefts) / 2;
            if goes_before(&right[half - probe - 1], &left[probe]) {
                most = probe;
            } else {
                lefts = probe + 1;
            }
        }
        rotate(&mut slice[lefts..middle + (half - lefts)], middle - lefts);
        let (low, high) = slice.split_at_mut(half);
        join(|| self.merge(low, lefts, pieces / 2), || self.merge(high, middle - lefts, pieces / 2));
    }
}

/// As [`slice::rotate_left`], in parallel: the shorter side changes places with the far end of the longer one, and is where it belongs.
fn rotate<T: Send>(mut slice: &mut [T], mut left: usize) {
    loop {
        let right = slice.len() - left;
        let short = left.min(right);
        if short * size_of::<T>() < SWAP {
            return slice.rotate_left(left);
        }
        let at = slice.len() - short;
        let (front, back) = slice.split_at_mut(at);
        swap(&mut front[..short], back);
        slice = if left <= right { &mut slice[..at] } else { &mut slice[short..] };
        left = if left <= right { left } else { left - short };
    }
}

/// Swaps two blocks of one length.
fn swap<T: Send>(a: &mut [T], b: &mut [T]) {
    if size_of_val(a) < SWAP {
        return a.swap_with_slice(b);
    }
    let half = a.len() / 2;
    let ((a1, a2), (b1, b2)) = (a.split_at_mut(half), b.split_at_mut(half));
    join(|| swap(a1, b1), || swap(a2, b2));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rotation_is_that_of_std() {
        // Large elements, so that few are enough to be swapped in blocks.
        let number = |n: usize| [n; 4096];
        for (len, left) in [(100, 1), (100, 50), (100, 37), (100, 90), (101, 8), (64, 32)] {
            let mut ours: Vec<_> = (0..len).map(number).collect();
            let mut expected = ours.clone();
            rotate(&mut ours, left);
            expected.rotate_left(left);
            assert!(ours == expected, "{len} by {left}");
        }
    }
}
