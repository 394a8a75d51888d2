//! The shapes of [`std::thread`].
//!
//! | file | what lives there |
//! |---|---|
//! | `spawn` | [`spawn`], [`Builder`], [`JoinHandle`] |
//! | `scoped` | [`scope`], [`Scope`], [`ScopedJoinHandle`] |
//! | `current` | [`current`], [`Thread`], [`ThreadId`] |
//! | `park` | [`park`] and [`Thread::unpark`] |
//! | `sleep` | [`sleep`], [`sleep_until`] |

mod current;
mod park;
mod scoped;
mod sleep;
mod spawn;

pub use current::{Thread, ThreadId, current};
pub use park::{park, park_timeout};
pub use proto_core::{panicking, yield_now};
pub use scoped::{Scope, ScopedJoinHandle, scope};
pub use sleep::{sleep, sleep_until};
pub use spawn::{Builder, JoinHandle, spawn};
pub use std::thread::{Result, available_parallelism};
