//! Waiting elsewhere without the lock: what condition variables and monitors are made of.
//!
//! # No wake-up between giving back and waiting
//!
//! The wait queues the timeline in the other environment and *posts* the lock's release: it is sent after the unlock of that
//! environment and before the timeline suspends. Whoever takes the lock after that release and calls back finds the timeline in the
//! queue.
//!
//! A call back to another core, or of all, *forwards* the timeline: its request becomes [`Relock`] to the lock it lent. So it does not wake up to find the lock
//! held by who called it: it is queued there, or has the lock when it wakes [design rule 1].
//!
//! # The dangerous race
//!
//! A timeline that is called back, and whose deadline passes or that is cancelled before it has the lock. It has used up the call,
//! so it must not say that it timed out: [`Turn::Late`] tells it. (A cancelled one takes the call with it; what it was to be told
//! is lost with the timeline, as with any that is cancelled after it had the lock again.)
//!
//! The grant travels in the request. If that never reaches its handler (the timeline is cancelled), [`Parting`] gives the lock back.

use std::time::Instant;

use super::turns::{Give, LockEnv, Relock, Turn};
use super::{Held, RawLock};
use crate::ended::Ended;
use crate::env::{Ask, EnvCell, Hidden, Loan, Waiters};
use crate::guarded::{Grant, PanicMark};

/// A queue of timelines that gave up a [`RawLock`] to wait here, and need it again before they go on.
///
/// A part of an environment, as [`Waiters`] are; each timeline may have come from another lock.
///
/// # Examples
///
/// A condition variable:
///
/// ```
/// use proto_core::{Absentees, EnvCell, Held, OrUnwind, PanicMark, RawLock};
///
/// static LOCK: RawLock = RawLock::new();
/// static CHANGED: EnvCell<Absentees> = EnvCell::new(Absentees::new());
///
/// fn notify_one() {
///     CHANGED.update(|absent, _, hidden| absent.call_back(hidden));
/// }
/// fn wait(held: Held) -> Held {
///     LOCK.wait_in(held.grant, PanicMark::now(), &CHANGED, |absent| absent, None).or_unwind().0
/// }
///
/// std::thread::scope(|s| {
///     let held = LOCK.lock();
///     s.spawn(|| {
///         let held = LOCK.lock(); // only once the other waits
///         notify_one();
///         LOCK.give(held.grant, PanicMark::now());
///     });
///     LOCK.give(wait(held).grant, PanicMark::now());
/// });
/// ```
#[derive(Debug, Default)]
pub struct Absentees(Waiters<Turn, Away>);

/// What an absentee leaves: which lock it needs before it goes on, and whether it has a deadline.
#[derive(Debug)]
struct Away {
    lock: Loan<LockEnv>,
    timed: bool,
}

impl Absentees {
    /// An empty queue.
    pub const fn new() -> Self {
        Absentees(Waiters::new())
    }

    /// Sends the one that has waited longest back to its lock. `false` if nobody waits.
    ///
    /// One that lives on the caller's core is simply made ready: it cannot run before the caller leaves the core, mostly without the lock,
    /// and then finds it free. To queue it at the lock first would cost a request here, and two when the caller gives the lock back.
    pub fn call_back(&mut self, hidden: &mut Hidden<'_>) -> bool {
        self.0.resume_where(1, |_, lives_here| lives_here, Turn::Called, hidden).is_ok() || self.send_back(hidden)
    }

    /// Sends all back to their locks, in the order in which they came.
    ///
    /// # Examples
    ///
    /// ```
    /// use proto_core::{Absentees, EnvCell, Guarded, OrUnwind, PanicMark, RawLock};
    ///
    /// static LOCK: RawLock = RawLock::new();
    /// static OPEN: Guarded<bool> = Guarded::new(false);
    /// static OPENED: EnvCell<Absentees> = EnvCell::new(Absentees::new());
    ///
    /// fn pass() {
    ///     let mut grant = LOCK.lock().grant;
    ///     loop {
    ///         let open = OPEN.open(grant);
    ///         let is_open = *open;
    ///         grant = open.close();
    ///         if is_open {
    ///             return LOCK.give(grant, PanicMark::now());
    ///         }
    ///         grant = LOCK.wait_in(grant, PanicMark::now(), &OPENED, |absent| absent, None).or_unwind().0.grant;
    ///     }
    /// }
    /// std::thread::scope(|s| {
    ///     for _ in 0..3 { s.spawn(pass); }
    ///     let mut open = OPEN.open(LOCK.lock().grant);
    ///     *open = true;
    ///     LOCK.give(open.close(), PanicMark::now());
    ///     OPENED.update(|absent, _, hidden| absent.call_back_all(hidden));
    /// });
    /// ```
    pub fn call_back_all(&mut self, hidden: &mut Hidden<'_>) {
        while self.send_back(hidden) {}
    }

    fn send_back(&mut self, hidden: &mut Hidden<'_>) -> bool {
        while let Some((waiter, Away { lock, timed })) = self.0.take_next(hidden) {
            // One whose wait has just ended otherwise does not count.
            if hidden.forward(waiter, lock, Relock { timed }).is_ok() {
                return true;
            }
        }
        false
    }
}

impl RawLock {
    /// Gives the lock back and waits in the queue `queue` of the environment `place`, both in one step; takes the lock again when it
    /// is called back. The `bool` says that this did not happen before `deadline`.
    ///
    /// The lock is held again in any case but an error. It becomes poisoned as by [`give`](RawLock::give).
    ///
    /// # Errors
    ///
    /// See [`Ended`]: the lock is not held then.
    #[track_caller]
    pub fn wait_in<E>(
        &self,
        grant: Grant,
        since: PanicMark,
        place: &EnvCell<E>,
        queue: impl FnOnce(&mut E) -> &mut Absentees,
        deadline: Option<Instant>,
    ) -> Result<(Held, bool), Ended> {
        let timed = deadline.is_some();
        let give = Give { grant, poison: since.panicked(), suspends: true };
        let mut parting = Parting { lock: self, give: Some(give) };
        let make = |lock| {
            Ask::new(move |env: &mut E, caller, hidden| {
                if let Some(give) = parting.give.take() {
                    hidden.post(&caller, &lock, give);
                }
                queue(env).0.push_with(caller, Away { lock, timed }, hidden);
            })
        };
        let held = match place.request_lending(&self.0, make, deadline) {
            Ok(Turn::Taken(held)) => held,
            Ok(Turn::Retry) => self.take_later(1, None)?,
            Ok(Turn::Called | Turn::Late(Ended::Deadline)) => self.take(None)?,
            Err(Ended::Deadline) => return Ok((self.take(None)?, true)),
            Ok(Turn::Late(ended)) | Err(ended) => return Err(ended),
        };
        Ok((held, false))
    }
}

/// A lock that is about to be given back by the environment its holder goes to. Given back here if that fails.
struct Parting<'a> {
    lock: &'a RawLock,
    give: Option<Give>,
}

impl Drop for Parting<'_> {
    fn drop(&mut self) {
        // The request never reached its handler: its timeline is cancelled, or the environment broken.
        if let Some(Give { grant, poison, .. }) = self.give.take() {
            self.lock.give_later(grant, poison);
        }
    }
}
