//! The C library's `pthread_mutex_t` (default kind, static initializer), on OS threads.
//!
//! glibc leaves out the lock prefix while a process has one thread; [`crate::child`] keeps a second.

use std::cell::UnsafeCell;

use super::CountLock;

/// A `pthread_mutex_t` around a count.
#[derive(Debug)]
pub(crate) struct MutexCount {
    /// Touched only by the C library. It is not moved while locked: `add` unlocks before it returns,
    /// and an unlocked mutex of the default kind is plain data.
    mutex: UnsafeCell<libc::pthread_mutex_t>,
    /// Read and written only by the holder of `mutex`.
    count: UnsafeCell<u64>,
}

// SAFETY: `mutex` is made for use by several threads, and `count` is reached only between its lock
// and its unlock, which order one holder's accesses before the next one's.
unsafe impl Sync for MutexCount {}

impl Default for MutexCount {
    fn default() -> Self {
        Self { mutex: UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER), count: UnsafeCell::new(0) }
    }
}

impl CountLock for MutexCount {
    #[inline]
    fn add(&self) {
        // SAFETY: the pointer is to an initialized mutex that lives as long as `self`.
        let locked = unsafe { libc::pthread_mutex_lock(self.mutex.get()) };
        assert_eq!(locked, 0, "a default mutex can always be locked");
        // SAFETY: the lock is held, so no other reference to the count exists (invariant of `count`).
        unsafe { *self.count.get() += 1 };
        // SAFETY: the pointer is as above, and this thread holds the lock.
        unsafe { libc::pthread_mutex_unlock(self.mutex.get()) };
    }
}
