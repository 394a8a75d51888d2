//! The latent tasks of one core: a split deque whose owner never pays for thieves that do not come.
//!
//! A fork puts its task here and goes on; the join takes it off again and runs it as a plain call. Only if another core
//! took it meanwhile is there anything parallel, and only then somebody pays. The layout is Lace's (van Dijk and van de
//! Pol 2014), the forced theft is ours.
//!
//! ```text
//!   slots    0          tail         split            head         CAPACITY
//!            ├── stolen ──┼── public ──┼── private ─────┼── unused ───┤
//!                         ▲            ▲                ▲
//!    thieves: tail + 1 ───┘            │                └── owner: push, pop: plain loads and stores
//!    by exchange of `word`             └── owner: publish, take back: by exchange of `word`; or a hard thief raises it
//! ```
//!
//! `word` is `version | HARD | split | tail`. Every change but a theft counts the version up.
//!
//! # Who may call what
//!
//! [`Owner`]: the thread of the core the list belongs to. [`LatentList`]'s own verbs: any thread. Slots are never freed
//! while a thief may look; what they point at is looked into only by who took it: a thief reads a *pointer*, and knows
//! only after its exchange whether that was still a task.
//!
//! # Why it is right
//!
//! *A cheap theft* reads the slot at `tail`, then exchanges `word`. If that succeeds, `word` had not changed since it was
//! read (31 bits of version: a thief would have to sleep through an exact multiple of 2³¹ changes), so `tail < split`
//! all the while. The owner overwrites or takes a slot below `split` only after an exchange of its own, so the slot held
//! the task of that index, and the exchange gave it to this thief alone. Could the slot have been read "from the
//! future", after the owner had taken it back by an exchange R and pushed something else? R comes after the theft in
//! the word's order then, acquires what the theft releases, and the theft's slot load happened before R.
//!
//! *The owner's pop* lowers `head` to h, passes the light barrier, reads `word`. If `h >= split`, the entry is private
//! and it is done: two plain stores or loads of its own line and one load of a line that nobody writes while nobody
//! steals. Else it arbitrates by exchange: below `tail` the entry was stolen; otherwise `split` goes down (half of what
//! is public becomes private again, so that the next pops are cheap again).
//!
//! *A hard theft*, of an owner that neither forks nor joins, raises `split` over private entries, without asking, and
//! sets HARD, which keeps cheap thieves and other hard ones off. Then the **dangerous race**: the owner may just be
//! popping one of these entries, with an old `split` in its hand. The thief passes the heavy barrier and reads `head`:
//!
//! ```text
//!       owner (pop)                       hard thief
//!   O1  head := h                     T1  word := (.., split > h, HARD)
//!   O2  light barrier                 T2  heavy barrier
//!   O3  read word                     T3  read head
//! ```
//!
//! Either barrier comes first. If the owner's does, T3 sees `head <= h` (or a later push: then it is the *next* pop of
//! that index that races, with the same two cases), and the thief leaves the entry alone. If the thief's does, O3 sees
//! the raised `split`, and the owner goes the slow way: its exchange counts the version and clears HARD, and the thief's
//! last exchange, which would have made the entries public, fails. So no entry is both popped and made public. Nobody
//! waits for anybody: a raise that is never finished (its thief is descheduled) only sends the owner's pops the slow
//! way, once, and is thereby withdrawn.
//!
//! *What a thief sees.* Every store of `head` is Release and T3 Acquire, every change of `word` both: with an index
//! comes the slot below it, with the slot what the task's pointer leads to.
//!
//! *Foreign entries.* A timeline's forks and joins nest, but a task of a scope may be left above the fork of a join that was opened later. So a
//! join asks for its own entry ([`Owner::pop_own`]), a scope for entries of its own ([`Owner::pop_if`], [`Owner::find`]). Entries that were
//! stolen are never looked into: whose they were may be gone. They are below all others, so if the top one was stolen, all were, and
//! the list is cleared; an entry that its owner does not find was stolen.
//!
//! *Out of order.* [`Owner::touch`] takes an entry below the top: it lowers `head` to it as a pop does, which makes all
//! entries from there on its own, marks the slot as taken, and raises `head` again. Thieves and pops skip marked slots.
//!
//! *Suspension.* [`Owner::detach_from`] lowers `head` to where the timeline began and hands out what nobody took.
//!
//! **Tried.** Claiming an index first and reading the slot then (Lace, Chase–Lev): a thief that sleeps in between takes
//! what the owner pushed there later; Lace keeps the slot until the thief has finished, but our owners suspend and leave.
//! A state in each slot: one more store per fork, and the theft needs two exchanges. A thief lock beside the word: the
//! owner would have to wait for its holder.

