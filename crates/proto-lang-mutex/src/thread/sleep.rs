//! Sleeping: a wait that nothing answers, with a deadline. Its environment lies in the sleeper's own frame.

use std::time::{Duration, Instant};

use proto_core::{Caller, EnvCell, Hidden, RequestHandler, Waiters};

use crate::time;

struct Bed(Waiters<()>);
struct Sleep;

impl RequestHandler<Sleep> for Bed {
    type Reply = ();
    fn handle(&mut self, _: Sleep, caller: Caller<'_, ()>, hidden: &mut Hidden<'_>) {
        self.0.push(caller, hidden);
    }
}

#[track_caller]
fn sleep_by(deadline: Option<Instant>) {
    time::timed(EnvCell::new(Bed(Waiters::new())).request_until(Sleep, deadline));
}

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
        sleep_by(time::after(duration));
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
    sleep_by(Some(deadline));
}
