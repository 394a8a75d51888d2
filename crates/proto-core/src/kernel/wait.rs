//! One wait, one end: the word that answer, deadline, cancel and drop race for.
//!
//! A timeline that stands still has one word. Whoever changes it into an end has ended the wait; everybody else learns
//! that it lost and keeps what it wanted to give. The word is `generation | branch | notes | state`; it lies in
//! type-stable memory and is never freed, so a token of an old wait may look at it for ever, and loses.
//!
//! ```text
//!                 arm_queued                claim, end (token)
//!        ┌──────────────────────▶ QUEUED ───────────────────────┐        every edge out of QUEUED is taken under the
//!        │                        ▲  │ ▲ begin_forward          │        lock of the one environment that queues it
//!        │          finish_forward│  ▼ │                        ▼
//!      IDLE                  FORWARDING │ ───────────────▶ CLAIMED ──publish──▶ ANSWERED ──┐
//!      ▲ │                        ▲     │                    ▲                             │
//!      │ │ arm_free               │     ▼ take_token         │                             │
//!      │ ├──────────────────────▶ FREE ──────────────────────┤                             │
//!      │ │                        ▲                          │                             │
//!      │ └─begin_arming─▶ ARMING ─┘ finish_arming            │                             │
//!      │                     └───────────────────────────────┘ claim_own                   │
//!      │      QUEUED, FREE ──interrupt──▶ DEADLINE, CANCELLED ─────────────────────────────┤
//!      │      QUEUED, FREE, FORWARDING ──end──▶ ABANDONED, BROKEN ─────────────────────────┤
//!      └──────────────────────────────── retire: generation + 1 ◀──────────────────────────┘
//! ```
//!
//! | state | the wait | who may end it, and how |
//! |---|---|---|
//! | IDLE | is not; there is none | nobody |
//! | QUEUED | is in the queue of exactly one environment | the holder of that environment's lock, by a store |
//! | FREE | has its token at large, or several (a `select`) | anybody with a token, or the home core: by compare-exchange |
//! | ARMING | enters one queue after the other (a `select`) | only the timeline itself; others set MISSED or a note |
//! | FORWARDING | is on its way from one environment to the next | only the forwarder; deadline and cancel set a note |
//! | CLAIMED | was won; the reply is being written | only the claimer |
//! | the ends | is over | the timeline retires it |
//!
//! # Duties
//!
//! 1. Arming, `begin_arming`, `finish_arming`, `claim_own`, `retire`: only the timeline itself (its OS thread).
//! 2. `claim`, `end`, `begin_forward`, with the key of a token that is in a queue: only under that queue's lock. A
//!    caller does not have to know whether the wait is QUEUED or FREE (a plain wait or one branch of a `select`).
//! 3. `interrupt`: only the wait's home core. One thread carries out deadline and cancel, so the two never race for the
//!    search of the queue. For QUEUED it says `LockFirst`: lock the environment that the record names, ask again.
//! 4. A [`Claim`] and a [`Forward`] are used up. The claimer of a reply writes it, then publishes, and then touches
//!    nothing of the frame any more.
//! 5. Whoever ends the wait makes the timeline ready, once, and is done with it then. The timeline goes on after that, not as soon as the word
//!    says so, unless it ended the wait itself.
//!
//! The verbs touch no memory but the word and are safe to call; a caller that breaks a duty breaks what the *unsafe*
//! code relies on that writes the reply: between `claim` and `publish` the claimer alone may write.
//!
//! # Why it is right
//!
//! *At most one winner.* Order the changes of the word within one generation. From FREE every change is a
//! compare-exchange against the whole word, so of several exactly one succeeds, and the state after it is not FREE (it
//! is FREE again only by `finish_forward` or `take_token`, whose caller holds the token and has not ended it). QUEUED is left and looked at for
//! a change only under one lock, so load and store cannot be torn by a rival: no read-modify-write is needed. Which
//! lock that is changes only through FORWARDING or FREE, and both were left by whoever now holds the new lock. CLAIMED
//! and FORWARDING belong to the one holder of the [`Claim`] or [`Forward`]. No verb stores into an end but `retire`.
//!
//! *Branches.* The tokens of a `select` share the generation. Claim and forward write the winner's branch into the word,
//! and in every state but FREE and ARMING a key of another branch loses. Without this a wait forwarded from one branch
//! would be QUEUED in the next environment and the other branches, under *their* locks, would store into it. (If a
//! forwarded token then comes free, its sisters may win again: one exchange decides, nothing is unsound.)
//!
//! *Nothing is forgotten.* Notes are set by compare-exchange in states that are left by a read-modify-write which
//! returns them (`finish_forward`, `finish_arming`), so a note is either seen by who leaves the state, or its setter
//! sees the next state and acts on that. If the forwarder claims instead, the note is overwritten: the answer won. A
//! resumer that finds ARMING has already changed its environment (say, buffered its value) under that environment's
//! lock and the MISSED it sets makes the timeline look at all of them again.
//!
//! *Memory.* A claim is Acquire and pairs with the Release of the arming: the claimer sees where the reply goes. Every
//! end is Release and pairs with the Acquire of `poll`: the timeline sees the reply.
//!
//! **Tried.** One state `WAITING` with a compare-exchange for all: an uncontended hand-over then has one more
//! read-modify-write under the lock that excludes all rivals anyway. Claiming a `select` by a second word that the
//! branches share: two words, and the race is between them.

