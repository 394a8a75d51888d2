//! The exclusive lock without data: the requests to the environment of `lock`, in the order that makes up each operation.
//!
//! The fast way in and the fast way out are one request each. Neither keeps anything in memory that could be in registers: a
//! store before an exchange delays it.

use std::time::Instant;

use proto_core::{Caller, Ended, EnvCell, Grant, Hidden, Loan};

use super::lock::{
    Give, GiveAndGo, Given, HandOver, Held, IsPoisoned, LockEnv, SetPoisoned, Take, Tried, Turn, Wait, WaitBinding,
    WakeOne, Withdraw,
};
use crate::time;

/// The lock: what [`Mutex`](super::Mutex), [`Condvar`](super::Condvar) and [`atomic`](crate::atomic) use.
///
/// Aligned, so that what a contended pair writes is one cache line.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct RawLock(EnvCell<LockEnv>);

impl RawLock {
    #[track_caller]
    pub(crate) const fn new() -> Self {
        RawLock(EnvCell::new(LockEnv::new()))
    }

    /// Takes the lock, if that is possible now or soon: looks while the holder runs on another core.
    #[inline(always)]
    #[track_caller]
    pub(crate) fn take_soon(&self) -> Result<Tried, Ended> {
        self.0.request_adaptive(|last| Take { last, woken: false }, None)
    }

    /// Takes the lock, waiting for it until `deadline`.
    #[track_caller]
    pub(crate) fn take(&self, deadline: Option<Instant>) -> Result<Held, Ended> {
        match self.take_soon()? {
            Tried::Taken(held) => Ok(held),
            Tried::Busy => self.take_later(0, deadline),
        }
    }

    /// Takes the lock if it is free.
    #[inline]
    #[track_caller]
    pub(crate) fn try_take(&self) -> Result<Option<Held>, Ended> {
        match self.0.request(Take { last: true, woken: false })? {
            Tried::Taken(held) => Ok(Some(held)),
            Tried::Busy => Ok(None),
        }
    }

    /// The rest of a lock without a deadline that [`take_soon`](Self::take_soon) could not get.
    #[cold]
    #[inline(never)]
    #[track_caller]
    pub(crate) fn take_busy(&self) -> Held {
        self.take_later(0, None).unwrap_or_else(|ended| time::failed(ended))
    }

    /// The rest of [`take`](Self::take), and of a wait that was told to retry.
    #[cold]
    #[inline(never)]
    #[track_caller]
    pub(crate) fn take_later(&self, mut retries: u32, deadline: Option<Instant>) -> Result<Held, Ended> {
        loop {
            if retries > 0
                && let Ok(Tried::Taken(held)) = self.0.request_adaptive(|last| Take { last, woken: true }, None)
            {
                return Ok(held);
            }
            match self.0.request_until(Wait { retries }, deadline) {
                Ok(Turn::Taken(held)) => return Ok(held),
                Ok(Turn::Retry) => retries += 1,
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
    #[track_caller]
    pub(crate) fn take_binding(&self) -> Result<Held, Ended> {
        let mut retries = 0;
        loop {
            match self.0.request(WaitBinding { retries })? {
                Turn::Taken(held) => return Ok(held),
                Turn::Retry => retries += 1,
                Turn::Late(ended) => return Err(ended),
            }
        }
    }

    /// Gives the lock back. The data become poisoned if the caller unwinds by a panic now and `may_poison`.
    ///
    /// One call, with all it needs in registers: inlined into each guard's drop it would keep the guard in memory, and every
    /// store before the exchange delays that.
    #[inline(never)]
    pub(crate) fn give(&self, grant: Grant, may_poison: bool) {
        let poison = may_poison && proto_core::panicking();
        match self.0.release_asking(Give { grant, poison }) {
            Some(Given::Nothing) | None => {}
            Some(Given::Wake) => self.wake_one(),
            Some(Given::Owed(grant)) => self.hand_over(grant),
        }
    }

    #[cold]
    #[inline(never)]
    fn wake_one(&self) {
        self.0.release(WakeOne);
    }

    #[cold]
    #[inline(never)]
    fn hand_over(&self, grant: Grant) {
        self.0.release(HandOver(grant));
    }

    pub(crate) fn is_poisoned(&self) -> bool {
        self.0.request(IsPoisoned).unwrap_or(true)
    }

    pub(crate) fn clear_poison(&self) {
        self.0.release(SetPoisoned(false));
    }

    /// The cell of its environment: what a condition variable borrows.
    pub(crate) fn cell(&self) -> &EnvCell<LockEnv> {
        &self.0
    }

    /// Whether the data are poisoned, of a lock that nobody else has.
    pub(crate) fn get_poisoned(&mut self) -> bool {
        self.0.get_mut().is_none_or(|env| env.poisoned)
    }
}

/// A lock that is about to be given back by the condition variable its holder waits for. Given back here if that fails.
#[derive(Debug)]
pub(crate) struct Parting<'a> {
    lock: &'a RawLock,
    give: Option<GiveAndGo>,
}

impl<'a> Parting<'a> {
    pub(crate) fn new(lock: &'a RawLock, grant: Grant, may_poison: bool) -> Self {
        let poison = may_poison && proto_core::panicking();
        Parting { lock, give: Some(GiveAndGo { grant, poison }) }
    }

    /// Gives the lock back after the unlock of the condition variable's environment, which `hidden` is of.
    pub(crate) fn post(mut self, caller: &Caller<'_, Turn>, loan: &Loan<LockEnv>, hidden: &mut Hidden<'_>) {
        if let Some(give) = self.give.take() {
            hidden.post(caller, loan, give);
        }
    }
}

impl Drop for Parting<'_> {
    fn drop(&mut self) {
        // The request never reached its handler: its timeline is cancelled, or the environment broken.
        if let Some(GiveAndGo { grant, poison }) = self.give.take() {
            self.lock.give(grant, poison);
        }
    }
}
