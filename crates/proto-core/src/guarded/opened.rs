//! The guards: what an open cell looks like. They hold the token that opened it, and give it back when closed.
//!
//! Both are raw pointers with a borrow's lifetime, not references: `close` lets the token go while the function that
//! owned the guard still runs, see "the dangerous races" of the module. Neither has a destructor: a guard does not know
//! where its token is to be returned to. The language's own guard does, wraps this one in an `Option`, and decides
//! whether it may be sent.

use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

use super::{Grant, SharedGrant};

/// A [`Guarded`](super::Guarded) value, or a part of it, open for reading and writing.
///
/// `G` is the token it was opened with: a [`Grant`] or a [`RangeGrant`](super::RangeGrant). Dropping or leaking it
/// without [`close`](Self::close) loses the token: the cell stays locked for ever, which is safe. It is `Send` if
/// `T: Send`: the token itself is bound to no thread. A language whose release must come from the acquiring thread marks
/// its own guard.
#[must_use = "the grant inside is lost unless it is closed, and the cell stays locked for ever"]
pub struct Opened<'a, T: ?Sized, G = Grant> {
    /// # Safety
    ///
    /// Valid for reads and writes and aliased by nobody as long as `token` is here and `'a` lasts.
    value: NonNull<T>,
    token: G,
    _borrow: PhantomData<&'a mut T>,
}

// SAFETY: it is a `&mut T` that can end early (the pointer is unaliased while the token is here); that is `Send` where `T`
// is. The token goes along.
unsafe impl<T: ?Sized + Send, G: Send> Send for Opened<'_, T, G> {}
// SAFETY: a shared guard gives only `&T`, and the token is not reachable through it.
unsafe impl<T: ?Sized + Sync, G: Sync> Sync for Opened<'_, T, G> {}

impl<'a, T: ?Sized, G> Opened<'a, T, G> {
    /// # Safety
    ///
    /// - `value` lies in a cell that is borrowed for `'a`.
    /// - `token` is exclusive, of the number of that cell's spouse, and covers every index of `value`.
    #[inline]
    pub(super) unsafe fn new(value: NonNull<T>, token: G) -> Self {
        Self { value, token, _borrow: PhantomData }
    }

    /// Ends the access and gives the token back: of the whole cell, also after a [`map`](Self::map).
    #[inline]
    pub fn close(self) -> G {
        self.token
    }