mod outcome;
#[cfg(all(test, not(loom)))]
mod tests;

pub(crate) use outcome::{End, EndResult, Holding, Interrupt, Interrupted, Lost, Notes, Place};

use std::sync::atomic::{AtomicU64 as StdAtomicU64, Ordering as StdOrdering};

use crate::sync::{AtomicU64, Ordering, const_fn};

/// The part of a word that says what the wait does.
const STATE: u64 = 0xf;
const IDLE: u64 = 0;
const QUEUED: u64 = 1;
const FREE: u64 = 2;
const ARMING: u64 = 3;
const FORWARDING: u64 = 4;
const CLAIMED: u64 = 5;
/// The ends begin here.
const ANSWERED: u64 = 6;
const DEADLINE: u64 = 7;
const CANCELLED: u64 = 8;
const ABANDONED: u64 = 9;
const BROKEN: u64 = 10;

/// A deadline came while the wait was FORWARDING or ARMING.
const NOTED_DEADLINE: u64 = 1 << 4;
/// A cancel came while the wait was FORWARDING or ARMING.
const NOTED_CANCEL: u64 = 1 << 5;
/// A resumer came while the wait was ARMING.
const MISSED: u64 = 1 << 6;

const BRANCH_SHIFT: u32 = 8;
const BRANCH: u64 = 0xfff << BRANCH_SHIFT;
const GENERATION_SHIFT: u32 = 20;
const GENERATION: u64 = !0 << GENERATION_SHIFT;

/// Names one wait of one timeline, and the branch of it that a token stands for. A plain wait has branch 0 only.
///
/// Generations wrap after 2⁴⁴ waits of one timeline (days of nothing but waiting); a token would have to be kept so long
/// and meet exactly its own number.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Key(u64);

impl Key {
    /// A number that tells it from the other keys of its timeline.
    pub(crate) fn number(self) -> u64 {
        self.0
    }

    /// How many branches a wait may have.
    pub(crate) const BRANCHES: u16 = (BRANCH >> BRANCH_SHIFT) as u16 + 1;

    /// The key of another branch of the same wait.
    ///
    /// # Panics
    ///
    /// If `branch` is not below [`Self::BRANCHES`].
    #[must_use]
    pub(crate) fn with_branch(self, branch: u16) -> Key {
        assert!(branch < Self::BRANCHES, "a wait has at most {} branches", Self::BRANCHES);
        Key(self.0 & GENERATION | u64::from(branch) << BRANCH_SHIFT)
    }
}

/// A place for a key, in eight bytes: a queue's node has one.
///
/// Atomic, because who forwards a wait notes the key in the requester's node while the requester, which has not switched away yet, reads it there.
/// Both mean the same wait. An atomic of std's also in the models: no order hangs on it.
#[derive(Debug)]
pub(crate) struct KeyCell(StdAtomicU64);

impl KeyCell {
    /// No key: these bits of a word are never a key's.
    const NONE: u64 = STATE;

    pub(crate) const fn new() -> Self {
        Self(StdAtomicU64::new(Self::NONE))
    }

