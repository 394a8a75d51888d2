//! [`Mutex`]: the core's lock, the data in a guarded cell, std's shape around both.

use std::sync::{LockResult, PoisonError, TryLockError, TryLockResult};
use std::time::{Duration, Instant};

use proto_core::{Guard, Guarded, Held, Opened, OrUnwind, RawLock};

use super::poison;
use crate::time;

poison::lock_with_data! {
    /// A lock around data, as [`std::sync::Mutex`]; who waits suspends.
    ///
    /// Virtual processors and operating-system threads may share one. It is not strictly first in, first out: who runs may
    /// take a free lock before a waiter that is being woken; a waiter that was passed over 1 000 times, or woke four times in
    /// vain, is handed the lock outright, so nobody starves.
    ///
    /// As with std's, a holder that panics *poisons* it; one that is cancelled does not. Locking it twice in one timeline
    /// never returns.
    ///
    /// # Examples
    ///
    /// ```
    /// use proto_lang_mutex::sync::Mutex;
    /// use proto_lang_mutex::thread;
    ///
    /// static COUNT: Mutex<u32> = Mutex::new(0);
    ///
    /// thread::scope(|s| {
    ///     for _ in 0..8 {
    ///         s.spawn(|| *COUNT.lock().unwrap() += 1);
    ///     }
    /// });
    /// assert_eq!(*COUNT.lock().unwrap(), 8);
    /// ```
    ///
    /// Poison, and how to declare the data sound again:
    ///
    /// ```
    /// use proto_lang_mutex::sync::{Arc, Mutex};
    /// use proto_lang_mutex::thread;
    ///
    /// let mutex = Arc::new(Mutex::new(0));
    /// let other = Arc::clone(&mutex);
    /// let panicked = thread::spawn(move || {
    ///     let _guard = other.lock().unwrap();
    ///     panic!("while it holds the lock");
    /// });
    /// assert!(panicked.join().is_err());
    /// assert!(mutex.is_poisoned());
    /// mutex.clear_poison();
    /// assert!(!mutex.is_poisoned());
    /// ```
    ///
    /// The data without a lock:
    ///
    /// ```
    /// let mutex = proto_lang_mutex::Mutex::new(5);
    /// assert_eq!(mutex.into_inner().unwrap(), 5);
    /// ```
    Mutex, RawLock, try_lock
}

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
///
/// A guard of a part of the data:
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
///
/// and of a part that may not be there:
///
/// ```
/// use proto_lang_mutex::sync::{Mutex, MutexGuard};
///
/// let list = Mutex::new(vec![1]);
/// let guard = MutexGuard::filter_map(list.lock().unwrap(), |list| list.get_mut(7)).unwrap_err();
/// assert_eq!(guard.len(), 1);
/// ```
pub type MutexGuard<'a, T> = Guard<'a, RawLock, Opened<'a, T>, &'a Guarded<T>>;

/// Access to a part of the data of a [`Mutex`]; made by `MutexGuard::map`, and can be mapped itself.
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
pub type MappedMutexGuard<'a, T> = Guard<'a, RawLock, Opened<'a, T>>;

impl<T: ?Sized> Mutex<T> {
    /// Takes the lock; waits while somebody else has it.
    ///
    /// # Errors
    ///
    /// If the data are poisoned; the error has the guard.
    ///
    /// # Panics
    ///
    /// Unwinds if the calling virtual processor is cancelled.
    ///
    /// # Examples
    ///
    /// ```
    /// let mutex = proto_lang_mutex::Mutex::new(5);
    /// *mutex.lock().unwrap() += 1;
    /// assert_eq!(*mutex.lock().unwrap(), 6);
    /// ```
    #[inline]
    #[track_caller]
    pub fn lock(&self) -> LockResult<MutexGuard<'_, T>> {
        self.data.about_to_open();
        self.guard(self.lock.lock())
    }

    /// Takes the lock if it is free.
    ///
    /// # Errors
    ///
    /// [`WouldBlock`](TryLockError::WouldBlock) if it is not; [`Poisoned`](TryLockError::Poisoned) with the guard.
    ///
    /// # Panics
    ///
    /// As [`lock`](Self::lock).
    ///
    /// # Examples
    ///
    /// ```
    /// let mutex = proto_lang_mutex::Mutex::new(5);
    /// let guard = mutex.try_lock().unwrap();
    /// assert!(mutex.try_lock().is_err());
    /// # drop(guard);
    /// ```
    #[inline]
    #[track_caller]
    pub fn try_lock(&self) -> TryLockResult<MutexGuard<'_, T>> {
        poison::try_result(self.lock.try_take().or_unwind().map(|held| self.guard(held)))
    }

    /// As [`lock`](Self::lock), for at most `timeout`.
    ///
    /// # Errors
    ///
    /// [`WouldBlock`](TryLockError::WouldBlock) if the time is over; [`Poisoned`](TryLockError::Poisoned) with the guard.
    ///
    /// # Panics
    ///
    /// As [`lock`](Self::lock).
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// let mutex = proto_lang_mutex::Mutex::new(5);
    /// let guard = mutex.try_lock_for(Duration::from_secs(1)).unwrap();
    /// assert!(mutex.try_lock_for(Duration::from_millis(1)).is_err());
    /// # drop(guard);
    /// ```
    #[track_caller]
    pub fn try_lock_for(&self, timeout: Duration) -> TryLockResult<MutexGuard<'_, T>> {
        self.lock_by(time::after(timeout))
    }

    /// As [`lock`](Self::lock), until `deadline`.
    ///
    /// # Errors
    ///
    /// As [`try_lock_for`](Self::try_lock_for).
    ///
    /// # Panics
    ///
    /// As [`lock`](Self::lock).
    ///
    /// # Examples
    ///
    /// ```
    /// use proto_lang_mutex::sync::{Mutex, TryLockError};
    /// use std::time::Instant;
    ///
    /// let mutex = Mutex::new(5);
    /// let guard = mutex.try_lock_until(Instant::now()).unwrap(); // it is free: no time is needed
    /// assert!(matches!(mutex.try_lock_until(Instant::now()), Err(TryLockError::WouldBlock)));
    /// # drop(guard);
    /// ```
    #[track_caller]
    pub fn try_lock_until(&self, deadline: Instant) -> TryLockResult<MutexGuard<'_, T>> {
        self.lock_by(Some(deadline))
    }

    #[track_caller]
    fn lock_by(&self, deadline: Option<Instant>) -> TryLockResult<MutexGuard<'_, T>> {
        poison::try_result(self.lock.take(deadline).in_time().map(|held| self.guard(held)))
    }

    /// Takes the lock as `take` does, if it does. Poison does not matter.
    #[track_caller]
    pub(crate) fn lock_by_way(&self, take: impl FnOnce(&RawLock) -> Option<Held>) -> Option<MutexGuard<'_, T>> {
        Some(self.guard(take(&self.lock)?).unwrap_or_else(PoisonError::into_inner))
    }

    #[inline(always)]
    #[track_caller]
    fn guard(&self, held: Held) -> LockResult<MutexGuard<'_, T>> {
        poison::result(MutexGuard::open(&self.lock, &self.data, held.grant), held.poisoned)
    }
}
