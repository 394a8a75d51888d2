//! The guards of an [`RwLock`]: an open cell, and the way back to the lock.

use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

use proto_core::{EnvCell, Grant, Opened, OpenedShared, SharedGrant};

use super::RwLock;
use super::rwenv::{Downgrade, EndRead, EndWrite, RwEnv};
use crate::time;

/// `Sync`, but not `Send`: a guard stays with the timeline that locked.
type Stays = PhantomData<std::sync::MutexGuard<'static, ()>>;

const OPEN: &str = "a guard is open until it is dropped";

/// Access for reading to the data of an [`RwLock`]; leaves when dropped.
#[must_use = "the lock is given back at once if its guard is not kept"]
pub struct RwLockReadGuard<'a, T: ?Sized>(Reading<'a, T>);

/// Access for reading to a part of the data of an [`RwLock`]; see [`RwLockReadGuard::map`].
#[must_use = "the lock is given back at once if its guard is not kept"]
pub struct MappedRwLockReadGuard<'a, T: ?Sized>(Reading<'a, T>);

/// Access for writing to the data of an [`RwLock`]; leaves when dropped.
#[must_use = "the lock is given back at once if its guard is not kept"]
pub struct RwLockWriteGuard<'a, T: ?Sized> {
    lock: &'a RwLock<T>,
    inner: Writing<'a, T>,
}

/// Access for writing to a part of the data of an [`RwLock`]; see [`RwLockWriteGuard::map`].
#[must_use = "the lock is given back at once if its guard is not kept"]
pub struct MappedRwLockWriteGuard<'a, T: ?Sized>(Writing<'a, T>);

struct Reading<'a, T: ?Sized> {
    env: &'a EnvCell<RwEnv>,
    /// `None` only while the guard is taken apart.
    opened: Option<OpenedShared<'a, T>>,
    _stays: Stays,
}

struct Writing<'a, T: ?Sized> {
    env: &'a EnvCell<RwEnv>,
    /// `None` only while the guard is taken apart.
    opened: Option<Opened<'a, T>>,
    may_poison: bool,
    _stays: Stays,
}

impl<T: ?Sized> Drop for Reading<'_, T> {
    fn drop(&mut self) {
        if let Some(opened) = self.opened.take() {
            self.env.release(EndRead(opened.close()));
        }
    }
}

impl<T: ?Sized> Drop for Writing<'_, T> {
    fn drop(&mut self) {
        if let Some(opened) = self.opened.take() {
            self.env.release(EndWrite { grant: opened.close(), may_poison: self.may_poison });
        }
    }
}

impl<'a, T: ?Sized> Reading<'a, T> {
    /// If `f` panics, the guard of the whole still has what it needs to leave.
    fn map<U: ?Sized>(mut self, f: impl FnOnce(&T) -> Option<&U>) -> Result<Reading<'a, U>, Self> {
        match OpenedShared::map_from(&mut self.opened, f) {
            None => Err(self),
            opened => Ok(Reading { env: self.env, opened, _stays: PhantomData }),
        }
    }
}

impl<'a, T: ?Sized> Writing<'a, T> {
    /// As [`Reading::map`].
    fn map<U: ?Sized>(mut self, f: impl FnOnce(&mut T) -> Option<&mut U>) -> Result<Writing<'a, U>, Self> {
        match Opened::map_from(&mut self.opened, f) {
            None => Err(self),
            opened => Ok(Writing { env: self.env, opened, may_poison: self.may_poison, _stays: PhantomData }),
        }
    }
}

impl<'a, T: ?Sized + Sync> RwLockReadGuard<'a, T> {
    #[track_caller]
    pub(super) fn new(lock: &'a RwLock<T>, shared: SharedGrant) -> Self {
        let opened = Some(lock.data.open_shared(shared));
        RwLockReadGuard(Reading { env: &lock.env, opened, _stays: PhantomData })
    }
}

impl<'a, T: ?Sized> RwLockReadGuard<'a, T> {
    /// A guard of a part of the data.
    ///
    /// # Examples
    ///
    /// ```
    /// use proto_lang_mutex::sync::{RwLock, RwLockReadGuard};
    /// let pair = RwLock::new((1, "two"));
    /// let text = RwLockReadGuard::map(pair.read().unwrap(), |pair| &pair.1);
    /// assert_eq!(*text, "two");
    /// ```
    pub fn map<U: ?Sized>(guard: Self, f: impl FnOnce(&T) -> &U) -> MappedRwLockReadGuard<'a, U> {
        match guard.0.map(|value| Some(f(value))) {
            Ok(inner) => MappedRwLockReadGuard(inner),
            Err(_) => unreachable!("the closure gives a part"),
        }
    }

    /// A guard of a part of the data, if there is one.
    ///
    /// # Errors
    ///
    /// Gives the guard back if `f` finds no part.
    pub fn filter_map<U: ?Sized>(
        guard: Self,
        f: impl FnOnce(&T) -> Option<&U>,
    ) -> Result<MappedRwLockReadGuard<'a, U>, Self> {
        guard.0.map(f).map(MappedRwLockReadGuard).map_err(RwLockReadGuard)
    }
}

