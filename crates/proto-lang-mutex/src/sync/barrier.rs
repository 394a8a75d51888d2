//! [`Barrier`]: nobody goes on before all have come.
//!
//! # The dangerous race
//!
//! Somebody who came may give up again (time, cancel) and must not be counted then. It leaves the queue, not the count: so
//! `came` is an upper bound of the queue's length, and only when it says that all have come is the queue itself counted, once for each
//! release of it.

use std::time::{Duration, Instant};

use proto_core::{Caller, EnvCell, Hidden, OrUnwind, Waiters};

use crate::time;

struct BarrierEnv {
    size: usize,
    /// At least as many as wait.
    came: usize,
    waiting: Waiters<BarrierWaitResult>,
}

impl BarrierEnv {
    fn come(&mut self, caller: Caller<'_, BarrierWaitResult>, hidden: &mut Hidden<'_>) {
        self.came += 1;
        if self.came >= self.size {
            let wait = self.waiting.len(hidden);
            if wait + 1 >= self.size {
                self.came = 0;
                while self.waiting.resume_next(BarrierWaitResult(false), hidden).is_ok() {}
                return hidden.answer(caller, BarrierWaitResult(true));
            }
            self.came = wait + 1;
        }
        self.waiting.push(caller, hidden);
    }
}

/// What a [`Barrier::wait`] returns: whether the caller is the leader of its round.
///
/// # Examples
///
/// ```
/// use proto_lang_mutex::sync::{Barrier, BarrierWaitResult};
///
/// let alone = Barrier::new(1);
/// let round: BarrierWaitResult = alone.wait();
/// if round.is_leader() {
///     // what one of them does for all
/// }
/// assert!(round.is_leader());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BarrierWaitResult(bool);

impl BarrierWaitResult {
    /// Whether the caller is the one leader of the round: who came last.
    #[must_use]
    pub fn is_leader(&self) -> bool {
        self.0
    }
}

/// A place where timelines wait for each other, as [`std::sync::Barrier`]. It can be used again and again.
///
/// # Examples
///
/// ```
/// use proto_lang_mutex::sync::Barrier;
/// use proto_lang_mutex::thread;
///
/// let barrier = Barrier::new(3);
/// let leaders = thread::scope(|s| {
///     let waits: Vec<_> = (0..3).map(|_| s.spawn(|| barrier.wait().is_leader())).collect();
///     waits.into_iter().map(|wait| wait.join().unwrap()).filter(|leads| *leads).count()
/// });
/// assert_eq!(leaders, 1);
/// ```
#[derive(Debug)]
pub struct Barrier(EnvCell<BarrierEnv>);

impl Barrier {
    /// A barrier for `size` timelines; for 0 and 1 nobody waits.
    #[track_caller]
    pub const fn new(size: usize) -> Self {
        Barrier(EnvCell::new(BarrierEnv { size, came: 0, waiting: Waiters::new() }))
    }

    /// Waits until all have come. One of them, the last, is the leader.
    ///
    /// # Panics
    ///
    /// Unwinds if the calling virtual processor is cancelled; it has not come then.
    #[track_caller]
    pub fn wait(&self) -> BarrierWaitResult {
        self.0.ask(BarrierEnv::come, None).or_unwind()
    }

    /// As [`wait`](Self::wait), for at most `timeout`. `None` if the time is over: the caller has not come then, and the others wait on.
    ///
    /// # Panics
    ///
    /// As [`wait`](Self::wait).
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// let barrier = proto_lang_mutex::Barrier::new(2);
    /// assert_eq!(barrier.wait_timeout(Duration::from_millis(1)), None);
    /// ```
    #[track_caller]
    pub fn wait_timeout(&self, timeout: Duration) -> Option<BarrierWaitResult> {
        self.0.ask(BarrierEnv::come, time::after(timeout)).in_time()
    }

    /// As [`wait_timeout`](Self::wait_timeout), until `deadline`. One that has come is a try: the caller goes on only if all others wait.
    ///
    /// # Panics
    ///
    /// As [`wait`](Self::wait).
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Instant;
    /// let barrier = proto_lang_mutex::Barrier::new(2);
    /// assert_eq!(barrier.wait_until(Instant::now()), None);
    /// ```
    #[track_caller]
    pub fn wait_until(&self, deadline: Instant) -> Option<BarrierWaitResult> {
        self.0.ask(BarrierEnv::come, Some(deadline)).in_time()
    }
}