#[cfg(all(test, not(loom)))]
mod tests;
mod word;

use core::fmt;
use core::marker::PhantomData;
use core::ptr::{self, NonNull};

use crossbeam_utils::CachePadded;

use self::word::Word;
use crate::sync::{Asymmetric, AtomicPtr, AtomicU32, AtomicU64, Barrier, Ordering};

/// How many entries a list holds; then forks run inline, which is what a pop would have done anyway.
#[cfg(not(loom))]
pub(crate) const CAPACITY: usize = 4096;
/// Small under loom: the same logic, fewer objects.
#[cfg(loom)]
pub(crate) const CAPACITY: usize = 4;

const _: () = assert!(CAPACITY.is_power_of_two() && CAPACITY <= 1 << 15, "indices are masked, and 16 bits wide");

/// What a theft brought.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use = "a stolen task that is not run is lost"]
pub(crate) enum Steal<J> {
    /// This one, the oldest. It is the thief's alone.
    Taken(NonNull<J>),
    /// Nothing that can be had this way.
    Empty,
}

/// What was on top of the owner's list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use = "an entry of the owner's own that is not run is lost"]
pub(crate) enum Popped<J> {
    /// The owner's own: run it inline.
    Mine(NonNull<J>),
    /// Another core has it; the entry is off the list.
    Stolen(NonNull<J>),
    /// Nothing at or above the base.
    Empty,
}

/// What [`Owner::take_top`] found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use = "an entry of the owner's own that is not run is lost"]
pub(crate) enum Top {
    /// The entry is off the list, and the owner's own.
    Mine,
    /// The entry is the newest, and perhaps a thief's: [`Owner::pop_shared`] decides.
    Shared,
    /// It is not the newest. Nothing was done.
    Other,
}

/// What became of an entry that its owner wants back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use = "an entry of the owner's own that is not run is lost"]
pub(crate) enum Own {
    /// It is off the list, and the owner's.
    Mine,
    /// Another core has it.
    Stolen,
    /// Others lie on top of it, from this index on: they have to leave the list first.
    Covered(u32),
}

/// What was on top of the owner's list, if it was wanted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use = "an entry of the owner's own that is not run is lost"]
pub(crate) enum Newest<J> {
    /// This one: run it inline.
    Mine(NonNull<J>),
    /// Another one, which stays where it is.
    Other,
    /// Nothing that was not stolen.
    Empty,
}

/// Whose an entry that leaves the list is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fate {
    /// Nobody took it: it is the caller's.
    Untaken,
    /// Another core has it.
    Stolen,
}

/// The list is full; the task stays the caller's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Full;

/// The list of one core; `J` is what entries point at. See the head of the file.
pub(crate) struct LatentList<J, B: Barrier = Asymmetric> {
    /// Where the next entry goes. Written by the owner only, at every fork and join: on a line of its own.
    head: CachePadded<AtomicU32>,
    /// The shared word: on another line, so that the owner's stores do not take it from thieves.
    word: CachePadded<AtomicU64>,
    /// Null: taken out of order. Written by the owner only.
    slots: Box<[AtomicPtr<J>; CAPACITY]>,
    barrier: PhantomData<fn() -> B>,
}

impl<J, B: Barrier> LatentList<J, B> {
    /// An empty list.
    pub(crate) fn new() -> Self {
        let slots: Box<[AtomicPtr<J>]> = (0..CAPACITY).map(|_| AtomicPtr::new(ptr::null_mut())).collect();
        Self {
            head: CachePadded::new(AtomicU32::new(0)),
            word: CachePadded::new(AtomicU64::new(0)),
            slots: slots.try_into().unwrap_or_else(|_| unreachable!("as many slots as were made")),
            barrier: PhantomData,
        }
    }

