//! The environment of the exclusive lock: who may enter, in what order. [`RawLock`](super::RawLock) sends the requests.
//!
//! # Why it barges
//!
//! A release that hands the lock to a suspended waiter makes everybody wait for one timeline that does not run yet: after
//! the first collision every release meets a waiter, every acquisition waits for a switch, and the lock is as slow as the
//! scheduler (a *convoy*; it is what plain first-in-first-out hand-over costs). So a release leaves the lock *free*, and
//! whoever runs may take it. At most one waiter at a time is woken to *retry*.
//!
//! ```text
//!   Take ── free ──▶ taken                    Give ── nobody waits ──▶ free
//!     │ holder runs elsewhere: look again       ├── somebody is owed the lock ──▶ taken, by that one
//!     ▼ no patience left                        └── else ──▶ free; if nobody is on the way, one is to retry
//!   Wait ── free ──▶ taken
//!     └─▶ queued ── Retry ──▶ Take …, Wait: after `RETRIES` of these it stands in the queue `owed`
//! ```
//!
//! A wait for a condition variable gives lock and core up at once: there the lock is handed to the first waiter if that lives
//! on the same core, for it is next to run.
//!
//! `Take`, and `Give` where nobody waits, go the [straight](crate::env::straight) way.
//!
//! # Fairness
//!
//! Whoever is first in `waiting` is handed the lock outright after `PASSES` releases that passed it over; whoever retried in
//! vain `RETRIES` times stands in `owed`, which is served at each release, in order, before all others. So a waiter with *k*
//! others before it leaves `waiting` after at most (*k* + 1) · `PASSES` releases; it comes back at most `RETRIES` times, then
//! stands in `owed`, and has the lock after as many more releases as others stand there before it. Nobody starves. Waking
//! prefers, among the first `LOOK` of the queue, a waiter of the releasing core: no word to another core is needed, it finds the
//! data in its cache.
//!
//! # The dangerous race
//!
//! A waiter that is woken to retry may be cancelled before it comes back. *Invariant: where the lock is free and somebody
//! waits, `on_the_way` says that a woken one will still send `Take`, `Wait` or `Withdraw`.* Each keeps it: `Give` and `Withdraw`
//! wake one or find nobody; `Take` and `Wait` take the lock, or find it held, so that a `Give` is to come. A wrapper whose retry ends without the lock sends `Withdraw`, which is a release: no cancel stops
//! it. One `Withdraw` too many costs a wake-up, no more.
//!
//! **Tried.** Hand-over to the first waiter at each release: the convoy above.

use crate::ended::Ended;
use crate::env::straight::{Answer, Sender, Straight};
use crate::env::{Caller, Hidden, Kind, RequestHandler, Waiters, Woken};
use crate::guarded::Grant;

/// Releases that may pass over the first waiter.
const PASSES: u32 = 1000;
/// Retries in vain after which a waiter is owed the lock.
const RETRIES: u32 = 4;
/// How far from the front a waiter of the releasing core is looked for.
const LOOK: usize = 4;

/// A [`RawLock`](super::RawLock), or a side of a [`RawRwLock`](super::RawRwLock), that is held.
///
/// # Examples
///
/// ```
/// use proto_core::{Guarded, Held, PanicMark, RawLock};
///
/// static LOCK: RawLock = RawLock::new();
/// static ROWS: Guarded<Vec<u32>> = Guarded::new(Vec::new());
///
/// let since = PanicMark::now();
/// let Held { grant, poisoned, .. } = LOCK.lock();
/// assert!(!poisoned);
/// let mut rows = ROWS.open(grant);
/// rows.push(1);
/// LOCK.give(rows.close(), since);
/// ```
#[derive(Debug)]
#[must_use = "the lock stays held until its grant is given back"]
pub struct Held<G = Grant> {
    /// Opens what the lock guards, and is to be [given back](super::Lender::take_back).
    pub grant: G,
    /// Whether a holder has panicked with it.
    pub poisoned: bool,
}

