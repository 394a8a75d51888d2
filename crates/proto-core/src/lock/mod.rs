//! Locks without data, which languages build theirs from. Here is the exclusive one: the requests to the environment of `turns`, in
//! the order that makes up each operation.
//!
//! | file | what lives there |
//! |---|---|
//! | `turns` | the environment: who may enter, in what order; why it barges; fairness |
//! | `absent` | waiting elsewhere without the lock, as for a condition |
//! | `phases` | [`RawRwLock`]: many readers or one writer |
//!
//! The fast way in and the fast way out are one request each. Neither keeps anything in memory that could be in registers: a
//! store before an exchange delays it.

mod absent;
mod phases;
mod turns;

use std::panic::Location;
use std::time::Instant;

pub use absent::Absentees;
pub use phases::RawRwLock;
pub use turns::Held;
use turns::{Give, LockEnv, Take, Turn, Wait, WaitBinding, Withdraw};

use crate::ended::{Ended, OrUnwind};
use crate::env::EnvCell;
use crate::env::straight::Sent;
use crate::guarded::{Grant, Lender, PanicMark};
use crate::kernel::spin::Version;

/// An exclusive lock without data: a line of timelines before one [`Grant`].
///
/// What a language's mutex, monitor or critical section has inside. Who waits suspends. It is not strictly first in, first out:
/// whoever runs may take a free lock before a waiter that is being woken, for a lock that is handed over to sleepers is as slow as
/// the scheduler. A waiter that was passed over 1 000 times, or woke four times in vain, is handed the lock outright, so nobody
/// starves.
///
/// It keeps a flag *poisoned* for what it guards: set when a holder panics with it, told to each holder, otherwise without effect.
///
/// Aligned, so that what a contended pair writes is one cache line.
///
/// # Examples
///
/// A mutex:
///
/// ```
/// #![forbid(unsafe_code)]
/// use proto_core::{Guard, Guarded, Opened, OrUnwind, RawLock};
///
/// pub struct Mutex<T> { lock: RawLock, data: Guarded<T> }
/// pub type MutexGuard<'a, T> = Guard<'a, RawLock, Opened<'a, T>, &'a Guarded<T>>;
///
/// impl<T> Mutex<T> {
///     pub const fn new(data: T) -> Self {
///         Mutex { lock: RawLock::new(), data: Guarded::new(data) }
///     }
///     pub fn lock(&self) -> MutexGuard<'_, T> {
///         MutexGuard::open(&self.lock, &self.data, self.lock.take(None).or_unwind().grant)
///     }
/// }
///
/// static COUNT: Mutex<u32> = Mutex::new(0);
/// std::thread::scope(|s| {
///     for _ in 0..4 { s.spawn(|| *COUNT.lock() += 1); }
/// });
/// assert_eq!(*COUNT.lock(), 4);
/// ```
///
/// Without waiting, for a while, or come what may; and the flag:
///
/// ```
/// use std::time::Instant;
///
/// use proto_core::{Ended, PanicMark, RawLock};
///
/// let mut lock = RawLock::new();
/// let held = lock.take(None)?;
/// assert!(lock.try_take()?.is_none());
/// assert_eq!(lock.take(Some(Instant::now())).err(), Some(Ended::Deadline));
/// lock.give(held.grant, PanicMark::now());
///
/// lock.set_poisoned(true);
/// let held = lock.take_binding()?; // where a cancel has to wait
/// assert!(held.poisoned && lock.is_poisoned());
/// lock.give(held.grant, PanicMark::now());
/// assert!(lock.get_poisoned());
/// # Ok::<(), Ended>(())
/// ```
#[derive(Debug)]
#[repr(align(64))]
pub struct RawLock(EnvCell<LockEnv>);

impl RawLock {
    /// A free lock. Reports name it by the place of this call.
    #[track_caller]
    #[expect(clippy::new_without_default, reason = "a lock is made on purpose: its place names it")]
    pub const fn new() -> Self {
        RawLock(EnvCell::new(LockEnv::new()))
    }

    /// Takes the lock, waiting for it until `deadline`; `None` waits for ever.
    ///
    /// # Errors
    ///
    /// See [`Ended`].
    #[track_caller]
    pub fn take(&self, deadline: Option<Instant>) -> Result<Held, Ended> {
        match self.0.request_adaptive(|last| Take { last, woken: false }, None)? {
            Some(held) => Ok(held),
            None => self.take_later(0, deadline),
        }
    }

    /// As [`take`](Self::take) without a deadline, [or unwinds](OrUnwind::or_unwind). Made as [`give`](Self::give) is.
    ///
    /// # Panics
    ///
    /// Unwinds if the calling VP is cancelled.
    #[inline(never)]
    #[track_caller]
    pub fn lock(&self) -> Held {
        match self.0.send_straight(Take { last: false, woken: false }, Location::caller()) {
            Sent::Reply(Some(held)) => held,
            Sent::Reply(None) => self.lock_busy(),
            Sent::Again(seen) => self.lock_again(seen),
            Sent::Declined(_) => self.lock_later(),
        }
    }