    /// Narrows the access to a part of the value.
    ///
    /// If `f` panics, the token is lost. A guard that must release when `f`, a user's closure, panics uses
    /// [`map_from`](Self::map_from).
    ///
    /// # Examples
    ///
    /// ```
    /// use proto_core::{Grant, Guarded};
    ///
    /// let cell = Guarded::new((1, "one"));
    /// let mut name = cell.open(Grant::new()).map(|pair| &mut pair.1);
    /// *name = "uno";
    /// let grant = name.close();
    /// assert_eq!(*cell.open(grant), (1, "uno"));
    /// ```
    ///
    /// The part cannot be taken out of it:
    ///
    /// ```compile_fail,E0521
    /// # use proto_core::{Grant, Guarded};
    /// let cell = Guarded::new(1);
    /// let mut stolen = None;
    /// let opened = cell.open(Grant::new()).map(|n| { stolen = Some(&mut *n); n });
    /// let grant = opened.close();
    /// *stolen.unwrap() = 2;
    /// ```
    #[inline]
    pub fn map<U: ?Sized>(mut self, f: impl FnOnce(&mut T) -> &mut U) -> Opened<'a, U, G> {
        let part = NonNull::from(f(&mut self));
        // SAFETY: the part was borrowed from the value with a lifetime that `f` cannot choose, so it lies in the value or
        // outlives everything, and is as unaliased as the value was; the token is the same; `self.value` is not used
        // again.
        unsafe { Opened::new(part, self.token) }
    }

    /// Narrows the access to a part of the value, if there is such a part. If `f` panics, the token is lost.
    ///
    /// # Errors
    ///
    /// The guard of the whole, if `f` returned `None`.
    ///
    /// # Examples
    ///
    /// ```
    /// use proto_core::{Grant, Guarded};
    ///
    /// let cell = Guarded::new(vec![1, 2]);
    /// let whole = cell.open(Grant::new()).filter_map(|v| v.get_mut(7)).expect_err("there are two");
    /// let mut last = whole.filter_map(|v| v.last_mut()).expect("there are two");
    /// *last = 5;
    /// let grant = last.close();
    /// assert_eq!(*cell.open(grant), [1, 5]);
    /// ```
    #[inline]
    pub fn filter_map<U: ?Sized>(mut self, f: impl FnOnce(&mut T) -> Option<&mut U>) -> Result<Opened<'a, U, G>, Self> {
        match f(&mut self).map(NonNull::from) {
            // SAFETY: as in `map`.
            Some(part) => Ok(unsafe { Opened::new(part, self.token) }),
            None => Err(self),
        }
    }

    /// The access to a part of the value.
    ///
    /// # Safety
    ///
    /// - `part` was borrowed from the value by a closure such as [`map`](Self::map) takes.
    #[inline]
    pub(super) unsafe fn narrow<U: ?Sized>(self, part: NonNull<U>) -> Opened<'a, U, G> {
        // SAFETY: as in `map`.
        unsafe { Opened::new(part, self.token) }
    }

    /// Moves the guard out of `slot`, narrowed to a part of the value; it stays in `slot` if there is no such part, or if
    /// `f` panics.
    ///
    /// This is how a language's guard with a destructor is mapped: `slot` is the field the destructor looks at, so a
    /// panic of the user's closure releases the lock like any other.
    ///
    /// # Examples
    ///
    /// ```
    /// use proto_core::{Grant, Guarded, Opened};
    ///
    /// let cell = Guarded::new(vec![1, 2]);
    /// let mut slot = Some(cell.open(Grant::new()));
    /// assert!(Opened::map_from(&mut slot, |v| v.get_mut(7)).is_none());
    /// let second = Opened::map_from(&mut slot, |v| v.get_mut(1)).expect("it has two");
    /// assert_eq!(*second, 2);
    /// assert!(slot.is_none());
    /// ```
    #[inline]
    pub fn map_from<U: ?Sized>(
        slot: &mut Option<Self>,
        f: impl FnOnce(&mut T) -> Option<&mut U>,
    ) -> Option<Opened<'a, U, G>> {
        let part = NonNull::from(f(slot.as_mut()?)?);
        // SAFETY: as in `map`: the guard of the whole is taken apart here, before anyone could use it again.
        slot.take().map(|whole| unsafe { Opened::new(part, whole.token) })
    }
}

impl<T: ?Sized, G> Deref for Opened<'_, T, G> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: valid and unaliased while the token is here (see the field), which is as long as the guard is borrowed.
        unsafe { self.value.as_ref() }
    }
}

impl<T: ?Sized, G> DerefMut for Opened<'_, T, G> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as in `deref`; the guard is borrowed alone.
        unsafe { self.value.as_mut() }
    }
}

impl<T: ?Sized + fmt::Debug, G> fmt::Debug for Opened<'_, T, G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Opened").field(&&**self).finish()
    }
}

/// A [`Guarded`](super::Guarded) value, or a part of it, open for reading.
///
/// `G` is the token it was opened with: a [`SharedGrant`] or a [`SharedRange`](super::SharedRange). Dropping or leaking
/// it without [`close`](Self::close) loses the token: the cell can never be written again, which is safe.
///
/// # Examples
///
/// ```
/// use proto_core::{Grant, Guarded, OpenedShared};
///
/// let cell = Guarded::new((1, vec!["a", "b"]));
/// let mut shares = Grant::new().share();
/// let words = cell.open_shared(shares.lend()).map(|pair| &pair.1);
/// let words = words.filter_map(|words| words.get(7)).expect_err("there are two");
/// let mut slot = Some(words);
/// let second = OpenedShared::map_from(&mut slot, |words| words.get(1)).expect("there are two");
/// assert_eq!((*second, slot.is_none()), ("b", true));
/// shares.take_back(second.close());
/// assert!(shares.reclaim().is_ok());
/// ```
#[must_use = "the shared grant inside is lost unless it is closed, and the cell stays locked for writers for ever"]
pub struct OpenedShared<'a, T: ?Sized, G = SharedGrant> {
    /// # Safety
    ///
    /// Valid for reads and written by nobody as long as `token` is here and `'a` lasts.
    value: NonNull<T>,
    token: G,
    _borrow: PhantomData<&'a T>,
}

