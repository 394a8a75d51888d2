//! The shapes of [`std::thread`].
//!
//! | file | what lives there |
//! |---|---|
//! | `spawn` | [`spawn`], [`Builder`], [`JoinHandle`] |
//! | `scoped` | [`scope`], [`Scope`], [`ScopedJoinHandle`] |
//! | `current` | [`current`], [`Thread`], [`ThreadId`] |
//! | `park` | [`park`] and [`Thread::unpark`] |
//! | `sleep` | [`sleep`], [`sleep_until`] |
//!
//! A [`LocalKey`] is the core's, made by [`thread_local!`](crate::thread_local).

/// What all handles that join have: `$handle` is one, with `$lifetime` if it has that.
macro_rules! handle {
    ($handle:ident $(, $lifetime:lifetime)?) => {
        opaque!($handle[$($lifetime,)? T], $handle<$($lifetime,)? T>, thread);

        impl<$($lifetime,)? T> $handle<$($lifetime,)? T> {
            /// The thread.
            pub fn thread(&self) -> &Thread {
                &self.thread
            }

            /// Whether it has ended, so that [`join`](Self::join) does not wait.
            pub fn is_finished(&self) -> bool {
                self.handle.is_finished()
            }

            /// Waits for the thread's end for at most `timeout`.
            ///
            /// # Errors
            ///
            /// Gives the handle back if the time is over.
            ///
            /// # Panics
            ///
            /// Unwinds if the calling virtual processor is cancelled.
            #[track_caller]
            pub fn join_timeout(self, timeout: Duration) -> Result<super::Result<T>, Self> {
                self.join_by(time::after(timeout))
            }

            /// Waits for the thread's end until `deadline`.
            ///
            /// # Errors
            ///
            /// Gives the handle back if `deadline` has come.
            ///
            /// # Panics
            ///
            /// Unwinds if the calling virtual processor is cancelled.
            #[track_caller]
            pub fn join_until(self, deadline: Instant) -> Result<super::Result<T>, Self> {
                self.join_by(Some(deadline))
            }

            #[track_caller]
            fn join_by(self, deadline: Option<Instant>) -> Result<super::Result<T>, Self> {
                let Self { handle, thread } = self;
                let outcome = handle.join_until(deadline).map_err(|handle| Self { handle, thread })?;
                Ok(outcome.map_err(JoinError::into_payload))
            }
        }
    };
}

mod current;
mod park;
mod scoped;
mod sleep;
mod spawn;

pub use current::{Thread, ThreadId, current};
pub use park::{park, park_timeout, park_until};
pub use proto_core::{AccessError, VpLocal as LocalKey, panicking, yield_now};
pub use scoped::{Scope, ScopedJoinHandle, scope};
pub use sleep::{sleep, sleep_until};
pub use spawn::{Builder, JoinHandle, spawn};
pub use std::thread::Result;

/// How many threads can run at a time here: the number of controllers of the runtime that the caller runs in. Never an error.
///
/// # Errors
///
/// None; the shape is [`std::thread::available_parallelism`]'s.
///
/// # Examples
///
/// ```
/// let runtime = proto_core::Runtime::builder().controllers(3).build()?;
/// let count = runtime.run(proto_lang_mutex::thread::available_parallelism)??;
/// assert_eq!(count.get(), 3);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn available_parallelism() -> std::io::Result<std::num::NonZero<usize>> {
    Ok(proto_core::available_parallelism())
}
