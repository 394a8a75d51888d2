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

mod owner;
#[cfg(all(test, not(loom)))]
mod tests;
mod word;

use core::fmt;
use core::marker::PhantomData;
#[cfg(not(loom))]
use core::mem::MaybeUninit;
#[cfg(any(test, loom))]
use core::ptr;
use core::ptr::NonNull;

use crossbeam_utils::CachePadded;

pub(crate) use self::owner::Owner;

use self::word::Word;
use crate::sync::{Asymmetric, AtomicPtr, AtomicU32, AtomicU64, Barrier, Ordering};

/// How many entries a list holds; then forks run inline, which is what a pop would have done anyway.
#[cfg(not(loom))]
pub(crate) const CAPACITY: usize = SLOTS - 1;
/// Small under loom: the same logic, fewer objects.
#[cfg(loom)]
pub(crate) const CAPACITY: usize = 4;

/// A place for each entry, behind one that stays empty, so that the newest of no entries is none.
#[cfg(not(loom))]
const SLOTS: usize = 4096;
#[cfg(loom)]
const SLOTS: usize = 8;

const _: () = assert!(SLOTS.is_power_of_two() && CAPACITY < SLOTS && SLOTS <= 1 << 15, "masked, and 16 bits wide");

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

/// What [`Owner::take_newest`] found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use = "an entry of the owner's own that is not run is lost"]
pub(crate) enum Top {
    /// The entry is off the list, and the owner's own.
    Mine,
    /// The entry is the newest, and perhaps a thief's: [`Owner::take_shared`] decides.
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
    /// Entry n is at n + 1. Null: taken out of order, or the place before all others. Written by the owner only.
    slots: [AtomicPtr<J>; SLOTS],
    barrier: PhantomData<fn() -> B>,
}

impl<J, B: Barrier> LatentList<J, B> {
    /// An empty list.
    #[cfg(any(test, loom))]
    pub(crate) fn new() -> Self {
        Self {
            head: CachePadded::new(AtomicU32::new(0)),
            word: CachePadded::new(AtomicU64::new(0)),
            slots: core::array::from_fn(|_| AtomicPtr::new(ptr::null_mut())),
            barrier: PhantomData,
        }
    }

    /// Makes an empty list where it is to stay: it is larger than a small stack.
    #[cfg(not(loom))]
    pub(crate) fn init(place: &mut MaybeUninit<Self>) -> &mut Self {
        // SAFETY: one place, given by a reference.
        unsafe { place.as_mut_ptr().write_bytes(0, 1) };
        // SAFETY: numbers that are zero and pointers that are null, which is what an empty list has.
        unsafe { place.assume_init_mut() }
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
        // The mask never changes a number up to `CAPACITY`; it spares the bounds check.
        &self.slots[(index + 1) as usize & (SLOTS - 1)]
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
