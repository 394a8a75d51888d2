//! [`Condvar`]: a queue of timelines, each of which gave a lock back to wait here, and has it again when it goes on.
//!
//! That no wake-up can fall between giving back and waiting, and what becomes of a notification whose waiter gives up meanwhile, is
//! the core's care; see [`Absentees`].

use std::sync::LockResult;
use std::time::{Duration, Instant};

use proto_core::{Absentees, EnvCell, OrUnwind};

use super::{MutexGuard, PoisonError, poison};
use crate::time;

#[derive(Debug)]
struct CondvarEnv {
    waiting: Absentees,
}

/// Whether a timed wait of a [`Condvar`] ended because its time was over.
///
/// # Examples
///
/// ```
/// use proto_lang_mutex::sync::{Condvar, Mutex, WaitTimeoutResult};
/// use std::time::Instant;
///
/// let (data, changed) = (Mutex::new(0), Condvar::new());
/// let (_guard, result) = changed.wait_until(data.lock().unwrap(), Some(Instant::now())).unwrap();
/// let result: WaitTimeoutResult = result;
/// assert!(result.timed_out());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitTimeoutResult(bool);

impl WaitTimeoutResult {
    /// Whether the time was over. A waiter that was notified and then had to wait for the lock until after that says `false`.
    #[must_use]
    pub fn timed_out(&self) -> bool {
        self.0
    }
}

/// What a timed wait returns: the guard in any case, and whether the time was over.
type Timed<'a, T> = LockResult<(MutexGuard<'a, T>, WaitTimeoutResult)>;

/// For waits without a deadline.
fn guard_alone<T: ?Sized>(waited: Timed<'_, T>) -> LockResult<MutexGuard<'_, T>> {
    waited.map(|(guard, _)| guard).map_err(|error| PoisonError::new(error.into_inner().0))
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
#[derive(Debug)]
pub struct Condvar(EnvCell<CondvarEnv>);

impl Condvar {
    /// A condition variable for which nobody waits.
    #[track_caller]
    pub const fn new() -> Self {
        Condvar(EnvCell::new(CondvarEnv { waiting: Absentees::new() }))
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
        guard_alone(self.wait_until(guard, None))
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
        guard: MutexGuard<'a, T>,
        condition: impl FnMut(&mut T) -> bool,
    ) -> LockResult<MutexGuard<'a, T>> {
        guard_alone(self.wait_while_until(guard, None, condition))
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
    pub fn wait_timeout<'a, T: ?Sized>(&self, guard: MutexGuard<'a, T>, timeout: Duration) -> Timed<'a, T> {
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
    ///
    /// # Examples
    ///
    /// ```
    /// use proto_lang_mutex::sync::{Condvar, Mutex};
    /// use std::time::Duration;
    ///
    /// let (items, changed) = (Mutex::new(vec![1]), Condvar::new());
    /// let mut next = || {
    ///     let guard = items.lock().unwrap();
    ///     let (mut items, result) = changed.wait_timeout_while(guard, Duration::from_millis(1), |it| it.is_empty()).unwrap();
    ///     (items.pop(), result.timed_out())
    /// };
    /// assert_eq!(next(), (Some(1), false));
    /// assert_eq!(next(), (None, true));
    /// ```
    #[track_caller]
    pub fn wait_timeout_while<'a, T: ?Sized>(
        &self,
        guard: MutexGuard<'a, T>,
        timeout: Duration,
        condition: impl FnMut(&mut T) -> bool,
    ) -> Timed<'a, T> {
        self.wait_while_until(guard, time::after(timeout), condition)
    }

    /// As [`wait_timeout_while`](Self::wait_timeout_while), until `deadline`; `None` waits for ever.
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
    /// use std::time::Instant;
    ///
    /// let (items, changed) = (Mutex::new(vec![1]), Condvar::new());
    /// let now = Some(Instant::now());
    /// let (items, result) = changed.wait_while_until(items.lock().unwrap(), now, |items| items.is_empty()).unwrap();
    /// assert!(!result.timed_out() && items.len() == 1);
    /// ```
    #[track_caller]
    pub fn wait_while_until<'a, T: ?Sized>(
        &self,
        mut guard: MutexGuard<'a, T>,
        deadline: Option<Instant>,
        mut condition: impl FnMut(&mut T) -> bool,
    ) -> Timed<'a, T> {
        let mut result = WaitTimeoutResult(false);
        while condition(&mut guard) {
            if result.0 || deadline.is_some_and(|deadline| deadline <= Instant::now()) {
                return Ok((guard, WaitTimeoutResult(true)));
            }
            (guard, result) = self.wait_until(guard, deadline)?;
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
    pub fn wait_until<'a, T: ?Sized>(&self, guard: MutexGuard<'a, T>, deadline: Option<Instant>) -> Timed<'a, T> {
        let (lock, data, grant, since) = MutexGuard::close(guard);
        let (held, late) = lock.wait_in(grant, since, &self.0, |env| &mut env.waiting, deadline).or_unwind();
        poison::result((MutexGuard::open(lock, data, held.grant), WaitTimeoutResult(late)), held.poisoned)
    }

    /// Lets the waiter go on that has waited longest, if there is one.
    pub fn notify_one(&self) {
        self.0.update(|env, _, hidden| env.waiting.call_back(hidden));
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
        self.0.update(|env, _, hidden| env.waiting.call_back_all(hidden));
    }
}

made_by_new!(Condvar);
