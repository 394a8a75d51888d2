//! Whether everything that a process created has ended: counted per core, added up only at the end.
//!
//! Births and ends are counted where they happen, by plain stores of that core, and added up only when they may be equal: once the seed has
//! returned (`close`), whoever ends a timeline adds up.
//!
//! ```text
//!    the seed's end               another core's last end
//!  C1  closing := 1             E1  ends[here] += 1
//!  C2  heavy barrier            E2  light barrier
//!  C3  ends[seed's] += 1        E3  read closing; if it is set:
//!  C4  full fence               E4  full fence
//!  C5  add up                   E5  add up
//! ```
//!
//! # Who may call what
//!
//! What runs on a core counts there; OS threads that run on none share one more place. A timeline is counted by [`Ends::born`] before it can
//! end, by one that has not ended. [`Ends::ended`] comes last: if it says `true`, the caller asks [`Ends::all_over`], and whoever gets
//! `true` from that, one in the life of a process, closes the process.
//!
//! # Why it is right
//!
//! *No end is missed.* Of C2 and E2 one comes first: either the seed's sum sees the count, or E3 sees `closing` and that core adds up
//! itself. Of several that add up the last to pass its fence (C4, E4) sees the counts of all, for each has stored its own before its fence.
//!
//! *No end is seen early.* All ends are read before all births. A birth is counted before its timeline can end, and by one that has not
//! ended; so ends ≤ births at every moment, and if the sums are equal, then ends = births at the moment between the two readings: nobody
//! lived then, so nobody can be born. The sums may be found equal by several: an exchange decides.
//!
//! **Tried.** No fence at E4, since E2 is a barrier already: but two light halves do not order each other's store and load, so of two last
//! ends at the same time neither saw the other's count, and the process never ended (once in some thousand runs of a fork tree).

use core::marker::PhantomData;

use crossbeam_utils::CachePadded;

use crate::sync::{Asymmetric, AtomicU32, AtomicU64, Barrier, Ordering, fence};

/// Births and ends of one core.
#[derive(Debug)]
struct Count {
    births: AtomicU64,
    ends: AtomicU64,
    /// Timelines that nobody waits for, births minus ends (wrapping).
    daemons: AtomicU64,
}

/// Which timelines are counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Of {
    /// Those that a process waits for.
    Waited,
    /// Daemons.
    Daemons,
}

/// The counts of one process. See the head of the file.
#[derive(Debug)]
pub(crate) struct Ends<B: Barrier = Asymmetric> {
    /// One for each core, and one for OS threads.
    counts: Box<[CachePadded<Count>]>,
    closing: AtomicU32,
    over: AtomicU32,
    barrier: PhantomData<fn() -> B>,
}

impl<B: Barrier> Ends<B> {
    /// Of a process on so many cores.
    pub(crate) fn new(cores: usize) -> Self {
        let count = || Count { births: AtomicU64::new(0), ends: AtomicU64::new(0), daemons: AtomicU64::new(0) };
        Self {
            counts: (0..=cores).map(|_| CachePadded::new(count())).collect(),
            closing: AtomicU32::new(0),
            over: AtomicU32::new(0),
            barrier: PhantomData,
        }
    }

    /// A timeline is born. `core`: where this code runs, if on a core.
    #[inline]
    pub(crate) fn born(&self, core: Option<usize>, of: Of) {
        let count = self.at(core);
        Self::add(if of == Of::Waited { &count.births } else { &count.daemons }, 1, core.is_some());
    }

    /// A timeline has ended. `true`: it may have been the last. The process may be gone after that, unless the caller holds it.
    #[inline]
    pub(crate) fn ended(&self, core: Option<usize>, of: Of) -> bool {
        let count = self.at(core);
        if of == Of::Daemons {
            Self::add(&count.daemons, u64::MAX, core.is_some());
            return false;
        }
        Self::add(&count.ends, 1, core.is_some());
        B::light();
        // Relaxed: the barriers order it.
        self.closing.load(Ordering::Relaxed) != 0
    }

    #[inline]
    fn at(&self, core: Option<usize>) -> &Count {
        &self.counts[core.unwrap_or(self.counts.len() - 1)]
    }

    #[inline]
    fn add(number: &AtomicU64, change: u64, alone: bool) {
        // Release: pairs with the Acquire of `sum`.
        if alone {
            // A store is enough: only this core writes here.
            number.store(number.load(Ordering::Relaxed).wrapping_add(change), Ordering::Release);
        } else {
            number.fetch_add(change, Ordering::Release);
        }
    }

    /// The seed has returned. Before it is counted.
    pub(crate) fn close(&self) {
        // Relaxed: the barriers order it.
        self.closing.store(1, Ordering::Relaxed);
        B::heavy();
    }

    /// Whether the caller has found that all have ended, as the first.
    pub(crate) fn all_over(&self) -> bool {
        // C4, E4: with the same fence of whoever else adds up.
        fence(Ordering::SeqCst);
        let ends = self.sum(|count| &count.ends);
        let births = self.sum(|count| &count.births);
        ends == births && self.declare_over()
    }

    fn sum(&self, number: impl Fn(&Count) -> &AtomicU64) -> u64 {
        // Acquire: pairs with the Release of `add`: with an end comes its birth, and what the timeline did.
        self.counts.iter().fold(0, |sum, count| sum.wrapping_add(number(count).load(Ordering::Acquire)))
    }

    /// Says that the process is over, whatever the counts say. `true`: nobody has said so before.
    pub(crate) fn declare_over(&self) -> bool {
        // AcqRel: pairs with the Acquire of `is_over`.
        self.over.swap(1, Ordering::AcqRel) == 0
    }

    /// Whether the process is over.
    pub(crate) fn is_over(&self) -> bool {
        // Acquire: pairs with `declare_over`.
        self.over.load(Ordering::Acquire) != 0
    }

    /// Whether daemons live. Some that are just ending may be counted.
    pub(crate) fn has_daemons(&self) -> bool {
        self.sum(|count| &count.daemons) != 0
    }
}
