//! [`Condvar`]: a queue of timelines, each of which lent the lock it gave back.
//!
//! # No wake-up between unlocking and waiting
//!
//! A wait enqueues the timeline and *posts* the lock's release: it is sent after the unlock of this environment and before
//! the timeline suspends. Whoever takes the lock after that release and notifies finds the timeline in the queue.
//!
//! A notify *forwards* the waiter: its request becomes [`Relock`] to the lock it lent. So it does not wake up to find the lock held by
//! who notified it: it is queued there, or has the lock when it wakes [design rule 1].
//!
//! # The dangerous race
//!
//! A waiter that is notified, and whose deadline passes or that is cancelled before it has the lock. It has used up the notification,
//! so it must not say that it timed out: [`Turn::Late`] tells it. (A cancelled one takes the notification with it; what it was to be
//! told of is lost with the timeline, as with any that is cancelled after it returned from `wait`.)
//!
//! The grant travels in the request. If that never reaches its handler (the timeline is cancelled), [`Parting`] gives the lock back.

use std::fmt;
use std::sync::LockResult;
use std::time::{Duration, Instant};

use proto_core::{Caller, Ended, EnvCell, Hidden, Kind, Loan, RequestHandler, Waiters};

use super::lock::{LockEnv, Relock, Turn};
use super::raw_lock::Parting;
use super::{MutexGuard, PoisonError};
use crate::time;

struct CondvarEnv {
    waiting: Waiters<Turn, Waiting>,
}

/// What a waiter leaves: which lock it needs before it goes on, and whether it has a deadline.
struct Waiting {
    lock: Loan<LockEnv>,
    timed: bool,
}

struct Wait<'a> {
    leaves: Waiting,
    parting: Parting<'a>,
}

/// Send on so many of the waiters.
struct Notify(usize);

impl RequestHandler<Wait<'_>> for CondvarEnv {
    type Reply = Turn;
    fn handle(&mut self, wait: Wait<'_>, caller: Caller<'_, Turn>, hidden: &mut Hidden<'_>) {
        wait.parting.post(&caller, &wait.leaves.lock, hidden);
        self.waiting.push_with(caller, wait.leaves, hidden);
    }
}

impl RequestHandler<Notify> for CondvarEnv {
    type Reply = ();
    const KIND: Kind = Kind::Release;
    fn handle(&mut self, Notify(mut count): Notify, caller: Caller<'_, ()>, hidden: &mut Hidden<'_>) {
        while count > 0
            && let Some((waiter, Waiting { lock, timed })) = self.waiting.take_next(hidden)
        {
            // One whose wait has just ended otherwise does not count.
            if hidden.forward(waiter, lock, Relock { timed }).is_ok() {
                count -= 1;
            }
        }
        hidden.answer(caller, ());
    }
}

/// Whether a timed wait of a [`Condvar`] ended because its time was over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitTimeoutResult(bool);

impl WaitTimeoutResult {
    /// Whether the time was over. A waiter that was notified and then had to wait for the lock until after that says `false`.
    #[must_use]
    pub fn timed_out(&self) -> bool {
        self.0
    }
}

/// A condition variable, as [`std::sync::Condvar`].
///
/// Unlike std's it may be used with several mutexes at a time; and it wakes nobody without a reason, though programs had
/// better test their condition in a loop, as always.
///
/// # Examples
///
/// ```
/// use proto_lang_mutex::sync::{Condvar, Mutex};
/// use proto_lang_mutex::thread;
///
/// let (ready, changed) = (Mutex::new(false), Condvar::new());
/// thread::scope(|s| {
///     s.spawn(|| {
///         *ready.lock().unwrap() = true;
///         changed.notify_one();
///     });
///     let mut guard = ready.lock().unwrap();
///     while !*guard {
///         guard = changed.wait(guard).unwrap();
///     }
/// });
/// ```
pub struct Condvar(EnvCell<CondvarEnv>);

impl Condvar {
    /// A condition variable for which nobody waits.
    #[track_caller]
    pub const fn new() -> Self {
        Condvar(EnvCell::new(CondvarEnv { waiting: Waiters::new() }))
    }

