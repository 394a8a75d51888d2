//! The lock word of an environment: one exchange to lock, one store to unlock.
//!
//! ```text
//!    even number: free, and its version ──swap(LOCKED)──▶ LOCKED ──store(version + 2)──▶ the next even number
//!                                                         ▲    │
//!                                                         └────┘ swap(LOCKED) by a waiter: changes nothing
//! ```
//!
//! A handler holds the word for some tens of nanoseconds and never suspends under it, so waiting is spinning. Whoever
//! waits longer than that waits for a holder that the operating system has descheduled (more controllers than CPUs): it
//! yields its time slice and then sleeps for short fixed times. It never registers itself as a waiter: then the unlock
//! would have to ask whether there is one, by a read-modify-write, which doubles the price of the uncontended pair.
//!
//! **Who may call what.** Any thread locks; the thread that locked unlocks, once, with the version it was given.
//!
//! **Why it is right.** A swap that returns a version was preceded in the word's modification order by the store of
//! that version, since swaps store only `LOCKED`. Each stored version is returned by exactly one swap (the first after
//! it), so there is one holder at a time. The unlocking store is Release and the swap Acquire: what a holder wrote is
//! seen by the next. The dangerous place is the wait: a waiter looks with plain loads and swaps only when it saw a
//! version, so waiters do not tear the line from the holder, who has to write it to let them in.
//!
//! **The version** is for those who watch without locking: a waiter that remembers it knows by one load whether
//! anybody passed since. It wraps after 2³¹ passes; a watcher that misses exactly so many sees no change, so a watcher
//! must use it as a hint only.
//!
//! **Tried.** Test-and-set with a separate version word: a second store per pair. A ticket lock: fair, but one
//! descheduled waiter stops all behind it. Parking: see above.

use crate::sync::{AtomicU32, Ordering, const_fn, spin_hint};

/// The word while somebody is inside. Versions are even.
const LOCKED: u32 = 1;

/// How far apart two versions are: it keeps them even.
const STEP: u32 = 2;

/// How many times the environment had been passed, modulo 2³¹, when this was taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Version(u32);

/// The lock word. See the head of the file.
#[derive(Debug)]
pub(crate) struct SpinWord(AtomicU32);

impl SpinWord {
    const_fn! {
        /// A free word.
        pub(crate) fn new() -> Self {
            Self(AtomicU32::new(0))
        }
    }

    /// Waits until the word is free and takes it. The version is what [`Self::unlock`] wants back.
    #[inline(always)]
    #[must_use = "the version is needed to unlock"]
    pub(crate) fn lock(&self) -> Version {
        match self.lock_at_once() {
            Some(version) => version,
            None => self.lock_contended(),
        }
    }

    /// Takes the word if it is free, by one exchange: where it most likely is.
    #[inline(always)]
    #[must_use = "the version is needed to unlock"]
    pub(crate) fn lock_at_once(&self) -> Option<Version> {
        // Acquire: pairs with the Release store in `unlock`.
        match self.0.swap(LOCKED, Ordering::Acquire) {
            LOCKED => None,
            version => Some(Version(version)),
        }
    }

    /// Takes the word if it is free.
    #[inline]
    #[must_use = "the version is needed to unlock"]
    pub(crate) fn try_lock(&self) -> Option<Version> {
        // Relaxed: a hint that spares the holder's line; the swap below decides. Not in a model: a relaxed load may
        // return the stale value for ever there, so that the wait has no end.
        if !cfg!(loom) && self.is_locked() {
            return None;
        }
        self.lock_at_once()
    }

    /// Waits until somebody who is inside has left; it may be taken again by then.
    pub(crate) fn wait_until_free(&self) {
        let mut patience = Patience::new();
        while self.is_locked() {
            patience.wait();
        }
    }

    /// Frees the word; the caller holds it and got `version` when it took it. Returns the version that is now out.
    #[inline(always)]
    pub(crate) fn unlock(&self, version: Version) -> Version {
        debug_assert!(self.is_locked(), "unlock of an environment that nobody holds");
        let next = version.0.wrapping_add(STEP);
        // Release: pairs with the swaps that lock. A plain store is enough, for nobody else stores but `LOCKED` over
        // `LOCKED`. (In a model it is an exchange: loom lets a waiter's swaps precede a concurrent plain store in the
        // word's modification order for ever, and then no wait ends.)
        #[cfg(not(loom))]
        self.0.store(next, Ordering::Release);
        #[cfg(loom)]
        self.0.swap(next, Ordering::Release);
        Version(next)
    }

