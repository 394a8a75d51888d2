//! What all constructs share: deadlines, and ends that no construct of std can report.

use std::time::{Duration, Instant};

use proto_core::Ended;

/// When a wait that begins now and may take `timeout` is over. `None`: later than the clock can say, so never.
pub(crate) fn after(timeout: Duration) -> Option<Instant> {
    Instant::now().checked_add(timeout)
}

/// A wait without a deadline ended without its reply: unwinds if it was cancelled, panics else.
#[cold]
#[track_caller]
pub(crate) fn failed(ended: Ended) -> ! {
    let ended = ended.unwind_if_cancelled();
    panic!("{ended}")
}

/// Tells a deadline that passed from the ends that no construct of std can report.
#[track_caller]
pub(crate) fn timed<T>(outcome: Result<T, Ended>) -> Option<T> {
    match outcome {
        Ok(value) => Some(value),
        Err(Ended::Deadline) => None,
        Err(ended) => failed(ended),
    }
}