    /// Gives the lock back and waits for a notification, both in one step; then takes the lock again.
    ///
    /// # Errors
    ///
    /// If the data are poisoned; the error has the guard.
    ///
    /// # Panics
    ///
    /// Unwinds, without the lock, if the calling virtual processor is cancelled.
    #[track_caller]
    pub fn wait<'a, T: ?Sized>(&self, guard: MutexGuard<'a, T>) -> LockResult<MutexGuard<'a, T>> {
        match self.wait_until(guard, None) {
            Ok((guard, _)) => Ok(guard),
            Err(error) => Err(PoisonError::new(error.into_inner().0)),
        }
    }

    /// Waits while `condition` holds.
    ///
    /// # Errors
    ///
    /// As [`wait`](Self::wait).
    ///
    /// # Panics
    ///
    /// As [`wait`](Self::wait).
    ///
    /// # Examples
    ///
    /// ```
    /// use proto_lang_mutex::sync::{Condvar, Mutex};
    ///
    /// let (items, changed) = (Mutex::new(vec![1]), Condvar::new());
    /// let mut items = changed.wait_while(items.lock().unwrap(), |items| items.is_empty()).unwrap();
    /// assert_eq!(items.pop(), Some(1));
    /// ```
    #[track_caller]
    pub fn wait_while<'a, T: ?Sized>(
        &self,
        mut guard: MutexGuard<'a, T>,
        mut condition: impl FnMut(&mut T) -> bool,
    ) -> LockResult<MutexGuard<'a, T>> {
        while condition(&mut guard) {
            guard = self.wait(guard)?;
        }
        Ok(guard)
    }

    /// As [`wait`](Self::wait), for a notification within `timeout`. The lock is taken again in any case.
    ///
    /// # Errors
    ///
    /// As [`wait`](Self::wait).
    ///
    /// # Panics
    ///
    /// As [`wait`](Self::wait).
    ///
    /// # Examples
    ///
    /// ```
    /// use proto_lang_mutex::sync::{Condvar, Mutex};
    /// use std::time::Duration;
    ///
    /// let (data, never) = (Mutex::new(0), Condvar::new());
    /// let (guard, result) = never.wait_timeout(data.lock().unwrap(), Duration::from_millis(1)).unwrap();
    /// assert!(result.timed_out());
    /// # drop(guard);
    /// ```
    #[track_caller]
    pub fn wait_timeout<'a, T: ?Sized>(
        &self,
        guard: MutexGuard<'a, T>,
        timeout: Duration,
    ) -> LockResult<(MutexGuard<'a, T>, WaitTimeoutResult)> {
        self.wait_until(guard, time::after(timeout))
    }

    /// Waits while `condition` holds, for at most `timeout`. Whether the time was over is said only if the condition still holds.
    ///
    /// # Errors
    ///
    /// As [`wait`](Self::wait).
    ///
    /// # Panics
    ///
    /// As [`wait`](Self::wait).
    #[track_caller]
    pub fn wait_timeout_while<'a, T: ?Sized>(
        &self,
        mut guard: MutexGuard<'a, T>,
        timeout: Duration,
        mut condition: impl FnMut(&mut T) -> bool,
    ) -> LockResult<(MutexGuard<'a, T>, WaitTimeoutResult)> {
        let deadline = time::after(timeout);
        let mut late = false;
        while condition(&mut guard) {
            if late || deadline.is_some_and(|deadline| deadline <= Instant::now()) {
                return Ok((guard, WaitTimeoutResult(true)));
            }
            let result;
            (guard, result) = self.wait_until(guard, deadline)?;
            late = result.timed_out();
        }
        Ok((guard, WaitTimeoutResult(false)))
    }

    /// As [`wait_timeout`](Self::wait_timeout), until `deadline`; `None` waits for ever.
    ///
    /// # Errors
    ///
    /// As [`wait`](Self::wait).
    ///
    /// # Panics
    ///
    /// As [`wait`](Self::wait).
    #[track_caller]
    pub fn wait_until<'a, T: ?Sized>(
        &self,
        guard: MutexGuard<'a, T>,
        deadline: Option<Instant>,
    ) -> LockResult<(MutexGuard<'a, T>, WaitTimeoutResult)> {
        let (mutex, parting) = guard.part();
        let timed = deadline.is_some();
        let make = |lock| Wait { leaves: Waiting { lock, timed }, parting };
        let mut timed_out = false;
        let held = match self.0.request_lending(mutex.lock.cell(), make, deadline) {
            Ok(Turn::Taken(held)) => Ok(held),
            Ok(Turn::Retry) => mutex.lock.take_later(1, None),
            Ok(Turn::Late(Ended::Deadline)) => mutex.lock.take(None),
            Err(Ended::Deadline) => {
                timed_out = true;
                mutex.lock.take(None)
            }
            Ok(Turn::Late(ended)) | Err(ended) => Err(ended),
        };
        let held = held.unwrap_or_else(|ended| time::failed(ended));
        let result = WaitTimeoutResult(timed_out);
        match mutex.guard(held) {
            Ok(guard) => Ok((guard, result)),
            Err(error) => Err(PoisonError::new((error.into_inner(), result))),
        }
    }

    /// Lets the waiter go on that has waited longest, if there is one.
    pub fn notify_one(&self) {
        self.0.release(Notify(1));
    }

    /// Lets all waiters go on, one after the other.
    ///
    /// # Examples
    ///
    /// ```
    /// use proto_lang_mutex::Condvar;
    /// static CHANGED: Condvar = Condvar::new();
    /// CHANGED.notify_all(); // nobody waits: nothing happens
    /// ```
    pub fn notify_all(&self) {
        self.0.release(Notify(usize::MAX));
    }
}

impl Default for Condvar {
    #[track_caller]
    fn default() -> Self {
        Condvar::new()
    }
}

impl fmt::Debug for Condvar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Condvar").finish_non_exhaustive()
    }
}