    /// Whether somebody has passed since `version` was current and the word is free now: a hint, see the file's head.
    #[inline]
    pub(crate) fn changed_since(&self, version: Version) -> bool {
        // Relaxed: only a hint; whoever acts on it locks.
        let now = self.0.load(Ordering::Relaxed);
        now != LOCKED && now != version.0
    }

    /// Whether somebody is inside at this moment: for assertions and reports.
    #[inline]
    pub(crate) fn is_locked(&self) -> bool {
        // Relaxed: exact for the holder itself (its own swap), statistics for all others.
        self.0.load(Ordering::Relaxed) == LOCKED
    }

    #[cold]
    fn lock_contended(&self) -> Version {
        let mut patience = Patience::new();
        loop {
            patience.wait();
            if let Some(version) = self.try_lock() {
                return version;
            }
        }
    }
}

/// What a waiter does between two looks: pause, then yield, then sleep.
#[derive(Debug)]
struct Patience {
    #[cfg_attr(loom, expect(dead_code, reason = "in a model every wait is one yield to the scheduler"))]
    round: u32,
}

impl Patience {
    /// Rounds of 1, 2, 4, 8 pauses: about 1 µs where a pause takes 140 cycles (x86-64 since Skylake), less elsewhere.
    #[cfg(not(loom))]
    const PAUSES: u32 = 5;
    /// Then so many times `sched_yield`: the holder may be runnable on this very CPU.
    #[cfg(not(loom))]
    const YIELDS: u32 = 8;
    /// Then sleeps of 2, 4, .. 32, 50, 50, .. µs (the kernel's timer slack adds about 50).
    #[cfg(not(loom))]
    const LONGEST: core::time::Duration = core::time::Duration::from_micros(50);

    const fn new() -> Self {
        Self { round: 0 }
    }

    #[cfg(loom)]
    fn wait(&mut self) {
        spin_hint();
    }

    #[cfg(not(loom))]
    fn wait(&mut self) {
        let round = self.round;
        self.round = round.saturating_add(1);
        if round < Self::PAUSES {
            for _ in 0..1_u32 << round {
                spin_hint();
            }
        } else if round < Self::PAUSES + Self::YIELDS {
            std::thread::yield_now();
        } else {
            let doublings = (round - Self::PAUSES - Self::YIELDS).min(6);
            let nap = core::time::Duration::from_micros(2 << doublings);
            std::thread::sleep(nap.min(Self::LONGEST));
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn each_pass_changes_the_version() {
        let word = SpinWord::new();
        let first = word.lock();
        assert!(!word.changed_since(first), "a locked word tells nothing yet");
        assert_eq!(word.try_lock(), None, "a held word was taken a second time");
        let out = word.unlock(first);
        assert!(word.changed_since(first));
        assert!(!word.changed_since(out));
        let again = word.try_lock().expect("a free word refuses nobody");
        assert_eq!(again, out);
        word.unlock(again);
    }

    #[test]
    fn the_version_wraps_without_looking_locked() {
        let word = SpinWord(AtomicU32::new(0_u32.wrapping_sub(STEP)));
        let last = word.lock();
        assert_eq!(word.unlock(last), Version(0));
        assert!(!word.is_locked());
    }

    #[test]
    fn excludes_more_threads_than_cores() {
        let rounds = if cfg!(miri) { 20 } else { 20_000 };
        let (word, total) = (SpinWord::new(), AtomicU32::new(0));
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..rounds {
                        let version = word.lock();
                        // Relaxed: guarded by the word.
                        let seen = total.load(Ordering::Relaxed);
                        total.store(seen + 1, Ordering::Relaxed);
                        word.unlock(version);
                    }
                });
            }
        });
        assert_eq!(total.load(Ordering::Relaxed), 8 * rounds, "an update was lost inside the lock");
    }
}
