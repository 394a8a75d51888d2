//! Parking: each thread has one token; [`park`] takes it or waits for it, [`Thread::unpark`] gives it, once.
//!
//! The token is an environment of the thread's own, made when somebody first needs it: few threads ever park. So it goes with the thread,
//! and threads share no lock but with those that they park for.
//!
//! *The dangerous race*: a park whose time is over or that is cancelled, while a token is given. Whoever claims the wait first decides, and
//! an unpark that comes too late for it leaves the token for the next park.

use std::time::{Duration, Instant};

use proto_core::{Ask, OrUnwind, VpRef, Waiters};

use super::Thread;
use crate::time;

#[derive(Default)]
struct Token {
    given: bool,
    parked: Waiters<()>,
}

#[track_caller]
fn park_by(deadline: Option<Instant>) {
    let token = VpRef::current().environment::<Token>().expect("the calling thread has not ended");
    let take = Ask::new(|token: &mut Token, caller, hidden| match std::mem::take(&mut token.given) {
        true => hidden.answer(caller, ()),
        false => token.parked.push(caller, hidden),
    });
    token.request_until(take, deadline).in_time();
}

/// Waits for the calling thread's token, and takes it.
///
/// # Panics
///
/// Unwinds if the calling virtual processor is cancelled.
///
/// # Examples
///
/// ```
/// use proto_lang_mutex::thread;
/// let parked = thread::spawn(|| {
///     thread::park();
///     "went on"
/// });
/// parked.thread().unpark(); // before or after it parks: the token stays
/// assert_eq!(parked.join().unwrap(), "went on");
/// ```
#[track_caller]
pub fn park() {
    park_by(None);
}

/// As [`park`], for at most `timeout`.
///
/// # Panics
///
/// As [`park`].
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// proto_lang_mutex::thread::park_timeout(Duration::from_millis(1)); // nobody unparks it: returns all the same
/// ```
#[track_caller]
pub fn park_timeout(timeout: Duration) {
    park_by(time::after(timeout));
}

/// As [`park`], until `deadline`.
///
/// # Panics
///
/// As [`park`].
///
/// # Examples
///
/// ```
/// proto_lang_mutex::thread::park_until(std::time::Instant::now()); // has come: takes the token, if it is there
/// ```
#[track_caller]
pub fn park_until(deadline: Instant) {
    park_by(Some(deadline));
}

impl Thread {
    /// Gives the thread its token, if it has none: it goes on if it is parked, or when it next parks.
    pub fn unpark(&self) {
        if let Some(token) = self.vp().environment::<Token>() {
            token.update(|token, _, hidden| token.given = token.parked.resume_next((), hidden).is_err());
        }
    }
}
