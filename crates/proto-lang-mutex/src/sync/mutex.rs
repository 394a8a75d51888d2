//! [`Mutex`]: the lock of `lock`, the data in a guarded cell, std's shape around both.

use std::fmt;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::{LockResult, TryLockError, TryLockResult};
use std::time::{Duration, Instant};

use proto_core::Guarded;

use super::RawLock;
use super::lock::{Held, Tried};
use super::{MutexGuard, poison};
use crate::time;

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
pub struct Mutex<T: ?Sized> {
    pub(super) lock: RawLock,
    pub(super) data: Guarded<T>,
}

impl<T: ?Sized> UnwindSafe for Mutex<T> {}
impl<T: ?Sized> RefUnwindSafe for Mutex<T> {}

impl<T> Mutex<T> {
    /// A free lock around `value`. Reports name it by the place of this call.
    #[track_caller]
    pub const fn new(value: T) -> Self {
        Mutex { lock: RawLock::new(), data: Guarded::new(value) }
    }

    /// The data.
    ///
    /// # Errors
    ///
    /// If they are poisoned; the error has them.
    ///
    /// # Examples
    ///
    /// ```
    /// let mutex = proto_lang_mutex::Mutex::new(5);
    /// assert_eq!(mutex.into_inner().unwrap(), 5);
    /// ```
    pub fn into_inner(mut self) -> LockResult<T> {
        let poisoned = self.lock.get_poisoned();
        poison::result(self.data.into_inner(), poisoned)
    }
}

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
        // Two words in registers on every way; the rest of the guard is made once, at the end.
        let held = match self.lock.take_soon() {
            Ok(Tried::Taken(held)) => held,
            Ok(Tried::Busy) => self.lock.take_busy(),
            Err(ended) => time::failed(ended),
        };
        self.guard(held)
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
        match self.lock.try_take() {
            Ok(held) => poison::try_result(held.map(|held| MutexGuard::new(self, held))),
            Err(ended) => time::failed(ended),
        }
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
    #[track_caller]
    pub fn try_lock_until(&self, deadline: Instant) -> TryLockResult<MutexGuard<'_, T>> {
        self.lock_by(Some(deadline))
    }

    /// As [`lock`](Self::lock) where a cancel may not end the wait, and poison does not matter.
    #[track_caller]
    pub(crate) fn lock_binding(&self) -> MutexGuard<'_, T> {
        match self.lock.take_binding() {
            Ok(held) => MutexGuard::new(self, held).0,
            Err(ended) => time::failed(ended),
        }
    }

    #[track_caller]
    fn lock_by(&self, deadline: Option<Instant>) -> TryLockResult<MutexGuard<'_, T>> {
        let held = time::timed(self.lock.take(deadline));
        poison::try_result(held.map(|held| MutexGuard::new(self, held)))
    }

    #[inline(always)]
    #[track_caller]
    pub(super) fn guard(&self, held: Held) -> LockResult<MutexGuard<'_, T>> {
        let (guard, poisoned) = MutexGuard::new(self, held);
        poison::result(guard, poisoned)
    }

    /// Whether a holder panicked. Says nothing about what comes next, unless the caller holds the lock.
    pub fn is_poisoned(&self) -> bool {
        self.lock.is_poisoned()
    }

    /// Declares the data sound again.
    ///
    /// # Examples
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
    pub fn clear_poison(&self) {
        self.lock.clear_poison();
    }

    /// The data, without locking: nobody else has the mutex.
    ///
    /// # Errors
    ///
    /// If they are poisoned; the error has them.
    pub fn get_mut(&mut self) -> LockResult<&mut T> {
        let poisoned = self.lock.get_poisoned();
        poison::result(self.data.get_mut(), poisoned)
    }
}

impl<T> From<T> for Mutex<T> {
    #[track_caller]
    fn from(value: T) -> Self {
        Mutex::new(value)
    }
}

impl<T: Default> Default for Mutex<T> {
    #[track_caller]
    fn default() -> Self {
        Mutex::new(T::default())
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for Mutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Mutex");
        match self.try_lock() {
            Ok(guard) => shown.field("data", &&*guard),
            Err(TryLockError::Poisoned(error)) => shown.field("data", &&**error.get_ref()),
            Err(TryLockError::WouldBlock) => shown.field("data", &format_args!("<locked>")),
        };
        shown.field("poisoned", &self.is_poisoned()).finish_non_exhaustive()
    }
}
