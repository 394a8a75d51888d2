//! What loops go over: sequences that can be cut anywhere, and give their items to a plain loop.

use std::iter::Zip;
use std::ops::{Range, RangeInclusive};
use std::slice;

/// A sequence that can be cut in two at any index, and whose pieces are iterated by plain loops.
///
/// | | items |
/// |---|---|
/// | [`Range`] and [`RangeInclusive`] of an integer type of up to 64 bits | numbers |
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

    /// How many items there are, exactly: `map` leaves out what is more, and panics if there are fewer.
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

/// What lends pieces, or is one itself.
macro_rules! lends {
    ($([$($generics:tt)*] $holder:ty => $pieces:ty;)*) => { $(
        impl<$($generics)*> IntoPieces for $holder {
            type Pieces = $pieces;

            fn into_pieces(self) -> $pieces {
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

/// The length of a range, which may be one more than the largest number of its type.
fn steps(many: u128) -> usize {
    usize::try_from(many).expect("a loop has at most usize::MAX steps")
}

macro_rules! ranges {
    ($($number:ty)*) => { $(
        impl Pieces for Range<$number> {
            type Item = $number;
            type Iter = Self;

            fn count(&self) -> usize {
                if self.is_empty() { 0 } else { steps(self.end.abs_diff(self.start) as u128) }
            }

            fn cut(self, at: usize) -> (Self, Self) {
                // In range, because `at` is at most the count, though not for a signed type before the sum.
                let middle = self.start.wrapping_add(at as $number);
                (self.start..middle, middle..self.end)
            }

            fn items(self) -> Self {
                self
            }
        }

        impl Pieces for RangeInclusive<$number> {
            type Item = $number;
            type Iter = Self;

            fn count(&self) -> usize {
                if self.is_empty() { 0 } else { steps(self.end().abs_diff(*self.start()) as u128 + 1) }
            }

            fn cut(self, at: usize) -> (Self, Self) {
                // What comes after the last may be no number of this type.
                if at == Pieces::count(&self) {
                    return (self, RangeInclusive::new(1, 0));
                }
                let middle = self.start().wrapping_add(at as $number);
                let first = if at > 0 { *self.start()..=middle - 1 } else { RangeInclusive::new(1, 0) };
                (first, middle..=*self.end())
            }

            fn items(self) -> Self {
                self
            }
        }

        lends! {
            [] Range<$number> => Self;
            [] RangeInclusive<$number> => Self;
        }
    )* };
}

ranges! { u8 u16 u32 u64 usize i8 i16 i32 i64 isize }

/// Pieces of one length. See [`chunks`].
#[derive(Clone, Debug)]
pub struct Chunks<P> {
    of: P,
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
pub fn chunks<T>(slice: &[T], size: usize) -> Chunks<&[T]> {
    assert!(size > 0, "chunks of no items");
    Chunks { of: slice, size }
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
pub fn chunks_mut<T>(slice: &mut [T], size: usize) -> Chunks<&mut [T]> {
    assert!(size > 0, "chunks of no items");
    Chunks { of: slice, size }
}

/// Slices, and their chunks.
macro_rules! slices {
    ($($bound:ident $slice:ty: $item:ty, $iter:ident $items:ident, $chunks:ident $chunk_items:ident, $split:ident;)*) => { $(
        impl<'a, T: $bound> Pieces for $slice {
            type Item = $item;
            type Iter = slice::$iter<'a, T>;

            fn count(&self) -> usize {
                self.len()
            }

            fn cut(self, at: usize) -> (Self, Self) {
                self.$split(at)
            }

            fn items(self) -> Self::Iter {
                self.$items()
            }
        }

        impl<'a, T: $bound> Pieces for Chunks<$slice> {
            type Item = $slice;
            type Iter = slice::$chunks<'a, T>;

            fn count(&self) -> usize {
                self.of.len().div_ceil(self.size)
            }

            fn cut(self, at: usize) -> (Self, Self) {
                let at = self.of.len().min(at.saturating_mul(self.size));
                let (first, second) = self.of.$split(at);
                (Chunks { of: first, size: self.size }, Chunks { of: second, size: self.size })
            }

            fn items(self) -> Self::Iter {
                self.of.$chunk_items(self.size)
            }
        }

        lends! {
            ['a, T: $bound] $slice => $slice;
            ['a, T: $bound] Chunks<$slice> => Chunks<$slice>;
        }
    )* };
}

slices! {
    Sync &'a [T]: &'a T, Iter iter, Chunks chunks, split_at;
    Send &'a mut [T]: &'a mut T, IterMut iter_mut, ChunksMut chunks_mut, split_at_mut;
}

/// Sequences side by side.
macro_rules! tuples {
    ($($($part:ident $name:ident),+ => $iter:ty: $zipped:expr;)*) => { $(
        impl<$($part: Pieces),+> Pieces for ($($part,)+) {
            type Item = ($($part::Item,)+);
            type Iter = $iter;

            fn count(&self) -> usize {
                let ($($name,)+) = self;
                usize::MAX$(.min($name.count()))+
            }

            fn cut(self, at: usize) -> (Self, Self) {
                let ($($name,)+) = self;
                $(let $name = $name.cut(at);)+
                (($($name.0,)+), ($($name.1,)+))
            }

            fn items(self) -> Self::Iter {
                let ($($name,)+) = self;
                $(let $name = $name.items();)+
                $zipped
            }
        }

        impl<$($part: IntoPieces),+> IntoPieces for ($($part,)+) {
            type Pieces = ($($part::Pieces,)+);

            fn into_pieces(self) -> Self::Pieces {
                let ($($name,)+) = self;
                ($($name.into_pieces(),)+)
            }
        }
    )* };
}

tuples! {
    A a, B b => Zip<A::Iter, B::Iter>: a.zip(b);
    A a, B b, C c => Zip3<A::Iter, B::Iter, C::Iter>: Zip3(a.zip(b).zip(c));
}

/// Three iterators side by side. (Not a `Map` by a function pointer: it is called at each step where the optimiser does not see through it.)
#[derive(Clone, Debug)]
pub struct Zip3<A, B, C>(Zip<Zip<A, B>, C>);

impl<A: Iterator, B: Iterator, C: Iterator> Iterator for Zip3<A, B, C> {
    type Item = (A::Item, B::Item, C::Item);

    fn next(&mut self) -> Option<Self::Item> {
        self.0.next().map(|((a, b), c)| (a, b, c))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.0.size_hint()
    }

    fn fold<S, F: FnMut(S, Self::Item) -> S>(self, init: S, mut f: F) -> S {
        self.0.fold(init, |state, ((a, b), c)| f(state, (a, b, c)))
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Debug;

    use super::*;

    /// Cut at any place, and its parts cut again, it has the items that it has as a whole.
    fn cuts<I: IntoPieces>(make: impl Fn() -> I, expected: &[<I::Pieces as Pieces>::Item])
    where
        <I::Pieces as Pieces>::Item: PartialEq + Debug,
    {
        let count = make().into_pieces().count();
        assert_eq!(count, expected.len());
        for first in 0..=count {
            for second in 0..=count - first {
                let (a, rest) = make().into_pieces().cut(first);
                let (b, c) = rest.cut(second);
                assert_eq!([a.count(), b.count(), c.count()], [first, second, count - first - second]);
                let items: Vec<_> = a.items().chain(b.items()).chain(c.items()).collect();
                assert_eq!(items, expected, "cut at {first} and {second} more");
            }
        }
    }

    #[test]
    fn ranges_are_cut_up_to_the_limits_of_their_type() {
        cuts(|| 3..7u32, &[3, 4, 5, 6]);
        cuts(|| Range { start: 7, end: 3u32 }, &[]);
        cuts(|| 3..=7u32, &[3, 4, 5, 6, 7]);
        cuts(|| RangeInclusive::new(7, 3u32), &[]);
        cuts(|| 250..=u8::MAX, &[250, 251, 252, 253, 254, 255]);
        cuts(|| u64::MAX - 2..u64::MAX, &[u64::MAX - 2, u64::MAX - 1]);
        cuts(|| i64::MIN..=i64::MIN + 1, &[i64::MIN, i64::MIN + 1]);
        cuts(|| -1..=1isize, &[-1, 0, 1]);
        cuts(|| i8::MIN..=i8::MAX, &Vec::from_iter(i8::MIN..=i8::MAX));
        let mut begun = 0..=3u8;
        begun.by_ref().take(2).for_each(drop);
        cuts(|| begun.clone(), &[2, 3]);
        begun.by_ref().for_each(drop);
        cuts(|| begun.clone(), &[]);
        assert_eq!(Pieces::count(&(0..u64::MAX)), usize::MAX);
        assert_eq!(Pieces::count(&(i64::MIN..i64::MAX)), usize::MAX);
    }

    #[test]
    #[should_panic(expected = "a loop has at most usize::MAX steps")]
    fn a_range_of_all_numbers_is_one_too_long() {
        let _ = Pieces::count(&(0..=u64::MAX));
    }

    #[test]
    fn slices_chunks_and_tuples_are_cut_like_their_iterators() {
        let array = [1, 2, 3, 4, 5, 6, 7];
        let vec = array.to_vec();
        cuts(|| &array, &Vec::from_iter(&array));
        cuts(|| &vec, &Vec::from_iter(&vec));
        cuts(|| &vec[2..2], &[]);
        for size in [1, 2, 3, 7, 8, usize::MAX] {
            cuts(|| chunks(&vec, size), &Vec::from_iter(vec.chunks(size)));
        }
        cuts(|| (&array, 0..3usize), &[(&1, 0), (&2, 1), (&3, 2)]);
        cuts(
            || (chunks(&array, 3), &vec, 0..=9u8),
            &[(&array[..3], &1, 0), (&array[3..6], &2, 1), (&array[6..], &3, 2)],
        );
    }

    #[test]
    fn what_is_lent_for_writing_is_cut_like_what_is_lent_for_reading() {
        let (mut array, mut vec) = ([0; 7], vec![0; 7]);
        let (a, b) = IntoPieces::into_pieces(&mut array).cut(4);
        a.items().for_each(|x| *x += 1);
        b.items().for_each(|x| *x += 2);
        assert_eq!(array, [1, 1, 1, 1, 2, 2, 2]);
        let (a, b) = chunks_mut(&mut vec, 3).cut(1);
        assert_eq!((a.count(), b.count()), (1, 2));
        a.items().for_each(|x| x.fill(1));
        b.items().zip(2..).for_each(|(x, n)| x.fill(n));
        assert_eq!(vec, [1, 1, 1, 2, 2, 2, 3]);
        let (a, b) = IntoPieces::into_pieces((&mut vec, &mut array)).cut(5);
        assert_eq!((a.items().map(|(x, _)| *x).sum::<i32>(), b.items().map(|(_, x)| *x).sum::<i32>()), (7, 4));
    }
}