/// What a waiter is told.
#[derive(Debug)]
pub(super) enum Turn {
    /// The lock is its own.
    Taken(Held),
    /// The lock was free a moment ago.
    Retry,
    /// It waited elsewhere and is called back: it takes the lock as anybody does.
    Called,
    /// A condition variable had sent it here when its wait ended so.
    Late(Ended),
}

/// What an uncontended pair touches comes first: it shares a cache line with the environment's lock.
#[derive(Debug)]
#[repr(C)]
pub(super) struct LockEnv {
    free: Option<Grant>,
    pub(super) poisoned: bool,
    /// Somebody waits, was woken to retry, or did a moment ago: a release has to look.
    crowded: bool,
    /// A waiter was woken to retry and has not come back.
    on_the_way: bool,
    /// Releases since one of `waiting` was handed the lock.
    passes: u32,
    waiting: Waiters<Turn>,
    owed: Waiters<Turn>,
}

/// Take the lock if it is free; nothing if it is not. Never queued.
pub(super) struct Take {
    /// Not to be asked to try again.
    pub(super) last: bool,
    /// Sent by a waiter that was told to retry.
    pub(super) woken: bool,
}

/// Wait for the lock; `retries`: how often in vain.
pub(super) struct Wait {
    pub(super) retries: u32,
}

/// As [`Wait`], where a cancel may not end the wait.
pub(super) struct WaitBinding {
    pub(super) retries: u32,
}

/// As [`Wait`], sent for a timeline that waited elsewhere and must have the lock before it goes on.
pub(super) struct Relock {
    /// Its wait has a deadline: when that passes here, the timeline learns that it was notified all the same.
    pub(super) timed: bool,
}

/// The lock is given back.
#[derive(Debug)]
pub(super) struct Give {
    pub(super) grant: Grant,
    /// The holder panicked with it.
    pub(super) poison: bool,
    /// The holder gives its core up at once: a waiter of that core is next to run.
    pub(super) suspends: bool,
}

/// A waiter that was told to retry does not.
pub(super) struct Withdraw;

impl LockEnv {
    pub(super) const fn new() -> Self {
        LockEnv {
            free: Some(Grant::new()),
            poisoned: false,
            crowded: false,
            on_the_way: false,
            passes: 0,
            waiting: Waiters::new(),
            owed: Waiters::new(),
        }
    }

    #[inline]
    fn held(&self, grant: Grant) -> Held {
        Held { grant, poisoned: self.poisoned }
    }

    /// A [`Wait`] of any kind.
    fn wait(&mut self, retries: u32, caller: Caller<'_, Turn>, hidden: &mut Hidden<'_>) {
        if retries > 0 {
            self.on_the_way = false;
        }
        match self.free.take() {
            Some(grant) => {
                hidden.holds(&caller);
                hidden.answer(caller, Turn::Taken(self.held(grant)));
            }
            None => {
                self.crowded = true;
                let line = if retries > RETRIES { &mut self.owed } else { &mut self.waiting };
                line.push(caller, hidden);
            }
        }
    }

