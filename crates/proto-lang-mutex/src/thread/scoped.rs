//! Scoped threads: the core's scope in std's shape.
//!
//! A scope ends when its closure has returned and all its threads have ended, whether joined or not. If one panicked that nobody
//! joined, the scope panics as std's does, with a text of its own.

use std::time::{Duration, Instant};

use proto_core::{JoinError, resume_unwind};

use super::{Builder, Thread};
use crate::time;

/// A place to start threads that borrow from outside of it; see [`scope`].
///
/// # Examples
///
/// ```
/// use proto_lang_mutex::thread::{self, Scope};
///
/// /// Threads that do nothing until they are told to go.
/// fn idlers<'scope>(s: &'scope Scope<'scope, '_>, count: usize) {
///     for _ in 0..count {
///         s.spawn(|| loop { thread::park() });
///     }
/// }
/// thread::scope(|s| {
///     idlers(s, 3);
///     s.cancel().expect("panics unwind here"); // all of the scope that still run
/// });
/// ```
#[derive(Debug)]
pub struct Scope<'scope, 'env> {
    pub(super) inner: &'scope proto_core::Scope<'scope, 'env>,
}

/// Runs `f` with a scope; returns when `f` has returned and every thread started in the scope has ended.
///
/// # Panics
///
/// If `f` panics, with its payload. Else if a thread panicked that was not joined. Unwinds if the calling virtual processor is
/// cancelled: the scope's threads were cancelled with it. All of that after the threads have ended.
///
/// # Examples
///
/// ```
/// use proto_lang_mutex::thread;
///
/// let mut numbers = vec![1, 2, 3];
/// let mut sum = 0;
/// thread::scope(|s| {
///     s.spawn(|| println!("borrowed: {numbers:?}"));
///     s.spawn(|| sum += numbers.iter().sum::<i32>());
/// });
/// numbers.push(sum);
/// assert_eq!(numbers, [1, 2, 3, 6]);
/// ```
#[track_caller]
pub fn scope<'env, F: for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> T, T>(f: F) -> T {
    match proto_core::scope_caught(|inner| f(inner.keep(Scope { inner }))) {
        (Ok(value), None) => value,
        (Ok(_), Some(_)) => panic!("a scoped thread panicked"),
        (Err(payload), _) => resume_unwind(payload),
    }
}

impl<'scope> Scope<'scope, '_> {
    /// Starts a thread that may borrow what outlives the scope.
    ///
    /// # Panics
    ///
    /// If it cannot be created; [`Builder::spawn_scoped`] returns that as an error.
    ///
    /// # Examples
    ///
    /// Threads of a scope may start others in it:
    ///
    /// ```
    /// use proto_lang_mutex::thread;
    /// let text = String::from("borrowed");
    /// let len = thread::scope(|s| s.spawn(|| s.spawn(|| text.len()).join().unwrap()).join().unwrap());
    /// assert_eq!(len, 8);
    /// ```
    ///
    /// What is borrowed cannot escape:
    ///
    /// ```compile_fail,E0597
    /// use proto_lang_mutex::thread;
    /// thread::scope(|s| {
    ///     let local = 1;
    ///     let borrowed = &local; // `local` does not live long enough
    ///     s.spawn(move || println!("{borrowed}"));
    /// });
    /// ```
    #[track_caller]
    pub fn spawn<F: FnOnce() -> T + Send + 'scope, T: Send + 'scope>(
        &'scope self,
        f: F,
    ) -> ScopedJoinHandle<'scope, T> {
        Builder::new().spawn_scoped(self, f).expect("failed to spawn thread")
    }

    /// Cancels every thread of this scope; the scope's owner goes on.
    ///
    /// # Errors
    ///
    /// In a `panic=abort` build.
    pub fn cancel(&self) -> Result<(), proto_core::CannotCancel> {
        self.inner.cancel()
    }
}

/// Joins a thread of a scope.
///
/// # Examples
///
/// ```
/// use proto_lang_mutex::thread::{self, ScopedJoinHandle};
///
/// let numbers = [1, 2, 3];
/// let sum = thread::scope(|s| {
///     let sum: ScopedJoinHandle<'_, u32> = s.spawn(|| {
///         thread::park();
///         numbers.iter().sum()
///     });
///     let sum = sum.join_until(std::time::Instant::now()).expect_err("nobody has unparked it");
///     assert!(!sum.is_finished());
///     sum.thread().unpark();
///     sum.join()
/// });
/// assert_eq!(sum.unwrap(), 6);
/// ```
///
/// A timed join gives the handle back; the scope waits for the thread in any case:
///
/// ```
/// use proto_lang_mutex::thread;
/// use std::time::Duration;
///
/// thread::scope(|s| {
///     let parked = s.spawn(thread::park);
///     let parked = parked.join_timeout(Duration::from_millis(1)).unwrap_err();
///     parked.thread().unpark();
///     parked.join().unwrap();
/// });
/// ```
pub struct ScopedJoinHandle<'scope, T> {
    pub(super) handle: proto_core::ScopedJoinHandle<'scope, T>,
    pub(super) thread: Thread,
}

handle!(ScopedJoinHandle, 'scope);

impl<T> ScopedJoinHandle<'_, T> {
    /// Waits for the thread's end. A cancel of the caller comes after it.
    ///
    /// # Errors
    ///
    /// What it panicked with; [`proto_core::Cancelled`] if it was cancelled.
    #[track_caller]
    pub fn join(self) -> super::Result<T> {
        self.handle.join().map_err(JoinError::into_payload)
    }
}
