//! [`RwLock`]: the environment of `rwenv`, the data in a guarded cell, std's shape around both.

use std::fmt;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::{LockResult, TryLockError, TryLockResult};
use std::time::{Duration, Instant};

use proto_core::{Ended, EnvCell, Grant, Guarded, SharedGrant};

use super::rwenv::{GaveUp, IsPoisoned, Now, Read, RwEnv, SetPoisoned, Write};
use super::{RwLockReadGuard, RwLockWriteGuard, poison};
use crate::time;

/// Data that many may read or one may write, as [`std::sync::RwLock`].
///
/// It works in phases: readers that arrive while a writer waits let it go first, and after each writer all readers that wait
/// by then go in. Neither side starves. A timeline that reads must not ask for the lock again: with a writer in line both
/// would wait for ever.
///
/// Reading asks for `T: Sync` where std's lock asks for it to be `Sync` itself.
///
/// # Examples
///
/// ```
/// use proto_lang_mutex::sync::RwLock;
///
/// static LIMITS: RwLock<(u32, u32)> = RwLock::new((0, 9));
/// {
///     let (one, two) = (LIMITS.read().unwrap(), LIMITS.try_read().unwrap());
///     assert_eq!(one.1, two.1);
/// }
/// LIMITS.write().unwrap().1 = 10;
/// assert_eq!(*LIMITS.read().unwrap(), (0, 10));
/// ```
pub struct RwLock<T: ?Sized> {
    pub(super) env: EnvCell<RwEnv>,
    pub(super) data: Guarded<T>,
}

impl<T: ?Sized> UnwindSafe for RwLock<T> {}
impl<T: ?Sized> RefUnwindSafe for RwLock<T> {}

impl<T> RwLock<T> {
    /// A free lock around `value`. Reports name it by the place of this call.
    #[track_caller]
    pub const fn new(value: T) -> Self {
        RwLock { env: EnvCell::new(RwEnv::new()), data: Guarded::new(value) }
    }

    /// The data.
    ///
    /// # Errors
    ///
    /// If they are poisoned; the error has them.
    pub fn into_inner(mut self) -> LockResult<T> {
        let poisoned = self.get_poisoned();
        poison::result(self.data.into_inner(), poisoned)
    }
}

impl<T: ?Sized + Sync> RwLock<T> {
    /// Waits until the data may be read.
    ///
    /// # Errors
    ///
    /// If the data are poisoned; the error has the guard.
    ///
    /// # Panics
    ///
    /// Unwinds if the calling virtual processor is cancelled.
    #[track_caller]
    pub fn read(&self) -> LockResult<RwLockReadGuard<'_, T>> {
        let (shared, poisoned) = self.take_read(None).unwrap_or_else(|ended| time::failed(ended));
        poison::result(RwLockReadGuard::new(self, shared), poisoned)
    }

    /// Reads if that is possible at once. It is not while a writer waits.
    ///
    /// # Errors
    ///
    /// [`WouldBlock`](TryLockError::WouldBlock) if not; [`Poisoned`](TryLockError::Poisoned) with the guard.
    ///
    /// # Panics
    ///
    /// As [`read`](Self::read).
    #[track_caller]
    pub fn try_read(&self) -> TryLockResult<RwLockReadGuard<'_, T>> {
        let shared =
            self.env.request(Now(Read { wait: false, last: true })).unwrap_or_else(|ended| time::failed(ended));
        poison::try_result(shared.map(|(shared, poisoned)| (RwLockReadGuard::new(self, shared), poisoned)))
    }

    /// As [`read`](Self::read), for at most `timeout`.
    ///
    /// # Errors
    ///
    /// [`WouldBlock`](TryLockError::WouldBlock) if the time is over; [`Poisoned`](TryLockError::Poisoned) with the guard.
    ///
    /// # Panics
    ///
    /// As [`read`](Self::read).
    ///
    /// # Examples
    ///
    /// ```
    /// use proto_lang_mutex::sync::RwLock;
    /// use std::time::Duration;
    ///
    /// let lock = RwLock::new(1);
    /// let writer = lock.write().unwrap();
    /// assert!(lock.try_read_for(Duration::from_millis(1)).is_err());
    /// # drop(writer);
    /// ```
    #[track_caller]
    pub fn try_read_for(&self, timeout: Duration) -> TryLockResult<RwLockReadGuard<'_, T>> {
        self.read_by(time::after(timeout))
    }

    /// As [`read`](Self::read), until `deadline`.
    ///
    /// # Errors
    ///
    /// As [`try_read_for`](Self::try_read_for).
    ///
    /// # Panics
    ///
    /// As [`read`](Self::read).
    #[track_caller]
    pub fn try_read_until(&self, deadline: Instant) -> TryLockResult<RwLockReadGuard<'_, T>> {
        self.read_by(Some(deadline))
    }

    #[track_caller]
    fn read_by(&self, deadline: Option<Instant>) -> TryLockResult<RwLockReadGuard<'_, T>> {
        let shared = time::timed(self.take_read(deadline));
        poison::try_result(shared.map(|(shared, poisoned)| (RwLockReadGuard::new(self, shared), poisoned)))
    }

    #[track_caller]
    fn take_read(&self, deadline: Option<Instant>) -> Result<(SharedGrant, bool), Ended> {
        match self.env.request_adaptive(|last| Now(Read { wait: true, last }), None)? {
            Some(shared) => Ok(shared),
            None => self.env.request_until(Read { wait: true, last: true }, deadline),
        }
    }
}

