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
//! *Unstable*: halves around the median (`select_nth_unstable_by`), each sorted by itself. Input that looks almost sorted goes the way of the stable
//! sort, but its pieces are *weeded*: what is in order moves to the front, the few others are sorted and merged into it (drop-merge sort, with
//! swaps). std's unstable sort is as slow for it as for any other.
//!
//! Whatever a comparison does, std keeps all elements in the slice; what is done here is swaps. So there is no unsafe code to be right.
//!
//! **Tried.** A merge through a buffer of our own, which saves the rotation: it needs unsafe code that is right when a comparison panics.

use std::cmp::Ordering;

use proto_core::{available_parallelism, divisible, join};

use super::over::over;

/// Pieces of fewer elements are not cut.
const LEAST: usize = 4096;

/// Blocks of fewer bytes are rotated by one core.
const SWAP: usize = 256 << 10;

/// So many pairs of neighbours tell whether a piece is almost sorted.
const PAIRS: usize = 256;

/// So many elements in a row that are too small tell that the ones before were too large.
const ROW: usize = 8;

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
        pieces => divisible(|_| merge_sort(slice, pieces, true, &compare)),
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
        1 if slice.len() < LEAST => slice.sort_unstable_by(compare),
        _ if slice.is_sorted_by(|a, b| compare(a, b).is_le()) => {}
        _ if slice.is_sorted_by(|a, b| compare(a, b).is_ge()) => slice.reverse(),
        pieces if looks_sorted(slice, &compare) => {
            // As many as cores: each level of merges goes over all of it, and takes as long as the pieces do.
            divisible(|_| merge_sort(slice, (pieces / 2).max(pieces.min(2)), false, &compare));
        }
        1 => slice.sort_unstable_by(compare),
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

/// Whether almost all of some pairs of neighbours are in order.
fn looks_sorted<T, F: Fn(&T, &T) -> Ordering>(slice: &[T], compare: &F) -> bool {
    let step = (slice.len() / PAIRS).max(1);
    let falls = slice.windows(2).step_by(step).filter(|pair| compare(&pair[0], &pair[1]).is_gt()).count();
    slice.len() > PAIRS && falls <= PAIRS / 16
}

/// Leaves two runs, of elements in order and then of few others, also sorted; or gives up: too many are out of order.
fn weed<T, F: Fn(&T, &T) -> Ordering>(slice: &mut [T], compare: &F) -> bool {
    let (mut kept, mut in_a_row) = (1, 0);
    for at in 1..slice.len() {
        let this = &slice[at];
        let fits = |kept: usize| compare(&slice[kept - 1], this).is_le();
        if !fits(kept) {
            in_a_row += 1;
            if kept > 1 && fits(kept - 1) {
                // The one before is the odd one.
                kept -= 1;
            } else {
                // So many in a row: rather, some before them are too large.
                let enough = in_a_row % ROW == 0;
                let below = if enough { slice[..kept].partition_point(|x| compare(x, this).is_le()) } else { 0 };
                if !enough || kept - below > in_a_row {
                    if at - kept > slice.len() / 16 {
                        return false;
                    }
                    continue;
                }
                kept = below;
            }
        }
        slice.swap(kept, at);
        kept += 1;
        in_a_row = 0;
    }
    slice[kept..].sort_unstable_by(compare);
    true
}

/// Sorts pieces, and merges them. Stable, or fast for what is almost sorted.
fn merge_sort<T: Send, F: Fn(&T, &T) -> Ordering + Sync>(slice: &mut [T], pieces: usize, stable: bool, compare: &F) {
    if pieces <= 1 {
        if !stable && !weed(slice, compare) {
            return slice.sort_unstable_by(compare);
        }
        return slice.sort_by(compare);
    }
    let middle = slice.len() / 2;
    let (left, right) = slice.split_at_mut(middle);
    join(|| merge_sort(left, pieces / 2, stable, compare), || merge_sort(right, pieces / 2, stable, compare));
    merge(slice, middle, pieces, compare);
}

/// Merges the sorted runs `slice[..middle]` and `slice[middle..]`, in so many pieces.
fn merge<T: Send, F: Fn(&T, &T) -> Ordering + Sync>(slice: &mut [T], middle: usize, pieces: usize, compare: &F) {
    let goes_before = |a: &T, b: &T| compare(a, b).is_lt();
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
        return slice.sort_by(compare);
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
    join(|| merge(low, lefts, pieces / 2, compare), || merge(high, middle - lefts, pieces / 2, compare));
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
        over((&mut front[..short], back)).for_each_block(|(a, b)| a.swap_with_slice(b));
        slice = if left <= right { &mut slice[..at] } else { &mut slice[short..] };
        left = if left <= right { left } else { left - short };
    }
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

    #[test]
    fn what_is_almost_in_order_is_two_runs_of_which_the_second_is_short() {
        let in_order = || (0..1000u32).map(|n| 10 * n).collect::<Vec<_>>();
        let mut inputs = vec![in_order()];
        for at in [0, 1, 2, 500, 996] {
            // Too large or too small, one or several in a row; rising, falling.
            for odd in [vec![9_999], vec![1], vec![9_997, 9_998, 9_999], vec![3, 2, 1]] {
                let mut input = in_order();
                input.splice(at..at, odd);
                inputs.push(input);
            }
        }
        for input in inputs {
            let mut weeded = input.clone();
            assert!(looks_sorted(&input, &u32::cmp) && weed(&mut weeded, &u32::cmp));
            let first = weeded.chunk_by(|a, b| a <= b).next().unwrap().len();
            assert!(weeded[first..].is_sorted());
            assert!(input.len() - first <= ROW + 2, "{} were weeded out", input.len() - first);
            let mut sorted = input;
            sorted.sort_unstable();
            weeded.sort_unstable();
            assert_eq!(weeded, sorted);
        }
        let mut falling: Vec<u32> = (0..1000).rev().collect();
        assert!(!looks_sorted(&falling, &u32::cmp) && !weed(&mut falling, &u32::cmp));
    }
}
