//! The guards of a [`Mutex`]: an open cell, and the way back to the lock.

use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

use proto_core::Opened;

use super::lock::Held;
use super::raw_lock::Parting;
use super::{Mutex, RawLock};

/// Access to the data of a [`Mutex`]; unlocks when dropped.
///
/// As std's it stays with the timeline that locked: it is not `Send`.
///
/// ```compile_fail,E0277
/// # use proto_lang_mutex::sync::Mutex;
/// static COUNT: Mutex<u32> = Mutex::new(0);
/// let guard = COUNT.lock().unwrap();
/// proto_lang_mutex::thread::spawn(move || drop(guard));
/// ```
///
/// # Examples
///
/// ```
/// use proto_lang_mutex::sync::Mutex;
///
/// let words = Mutex::new(vec!["one"]);
/// let mut guard = words.lock().unwrap();
/// guard.push("two");
/// drop(guard); // unlocked
/// assert_eq!(words.lock().unwrap().len(), 2);
/// ```
#[must_use = "the mutex is unlocked at once if its guard is not kept"]
pub struct MutexGuard<'a, T: ?Sized> {
    mutex: &'a Mutex<T>,
    inner: Inner<'a, T>,
}

/// Access to a part of the data of a [`Mutex`]; see [`MutexGuard::map`].
#[must_use = "the mutex is unlocked at once if its guard is not kept"]
pub struct MappedMutexGuard<'a, T: ?Sized>(Inner<'a, T>);

/// What both are.
struct Inner<'a, T: ?Sized> {
    lock: &'a RawLock,
    /// `None` only while the guard is taken apart.
    opened: Option<Opened<'a, T>>,
    /// The holder did not unwind when it locked, so a panic is to poison.
    may_poison: bool,
    /// `Sync`, but not `Send`.
    _stays: PhantomData<std::sync::MutexGuard<'static, ()>>,
}

impl<'a, T: ?Sized> Inner<'a, T> {
    /// The parts, of a guard that does not unlock any more.
    fn leave(mut self) -> (&'a RawLock, Option<Opened<'a, T>>, bool) {
        (self.lock, self.opened.take(), self.may_poison)
    }

    fn map<U: ?Sized>(self, f: impl FnOnce(&mut T) -> Option<&mut U>) -> Result<Inner<'a, U>, Inner<'a, T>> {
        let mut whole = self;
        // If `f` panics, `whole` still has what it needs to unlock.
        match Opened::map_from(&mut whole.opened, f) {
            None => Err(whole),
            opened => {
                let (lock, _, may_poison) = whole.leave();
                Ok(Inner { lock, opened, may_poison, _stays: PhantomData })
            }
        }
    }

    #[inline]
    fn get(&self) -> &T {
        self.opened.as_ref().expect(OPEN)
    }

    #[inline]
    fn get_mut(&mut self) -> &mut T {
        self.opened.as_mut().expect(OPEN)
    }
}

const OPEN: &str = "a guard is open until it is dropped";

impl<T: ?Sized> Drop for Inner<'_, T> {
    #[inline]
    fn drop(&mut self) {
        if let Some(opened) = self.opened.take() {
            self.lock.give(opened.close(), self.may_poison);
        }
    }
}

impl<'a, T: ?Sized> MutexGuard<'a, T> {
    /// The guard of `mutex`, which is `held`; and whether the data are poisoned.
    #[inline(always)]
    #[track_caller]
    pub(super) fn new(mutex: &'a Mutex<T>, held: Held) -> (Self, bool) {
        let inner = Inner {
            lock: &mutex.lock,
            opened: Some(mutex.data.open(held.grant)),
            may_poison: !proto_core::panicking(),
            _stays: PhantomData,
        };
        (MutexGuard { mutex, inner }, held.poisoned)
    }