    #[inline(always)]
    pub(crate) fn get(&self) -> Option<Key> {
        // ORDERING: Relaxed: what a key opens is ordered by the wait word, or by the lock of the queue.
        let key = self.0.load(StdOrdering::Relaxed);
        (key != Self::NONE).then_some(Key(key))
    }

    #[inline(always)]
    pub(crate) fn set(&self, key: Key) {
        // ORDERING: as above.
        self.0.store(key.0, StdOrdering::Relaxed);
    }
}

fn branch_of(word: u64) -> u16 {
    ((word & BRANCH) >> BRANCH_SHIFT) as u16
}

/// The right to write the reply. Obtained by winning; to be used up by [`WaitWord::publish`].
#[derive(Debug)]
#[must_use = "a claimed wait that is not published never ends"]
pub(crate) struct Claim(Key);

/// The right to carry a wait to another environment. Obtained by winning; used up by what follows.
#[derive(Debug)]
#[must_use = "a wait that is being forwarded never ends by itself"]
pub(crate) struct Forward(Key);

impl Forward {
    /// The wait that is being carried.
    pub(crate) fn key(&self) -> Key {
        self.0
    }
}

impl Notes {
    fn of(word: u64) -> Self {
        Self { deadline: word & NOTED_DEADLINE != 0, cancel: word & NOTED_CANCEL != 0, missed: word & MISSED != 0 }
    }
}

impl Place {
    fn state(self) -> u64 {
        match self {
            Place::Queued => QUEUED,
            Place::Free => FREE,
        }
    }
}

/// The word. See the head of the file.
#[derive(Debug)]
pub(crate) struct WaitWord(AtomicU64);

/// What an attempt to leave the state in `word` may do.
enum Exit {
    /// QUEUED, and this key's: store.
    Store,
    /// FREE: compare-exchange.
    Exchange,
    /// ARMING: leave a note.
    Arming,
    /// FORWARDING: leave a note.
    Forwarding,
    /// Too late.
    Gone,
}

impl Exit {
    fn of(word: u64, key: Key) -> Exit {
        if word & GENERATION != key.0 & GENERATION {
            return Exit::Gone;
        }
        match word & STATE {
            FREE => Exit::Exchange,
            ARMING => Exit::Arming,
            QUEUED if word & BRANCH == key.0 & BRANCH => Exit::Store,
            FORWARDING => Exit::Forwarding,
            _ => Exit::Gone,
        }
    }
}

impl WaitWord {
    const_fn! {
        /// The word of a timeline that does not wait.
        pub(crate) fn new() -> Self {
            Self(AtomicU64::new(IDLE))
        }
    }

    /// IDLE → QUEUED. The timeline itself, under the lock of the environment that queues it.
    #[inline]
    pub(crate) fn arm_queued(&self) -> Key {
        self.arm(QUEUED)
    }

    /// IDLE → FREE. The timeline itself, before it gives its token away.
    #[inline]
    pub(crate) fn arm_free(&self) -> Key {
        self.arm(FREE)
    }

    /// IDLE → ARMING. The timeline itself, before it enters the first of several queues.
    #[inline]
    pub(crate) fn begin_arming(&self) -> Key {
        self.arm(ARMING)
    }

    #[inline]
    fn arm(&self, state: u64) -> Key {
        let word = self.own();
        debug_assert_eq!(word & STATE, IDLE, "a timeline waits for two things");
        // Release: pairs with the Acquire of a claim, which then sees the wait's record. A store is enough: in IDLE
        // nobody else changes the word (keys of old generations fail).
        self.0.store(word | state, Ordering::Release);
        Key(word)
    }

    /// The word as the timeline itself may read it in a state that only it changes.
    #[inline]
    fn own(&self) -> u64 {
        // Relaxed: this thread, or the end that it has polled with Acquire, wrote it last.
        self.0.load(Ordering::Relaxed)
    }

    /// ARMING → FREE if nothing came meanwhile. Else the wait stays ARMING, with its notes cleared and returned.
    #[inline]
    pub(crate) fn finish_arming(&self, key: Key) -> Notes {
        let armed = key.0 & GENERATION | ARMING;
        // Release: pairs with the Acquire of a claim.
        if self.0.compare_exchange(armed, key.0 & GENERATION | FREE, Ordering::Release, Ordering::Relaxed).is_ok() {
            return Notes::default();
        }
        // Acquire: pairs with the Release of the note, so that the timeline sees what the noting resumer did.
        Notes::of(self.0.swap(armed, Ordering::Acquire))
    }