    #[cold]
    #[inline(never)]
    #[track_caller]
    fn lock_busy(&self) -> Held {
        self.take_later(0, None).or_unwind()
    }

    #[cold]
    #[inline(never)]
    #[track_caller]
    fn lock_again(&self, seen: Version) -> Held {
        let again = self.0.request_adaptive_again(seen, |last| Take { last, woken: false }, None);
        self.had_or_busy(again.or_unwind())
    }

    #[cold]
    #[inline(never)]
    #[track_caller]
    fn lock_later(&self) -> Held {
        self.0.await_free();
        let later = self.0.request_adaptive(|last| Take { last, woken: false }, None);
        self.had_or_busy(later.or_unwind())
    }

    /// No closure: a call from within one would not be known by its caller's line.
    #[track_caller]
    fn had_or_busy(&self, had: Option<Held>) -> Held {
        match had {
            Some(held) => held,
            None => self.lock_busy(),
        }
    }

    /// Takes the lock if it is free.
    ///
    /// # Errors
    ///
    /// See [`Ended`].
    #[inline]
    #[track_caller]
    pub fn try_take(&self) -> Result<Option<Held>, Ended> {
        self.0.request(Take { last: true, woken: false })
    }

    /// The rest of [`take`](Self::take), and of a wait that was told to retry.
    #[cold]
    #[inline(never)]
    #[track_caller]
    fn take_later(&self, mut retries: u32, deadline: Option<Instant>) -> Result<Held, Ended> {
        loop {
            if retries > 0
                && let Ok(Some(held)) = self.0.request_adaptive(|last| Take { last, woken: true }, None)
            {
                return Ok(held);
            }
            match self.0.request_until(Wait { retries }, deadline) {
                Ok(Turn::Taken(held)) => return Ok(held),
                Ok(Turn::Retry | Turn::Called) => retries += 1,
                Ok(Turn::Late(ended)) | Err(ended) => {
                    if retries > 0 {
                        self.0.release(Withdraw);
                    }
                    return Err(ended);
                }
            }
        }
    }

    /// Takes the lock; a cancel meanwhile is delivered later.
    ///
    /// # Errors
    ///
    /// See [`Ended`].
    #[track_caller]
    pub fn take_binding(&self) -> Result<Held, Ended> {
        let mut retries = 0;
        loop {
            match self.0.request(WaitBinding { retries })? {
                Turn::Taken(held) => return Ok(held),
                Turn::Retry | Turn::Called => retries += 1,
                Turn::Late(ended) => return Err(ended),
            }
        }
    }

    /// Gives the lock back. It becomes poisoned if the caller has begun to unwind by a panic `since` it took it.
    #[inline(always)]
    pub fn give(&self, grant: Grant, since: PanicMark) {
        // Asked out here, where there are registers for what the slow answer needs.
        self.give_or_poison(grant, since.panicked());
    }

    /// One call, with all it needs in registers, and one at its end for every rare way: so it saves no registers, and is small enough to be inlined
    /// with a guard's drop, which then is not in memory for it.
    #[inline(never)]
    fn give_or_poison(&self, grant: Grant, poison: bool) {
        match self.0.send_straight(Give { grant, poison, suspends: false }, Location::caller()) {
            Sent::Reply(()) => {}
            Sent::Declined(Give { grant, poison, .. }) => self.give_later(grant, poison),
            Sent::Again(_) => unreachable!("a release is answered"),
        }
    }

    /// As [`give`](Self::give), the general way.
    #[cold]
    #[inline(never)]
    fn give_later(&self, grant: Grant, poison: bool) {
        self.0.await_free();
        self.0.release(Give { grant, poison, suspends: false });
    }

    /// Whether a holder has panicked.
    pub fn is_poisoned(&self) -> bool {
        self.0.visit(|env, _, _| env.poisoned).unwrap_or(true)
    }

    /// Sets the flag that [`is_poisoned`](Self::is_poisoned) reads.
    pub fn set_poisoned(&self, poisoned: bool) {
        self.0.update(|env, _, _| env.poisoned = poisoned);
    }

    /// As [`is_poisoned`](Self::is_poisoned), of a lock that nobody else has.
    pub fn get_poisoned(&mut self) -> bool {
        self.0.get_mut().is_none_or(|env| env.poisoned)
    }
}

impl Lender<Grant> for RawLock {
    #[inline(always)]
    fn take_back(&self, grant: Grant, since: PanicMark) {
        self.give(grant, since);
    }
}

#[cfg(test)]
mod test;
