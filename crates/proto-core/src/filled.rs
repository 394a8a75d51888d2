//! A vector whose values are written in place, by several timelines, each of which has some of the places.
//!
//! ```text
//!   Places:  start         + filled            + len
//!            ├── values ────┼── empty ──────────┤
//!                           └── fill: from here │
//!                                   split_off ──┤── to somebody else ──┤
//! ```
//!
//! All places are of one allocation: the lifetime is a brand, which only the closure of one [`filled`] has. So pieces that meet can be one again, and a
//! pointer to the first reaches all. Values belong to the `Places` they are in, until [`filled`] gives them to the vector: whoever unwinds
//! drops what was written so far, no more and no less.
//!
//! **Tried.** The vector's own `spare_capacity_mut`, split as slices: what was written in two of them cannot be dropped, or handed on, as one, because a
//! slice's pointer reaches no further than the slice.

use std::fmt;
use std::marker::PhantomData;
use std::mem::{self, MaybeUninit};
use std::ptr::NonNull;
use std::slice;

/// Makes a vector of `len` values, which `fill` writes where they are to be: it is given the places, may [split](Places::split_off) them, have others
/// fill the parts, and [joins](Places::append) them again.
///
/// # Panics
///
/// If `fill` gives back only a part of the places, or leaves some of them empty. What was written is dropped then, as it is when `fill` panics.
///
/// # Examples
///
/// ```
/// use proto_core::{filled, join};
///
/// let squares = filled(1000, |mut first| {
///     let mut second = first.split_off(500);
///     join(|| first.fill((0..500u64).map(|n| n * n)), || second.fill((500..1000).map(|n| n * n)));
///     first.append(second);
///     first
/// });
/// assert_eq!(squares[999], 998_001);
/// ```
///
/// Places of two vectors do not mix:
///
/// ```compile_fail
/// use proto_core::filled;
///
/// filled::<u8>(1, |ours| {
///     filled::<u8>(1, |_theirs| ours);
///     unreachable!()
/// });
/// ```
#[track_caller]
pub fn filled<T>(len: usize, fill: impl for<'vec> FnOnce(Places<'vec, T>) -> Places<'vec, T>) -> Vec<T> {
    let mut values = Vec::with_capacity(len);
    let start = NonNull::new(values.as_mut_ptr()).expect("the pointer of a vector");
    let all = fill(Places { start, len, filled: 0, brand: PhantomData, owns: PhantomData });
    assert!(all.len == len, "{} of {len} places of a vector were not given back", len - all.len);
    assert!(all.filled == len, "{} of {len} places of a vector were left empty", len - all.filled);
    mem::forget(all);
    // SAFETY: the brand says that they are places of this vector, there are `len` of them, so these are all, and their values are nobody else's now.
    unsafe { values.set_len(len) };
    values
}

/// Some places of a vector that is being made, one behind the other: those in front have values. See [`filled()`].
pub struct Places<'vec, T> {
    start: NonNull<T>,
    /// So many places from `start` on are this one's alone.
    len: usize,
    /// So many of them have values, which are dropped with this. At most `len`.
    filled: usize,
    brand: PhantomData<fn(&'vec ()) -> &'vec ()>,
    owns: PhantomData<T>,
}

// SAFETY: it has its places and their values alone, as a vector has.
unsafe impl<T: Send> Send for Places<'_, T> {}
// SAFETY: shared, it tells numbers only.
unsafe impl<T> Sync for Places<'_, T> {}

impl<T> Places<'_, T> {
    /// How many places have no value yet.
    #[must_use]
    pub fn empty(&self) -> usize {
        self.len - self.filled
    }

    /// Writes `values` into the empty places, as many as there are of either.
    ///
    /// # Panics
    ///
    /// If the iterator does; what it gave before is in its places then.
    #[inline]
    pub fn fill(&mut self, values: impl IntoIterator<Item = T>) {
        // SAFETY: at most `len` are filled.
        let first = unsafe { self.start.add(self.filled) };
        // SAFETY: they are this one's alone, and need no values yet.
        let places = unsafe { slice::from_raw_parts_mut(first.cast::<MaybeUninit<T>>().as_ptr(), self.empty()) };
        // A number of its own, which no value that is written can lie in: the loop keeps it in a register.
        let mut count = Count { filled: &mut self.filled, new: 0 };
        places.iter_mut().zip(values).for_each(|(place, value)| {
            place.write(value);
            count.new += 1;
        });
    }

    /// Gives the last `count` empty places away.
    ///
    /// # Panics
    ///
    /// If there are fewer.
    #[must_use = "they stay empty if nobody fills them"]
    #[track_caller]
    pub fn split_off(&mut self, count: usize) -> Self {
        assert!(
            count <= self.empty(),
            "{count} places of a vector were to be split off, but {} are empty",
            self.empty()
        );
        self.len -= count;
        // SAFETY: it is at most one behind the last that was this one's.
        let start = unsafe { self.start.add(self.len) };
        Places { start, len: count, filled: 0, ..*self }
    }

    /// Takes the places that come next, with what is in them.
    ///
    /// # Panics
    ///
    /// If some of its own are empty still, or if `next` are not those that come next.
    #[track_caller]
    pub fn append(&mut self, next: Self) {
        assert!(self.empty() == 0, "{} of {} places of a vector were left empty", self.empty(), self.len);
        // SAFETY: it is one behind the last that is this one's.
        let end = unsafe { self.start.add(self.len) };
        assert!(end == next.start, "places of a vector were put together that are not side by side");
        self.len += next.len;
        self.filled += next.filled;
        mem::forget(next);
    }
}

