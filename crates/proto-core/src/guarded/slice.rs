//! Cells of slices: opened piecewise, and made from a `Vec` of any length.
//!
//! A cell of an array becomes one of a slice by itself (`&Guarded<[T; N]>` coerces to `&Guarded<[T]>`, also in a
//! `static`). A length known only at run time needs a cell made by hand: [`Box<Guarded<[T]>>::from`].

use std::alloc::{Layout, alloc_zeroed, handle_alloc_error};
use std::mem::MaybeUninit;
use std::ptr::{self, NonNull};
use std::sync::atomic::AtomicU64;

use super::range::{END, Piece};
use super::{Guarded, Opened, OpenedShared, RangeGrant, SharedRange};

impl<T> Guarded<[T]> {
    /// Opens the range that `grant` covers for reading and writing, while others may have other ranges open.
    ///
    /// The slice begins at the range's start: index 0 of the guard is index `start` of the cell. [`RangeGrant`] has an
    /// example.
    ///
    /// # Panics
    ///
    /// If `grant` is not this cell's, like [`open`](Self::open), or if its range exceeds the slice (an end of
    /// `usize::MAX` means the slice's end and never does). The grant is lost, and its range stays locked.
    #[inline]
    #[track_caller]
    pub fn open_range(&self, grant: RangeGrant) -> Opened<'_, [T], RangeGrant> {
        let token = self.admit_piece(grant.0);
        let part = self.part(token.start, token.end);
        // SAFETY: the grant's number is the spouse's (`admit_piece`) and it covers `part`; it was given up to be here and
        // lies in the guard from now on.
        unsafe { Opened::new(part, RangeGrant(token)) }
    }

    /// Opens the range that `shared` covers for reading.
    ///
    /// # Panics
    ///
    /// Like [`open_range`](Self::open_range).
    ///
    /// # Examples
    ///
    /// ```
    /// use proto_core::{Guarded, RangeGrant, RangeShares};
    ///
    /// let cell: &Guarded<[u32]> = &Guarded::new([1, 2, 3, 4]);
    /// let mut shares = RangeShares::new(RangeGrant::new());
    /// let one = cell.open_shared_range(shares.lend(0..3).expect("nobody writes"));
    /// let two = cell.open_shared_range(shares.lend(1..4).expect("nobody writes"));
    /// assert_eq!(one[2], two[1]);
    /// ```
    ///
    /// ```compile_fail,E0277
    /// # use proto_core::{Guarded, RangeGrant, RangeShares};
    /// # use std::cell::Cell;
    /// let cell: &Guarded<[Cell<u32>]> = &Guarded::new([Cell::new(1)]);
    /// let opened = cell.open_shared_range(RangeShares::new(RangeGrant::new()).lend(0..1).unwrap());
    /// ```
    #[inline]
    #[track_caller]
    pub fn open_shared_range(&self, shared: SharedRange) -> OpenedShared<'_, [T], SharedRange>
    where
        T: Sync,
    {
        let token = self.admit_piece(shared.0);
        let part = self.part(token.start, token.end);
        // SAFETY: the token's number is the spouse's (`admit_piece`), it covers `part` and is shared; it lies in the guard
        // from now on. `T: Sync`, as the other shared tokens may be in other threads.
        unsafe { OpenedShared::new(part, SharedRange(token)) }
    }

    /// How many elements the slice has. The length is not guarded: it never changes.
    ///
    /// # Examples
    ///
    /// ```
    /// use proto_core::Guarded;
    ///
    /// let cell: &Guarded<[u32]> = &Guarded::new([1, 2, 3]);
    /// assert_eq!(cell.len(), 3);
    /// assert!(!cell.is_empty());
    /// ```
    #[must_use]
    pub const fn len(&self) -> usize {
        self.value.get().len()
    }

    /// Whether the slice has no elements.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The values, moved out. Needs no grant: whoever owns the cell is alone with it.
    #[must_use]
    pub fn into_boxed_slice(self: Box<Self>) -> Box<[T]> {
        // From here on the box frees its memory but drops no element. Should `collect` panic, they are leaked.
        // SAFETY: the pointer comes from a box. `Guarded` is `repr(C)` and `MaybeUninit<T>` has the size and alignment of
        // `T`, so the cell has the same layout; every `T` is a valid `MaybeUninit<T>`.
        let mut cell = unsafe { Box::from_raw(Box::into_raw(self) as *mut Guarded<[MaybeUninit<T>]>) };
        // SAFETY: each element was a valid `T` when the box came in, is read once, and never again as a `T`.
        cell.get_mut().iter_mut().map(|element| unsafe { element.assume_init_read() }).collect()
    }

    #[inline]
    #[track_caller]
    fn admit_piece(&self, token: Piece) -> Piece {
        Piece { number: self.admit(token.number), ..token }
    }

    /// Where the elements lie of a token that covers `start..end`. No reference to the others is made on the way: they may be open.
    #[inline]
    #[track_caller]
    pub(super) fn part(&self, start: usize, end: usize) -> NonNull<[T]> {
        let all = self.value.get();
        let until = if end == END { all.len() } else { end };
        if start > until || until > all.len() {
            out_of_range(start, end, all.len());
        }
        // SAFETY: `start` is not greater than the slice's length.
        let first = unsafe { all.cast::<T>().add(start) };
        // SAFETY: a pointer into a live value is not null.
        let first = unsafe { NonNull::new_unchecked(first) };
        NonNull::slice_from_raw_parts(first, until - start)
    }
}