    /// Parts from the lock, which a condition variable is going to give back.
    pub(super) fn part(self) -> (&'a Mutex<T>, Parting<'a>) {
        let MutexGuard { mutex, inner } = self;
        let (lock, opened, may_poison) = inner.leave();
        (mutex, Parting::new(lock, opened.expect(OPEN).close(), may_poison))
    }

    /// A guard of a part of the data.
    ///
    /// # Examples
    ///
    /// ```
    /// use proto_lang_mutex::sync::{Mutex, MutexGuard};
    ///
    /// let pair = Mutex::new((1, String::from("two")));
    /// let mut text = MutexGuard::map(pair.lock().unwrap(), |pair| &mut pair.1);
    /// text.push('!');
    /// drop(text);
    /// assert_eq!(pair.lock().unwrap().1, "two!");
    /// ```
    pub fn map<U: ?Sized>(guard: Self, f: impl FnOnce(&mut T) -> &mut U) -> MappedMutexGuard<'a, U> {
        match guard.inner.map(|value| Some(f(value))) {
            Ok(inner) => MappedMutexGuard(inner),
            Err(_) => unreachable!("the closure gives a part"),
        }
    }

    /// A guard of a part of the data, if there is one.
    ///
    /// # Errors
    ///
    /// Gives the guard back if `f` finds no part.
    ///
    /// # Examples
    ///
    /// ```
    /// use proto_lang_mutex::sync::{Mutex, MutexGuard};
    ///
    /// let list = Mutex::new(vec![1]);
    /// let guard = MutexGuard::filter_map(list.lock().unwrap(), |list| list.get_mut(7)).unwrap_err();
    /// assert_eq!(guard.len(), 1);
    /// ```
    pub fn filter_map<U: ?Sized>(
        guard: Self,
        f: impl FnOnce(&mut T) -> Option<&mut U>,
    ) -> Result<MappedMutexGuard<'a, U>, Self> {
        let mutex = guard.mutex;
        match guard.inner.map(f) {
            Ok(inner) => Ok(MappedMutexGuard(inner)),
            Err(inner) => Err(MutexGuard { mutex, inner }),
        }
    }
}

impl<'a, T: ?Sized> MappedMutexGuard<'a, T> {
    /// A guard of a part of the part.
    ///
    /// # Examples
    ///
    /// ```
    /// use proto_lang_mutex::sync::{MappedMutexGuard, Mutex, MutexGuard};
    ///
    /// let nested = Mutex::new((1, (2, 3)));
    /// let inner = MutexGuard::map(nested.lock().unwrap(), |n| &mut n.1);
    /// assert_eq!(*MappedMutexGuard::map(inner, |n| &mut n.0), 2);
    /// ```
    pub fn map<U: ?Sized>(guard: Self, f: impl FnOnce(&mut T) -> &mut U) -> MappedMutexGuard<'a, U> {
        match guard.0.map(|value| Some(f(value))) {
            Ok(inner) => MappedMutexGuard(inner),
            Err(_) => unreachable!("the closure gives a part"),
        }
    }

    /// A guard of a part of the part, if there is one.
    ///
    /// # Errors
    ///
    /// Gives the guard back if `f` finds no part.
    pub fn filter_map<U: ?Sized>(
        guard: Self,
        f: impl FnOnce(&mut T) -> Option<&mut U>,
    ) -> Result<MappedMutexGuard<'a, U>, Self> {
        guard.0.map(f).map(MappedMutexGuard).map_err(MappedMutexGuard)
    }
}

impl<T: ?Sized> Deref for MutexGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        self.inner.get()
    }
}

impl<T: ?Sized> DerefMut for MutexGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        self.inner.get_mut()
    }
}

impl<T: ?Sized> Deref for MappedMutexGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        self.0.get()
    }
}

impl<T: ?Sized> DerefMut for MappedMutexGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        self.0.get_mut()
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for MutexGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: ?Sized + fmt::Display> fmt::Display for MutexGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for MappedMutexGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: ?Sized + fmt::Display> fmt::Display for MappedMutexGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