    /// Hands the lock to `next` if it is given one, and says what became of it.
    fn hand_over(
        &mut self,
        grant: Grant,
        resume: impl FnOnce(&mut Self, Turn, &mut Hidden<'_>) -> Result<Woken, Turn>,
        hidden: &mut Hidden<'_>,
    ) -> Option<Grant> {
        let turn = Turn::Taken(self.held(grant));
        match resume(self, turn, hidden) {
            Ok(next) => {
                hidden.holds(&next);
                None
            }
            Err(Turn::Taken(held)) => Some(held.grant),
            Err(Turn::Retry | Turn::Called | Turn::Late(_)) => None,
        }
    }

    /// The lock goes to who is owed it, else it comes free; somebody waits, or did.
    fn pass_on(&mut self, grant: Grant, suspends: bool, hidden: &mut Hidden<'_>) {
        let Some(grant) = self.hand_over(grant, |env, turn, hidden| env.owed.resume_next(turn, hidden), hidden) else {
            return;
        };
        let grant = if self.passes >= PASSES {
            self.passes = 0;
            self.hand_over(grant, |env, turn, hidden| env.waiting.resume_next(turn, hidden), hidden)
        } else if suspends {
            self.passes += 1;
            self.hand_over(
                grant,
                |env, turn, hidden| env.waiting.resume_where(1, |_, lives_here| lives_here, turn, hidden),
                hidden,
            )
        } else {
            self.passes += 1;
            Some(grant)
        };
        if let Some(grant) = grant {
            self.free = Some(grant);
            self.wake_one(hidden);
        }
    }

    /// Sees to it that somebody comes for the free lock.
    fn wake_one(&mut self, hidden: &mut Hidden<'_>) {
        if self.on_the_way {
            return;
        }
        let near = self.waiting.resume_where(LOOK, |_, lives_here| lives_here, Turn::Retry, hidden);
        self.on_the_way = near.or_else(|turn| self.waiting.resume_next(turn, hidden)).is_ok();
        if !self.on_the_way {
            self.crowded = false;
            self.passes = 0;
        }
    }
}

impl Straight<Take> for LockEnv {
    #[inline(always)]
    fn serve(&mut self, take: Take, sender: Sender<'_>) -> Answer<Option<Held>, Take> {
        match self.free.take() {
            Some(grant) => {
                if take.woken {
                    self.on_the_way = false;
                }
                sender.holds();
                Answer::Reply(Some(self.held(grant)))
            }
            None if !take.last && sender.holder_runs_elsewhere() => Answer::Again,
            None => Answer::Reply(None),
        }
    }
}

impl RequestHandler<Take> for LockEnv {
    type Reply = Option<Held>;
    fn handle(&mut self, take: Take, caller: Caller<'_, Option<Held>>, hidden: &mut Hidden<'_>) {
        match self.serve(take, Sender::of(&caller, hidden)) {
            Answer::Reply(held) => hidden.answer(caller, held),
            Answer::Again => hidden.try_again(caller),
            Answer::Decline(_) => unreachable!("it is declined by nobody"),
        }
    }
}

impl RequestHandler<Wait> for LockEnv {
    type Reply = Turn;
    fn handle(&mut self, Wait { retries }: Wait, caller: Caller<'_, Turn>, hidden: &mut Hidden<'_>) {
        self.wait(retries, caller, hidden);
    }
}

impl RequestHandler<WaitBinding> for LockEnv {
    type Reply = Turn;
    const KIND: Kind = Kind::Binding;
    fn handle(&mut self, WaitBinding { retries }: WaitBinding, caller: Caller<'_, Turn>, hidden: &mut Hidden<'_>) {
        self.wait(retries, caller, hidden);
    }
}

impl RequestHandler<Relock> for LockEnv {
    type Reply = Turn;
    fn handle(&mut self, Relock { timed }: Relock, caller: Caller<'_, Turn>, hidden: &mut Hidden<'_>) {
        if timed && self.free.is_none() {
            self.crowded = true;
            self.waiting.push_returning(caller, (), |(), ended| Turn::Late(ended), hidden);
        } else {
            self.wait(0, caller, hidden);
        }
    }
}

impl Straight<Give> for LockEnv {
    #[inline(always)]
    fn serve(&mut self, give: Give, sender: Sender<'_>) -> Answer<(), Give> {
        if self.crowded || give.poison || !sender.released_own() {
            return Answer::Decline(give);
        }
        self.free = Some(give.grant);
        Answer::Reply(())
    }
}

impl RequestHandler<Give> for LockEnv {
    type Reply = ();
    const KIND: Kind = Kind::Release;
    fn handle(&mut self, Give { grant, poison, suspends }: Give, caller: Caller<'_, ()>, hidden: &mut Hidden<'_>) {
        hidden.released(&caller);
        self.poisoned |= poison;
        if self.crowded {
            self.pass_on(grant, suspends, hidden);
        } else {
            self.free = Some(grant);
        }
        hidden.answer(caller, ());
    }
}

impl RequestHandler<Withdraw> for LockEnv {
    type Reply = ();
    const KIND: Kind = Kind::Release;
    fn handle(&mut self, _: Withdraw, caller: Caller<'_, ()>, hidden: &mut Hidden<'_>) {
        self.on_the_way = false;
        if self.free.is_some() {
            self.wake_one(hidden);
        }
        hidden.answer(caller, ());
    }
}