    /// ARMING → CLAIMED: one of the branches can answer at once.
    #[inline]
    pub(crate) fn claim_own(&self, key: Key) -> Claim {
        debug_assert_eq!(self.own() & STATE, ARMING);
        // Relaxed, and a store: others only add notes in ARMING; a note that is overwritten has lost to this answer.
        self.overwrite(key.0 | CLAIMED, Ordering::Relaxed);
        Claim(key)
    }

    /// Wins the right to write the reply (duty 2).
    #[inline]
    pub(crate) fn claim(&self, key: Key) -> Result<Claim, Lost> {
        self.leave(key, key.0 | CLAIMED).map(|()| Claim(key))
    }

    /// CLAIMED → ANSWERED, after the reply was written.
    #[inline]
    pub(crate) fn publish(&self, claim: Claim) {
        // Release: pairs with the Acquire in `poll`. A store: CLAIMED is the claimer's.
        self.0.store(claim.0.0 | ANSWERED, Ordering::Release);
    }

    /// Ends the wait without a reply, by a token: `Abandoned` when it is dropped, `Broken` when its environment broke
    /// (duty 2).
    pub(crate) fn end(&self, key: Key, end: End) -> EndResult {
        let state = match end {
            End::Abandoned => ABANDONED,
            End::Broken => BROKEN,
            End::Answered(_) | End::Deadline | End::Cancelled => {
                unreachable!("tokens end a wait in other ways")
            }
        };
        match self.leave(key, key.0 | state) {
            Ok(()) => EndResult::Won,
            Err(Lost::Gone) => EndResult::Lost,
            Err(Lost::Missed) => EndResult::Noted,
        }
    }

    /// Leaves QUEUED or FREE for `next`, or says why not.
    #[inline]
    fn leave(&self, key: Key, next: u64) -> Result<(), Lost> {
        // Acquire: pairs with the Release of the arming, for a winner out of QUEUED.
        let mut word = self.0.load(Ordering::Acquire);
        loop {
            let (to, result) = match Exit::of(word, key) {
                Exit::Store => {
                    // Release: pairs with `poll`. A store: the caller holds the lock that excludes all rivals.
                    self.0.store(next, Ordering::Release);
                    return Ok(());
                }
                Exit::Exchange => (next, Ok(())),
                // The MISSED of another resumer serves this one as well: the timeline looks again after both.
                Exit::Arming if word & MISSED != 0 => return Err(Lost::Missed),
                Exit::Arming => (word | MISSED, Err(Lost::Missed)),
                Exit::Forwarding | Exit::Gone => return Err(Lost::Gone),
            };
            // AcqRel: Acquire as above; Release pairs with `poll`, or with `finish_arming` for a note.
            match self.0.compare_exchange(word, to, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return result,
                Err(now) => word = now,
            }
        }
    }

    /// Ends the wait from its home core (duty 3), whichever branch it is in.
    pub(crate) fn interrupt(&self, key: Key, why: Interrupt, holding: Holding) -> Interrupted {
        let (state, note) = match why {
            Interrupt::Deadline => (DEADLINE, NOTED_DEADLINE),
            Interrupt::Cancel => (CANCELLED, NOTED_CANCEL),
        };
        // Relaxed: nothing is read on the strength of it; the exchange below decides.
        let mut word = self.0.load(Ordering::Relaxed);
        loop {
            let here = Key(word & (GENERATION | BRANCH));
            if here.0 & GENERATION != key.0 & GENERATION {
                return Interrupted::Lost;
            }
            let (to, result) = match Exit::of(word, here) {
                Exit::Store if holding == Holding::Nothing => return Interrupted::LockFirst,
                Exit::Store => {
                    // Release: pairs with `poll`. A store: the caller holds the queue's lock.
                    self.0.store(here.0 | state, Ordering::Release);
                    return Interrupted::Won;
                }
                Exit::Exchange => (here.0 | state, Interrupted::Won),
                Exit::Arming | Exit::Forwarding => (word | note, Interrupted::Noted),
                Exit::Gone => return Interrupted::Lost,
            };
            // AcqRel: Release pairs with `poll` and with who takes the note.
            match self.0.compare_exchange(word, to, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return result,
                Err(now) => word = now,
            }
        }
    }

