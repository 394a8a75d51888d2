//! Values that all open with one key, one at a time: what an environment keeps in its users' objects.
//!
//! The state that an environment has for each of its users' objects lies best in the object: then no table has to be looked through, and it is gone when
//! the object is. But only the environment's handlers may touch it. So the environment owns a [`Key`], and the object a [`Keyed`] cell: it opens
//! with `&mut` of the key, which handlers have and nobody else.
//!
//! # States of a cell
//!
//! ```text
//!            open, with any key                  open, with that key (others panic)
//!   single ─────────────────────▶ kept by a key ◀──┐
//!     ▲                                 │      └───┘
//!     └──────────── release ────────────┘
//! ```
//!
//! # The invariant
//!
//! > **The value of a cell that is shared is touched only while its keeper is the number of a key that is mutably borrowed for that long.**
//!
//! Numbers are never used twice, and a key is not `Clone`, so there is one such borrow at a time. That all opens of a key borrow it mutably also means that
//! two cells are never open with one key at once, and no cell twice.
//!
//! # The dangerous race
//!
//! A cell is released and another key takes it, in another thread. The release stores with Release, the taking reads that with Acquire: what was done with the
//! first key happens before what is done with the second. Opens with one key are ordered by how the key itself came from one to the next.

use std::cell::UnsafeCell;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use super::number::Number;

/// Opens the [`Keyed`] cells that it keeps, one at a time.
///
/// An environment owns one, so that its handlers, and they only, reach what it keeps in its users' objects.
///
/// # Examples
///
/// See [`Keyed`].
///
/// ```compile_fail,E0599
/// let twin = proto_core::Key::new().clone();
/// ```
#[derive(Debug)]
pub struct Key {
    number: Number,
}

impl Key {
    /// A key that keeps no cell yet.
    #[expect(clippy::new_without_default, reason = "two defaults are never equal: a key is made on purpose")]
    #[must_use]
    pub const fn new() -> Key {
        Key { number: Number::UNBORN }
    }
}

/// Whose a [`Keyed`] cell is that was to be [kept](Keyed::keep).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kept {
    /// The key's, since just now.
    Now,
    /// The key's already.
    Before,
    /// Another key's.
    ByAnother,
}

/// A value that opens with the [`Key`] that keeps it.
///
/// It costs a load and a compare. The first key that opens a cell keeps it, until it [releases](Keyed::release) it.
///
/// # Examples
///
/// Objects that know their place in a queue; the queue is an environment, which no table leads to its objects:
///
/// ```
/// #![forbid(unsafe_code)]
/// use proto_core::{EnvCell, Key, Keyed};
///
/// struct Queue { key: Key, length: u32 }
/// struct Guest { place: Keyed<Option<u32>> }
///
/// let queue = EnvCell::new(Queue { key: Key::new(), length: 0 });
/// let guests = [(); 3].map(|()| Guest { place: Keyed::new(None) });
/// for guest in &guests {
///     queue.update(|queue, _, _| {
///         queue.length += 1;
///         *guest.place.open(&mut queue.key) = Some(queue.length);
///     });
/// }
/// assert_eq!(guests.map(|guest| guest.place.into_inner()), [Some(1), Some(2), Some(3)]);
/// ```
///
/// Two cells of one key are not open at once:
///
/// ```compile_fail,E0499
/// # use proto_core::{Key, Keyed};
/// let (one, two, mut key) = (Keyed::new(1), Keyed::new(2), Key::new());
/// let (one, two) = (one.open(&mut key), two.open(&mut key));
/// *one = *two;
/// ```
pub struct Keyed<T: ?Sized> {
    /// The bare number of the key that keeps the cell; 0: single.
    keeper: AtomicU64,
    /// **Invariant**: see the head of this file.
    value: UnsafeCell<T>,
}

// SAFETY: sharing the cell lets the thread with the key reach `&mut T`, and so move the value there: that needs `T: Send`. There is one at a time, by
// the invariant, and one comes after the other as said in the head of this file.
unsafe impl<T: ?Sized + Send> Sync for Keyed<T> {}

impl<T> Keyed<T> {
    /// A single cell.
    pub const fn new(value: T) -> Keyed<T> {
        Keyed { keeper: AtomicU64::new(0), value: UnsafeCell::new(value) }
    }

