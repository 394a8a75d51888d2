//! [`RwLock`]: the core's readers-writer lock, the data in a guarded cell, std's shape around both.

use std::sync::{LockResult, TryLockError, TryLockResult};
use std::time::{Duration, Instant};

use proto_core::{Guard, Guarded, Held, Opened, OpenedShared, OrUnwind, RawRwLock, SharedGrant};

use super::poison;
use crate::time;

poison::lock_with_data! {
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
    ///
    /// Without waiting, or not for long; and the data without a lock:
    ///
    /// ```
    /// use proto_lang_mutex::sync::RwLock;
    /// use std::time::{Duration, Instant};
    ///
    /// let mut lock = RwLock::new(1);
    /// let reader = lock.try_read_until(Instant::now()).unwrap(); // nobody writes: no time is needed
    /// assert!(lock.try_write().is_err());
    /// assert!(lock.try_write_for(Duration::from_millis(1)).is_err());
    /// drop(reader);
    /// *lock.try_write_until(Instant::now()).unwrap() += 1;
    /// *lock.get_mut().unwrap() += 1;
    /// assert_eq!(lock.into_inner().unwrap(), 3);
    /// ```
    ///
    /// Poison, and how to declare the data sound again:
    ///
    /// ```
    /// use proto_lang_mutex::sync::RwLock;
    /// use proto_lang_mutex::thread;
    ///
    /// static LOCK: RwLock<u32> = RwLock::new(0);
    /// let panicked = thread::spawn(|| {
    ///     let _guard = LOCK.write();
    ///     panic!("while it writes");
    /// });
    /// assert!(panicked.join().is_err());
    /// assert!(LOCK.is_poisoned() && LOCK.read().is_err());
    /// LOCK.clear_poison();
    /// assert_eq!(*LOCK.read().unwrap(), 0);
    /// ```
    RwLock, RawRwLock, try_read, Sync
}

/// Access for reading to the data of an [`RwLock`]; leaves when dropped.
///
/// # Examples
///
/// A guard of a part of the data:
///
/// ```
/// use proto_lang_mutex::sync::{RwLock, RwLockReadGuard};
/// let pair = RwLock::new((1, "two"));
/// let text = RwLockReadGuard::map(pair.read().unwrap(), |pair| &pair.1);
/// assert_eq!(*text, "two");
/// ```
pub type RwLockReadGuard<'a, T> = Guard<'a, RawRwLock, OpenedShared<'a, T>, &'a Guarded<T>>;

/// Access for reading to a part of the data of an [`RwLock`]; made by `RwLockReadGuard::map`, and can be mapped itself.
///
/// # Examples
///
/// ```
/// use proto_lang_mutex::sync::{MappedRwLockReadGuard, RwLock, RwLockReadGuard};
///
/// let pair = RwLock::new((1, vec!["two"]));
/// let words: MappedRwLockReadGuard<'_, Vec<&str>> = RwLockReadGuard::map(pair.read().unwrap(), |pair| &pair.1);
/// let words = MappedRwLockReadGuard::filter_map(words, |words| words.get(7)).unwrap_err();
/// assert_eq!(*words, ["two"]);
/// ```
pub type MappedRwLockReadGuard<'a, T> = Guard<'a, RawRwLock, OpenedShared<'a, T>>;

/// Access for writing to the data of an [`RwLock`]; leaves when dropped.
///
/// # Examples
///
/// A guard of a part of the data:
///
/// ```
/// use proto_lang_mutex::sync::{RwLock, RwLockWriteGuard};
/// let pair = RwLock::new((1, 2));
/// *RwLockWriteGuard::map(pair.write().unwrap(), |pair| &mut pair.1) = 3;
/// assert_eq!(*pair.read().unwrap(), (1, 3));
/// ```
///
/// A writer that goes on as a reader lets no other writer in between; readers that wait come along:
///
/// ```
/// use proto_lang_mutex::sync::{RwLock, RwLockWriteGuard};
/// let lock = RwLock::new(1);
/// let mut writer = lock.write().unwrap();
/// *writer = 2;
/// let reader = RwLockWriteGuard::downgrade(writer);
/// assert_eq!(*lock.try_read().unwrap(), *reader);
/// ```
pub type RwLockWriteGuard<'a, T> = Guard<'a, RawRwLock, Opened<'a, T>, &'a Guarded<T>>;

/// Access for writing to a part of the data of an [`RwLock`]; made by `RwLockWriteGuard::map`, and can be mapped itself.
///
/// # Examples
///
/// ```
/// use proto_lang_mutex::sync::{MappedRwLockWriteGuard, RwLock, RwLockWriteGuard};
///
/// let nested = RwLock::new((1, (2, 3)));
/// let inner: MappedRwLockWriteGuard<'_, _> = RwLockWriteGuard::map(nested.write().unwrap(), |n| &mut n.1);
/// *MappedRwLockWriteGuard::map(inner, |n| &mut n.0) = 5;
/// assert_eq!(*nested.read().unwrap(), (1, (5, 3)));
/// ```
pub type MappedRwLockWriteGuard<'a, T> = Guard<'a, RawRwLock, Opened<'a, T>>;

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
        self.reader(self.lock.read(None).or_unwind())
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
        poison::try_result(self.lock.try_read().or_unwind().map(|held| self.reader(held)))
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
        poison::try_result(self.lock.read(deadline).in_time().map(|held| self.reader(held)))
    }

    #[track_caller]
    fn reader(&self, held: Held<SharedGrant>) -> LockResult<RwLockReadGuard<'_, T>> {
        poison::result(RwLockReadGuard::open(&self.lock, &self.data, held.grant), held.poisoned)
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
        self.writer(self.lock.write(None).or_unwind())
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
        poison::try_result(self.lock.try_write().or_unwind().map(|held| self.writer(held)))
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
        poison::try_result(self.lock.write(deadline).in_time().map(|held| self.writer(held)))
    }

    #[track_caller]
    fn writer(&self, held: Held) -> LockResult<RwLockWriteGuard<'_, T>> {
        poison::result(RwLockWriteGuard::open(&self.lock, &self.data, held.grant), held.poisoned)
    }
}
