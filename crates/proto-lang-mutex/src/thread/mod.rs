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

mod current;
mod park;
mod scoped;
mod sleep;
mod spawn;

pub use current::{Thread, ThreadId, current};
pub use park::{park, park_timeout};
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
