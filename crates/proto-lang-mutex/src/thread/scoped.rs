//! Scoped threads: the core's scope in std's shape.
//!
//! A scope ends when its closure has returned and all its threads have ended, whether joined or not. The core resumes the panic of a
//! thread that nobody joined; std panics with a text of its own, and so does this.

use std::fmt;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use proto_core::{Cancelled, JoinError};

use super::{Builder, Thread};

/// A place to start threads that borrow from outside of it; see [`scope`].
pub struct Scope<'scope, 'env> {
    inner: &'scope proto_core::Scope<'scope, 'env>,
}

impl fmt::Debug for Scope<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scope").finish_non_exhaustive()
    }
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
pub fn scope<'env, F, T>(f: F) -> T
where
    F: for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> T,
{
    let mut own = None;
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        proto_core::scope(|inner| match catch_unwind(AssertUnwindSafe(|| f(inner.keep(Scope { inner })))) {
            Ok(value) => Some(value),
            Err(payload) => {
                own = Some(payload);
                None
            }
        })
    }));
    match (own, outcome) {
        (Some(payload), _) => resume_unwind(payload),
        (None, Err(payload)) if payload.is::<Cancelled>() => resume_unwind(payload),
        (None, Ok(Some(value))) => value,
        (None, Ok(None) | Err(_)) => panic!("a scoped thread panicked"),
    }
}

impl<'scope, 'env> Scope<'scope, 'env> {
    pub(super) fn inner(&self) -> &'scope proto_core::Scope<'scope, 'env> {
        self.inner
    }

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
    ///     s.spawn(|| println!("{local}"));
    /// });
    /// ```
    #[track_caller]
    pub fn spawn<F, T>(&'scope self, f: F) -> ScopedJoinHandle<'scope, T>
    where
        F: FnOnce() -> T + Send + 'scope,
        T: Send + 'scope,
    {
        match Builder::new().spawn_scoped(self, f) {
            Ok(handle) => handle,
            Err(error) => panic!("{error}"),
        }
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
pub struct ScopedJoinHandle<'scope, T> {
    handle: proto_core::ScopedJoinHandle<'scope, T>,
    thread: Thread,
    _scope: PhantomData<&'scope ()>,
}

impl<T> fmt::Debug for ScopedJoinHandle<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScopedJoinHandle").field("thread", &self.thread).finish_non_exhaustive()
    }
}

impl<'scope, T> ScopedJoinHandle<'scope, T> {
    pub(super) fn new(handle: proto_core::ScopedJoinHandle<'scope, T>, thread: Thread) -> Self {
        ScopedJoinHandle { handle, thread, _scope: PhantomData }
    }

    /// The thread.
    pub fn thread(&self) -> &Thread {
        &self.thread
    }

    /// Whether it has ended.
    pub fn is_finished(&self) -> bool {
        self.handle.is_finished()
    }

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