// SAFETY: it is a `&T` that can end early (nobody writes while the token is here); that is `Send` where `T: Sync`. The
// token goes along.
unsafe impl<T: ?Sized + Sync, G: Send> Send for OpenedShared<'_, T, G> {}
// SAFETY: as above; a shared guard gives only `&T`.
unsafe impl<T: ?Sized + Sync, G: Sync> Sync for OpenedShared<'_, T, G> {}

impl<'a, T: ?Sized, G> OpenedShared<'a, T, G> {
    /// # Safety
    ///
    /// - `value` lies in a cell that is borrowed for `'a`.
    /// - `token` is shared, of the number of that cell's spouse, and covers every index of `value`.
    #[inline]
    pub(super) unsafe fn new(value: NonNull<T>, token: G) -> Self {
        Self { value, token, _borrow: PhantomData }
    }

    /// Ends the access and gives the token back: of the whole that was opened, also after a [`map`](Self::map).
    #[inline]
    pub fn close(self) -> G {
        self.token
    }

    /// Narrows the access to a part of the value. If `f` panics, the token is lost.
    #[inline]
    pub fn map<U: ?Sized>(self, f: impl FnOnce(&T) -> &U) -> OpenedShared<'a, U, G> {
        let part = NonNull::from(f(&self));
        // SAFETY: the part was borrowed from the value with a lifetime that `f` cannot choose, so it lies in the value or
        // outlives everything, and is written by nobody while the token, the same as before, is here.
        unsafe { OpenedShared::new(part, self.token) }
    }

    /// Narrows the access to a part of the value, if there is such a part. If `f` panics, the token is lost.
    ///
    /// # Errors
    ///
    /// The guard of the whole, if `f` returned `None`.
    #[inline]
    pub fn filter_map<U: ?Sized>(self, f: impl FnOnce(&T) -> Option<&U>) -> Result<OpenedShared<'a, U, G>, Self> {
        match f(&self).map(NonNull::from) {
            // SAFETY: as in `map`.
            Some(part) => Ok(unsafe { OpenedShared::new(part, self.token) }),
            None => Err(self),
        }
    }

    /// The access to a part of the value.
    ///
    /// # Safety
    ///
    /// - `part` was borrowed from the value by a closure such as [`map`](Self::map) takes.
    #[inline]
    pub(super) unsafe fn narrow<U: ?Sized>(self, part: NonNull<U>) -> OpenedShared<'a, U, G> {
        // SAFETY: as in `map`.
        unsafe { OpenedShared::new(part, self.token) }
    }

    /// Moves the guard out of `slot`, narrowed to a part of the value; it stays in `slot` if there is no such part, or if
    /// `f` panics. See [`Opened::map_from`].
    #[inline]
    pub fn map_from<U: ?Sized>(
        slot: &mut Option<Self>,
        f: impl FnOnce(&T) -> Option<&U>,
    ) -> Option<OpenedShared<'a, U, G>> {
        let part = NonNull::from(f(slot.as_ref()?)?);
        // SAFETY: as in `map`.
        slot.take().map(|whole| unsafe { OpenedShared::new(part, whole.token) })
    }
}

impl<T: ?Sized, G> Deref for OpenedShared<'_, T, G> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: valid and not written while the token is here (see the field), as long as the guard is borrowed.
        unsafe { self.value.as_ref() }
    }
}

impl<T: ?Sized + fmt::Debug, G> fmt::Debug for OpenedShared<'_, T, G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("OpenedShared").field(&&**self).finish()
    }
}