impl<'a, T: ?Sized> MappedRwLockReadGuard<'a, T> {
    /// A guard of a part of the part.
    pub fn map<U: ?Sized>(guard: Self, f: impl FnOnce(&T) -> &U) -> MappedRwLockReadGuard<'a, U> {
        RwLockReadGuard::map(RwLockReadGuard(guard.0), f)
    }
}

impl<'a, T: ?Sized> RwLockWriteGuard<'a, T> {
    #[track_caller]
    pub(super) fn new(lock: &'a RwLock<T>, grant: Grant) -> Self {
        let opened = Some(lock.data.open(grant));
        let may_poison = !proto_core::panicking();
        RwLockWriteGuard { lock, inner: Writing { env: &lock.env, opened, may_poison, _stays: PhantomData } }
    }

    /// A guard of a part of the data.
    ///
    /// # Examples
    ///
    /// ```
    /// use proto_lang_mutex::sync::{RwLock, RwLockWriteGuard};
    /// let pair = RwLock::new((1, 2));
    /// *RwLockWriteGuard::map(pair.write().unwrap(), |pair| &mut pair.1) = 3;
    /// assert_eq!(*pair.read().unwrap(), (1, 3));
    /// ```
    pub fn map<U: ?Sized>(guard: Self, f: impl FnOnce(&mut T) -> &mut U) -> MappedRwLockWriteGuard<'a, U> {
        match guard.inner.map(|value| Some(f(value))) {
            Ok(inner) => MappedRwLockWriteGuard(inner),
            Err(_) => unreachable!("the closure gives a part"),
        }
    }

    /// A guard of a part of the data, if there is one.
    ///
    /// # Errors
    ///
    /// Gives the guard back if `f` finds no part.
    pub fn filter_map<U: ?Sized>(
        guard: Self,
        f: impl FnOnce(&mut T) -> Option<&mut U>,
    ) -> Result<MappedRwLockWriteGuard<'a, U>, Self> {
        let lock = guard.lock;
        match guard.inner.map(f) {
            Ok(inner) => Ok(MappedRwLockWriteGuard(inner)),
            Err(inner) => Err(RwLockWriteGuard { lock, inner }),
        }
    }
}

impl<'a, T: ?Sized + Sync> RwLockWriteGuard<'a, T> {
    /// Goes on as a reader, without letting a writer in between. Readers that wait come along.
    ///
    /// # Examples
    ///
    /// ```
    /// use proto_lang_mutex::sync::{RwLock, RwLockWriteGuard};
    /// let lock = RwLock::new(1);
    /// let mut writer = lock.write().unwrap();
    /// *writer = 2;
    /// let reader = RwLockWriteGuard::downgrade(writer);
    /// assert_eq!(*lock.try_read().unwrap(), *reader);
    /// ```
    #[track_caller]
    pub fn downgrade(guard: Self) -> RwLockReadGuard<'a, T> {
        let RwLockWriteGuard { lock, mut inner } = guard;
        let grant = inner.opened.take().expect(OPEN).close();
        let shared = lock.env.request(Downgrade(grant)).unwrap_or_else(|ended| time::failed(ended));
        RwLockReadGuard::new(lock, shared)
    }
}

impl<'a, T: ?Sized> MappedRwLockWriteGuard<'a, T> {
    /// A guard of a part of the part.
    pub fn map<U: ?Sized>(guard: Self, f: impl FnOnce(&mut T) -> &mut U) -> MappedRwLockWriteGuard<'a, U> {
        match guard.0.map(|value| Some(f(value))) {
            Ok(inner) => MappedRwLockWriteGuard(inner),
            Err(_) => unreachable!("the closure gives a part"),
        }
    }
}

/// What all four are to their users: references to the data, shown as the data are.
macro_rules! guard {
    ($name:ident, $this:ident => $opened:expr $(, $mutable:ident => $opened_mut:expr)?) => {
        impl<T: ?Sized> Deref for $name<'_, T> {
            type Target = T;

            #[inline]
            fn deref(&self) -> &T {
                let $this = self;
                $opened.as_ref().expect(OPEN)
            }
        }

        $(impl<T: ?Sized> DerefMut for $name<'_, T> {
            #[inline]
            fn deref_mut(&mut self) -> &mut T {
                let $mutable = self;
                $opened_mut.as_mut().expect(OPEN)
            }
        })?

        impl<T: ?Sized + fmt::Debug> fmt::Debug for $name<'_, T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                (**self).fmt(f)
            }
        }

        impl<T: ?Sized + fmt::Display> fmt::Display for $name<'_, T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                (**self).fmt(f)
            }
        }
    };
}

guard!(RwLockReadGuard, guard => guard.0.opened);
guard!(MappedRwLockReadGuard, guard => guard.0.opened);
guard!(RwLockWriteGuard, guard => guard.inner.opened, guard => guard.inner.opened);
guard!(MappedRwLockWriteGuard, guard => guard.0.opened, guard => guard.0.opened);