impl<T: ?Sized> RwLock<T> {
    /// Waits until the data may be written.
    ///
    /// # Errors
    ///
    /// If the data are poisoned; the error has the guard.
    ///
    /// # Panics
    ///
    /// Unwinds if the calling virtual processor is cancelled.
    #[track_caller]
    pub fn write(&self) -> LockResult<RwLockWriteGuard<'_, T>> {
        let (grant, poisoned) = self.take_write(None).unwrap_or_else(|ended| time::failed(ended));
        poison::result(RwLockWriteGuard::new(self, grant), poisoned)
    }

    /// Writes if that is possible at once.
    ///
    /// # Errors
    ///
    /// [`WouldBlock`](TryLockError::WouldBlock) if not; [`Poisoned`](TryLockError::Poisoned) with the guard.
    ///
    /// # Panics
    ///
    /// As [`write`](Self::write).
    #[track_caller]
    pub fn try_write(&self) -> TryLockResult<RwLockWriteGuard<'_, T>> {
        let grant =
            self.env.request(Now(Write { wait: false, last: true })).unwrap_or_else(|ended| time::failed(ended));
        poison::try_result(grant.map(|(grant, poisoned)| (RwLockWriteGuard::new(self, grant), poisoned)))
    }

    /// As [`write`](Self::write), for at most `timeout`.
    ///
    /// # Errors
    ///
    /// [`WouldBlock`](TryLockError::WouldBlock) if the time is over; [`Poisoned`](TryLockError::Poisoned) with the guard.
    ///
    /// # Panics
    ///
    /// As [`write`](Self::write).
    #[track_caller]
    pub fn try_write_for(&self, timeout: Duration) -> TryLockResult<RwLockWriteGuard<'_, T>> {
        self.write_by(time::after(timeout))
    }

    /// As [`write`](Self::write), until `deadline`.
    ///
    /// # Errors
    ///
    /// As [`try_write_for`](Self::try_write_for).
    ///
    /// # Panics
    ///
    /// As [`write`](Self::write).
    #[track_caller]
    pub fn try_write_until(&self, deadline: Instant) -> TryLockResult<RwLockWriteGuard<'_, T>> {
        self.write_by(Some(deadline))
    }

    #[track_caller]
    fn write_by(&self, deadline: Option<Instant>) -> TryLockResult<RwLockWriteGuard<'_, T>> {
        let grant = time::timed(self.take_write(deadline));
        poison::try_result(grant.map(|(grant, poisoned)| (RwLockWriteGuard::new(self, grant), poisoned)))
    }

    #[track_caller]
    fn take_write(&self, deadline: Option<Instant>) -> Result<(Grant, bool), Ended> {
        if let Some(grant) = self.env.request_adaptive(|last| Now(Write { wait: true, last }), None)? {
            return Ok(grant);
        }
        let waited = self.env.request_until(Write { wait: true, last: true }, deadline);
        if waited.is_err() {
            self.env.release(GaveUp);
        }
        waited
    }

    /// Whether a writer panicked. Says nothing about what comes next, unless the caller holds the lock.
    pub fn is_poisoned(&self) -> bool {
        self.env.request(IsPoisoned).unwrap_or(true)
    }

    /// Declares the data sound again.
    pub fn clear_poison(&self) {
        self.env.release(SetPoisoned(false));
    }

    /// The data, without locking: nobody else has the lock.
    ///
    /// # Errors
    ///
    /// If they are poisoned; the error has them.
    pub fn get_mut(&mut self) -> LockResult<&mut T> {
        let poisoned = self.get_poisoned();
        poison::result(self.data.get_mut(), poisoned)
    }

    fn get_poisoned(&mut self) -> bool {
        self.env.get_mut().is_none_or(|env| env.is_poisoned())
    }
}

impl<T> From<T> for RwLock<T> {
    #[track_caller]
    fn from(value: T) -> Self {
        RwLock::new(value)
    }
}

impl<T: Default> Default for RwLock<T> {
    #[track_caller]
    fn default() -> Self {
        RwLock::new(T::default())
    }
}

impl<T: ?Sized + Sync + fmt::Debug> fmt::Debug for RwLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("RwLock");
        match self.try_read() {
            Ok(guard) => shown.field("data", &&*guard),
            Err(TryLockError::Poisoned(error)) => shown.field("data", &&**error.get_ref()),
            Err(TryLockError::WouldBlock) => shown.field("data", &format_args!("<locked>")),
        };
        shown.field("poisoned", &self.is_poisoned()).finish_non_exhaustive()
    }
}
