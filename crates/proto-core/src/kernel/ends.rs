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
//! *Daemons* are counted in the same way, by themselves. They go on when the process is over, which takes the place of `closing`: whoever
//! found it over looks once more (`lingers`), and so does each daemon that ends after that. Here more than one may find that all are gone.
//!
//! **Tried.** No fence at E4, since E2 is a barrier already: but two light halves do not order each other's store and load, so of two last
//! ends at the same time neither saw the other's count, and the process never ended (once in some thousand runs of a fork tree).

use core::marker::PhantomData;

use crossbeam_utils::CachePadded;

use crate::sync::{Asymmetric, AtomicU32, AtomicU64, Barrier, Ordering, fence};

/// Births and ends.
#[derive(Debug)]
struct Count {
    births: AtomicU64,
    ends: AtomicU64,
}

/// Which timelines are counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Of {
    /// Those that a process waits for.
    Waited = 0,
    /// Daemons: cancelled when the others have ended; the process stays until they have, too.
    Daemons = 1,
}

/// The counts of one process. See the head of the file.
#[derive(Debug)]
pub(crate) struct Ends<B: Barrier = Asymmetric> {
    /// A pair, see [`Of`], for each core, and one for OS threads.
    counts: Box<[CachePadded<[Count; 2]>]>,
    closing: AtomicU32,
    over: AtomicU32,
    barrier: PhantomData<fn() -> B>,
}

impl<B: Barrier> Ends<B> {
    /// Of a process on so many cores.
    pub(crate) fn new(cores: usize) -> Self {
        let count = || Count { births: AtomicU64::new(0), ends: AtomicU64::new(0) };
        Self {
            counts: (0..=cores).map(|_| CachePadded::new([count(), count()])).collect(),
            closing: AtomicU32::new(0),
            over: AtomicU32::new(0),
            barrier: PhantomData,
        }
    }

    /// A timeline is born. `core`: where this code runs, if on a core.
    #[inline]
    pub(crate) fn born(&self, core: Option<usize>, of: Of) {
        Self::add(&self.at(core, of).births, core.is_some());
    }

    /// A timeline has ended. `true`: it may have been the last. The process may be gone after that, unless the caller holds it.
    #[inline]
    pub(crate) fn ended(&self, core: Option<usize>, of: Of) -> bool {
        Self::add(&self.at(core, of).ends, core.is_some());
        B::light();
        // Relaxed: the barriers order it.
        match of {
            Of::Waited => self.closing.load(Ordering::Relaxed) != 0,
            Of::Daemons => self.over.load(Ordering::Relaxed) != 0,
        }
    }

    #[inline]
    fn at(&self, core: Option<usize>, of: Of) -> &Count {
        &self.counts[core.unwrap_or(self.counts.len() - 1)][of as usize]
    }

    #[inline]
    fn add(number: &AtomicU64, alone: bool) {
        // Release: pairs with the Acquire of `sum`.
        if alone {
            // A store is enough: only this core writes here.
            number.store(number.load(Ordering::Relaxed).wrapping_add(1), Ordering::Release);
        } else {
            number.fetch_add(1, Ordering::Release);
        }
    }

    /// The seed has returned. Before it is counted.
    pub(crate) fn close(&self) {
        // Relaxed: the barriers order it.
        self.closing.store(1, Ordering::Relaxed);
        B::heavy();
    }

    /// Whether the caller has found that all but daemons have ended, as the first.
    pub(crate) fn all_over(&self) -> bool {
        self.all_ended(Of::Waited) && self.declare_over()
    }

    /// Whether all have ended.
    pub(crate) fn all_ended(&self, of: Of) -> bool {
        // C4, E4: with the same fence of whoever else adds up.
        fence(Ordering::SeqCst);
        let ends = self.sum(|count| &count[of as usize].ends);
        let births = self.sum(|count| &count[of as usize].births);
        ends == births
    }

    /// How many timelines live, daemons too: never too few.
    pub(crate) fn alive(&self) -> u64 {
        // The ends before the births, as above.
        let kinds = [Of::Waited as usize, Of::Daemons as usize];
        let ends = kinds.map(|of| self.sum(|count| &count[of].ends));
        let births = kinds.map(|of| self.sum(|count| &count[of].births));
        births.iter().sum::<u64>() - ends.iter().sum::<u64>()
    }

    fn sum(&self, number: impl Fn(&[Count; 2]) -> &AtomicU64) -> u64 {
        // Acquire: pairs with the Release of `add`: with an end comes its birth, and what the timeline did.
        self.counts.iter().fold(0, |sum, count| sum.wrapping_add(number(count).load(Ordering::Acquire)))
    }

    /// Whether daemons still live. For whoever has found the process over: if not now, the last of them says so (`ended`).
    pub(crate) fn lingers(&self) -> bool {
        if self.all_ended(Of::Daemons) {
            return false;
        }
        // C2, with the daemons' E2.
        B::heavy();
        !self.all_ended(Of::Daemons)
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
}