    /// The value. Needs no key: whoever owns the cell is alone with it.
    pub fn into_inner(self) -> T {
        self.value.into_inner()
    }
}

impl<T: ?Sized> Keyed<T> {
    /// The value. Needs no key: the borrow says that nobody else has the cell open.
    pub const fn get_mut(&mut self) -> &mut T {
        self.value.get_mut()
    }

    /// Opens the cell for as long as the key is borrowed. A single cell is kept by the key from then on.
    ///
    /// # Panics
    ///
    /// If another key keeps the cell.
    ///
    /// # Examples
    ///
    /// ```should_panic
    /// use proto_core::{Key, Keyed};
    ///
    /// let cell = Keyed::new(5);
    /// *cell.open(&mut Key::new()) += 1;
    /// *cell.open(&mut Key::new()) += 1; // panics: the first one is gone, and has not released it
    /// ```
    #[inline]
    #[track_caller]
    pub fn open<'a>(&'a self, key: &'a mut Key) -> &'a mut T {
        assert!(self.is_kept(key), "another key keeps this cell");
        // SAFETY: the key that keeps the cell is mutably borrowed for as long as the reference lives.
        unsafe { &mut *self.value.get() }
    }

    /// Whether `key` keeps the cell; it does from now on if the cell was single.
    ///
    /// # Examples
    ///
    /// ```
    /// use proto_core::{Key, Keyed};
    ///
    /// let (cell, mut one, mut two) = (Keyed::new(5), Key::new(), Key::new());
    /// assert!(cell.is_kept(&mut one) && !cell.is_kept(&mut two));
    /// ```
    #[inline]
    pub fn is_kept(&self, key: &mut Key) -> bool {
        self.keep(key) != Kept::ByAnother
    }

    /// As [`is_kept`](Keyed::is_kept), for who notes what is to be released.
    ///
    /// # Examples
    ///
    /// ```
    /// use proto_core::{Kept, Key, Keyed};
    ///
    /// let (cell, mut one, mut two) = (Keyed::new(5), Key::new(), Key::new());
    /// assert_eq!([cell.keep(&mut one), cell.keep(&mut one), cell.keep(&mut two)], [Kept::Now, Kept::Before, Kept::ByAnother]);
    /// ```
    #[inline]
    pub fn keep(&self, key: &mut Key) -> Kept {
        // ORDERING: Relaxed: if it reads this key's number, it was stored with this key borrowed; that, and all that was done in the cell since, happens
        // before, by the way that the key has taken from there to here. (And it was not released since: that would be read instead.)
        if self.keeper.load(Ordering::Relaxed) == key.number.raw() { Kept::Before } else { self.keep_now(key) }
    }

    #[cold]
    fn keep_now(&self, key: &mut Key) -> Kept {
        key.number = key.number.born().married();
        // ORDERING: Acquire pairs with the Release in `release`: what was done with the key before happens before. Relaxed if it fails: nothing is touched.
        match self.keeper.compare_exchange(0, key.number.bare(), Ordering::Acquire, Ordering::Relaxed) {
            Ok(_) => Kept::Now,
            Err(_) => Kept::ByAnother,
        }
    }

    /// Lets go of the cell: it is single again. If another key keeps it, nothing happens.
    ///
    /// # Examples
    ///
    /// ```
    /// use proto_core::{Key, Keyed};
    ///
    /// let (cell, mut first) = (Keyed::new(5), Key::new());
    /// *cell.open(&mut first) += 1;
    /// cell.release(&mut first);
    /// assert_eq!(*cell.open(&mut Key::new()), 6);
    /// ```
    pub fn release(&self, key: &mut Key) {
        // ORDERING: Relaxed: as in `is_kept`.
        if self.keeper.load(Ordering::Relaxed) == key.number.raw() {
            // ORDERING: Release pairs with the Acquire in `keep`. Nobody else stores: the keeper is this key, which is borrowed.
            self.keeper.store(0, Ordering::Release);
        }
    }
}

impl<T: Default> Default for Keyed<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

/// Does not show the value: it may be open elsewhere.
impl<T: ?Sized> fmt::Debug for Keyed<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keyed").finish_non_exhaustive()
    }
}