    /// Wins the right to carry the wait to another environment (duty 2). Deadline and cancel are noted from here on.
    #[inline]
    pub(crate) fn begin_forward(&self, key: Key) -> Result<Forward, Lost> {
        self.leave(key, key.0 | FORWARDING).map(|()| Forward(key))
    }

    /// FORWARDING → QUEUED or FREE. The caller ends the wait if a note tells so, before it lets go of the lock or the
    /// token, or asks the home core to.
    #[inline]
    pub(crate) fn finish_forward(&self, forward: Forward, place: Place) -> Notes {
        // An exchange, for the notes. Release: pairs with the Acquire of a claim; Acquire: with who noted.
        Notes::of(self.0.swap(forward.0.0 | place.state(), Ordering::AcqRel))
    }

    /// FORWARDING → CLAIMED: the next environment answers at once. A note made meanwhile has lost.
    #[inline]
    pub(crate) fn claim_forwarded(&self, forward: Forward) -> Claim {
        // Relaxed, and a store: others only add notes in FORWARDING.
        self.overwrite(forward.0.0 | CLAIMED, Ordering::Relaxed);
        Claim(forward.0)
    }

    /// Leaves a state in which others add nothing but notes, by a store: a compare-exchange that adds a note either
    /// stands before it, or no longer finds the word it expects. (An exchange in a model: loom does not know that
    /// nothing comes between what a compare-exchange reads and what it writes, and would let the note come last.)
    #[inline(always)]
    fn overwrite(&self, word: u64, order: Ordering) {
        #[cfg(not(loom))]
        self.0.store(word, order);
        #[cfg(loom)]
        self.0.swap(word, order);
    }

    /// FORWARDING → ABANDONED or BROKEN: the next environment did not take it.
    pub(crate) fn end_forwarded(&self, forward: Forward, end: End) {
        let state = if end == End::Broken { BROKEN } else { ABANDONED };
        // Release: pairs with `poll`. A store: as in `claim_forwarded`.
        self.overwrite(forward.0.0 | state, Ordering::Release);
    }

    /// Takes the token of a queued wait out of its queue, unanswered: QUEUED → FREE, and a branch of a `select` stays FREE.
    /// Under the queue's lock.
    #[inline]
    pub(crate) fn take_token(&self, key: Key) -> Result<(), Lost> {
        // `leave` takes FREE → FREE by an exchange that changes nothing but proves that the wait was still open.
        self.leave(key, key.0 & GENERATION | FREE)
    }

    /// How the wait `key` ended, if it has. For the timeline itself.
    #[inline]
    pub(crate) fn poll(&self, key: Key) -> Option<End> {
        // Acquire: pairs with the Release of every end: the reply is there.
        let word = self.0.load(Ordering::Acquire);
        debug_assert_eq!(word & GENERATION, key.0 & GENERATION, "polled a wait that was retired");
        Some(match word & STATE {
            ANSWERED => End::Answered(branch_of(word)),
            DEADLINE => End::Deadline,
            CANCELLED => End::Cancelled,
            ABANDONED => End::Abandoned,
            BROKEN => End::Broken,
            _ => return None,
        })
    }

    /// The end → IDLE of the next generation: from here on every key of this wait has lost. The timeline itself.
    #[inline]
    pub(crate) fn retire(&self) {
        let word = self.own();
        debug_assert!(word & STATE >= ANSWERED, "retired a wait that has not ended");
        let next = (word & GENERATION).wrapping_add(1 << GENERATION_SHIFT);
        // Relaxed: nothing is handed over; who reads the old word loses as well.
        self.0.store(next | IDLE, Ordering::Relaxed);
    }

    /// Whether the key's wait is over, as far as this thread can see: for reports and for skipping dead nodes.
    #[inline]
    pub(crate) fn is_over_hint(&self, key: Key) -> bool {
        // Relaxed: a hint.
        let word = self.0.load(Ordering::Relaxed);
        word & GENERATION != key.0 & GENERATION || word & STATE >= CLAIMED
    }
}
