//! The latent list as its owner sees it: the verbs that cost no atomic read-modify-write while nobody steals. Why they are right is told in the
//! head of [`latent`](super).

use core::fmt;
use core::marker::PhantomData;
use core::ptr::{self, NonNull};

use super::{CAPACITY, Fate, Full, LatentList, Newest, Own, Popped, Top};
use crate::sync::{Asymmetric, Barrier, Ordering, own_load};

/// The list as its owner sees it.
pub(crate) struct Owner<'a, J, B: Barrier = Asymmetric> {
    pub(super) list: &'a LatentList<J, B>,
    pub(super) not_send: PhantomData<*mut ()>,
}

impl<J, B: Barrier> fmt::Debug for Owner<'_, J, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.list.fmt(f)
    }
}

/// What [`Owner::lower`] does about entries that turn out to be stolen.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stolen {
    /// They leave the list.
    Drop,
    /// They stay: `head` will be raised again.
    Keep,
}

impl<J, B: Barrier> Owner<'_, J, B> {
    /// Where the next entry goes; what a timeline remembers as its base when it begins.
    #[inline(always)]
    pub(crate) fn head(&self) -> u32 {
        // Relaxed: only this thread writes it.
        self.list.head.load(Ordering::Relaxed)
    }

    /// Adds an entry on top, and says at which index. A flag that the caller reads next is read after the entry became visible (rule 8).
    #[inline(always)]
    pub(crate) fn push(&self, job: NonNull<J>) -> Result<u32, Full> {
        let head = self.push_quietly(job)?;
        B::light();
        Ok(head)
    }

    /// As [`Self::push`], without the barrier: the caller passes it before it reads the flag.
    #[inline(always)]
    pub(crate) fn push_quietly(&self, job: NonNull<J>) -> Result<u32, Full> {
        let head = self.head();
        if head as usize >= CAPACITY {
            return Err(Full);
        }
        // Relaxed: the slot is handed over by `head` or by `word`.
        self.list.slot(head).store(job.as_ptr(), Ordering::Relaxed);
        // Release: pairs with the Acquire load of a hard thief.
        self.list.head.store(head + 1, Ordering::Release);
        Ok(head)
    }

    /// Takes the newest entry at or above `base`; entries that were touched out of order are skipped.
    #[inline(always)]
    pub(crate) fn pop(&self, base: u32) -> Popped<J> {
        let head = self.head();
        if head <= base {
            return Popped::Empty;
        }
        let index = head - 1;
        if self.lower_fast(index)
            && let Some(job) = self.entry(index)
        {
            return Popped::Mine(job);
        }
        self.pop_slow(base, index)
    }

    /// Takes `job`, which this timeline pushed, off the list, for the common case that it is the newest. `light` is the light barrier: the caller may know
    /// of a cheaper form of it.
    #[inline(always)]
    pub(crate) fn take_newest(&self, job: NonNull<J>, light: impl FnOnce()) -> Top {
        let head = self.head();
        // SAFETY: `head` is at most `CAPACITY`: only a push raises it above what it has been, and that looks.
        let newest = unsafe { self.list.slots.get_unchecked(head as usize) };
        // SAFETY: only this thread writes it. (Below no entry there is none.)
        if unsafe { own_load(newest) } != job.as_ptr() {
            return Top::Other;
        }
        let index = head - 1;
        // As in `lower_fast`.
        self.list.head.store(index, Ordering::Release);
        light();
        if index >= self.list.load_word(Ordering::Relaxed).split() { Top::Mine } else { Top::Shared }
    }

    /// The end of a [`Self::take_newest`] that was answered `Shared`.
    pub(crate) fn take_shared(&self) -> Own {
        match self.pop_slow(0, self.head()) {
            Popped::Mine(_) => Own::Mine,
            Popped::Stolen(_) | Popped::Empty => Own::Stolen,
        }
    }

    /// A pop that has lowered `head` to `index` and found it shared or taken out of order.
    #[cold]
    fn pop_slow(&self, base: u32, mut index: u32) -> Popped<J> {
        loop {
            let first_mine = self.lower_slow(index, Stolen::Drop);
            if let Some(job) = self.entry(index) {
                return if first_mine == index { Popped::Mine(job) } else { Popped::Stolen(job) };
            }
            if index <= base {
                return Popped::Empty;
            }
            index -= 1;
            // O1, O2 for the next one, as in `lower_fast`; `lower_slow` begins with O3.
            self.list.head.store(index, Ordering::Release);
            B::light();
        }
    }

    /// Takes `job`, which this timeline pushed, off the list, if nobody else has it. It has to be on top, as it is but for tasks of a scope
    /// further down that were left above it.
    #[inline(always)]
    pub(crate) fn pop_own(&self, job: NonNull<J>) -> Own {
        let head = self.head();
        if head == 0 {
            return Own::Stolen;
        }
        let index = head - 1;
        // Relaxed: the owner's own store.
        if self.lower_fast(index) && self.list.slot(index).load(Ordering::Relaxed) == job.as_ptr() {
            return Own::Mine;
        }
        self.pop_own_slow(job, index)
    }

    /// As [`Self::pop_slow`], for [`Self::pop_own`].
    #[cold]
    fn pop_own_slow(&self, job: NonNull<J>, mut index: u32) -> Own {
        loop {
            if self.lower_slow(index, Stolen::Drop) > index {
                self.clear_stolen();
                return Own::Stolen;
            }
            match self.entry(index) {
                Some(top) if top == job => return Own::Mine,
                Some(_) => break,
                None if index == 0 => return Own::Stolen,
                None => index -= 1,
            }
            // As in `pop_slow`.
            self.list.head.store(index, Ordering::Release);
            B::light();
        }
        // Release: as in `push`: what lies above is as visible as before.
        self.list.head.store(index + 1, Ordering::Release);
        match (0..index).rev().find(|&below| self.entry(below) == Some(job)) {
            Some(below) => Own::Covered(below + 1),
            None => Own::Stolen,
        }
    }

    /// The entry on top was stolen, so all others were: they leave the list. Who looks for one of them and does not find it knows that.
    fn clear_stolen(&self) {
        let first_mine = self.lower(0, Stolen::Drop);
        debug_assert!(first_mine > 0 || self.list.load_word(Ordering::Relaxed).split() == 0, "not all were stolen");
    }

    /// Takes the newest entry, if it is `wanted`.
    pub(crate) fn pop_if(&self, wanted: impl Fn(NonNull<J>) -> bool) -> Newest<J> {
        loop {
            let head = self.head();
            if head == 0 {
                return Newest::Empty;
            }
            let index = head - 1;
            if !self.lower_fast(index) && self.lower_slow(index, Stolen::Drop) > index {
                self.clear_stolen();
                return Newest::Empty;
            }
            match self.entry(index) {
                None => {}
                Some(job) if wanted(job) => return Newest::Mine(job),
                Some(_) => {
                    // Release: as in `push`.
                    self.list.head.store(head, Ordering::Release);
                    return Newest::Other;
                }
            }
        }
    }

    /// Where the newest entry is that nobody took and that is `wanted`, from `low` on.
    #[cold]
    pub(crate) fn find(&self, low: u32, wanted: impl Fn(NonNull<J>) -> bool) -> Option<u32> {
        let head = self.head();
        let mut from = low;
        while from < head {
            let first_mine = self.lower(from, Stolen::Keep);
            if first_mine <= from {
                break;
            }
            from = first_mine;
        }
        let found = (from..head).rev().find(|&index| self.entry(index).is_some_and(&wanted));
        // Release: as in `push`.
        self.list.head.store(head, Ordering::Release);
        found
    }

    /// Whether `job` lies at `index`, where it was pushed. If so it may have been stolen all the same.
    #[inline(always)]
    pub(crate) fn holds(&self, index: u32, job: NonNull<J>) -> bool {
        index < self.head() && self.entry(index) == Some(job)
    }

    /// What the slot at `index` holds; none if it was taken out of order.
    #[inline(always)]
    fn entry(&self, index: u32) -> Option<NonNull<J>> {
        // Relaxed: the owner's own store.
        NonNull::new(self.list.slot(index).load(Ordering::Relaxed))
    }

    /// Lowers `head` to `to`. True: all entries from there on are the owner's. False: `lower_slow` decides.
    #[inline(always)]
    fn lower_fast(&self, to: u32) -> bool {
        // O1, O2, O3 of the file's head. Release: a hard thief may read this value and not that of the push or touch
        // before, and must see the entries below all the same (a later Relaxed store is in no release sequence). The
        // load is Relaxed: ordered by the barrier; what it decides about, the owner wrote itself.
        self.list.head.store(to, Ordering::Release);
        B::light();
        to >= self.list.load_word(Ordering::Relaxed).split()
    }

    /// Lowers `head` to `to`. Of the entries from `to` on, those below the result were stolen; the others are the
    /// owner's, and no thief touches them before `head` is raised again.
    fn lower(&self, to: u32, stolen: Stolen) -> u32 {
        if self.lower_fast(to) {
            return to;
        }
        self.lower_slow(to, stolen)
    }

    #[cold]
    fn lower_slow(&self, to: u32, stolen: Stolen) -> u32 {
        let mut word = self.list.load_word(Ordering::Acquire);
        loop {
            let tail = word.tail();
            if to >= word.split() {
                return to;
            }
            let (next, first_mine) = if tail <= to {
                // Half of what is left of the public part becomes private again. A hard thief, whose raise this
                // withdraws, gets the larger half instead: it asked the expensive way.
                let left = to - tail;
                let public = if word.is_hard() { left.div_ceil(2) } else { left / 2 };
                (word.with(tail, tail + public), to)
            } else if stolen == Stolen::Keep {
                return tail;
            } else {
                (word.with(to, to), tail)
            };
            match self.list.exchange(word, next) {
                Ok(()) => return first_mine,
                Err(now) => word = now,
            }
        }
    }

    /// Makes the older half of the private entries public, because somebody asked. Returns whether there is something
    /// public now.
    #[cold]
    pub(crate) fn publish(&self) -> bool {
        let head = self.head();
        let mut word = self.list.load_word(Ordering::Acquire);
        loop {
            // What a hard thief raised is not public yet; this makes it so, and more.
            let split = if word.is_hard() { word.tail() } else { word.split() };
            if split >= head {
                return word.has_public();
            }
            let next = word.with(word.tail(), split + (head - split).div_ceil(2));
            match self.list.exchange(word, next) {
                Ok(()) => return true,
                Err(now) => word = now,
            }
        }
    }

    /// Takes the entry at `index` (what [`Self::head`] was before its push) out of its order, if nobody else has it.
    /// If somebody has, the entry stays on the list for a later pop.
    pub(crate) fn touch(&self, index: u32) -> Fate {
        let head = self.head();
        debug_assert!(index < head, "touched an entry that is not in the list");
        let first_mine = self.lower(index, Stolen::Keep);
        if first_mine > index {
            // Release: as in `push`; the entries above are as visible as before.
            self.list.head.store(head, Ordering::Release);
            return Fate::Stolen;
        }
        // Relaxed: handed over by `head`, as in `push`.
        self.list.slot(index).store(ptr::null_mut(), Ordering::Relaxed);
        // If it was the newest, its slot is free again. Release: as in `push`.
        let top = if index + 1 == head { index } else { head };
        self.list.head.store(top, Ordering::Release);
        Fate::Untaken
    }

    /// Takes all entries from `base` on off the list, oldest first, and says of each whether somebody has it: for a
    /// timeline that suspends. `each` must not use this list and must not panic (what it did not see yet would be lost).
    #[cold]
    pub(crate) fn detach_from(&self, base: u32, mut each: impl FnMut(NonNull<J>, Fate)) {
        let head = self.head();
        if head <= base {
            return;
        }
        let first_mine = self.lower(base, Stolen::Drop);
        for index in base..head {
            if let Some(job) = self.entry(index) {
                each(job, if index < first_mine { Fate::Stolen } else { Fate::Untaken });
            }
        }
    }
}
