//! What loops go over: sequences that can be cut anywhere, and give their items to a plain loop.

use std::ops::Range;
use std::{iter, slice};

/// A sequence that can be cut in two at any index, and whose pieces are iterated by plain loops.
///
/// | | items |
/// |---|---|
/// | [`Range`] of an integer type of up to 64 bits | numbers |
/// | `&[T]`, `&mut [T]` | `&T`, `&mut T` |
/// | [`chunks`], [`chunks_mut`] | `&[T]`, `&mut [T]` of the same length, the last perhaps shorter |
/// | tuples of two or three of these | tuples of their items, as many as the shortest has |
///
/// # Examples
///
/// A sequence of one's own:
///
/// ```
/// use std::iter::StepBy;
/// use std::ops::Range;
///
/// use proto_lang_tasks::{IntoPieces, Pieces, over};
///
/// /// The even numbers below twice the end of a range.
/// struct Even(Range<u64>);
///
/// impl Pieces for Even {
///     type Item = u64;
///     type Iter = StepBy<Range<u64>>;
///
///     fn count(&self) -> usize {
///         Pieces::count(&self.0)
///     }
///
///     fn cut(self, at: usize) -> (Self, Self) {
///         let (first, second) = self.0.cut(at);
///         (Even(first), Even(second))
///     }
///
///     fn items(self) -> Self::Iter {
///         (2 * self.0.start..2 * self.0.end).step_by(2)
///     }
/// }
///
/// impl IntoPieces for Even {
///     type Pieces = Self;
///
///     fn into_pieces(self) -> Self {
///         self
///     }
/// }
///
/// assert_eq!(over(Even(0..4)).map(|n| n), [0, 2, 4, 6]);
/// ```
pub trait Pieces: Sized + Send {
    /// What the loop's body gets.
    type Item;
    /// What goes over one piece.
    type Iter: Iterator<Item = Self::Item>;

    /// How many items there are.
    fn count(&self) -> usize;

    /// The first `at` items, at most [`count`](Pieces::count), and the others.
    fn cut(self, at: usize) -> (Self, Self);

    /// Goes over them.
    fn items(self) -> Self::Iter;
}

/// What can be given to [`par_for`](crate::par_for) and [`over`](crate::over): [`Pieces`], references to vectors and arrays, and tuples of these.
pub trait IntoPieces {
    /// What it is cut in.
    type Pieces: Pieces;

    /// The whole as one piece.
    fn into_pieces(self) -> Self::Pieces;
}

/// What is given to a loop as it is.
macro_rules! itself {
    (impl[$($generics:tt)*] $pieces:ty) => {
        impl<$($generics)*> IntoPieces for $pieces {
            type Pieces = Self;

            #[inline]
            fn into_pieces(self) -> Self {
                self
            }
        }
    };
}

macro_rules! ranges {
    ($($number:ty)*) => { $(
        impl Pieces for Range<$number> {
            type Item = $number;
            type Iter = Range<$number>;

            #[inline]
            fn count(&self) -> usize {
                if self.start < self.end {
                    usize::try_from(self.end.abs_diff(self.start)).expect("a loop has at most usize::MAX steps")
                } else {
                    0
                }
            }

            #[inline]
            fn cut(self, at: usize) -> (Self, Self) {
                // In range, because `at` is at most the count, though not for a signed type before the sum.
                let middle = self.start.wrapping_add(at as $number);
                (self.start..middle, middle..self.end)
            }

            #[inline]
            fn items(self) -> Self::Iter {
                self
            }
        }

        itself! { impl[] Range<$number> }
    )* };
}