    /// The owner's view.
    ///
    /// # Safety
    ///
    /// - At most one thread uses the owner's view of this list at a time, and a change of that thread is a
    ///   synchronization point of the two.
    #[inline(always)]
    pub(crate) unsafe fn owner(&self) -> Owner<'_, J, B> {
        Owner { list: self, not_send: PhantomData }
    }

    #[inline(always)]
    fn slot(&self, index: u32) -> &AtomicPtr<J> {
        // The mask never changes an index below `CAPACITY`; it spares the bounds check.
        &self.slots[index as usize & (CAPACITY - 1)]
    }

    #[inline(always)]
    fn load_word(&self, order: Ordering) -> Word {
        Word(self.word.load(order))
    }

    /// Exchanges the word. Success is AcqRel: Release gives thieves the slots and tasks of what becomes public, and
    /// gives the owner the order "a theft's slot load came before"; Acquire is the other end of both.
    fn exchange(&self, from: Word, to: Word) -> Result<(), Word> {
        match self.word.compare_exchange(from.0, to.0, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => Ok(()),
            Err(now) => Err(Word(now)),
        }
    }

    /// Whether the list has entries that nobody took, as far as this thread can see. A sleeper asks this after its
    /// heavy barrier and then misses none.
    pub(crate) fn looks_stealable(&self) -> bool {
        // Relaxed: a hint, or ordered by the barrier before it.
        self.head.load(Ordering::Relaxed) > self.load_word(Ordering::Relaxed).tail()
    }

    /// Whether [`Self::steal`] would find something, as far as this thread can see.
    pub(crate) fn looks_public(&self) -> bool {
        // Relaxed: a hint.
        self.load_word(Ordering::Relaxed).has_public()
    }

    /// Takes the oldest public entry. Any thread.
    pub(crate) fn steal(&self) -> Steal<J> {
        // Acquire: pairs with the Release of the owner's `publish` (or a hard thief's, which acquired from the owner).
        let mut word = self.load_word(Ordering::Acquire);
        while word.has_public() {
            // Relaxed: ordered by the word, see the head of the file.
            let job = self.slot(word.tail()).load(Ordering::Relaxed);
            let next = word.stolen_from();
            word = match self.exchange(word, next) {
                Ok(()) => match NonNull::new(job) {
                    Some(job) => return Steal::Taken(job),
                    None => next,
                },
                Err(now) => now,
            };
        }
        Steal::Empty
    }

    /// Takes the oldest entry, private or not, from an owner that does not react. Any thread; costs a heavy barrier.
    #[cold]
    pub(crate) fn steal_hard(&self) -> Steal<J> {
        let before = self.load_word(Ordering::Acquire);
        // Relaxed: a guess about how much is there; the load after the barrier decides.
        let head = self.head.load(Ordering::Relaxed);
        let tail = before.tail();
        if before.has_public() || before.is_hard() || head <= tail {
            return self.steal();
        }
        let raised = before.with(tail, tail + (head - tail).div_ceil(2)).hard();
        if self.exchange(before, raised).is_err() {
            return self.steal();
        }
        B::heavy();
        // Acquire: pairs with the Release of the owner's stores, each of which shows the entries below it.
        let head = self.head.load(Ordering::Acquire);
        let public = raised.with(tail, raised.split().min(head.max(tail)));
        // If this fails, the owner has taken the raised entries back, or made some of them public itself.
        let _withdrawn = self.exchange(raised, public);
        self.steal()
    }
}

impl<J, B: Barrier> fmt::Debug for LatentList<J, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = self.load_word(Ordering::Relaxed);
        f.debug_struct("LatentList")
            .field("tail", &word.tail())
            .field("split", &word.split())
            .field("head", &self.head.load(Ordering::Relaxed))
            .finish_non_exhaustive()
    }
}

/// The list as its owner sees it.
pub(crate) struct Owner<'a, J, B: Barrier = Asymmetric> {
    list: &'a LatentList<J, B>,
    not_send: PhantomData<*mut ()>,
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
        let head = self.head();
        if head as usize >= CAPACITY {
            return Err(Full);
        }
        // Relaxed: the slot is handed over by `head` or by `word`.
        self.list.slot(head).store(job.as_ptr(), Ordering::Relaxed);
        // Release: pairs with the Acquire load of a hard thief.
        self.list.head.store(head + 1, Ordering::Release);
        B::light();
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

    /// As [`Self::pop`], of an entry of which the owner knows the index: for the common case, that it is the newest.
    #[inline(always)]
    pub(crate) fn take_top(&self, index: u32, job: NonNull<J>) -> Top {
        if self.head() != index + 1 || self.entry(index) != Some(job) {
            return Top::Other;
        }
        if self.lower_fast(index) { Top::Mine } else { Top::Shared }
    }

    /// The end of a pop by [`Self::take_top`] that was answered `Shared`.
    pub(crate) fn pop_shared(&self, base: u32, index: u32) -> Popped<J> {
        self.pop_slow(base, index)
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