impl<T> Drop for Places<'_, T> {
    fn drop(&mut self) {
        let values = NonNull::slice_from_raw_parts(self.start, self.filled);
        // SAFETY: so many have values, which are nobody else's.
        unsafe { values.drop_in_place() };
    }
}

impl<T> fmt::Debug for Places<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Places").field("len", &self.len).field("filled", &self.filled).finish_non_exhaustive()
    }
}

/// Counts values that were written, and tells so in the end, also if it comes by a panic.
struct Count<'a> {
    filled: &'a mut usize,
    new: usize,
}

impl Drop for Count<'_> {
    fn drop(&mut self) {
        *self.filled += self.new;
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

    use super::*;

    /// Counts how many of its kind there are.
    #[derive(Debug)]
    struct Counted<'a, const BYTES: usize>(&'a Cell<isize>, [u8; BYTES]);

    impl<'a, const BYTES: usize> Counted<'a, BYTES> {
        fn new(count: &'a Cell<isize>, number: usize) -> Self {
            count.set(count.get() + 1);
            Counted(count, [number as u8; BYTES])
        }
    }

    impl<const BYTES: usize> Drop for Counted<'_, BYTES> {
        fn drop(&mut self) {
            self.0.set(self.0.get() - 1);
        }
    }

    /// Fills places with the numbers from `from` on, in parts of up to three, the last part first.
    fn in_parts<'vec, const BYTES: usize>(
        mut places: Places<'vec, Counted<'static, BYTES>>,
        count: &'static Cell<isize>,
        from: usize,
    ) -> Places<'vec, Counted<'static, BYTES>> {
        let number = |number| Counted::new(count, number);
        if places.empty() > 3 {
            places.fill([number(from)]);
            let half = places.empty() / 2;
            let from = from + 1;
            let second = places.split_off(half);
            let second = in_parts(second, count, from + places.empty());
            places.fill((from..from + places.empty()).map(number));
            places.append(second);
        } else {
            places.fill((from..).map(number));
        }
        places
    }

    fn counter() -> &'static Cell<isize> {
        Box::leak(Box::new(Cell::new(0)))
    }

    #[test]
    fn parts_that_are_filled_in_any_order_make_one_vector() {
        for len in [0, 1, 2, 3, 4, 5, 40] {
            let count = counter();
            let large = filled(len, |places| in_parts::<300>(places, count, 0));
            assert!(large.iter().enumerate().all(|(number, large)| large.1 == [number as u8; 300]));
            assert_eq!((large.len(), count.get()), (len, len as isize));
            drop(large);
            assert_eq!(count.get(), 0, "a value of {len} was lost, or dropped twice");
        }
        // No bytes, but something to drop.
        thread_local!(static DROPPED: Cell<usize> = const { Cell::new(0) });
        struct Nothing;
        impl Drop for Nothing {
            fn drop(&mut self) {
                DROPPED.set(DROPPED.get() + 1);
            }
        }
        let nothing = filled(10, |mut first| {
            let mut second = first.split_off(4);
            first.fill((0..6).map(|_| Nothing));
            second.fill((0..4).map(|_| Nothing));
            first.append(second);
            first
        });
        assert_eq!((nothing.len(), DROPPED.get()), (10, 0));
        drop(nothing);
        assert_eq!(DROPPED.get(), 10);
    }

    /// What `fill` panics with; whatever was written is dropped.
    fn panic_of(
        len: usize,
        fill: impl for<'vec> FnOnce(
            Places<'vec, Counted<'static, 24>>,
            &'static Cell<isize>,
        ) -> Places<'vec, Counted<'static, 24>>,
    ) -> String {
        let count = counter();
        let outcome = catch_unwind(AssertUnwindSafe(|| filled(len, |places| fill(places, count))));
        let payload = outcome.expect_err("it panics");
        assert_eq!(count.get(), 0, "a value was lost, or dropped twice");
        payload.downcast_ref::<String>().cloned().unwrap_or_else(|| (*payload.downcast_ref::<&str>().unwrap()).into())
    }

    #[test]
    fn a_panic_drops_what_was_written_once() {
        for culprit in [0, 1, 5, 9] {
            let text = panic_of(10, |mut first, count| {
                let mut second = first.split_off(5);
                let number = |number| match number {
                    _ if number == culprit => resume_unwind(Box::new("on purpose")),
                    _ => Counted::new(count, number),
                };
                second.fill((5..).map(number));
                first.fill((0..).map(number));
                first.append(second);
                first
            });
            assert_eq!(text, "on purpose");
        }
    }

    #[test]
    fn what_is_not_the_whole_vector_is_refused() {
        let text = panic_of(3, |mut places, count| {
            places.fill([Counted::new(count, 0)]);
            places
        });
        assert_eq!(text, "2 of 3 places of a vector were left empty");
        let text = panic_of(3, |mut first, count| {
            let mut second = first.split_off(2);
            first.fill([Counted::new(count, 0)]);
            second.fill((1..).map(|number| Counted::new(count, number)));
            second
        });
        assert_eq!(text, "1 of 3 places of a vector were not given back");
        let text = panic_of(3, |mut first, count| {
            let mut second = first.split_off(2);
            second.fill([Counted::new(count, 0)]);
            first.append(second);
            first
        });
        assert_eq!(text, "1 of 1 places of a vector were left empty");
        let text = panic_of(3, |mut first, count| {
            let mut third = first.split_off(1);
            let second = first.split_off(1);
            first.fill([Counted::new(count, 0)]);
            third.fill([Counted::new(count, 2)]);
            first.append(third);
            first.append(second);
            first
        });
        assert_eq!(text, "places of a vector were put together that are not side by side");
        let text = panic_of(3, |mut places, _| {
            drop(places.split_off(4));
            places
        });
        assert_eq!(text, "4 places of a vector were to be split off, but 3 are empty");
    }
}