ranges! { u8 u16 u32 u64 usize i8 i16 i32 i64 isize }
itself! { impl['a, T: Sync] &'a [T] }
itself! { impl['a, T: Send] &'a mut [T] }
itself! { impl['a, T: Sync] Chunks<'a, T> }
itself! { impl['a, T: Send] ChunksMut<'a, T> }

impl<'a, T: Sync> Pieces for &'a [T] {
    type Item = &'a T;
    type Iter = slice::Iter<'a, T>;

    #[inline]
    fn count(&self) -> usize {
        self.len()
    }

    #[inline]
    fn cut(self, at: usize) -> (Self, Self) {
        self.split_at(at)
    }

    #[inline]
    fn items(self) -> Self::Iter {
        self.iter()
    }
}

impl<'a, T: Send> Pieces for &'a mut [T] {
    type Item = &'a mut T;
    type Iter = slice::IterMut<'a, T>;

    #[inline]
    fn count(&self) -> usize {
        self.len()
    }

    #[inline]
    fn cut(self, at: usize) -> (Self, Self) {
        self.split_at_mut(at)
    }

    #[inline]
    fn items(self) -> Self::Iter {
        self.iter_mut()
    }
}

/// What lends a slice.
macro_rules! lends {
    ($([$($generics:tt)*] $holder:ty => $slice:ty;)*) => { $(
        impl<$($generics)*> IntoPieces for $holder {
            type Pieces = $slice;

            #[inline]
            fn into_pieces(self) -> $slice {
                self
            }
        }
    )* };
}

lends! {
    ['a, T: Sync] &'a Vec<T> => &'a [T];
    ['a, T: Send] &'a mut Vec<T> => &'a mut [T];
    ['a, T: Sync, const N: usize] &'a [T; N] => &'a [T];
    ['a, T: Send, const N: usize] &'a mut [T; N] => &'a mut [T];
}

/// Pieces of one length. See [`chunks`].
#[derive(Clone, Copy, Debug)]
pub struct Chunks<'a, T> {
    slice: &'a [T],
    size: usize,
}

/// Pieces of one length. See [`chunks_mut`].
#[derive(Debug)]
pub struct ChunksMut<'a, T> {
    slice: &'a mut [T],
    size: usize,
}

/// A loop over pieces of `size` items; the last one may be shorter, as of [`slice::chunks`].
///
/// # Panics
///
/// If `size` is zero.
///
/// # Examples
///
/// ```
/// use proto_lang_tasks::{chunks, over};
///
/// let rows = over(chunks(&[1, 2, 3, 4, 5], 2)).map(|row| row.iter().sum::<i32>());
/// assert_eq!(rows, [3, 7, 5]);
/// ```
#[track_caller]
pub fn chunks<T>(slice: &[T], size: usize) -> Chunks<'_, T> {
    assert!(size > 0, "chunks of no items");
    Chunks { slice, size }
}

/// As [`chunks`], with items that the loop may change.
///
/// # Panics
///
/// If `size` is zero.
///
/// # Examples
///
/// ```
/// use proto_lang_tasks::{chunks_mut, over};
///
/// let mut image = vec![0; 12];
/// over(chunks_mut(&mut image, 4)).enumerate().for_each(|(y, row)| {
///     for (x, point) in row.iter_mut().enumerate() {
///         *point = 10 * y + x;
///     }
/// });
/// assert_eq!(image[4..8], [10, 11, 12, 13]);
/// ```
#[track_caller]
pub fn chunks_mut<T>(slice: &mut [T], size: usize) -> ChunksMut<'_, T> {
    assert!(size > 0, "chunks of no items");
    ChunksMut { slice, size }
}

impl<'a, T: Sync> Pieces for Chunks<'a, T> {
    type Item = &'a [T];
    type Iter = slice::Chunks<'a, T>;

    #[inline]
    fn count(&self) -> usize {
        self.slice.len().div_ceil(self.size)
    }

    #[inline]
    fn cut(self, at: usize) -> (Self, Self) {
        let (first, second) = self.slice.split_at(self.slice.len().min(at * self.size));
        (Chunks { slice: first, ..self }, Chunks { slice: second, ..self })
    }

    #[inline]
    fn items(self) -> Self::Iter {
        self.slice.chunks(self.size)
    }
}

impl<'a, T: Send> Pieces for ChunksMut<'a, T> {
    type Item = &'a mut [T];
    type Iter = slice::ChunksMut<'a, T>;

    #[inline]
    fn count(&self) -> usize {
        self.slice.len().div_ceil(self.size)
    }

    #[inline]
    fn cut(self, at: usize) -> (Self, Self) {
        let size = self.size;
        let at = self.slice.len().min(at * size);
        let (first, second) = self.slice.split_at_mut(at);
        (ChunksMut { slice: first, size }, ChunksMut { slice: second, size })
    }

    #[inline]
    fn items(self) -> Self::Iter {
        self.slice.chunks_mut(self.size)
    }
}

impl<A: Pieces, B: Pieces> Pieces for (A, B) {
    type Item = (A::Item, B::Item);
    type Iter = iter::Zip<A::Iter, B::Iter>;

    #[inline]
    fn count(&self) -> usize {
        self.0.count().min(self.1.count())
    }

    #[inline]
    fn cut(self, at: usize) -> (Self, Self) {
        let (a, b) = (self.0.cut(at), self.1.cut(at));
        ((a.0, b.0), (a.1, b.1))
    }

    #[inline]
    fn items(self) -> Self::Iter {
        self.0.items().zip(self.1.items())
    }
}

impl<A: Pieces, B: Pieces, C: Pieces> Pieces for (A, B, C) {
    type Item = (A::Item, B::Item, C::Item);
    type Iter = Zip3<A::Iter, B::Iter, C::Iter>;

    #[inline]
    fn count(&self) -> usize {
        self.0.count().min(self.1.count()).min(self.2.count())
    }

    #[inline]
    fn cut(self, at: usize) -> (Self, Self) {
        let (a, b, c) = (self.0.cut(at), self.1.cut(at), self.2.cut(at));
        ((a.0, b.0, c.0), (a.1, b.1, c.1))
    }

    #[inline]
    fn items(self) -> Self::Iter {
        Zip3(self.0.items().zip(self.1.items()).zip(self.2.items()))
    }
}

impl<A: IntoPieces, B: IntoPieces> IntoPieces for (A, B) {
    type Pieces = (A::Pieces, B::Pieces);

    #[inline]
    fn into_pieces(self) -> Self::Pieces {
        (self.0.into_pieces(), self.1.into_pieces())
    }
}

impl<A: IntoPieces, B: IntoPieces, C: IntoPieces> IntoPieces for (A, B, C) {
    type Pieces = (A::Pieces, B::Pieces, C::Pieces);

    #[inline]
    fn into_pieces(self) -> Self::Pieces {
        (self.0.into_pieces(), self.1.into_pieces(), self.2.into_pieces())
    }
}

/// Three iterators side by side.
#[derive(Clone, Debug)]
pub struct Zip3<A, B, C>(iter::Zip<iter::Zip<A, B>, C>);

impl<A: Iterator, B: Iterator, C: Iterator> Iterator for Zip3<A, B, C> {
    type Item = (A::Item, B::Item, C::Item);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        self.0.next().map(|((a, b), c)| (a, b, c))
    }

    #[inline]
    fn size_hint(&self) -> (usize, Option<usize>) {
        self.0.size_hint()
    }

    #[inline]
    fn fold<S, F: FnMut(S, Self::Item) -> S>(self, init: S, mut f: F) -> S {
        self.0.fold(init, |state, ((a, b), c)| f(state, (a, b, c)))
    }
}
