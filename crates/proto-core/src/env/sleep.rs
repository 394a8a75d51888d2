//! Sleeping: a wait that nothing answers, with a deadline. Its environment lies in the sleeper's own frame.

use std::time::Instant;

use super::{Caller, EnvCell, Hidden, RequestHandler, Waiters};
use crate::ended::Ended;

struct Bed(Waiters<()>);

/// Named in reports.
struct Sleep;

impl RequestHandler<Sleep> for Bed {
    type Reply = ();
    fn handle(&mut self, _: Sleep, caller: Caller<'_, ()>, hidden: &mut Hidden<'_>) {
        self.0.push(caller, hidden);
    }
}

/// Suspends the calling timeline until `deadline` has come; `None`: for ever. Its core does other work.
///
/// # Errors
///
/// [`Ended::Cancelled`].
///
/// # Examples
///
/// ```
/// use std::time::{Duration, Instant};
/// let until = Instant::now() + Duration::from_millis(1);
/// proto_core::sleep_until(Some(until))?;
/// assert!(Instant::now() >= until);
/// # Ok::<(), proto_core::Ended>(())
/// ```
#[track_caller]
pub fn sleep_until(deadline: Option<Instant>) -> Result<(), Ended> {
    match EnvCell::new(Bed(Waiters::new())).request_until(Sleep, deadline) {
        Err(Ended::Deadline) => Ok(()),
        other => other,
    }
}