#[cold]
#[track_caller]
fn out_of_range(start: usize, end: usize, len: usize) -> ! {
    match end {
        END => {
            panic!("a token of {start}.. exceeds a slice of {len} elements; the range stays locked")
        }
        end => panic!("a token of {start}..{end} exceeds a slice of {len} elements; the range stays locked"),
    }
}

/// A cell of a slice whose length is known only at run time. The elements are moved once.
///
/// # Examples
///
/// ```
/// use proto_core::{Guarded, RangeGrant};
///
/// let cell: Box<Guarded<[String]>> = vec!["a".to_owned(), "b".to_owned()].into();
/// let (_, tail) = RangeGrant::new().split_at(1);
/// cell.open_range(tail)[0].push('!');
/// assert_eq!(*cell.into_boxed_slice(), ["a", "b!"]);
/// ```
impl<T> From<Vec<T>> for Box<Guarded<[T]>> {
    fn from(elements: Vec<T>) -> Self {
        let mut cell = unfilled(elements.len());
        // Takes every element: both have the same length. Nothing here panics, so no element is left out.
        for (slot, element) in cell.get_mut().iter_mut().zip(elements) {
            slot.write(element);
        }
        // SAFETY: the pointer comes from a box. `Guarded` is `repr(C)` and `MaybeUninit<T>` has the size and alignment of
        // `T`, so the cell has the same layout; the loop has initialized every element.
        unsafe { Box::from_raw(Box::into_raw(cell) as *mut Guarded<[T]>) }
    }
}

/// A cell of a slice whose length is known only at run time. The elements are moved once.
impl<T> From<Box<[T]>> for Box<Guarded<[T]>> {
    fn from(elements: Box<[T]>) -> Self {
        elements.into_vec().into()
    }
}

/// A single cell of `len` elements that have no value yet.
fn unfilled<T>(len: usize) -> Box<Guarded<[MaybeUninit<T>]>> {
    // As `repr(C)` lays out `Guarded<[T]>`.
    let layout = Layout::array::<T>(len)
        .and_then(|elements| Layout::new::<AtomicU64>().extend(elements))
        .expect("a slice of this length does not fit in the address space")
        .0
        .pad_to_align();
    // SAFETY: the layout is at least as big as the spouse, so not of size zero.
    let memory = unsafe { alloc_zeroed(layout) };
    if memory.is_null() {
        handle_alloc_error(layout);
    }
    let cell = ptr::slice_from_raw_parts_mut(memory, len) as *mut Guarded<[MaybeUninit<T>]>;
    // SAFETY: the memory was allocated by the global allocator with the layout of this cell, and all zeros are a valid
    // one: spouse 0 is single, and elements may be anything.
    unsafe { Box::from_raw(cell) }
}
