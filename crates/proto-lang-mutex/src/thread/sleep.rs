//! Sleeping, in std's shape.

use std::time::{Duration, Instant};

use proto_core::OrUnwind;

use crate::time;

/// Suspends the calling thread for at least `duration`; its core does other work.
///
/// # Panics
///
/// Unwinds if the calling virtual processor is cancelled.
///
/// # Examples
///
/// ```
/// use proto_lang_mutex::thread;
/// use std::time::Duration;
/// thread::sleep(Duration::from_millis(1));
/// ```
#[track_caller]
pub fn sleep(duration: Duration) {
    if !duration.is_zero() {
        proto_core::sleep_until(time::after(duration)).or_unwind();
    }
}

/// Suspends the calling thread until `deadline` has come.
///
/// # Panics
///
/// As [`sleep`].
///
/// # Examples
///
/// ```
/// use std::time::Instant;
/// proto_lang_mutex::thread::sleep_until(Instant::now()); // has come
/// ```
#[track_caller]
pub fn sleep_until(deadline: Instant) {
    proto_core::sleep_until(Some(deadline)).or_unwind();
}
