//! Who sleeps, and who wakes whom: no wake-up is lost, and the forker has no fence.
//!
//! ```text
//!               search             sleep: was woken for nothing       sleep: otherwise
//!    RUNNING ───────────▶ SEARCHING ───────────────▶ NAPPING ───────────────▶ ASLEEP
//!       ▲ ▲                 │   ▲                     │    interval is over     │  │
//!       │ └─────────────────┘   │ wake_one (a fork)   │                         │  │
//!       │       found           └─────────────────────┼─────────────────────────┘  │
//!       └─────────────────────────────────────────────┴────────────────────────────┘
//!                              notify (mail), or work found on the last look
//! ```
//!
//! | state | the core | who wakes it |
//! |---|---|---|
//! | RUNNING | runs timelines, or goes to sleep without a search | – |
//! | SEARCHING | spins for a while over the others' lists; at most `limit` start that by themselves | – |
//! | NAPPING | parks with a timeout, because its last wake-up found nothing | mail |
//! | ASLEEP | parks for good | mail, and forkers |
//!
//! Beside the state of each core there is one bit, SLEEPER, in its *attention* word, which its forks and joins read
//! anyway. Whoever falls asleep sets it in all other cores' words; a forker that sees it wakes one sleeper and clears
//! its own bit, so a burst of forks wakes one core, not all, and does not pay for each.
//!
//! # Who may call what
//!
//! A core's controller: `search`, `found`, `sleep` with its own [`Rest`]. Whoever put work where any core may take it:
//! `wake_one`, after a light barrier, a forker only if its SLEEPER bit is set. Whoever pushed into a core's inbox:
//! `notify`. A core that starts to run something after `search` or `sleep` calls `found` first.
//!
//! # Why no wake-up is lost
//!
//! ```text
//!    sleeper                                   forker                     sender of mail
//!    S1  state := ASLEEP                       F1  list := + task         M1  inbox := + node
//!    S2  attention[others] |= SLEEPER          F2  light barrier          M2  light barrier
//!    S3  heavy barrier                         F3  read own attention     M3  read the sleeper's state
//!    S4  look at inbox and lists; park
//! ```
//!
//! Of two barriers one comes first. If F2 (M2) does, S4 finds the work, and the sleeper does not park. If S3 does, F3
//! sees the bit (M3 the state), and the forker wakes a core. It parks on a token, so a wake-up before the park counts.
//!
//! *The bit is cleared, and there are more sleepers.* `wake_one` clears with an exchange and then reads the states. A
//! sleeper whose S2 came before it in the word's order has its S1 seen; one whose S2 comes after has its bit set again.
//! So after `wake_one` a clear bit beside a sleeper means that another core, the woken one, is SEARCHING: it **owes**.
//! It pays when it has found something to run (`found`: if there are still sleepers, it sets the bits again, passes the
//! heavy barrier and looks once more: this is S2 to S4 on behalf of those who sleep), or when it falls asleep itself (S2) and sees nothing
//! then (S4). A nap in between postpones that by its interval, which is what pacing means: late, never lost.
//!
//! *Pacing.* A core that a fork woke for nothing (the forker joined before it came) naps 50 µs, then 100, .. 10 ms,
//! before forkers can wake it again; a find resets it. So a program that forks all the time and has nothing to share
//! keeps one core busy and not two.
//!
//! **Tried.** A fence in the fork: 5–10 ns of 10. A counter of sleepers that forkers read: one more line per fork, and
//! then nobody paces. Waking all sleepers at a fork: a herd for one task.

#[cfg(all(test, not(loom)))]
mod tests;

use core::marker::PhantomData;
use core::time::Duration;

use crossbeam_utils::CachePadded;

use crate::sync::{Asymmetric, AtomicU32, Barrier, Ordering};

const RUNNING: u32 = 0;
const SEARCHING: u32 = 1;
const NAPPING: u32 = 2;
const ASLEEP: u32 = 3;

/// What the kernel needs of the cores it puts to sleep and wakes.
pub(crate) trait Cores {
    /// The bit of the attention words that is SLEEPER.
    const SLEEPER: u32;

    /// The word that the core's forks read.
    fn attention(&self, core: usize) -> &AtomicU32;

    /// Leaves a token for the core's thread and wakes it if it is parked.
    fn unpark(&self, core: usize);
}

/// How long a core naps that was woken for nothing.
#[derive(Clone, Debug)]
pub(crate) struct Pacing {
    next: Duration,
}

impl Pacing {
    /// The first nap.
    pub(crate) const SHORTEST: Duration = Duration::from_micros(50);
    /// The longest nap.
    pub(crate) const LONGEST: Duration = Duration::from_millis(10);

    pub(crate) const fn new() -> Self {
        Self { next: Self::SHORTEST }
    }

    /// Another wake-up for nothing: the nap it costs.
    #[must_use]
    pub(crate) fn fruitless(&mut self) -> Duration {
        let nap = self.next;
        self.next = (nap * 2).min(Self::LONGEST);
        nap
    }

    /// A find: the next nap is the shortest again.
    pub(crate) fn found(&mut self) {
        self.next = Self::SHORTEST;
    }
}

/// What one core knows about its own rest. Its controller's alone.
#[derive(Debug)]
pub(crate) struct Rest {
    core: usize,
    pacing: Pacing,
    /// A fork woke this core, and it has neither found anything nor announced a new sleep: forkers whose bit is clear
    /// count on it.
    owes: bool,
}

impl Rest {
    pub(crate) const fn new(core: usize) -> Self {
        Self { core, pacing: Pacing::new(), owes: false }
    }
}

/// Whether a core may search.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub(crate) enum Search {
    /// It may, until `found` or `sleep`.
    Go,
    /// Enough others do: sleep at once.
    Enough,
}

/// What a core that has found something to run does first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use = "a sleeper may be needed for what else there is"]
pub(crate) enum Found {
    /// Run it.
    Run,
    /// Look whether there is more that others could take, and if so `wake_one`; then run it.
    LookForMore,
}

/// Why a core is awake.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Awake {
    /// A fork woke it: it is SEARCHING.
    ForWork,
    /// Mail woke it, or it saw work when it looked for the last time: it is RUNNING.
    ForMail,
}

/// How an announcement ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub(crate) enum Announced {
    /// Nothing came: park until the state changes.
    Park,
    /// Do not park.
    Awake(Awake),
}

/// The states of all cores. See the head of the file.
#[derive(Debug)]
pub(crate) struct Sleep<B: Barrier = Asymmetric> {
    states: Box<[CachePadded<AtomicU32>]>,
    /// How many are SEARCHING. Only statistics: it bounds the effort, nothing else depends on it.
    searchers: CachePadded<AtomicU32>,
    limit: u32,
    barrier: PhantomData<fn() -> B>,
}

impl<B: Barrier> Sleep<B> {
    /// All RUNNING. Half of the cores may search at a time, at least one.
    pub(crate) fn new(cores: usize) -> Self {
        Self {
            states: (0..cores).map(|_| CachePadded::new(AtomicU32::new(RUNNING))).collect(),
            searchers: CachePadded::new(AtomicU32::new(0)),
            limit: u32::try_from(cores / 2).unwrap_or(u32::MAX).max(1),
            barrier: PhantomData,
        }
    }

    /// RUNNING → SEARCHING, unless enough cores do.
    pub(crate) fn search(&self, rest: &Rest) -> Search {
        // Relaxed: only this core leaves RUNNING and SEARCHING.
        if self.states[rest.core].load(Ordering::Relaxed) == SEARCHING {
            return Search::Go;
        }
        // Relaxed: only statistics. Two cores that come at once may be one too many.
        if self.searchers.load(Ordering::Relaxed) >= self.limit {
            return Search::Enough;
        }
        self.searchers.fetch_add(1, Ordering::Relaxed);
        self.states[rest.core].store(SEARCHING, Ordering::Relaxed);
        Search::Go
    }

    /// SEARCHING or RUNNING → RUNNING, with something to run in hand.
    pub(crate) fn found(&self, rest: &mut Rest, cores: &impl Cores) -> Found {
        self.stop_search(rest);
        rest.pacing.found();
        if !core::mem::take(&mut rest.owes) || !self.anybody_asleep() {
            return Found::Run;
        }
        self.set_bits(rest.core, cores);
        B::heavy();
        Found::LookForMore
    }

    fn stop_search(&self, rest: &Rest) {
        let state = &self.states[rest.core];
        // Relaxed: only this core leaves these states; and only statistics.
        if state.load(Ordering::Relaxed) == SEARCHING {
            state.store(RUNNING, Ordering::Relaxed);
            self.searchers.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Whether a sleeper is there that announced itself before; later ones set the bits themselves.
    fn anybody_asleep(&self) -> bool {
        // Acquire: as in `wake_one`, whose clearing of the bit this core's debt comes from.
        self.states.iter().any(|state| state.load(Ordering::Acquire) == ASLEEP)
    }

    fn set_bits<C: Cores>(&self, me: usize, cores: &C) {
        for other in (0..self.states.len()).filter(|other| *other != me) {
            // AcqRel, and unconditional: Release makes the state ASLEEP visible to the `wake_one` that clears this bit.
            // To skip the exchange where the bit is set already would lose that.
            cores.attention(other).fetch_or(C::SLEEPER, Ordering::AcqRel);
        }
    }

    /// The core has nothing to do: parks it until there is something. `mail` looks into its inbox; `scan` looks there and
    /// wherever else it may take work; `park` parks its thread, for at most so long, until there is a token.
    pub(crate) fn sleep(
        &self,
        rest: &mut Rest,
        cores: &impl Cores,
        mail: impl FnOnce() -> bool,
        scan: impl FnOnce() -> bool,
        mut park: impl FnMut(Option<Duration>),
    ) -> Awake {
        if let Some(nap) = self.begin_nap(rest)
            && !mail()
        {
            // May end early by an old token: then the sleep is announced early.
            park(Some(nap));
        }
        match self.announce(rest, cores, scan) {
            Announced::Awake(why) => why,
            Announced::Park => loop {
                park(None);
                if let Some(why) = self.woken(rest) {
                    return why;
                }
            },
        }
    }

    /// SEARCHING → NAPPING, if the core was woken for nothing; returns for how long. The caller looks at its inbox, then parks.
    pub(crate) fn begin_nap(&self, rest: &mut Rest) -> Option<Duration> {
        self.stop_search(rest);
        if !rest.owes {
            return None;
        }
        // Release: pairs with the Acquire of `notify`.
        self.states[rest.core].store(NAPPING, Ordering::Release);
        // S3 for M2: mail that does not see NAPPING is seen by the caller's look.
        B::heavy();
        Some(rest.pacing.fruitless())
    }

    /// After `begin_nap`: NAPPING or RUNNING → ASLEEP; if the last look finds something → RUNNING.
    pub(crate) fn announce(&self, rest: &mut Rest, cores: &impl Cores, scan: impl FnOnce() -> bool) -> Announced {
        let was_napping = rest.owes;
        self.stop_search(rest);
        let state = &self.states[rest.core];
        if was_napping {
            // AcqRel: pairs with `notify`, which may have ended the nap. Its debt then waits for `found` or the next sleep.
            let napping = state.compare_exchange(NAPPING, ASLEEP, Ordering::AcqRel, Ordering::Acquire);
            if napping.is_err() {
                return Announced::Awake(Awake::ForMail);
            }
        } else {
            // S1. Release: pairs with the Acquire of `notify` and `wake_one`.
            state.store(ASLEEP, Ordering::Release);
        }
        self.set_bits(rest.core, cores);
        B::heavy();
        if !scan() {
            rest.owes = false;
            return Announced::Park;
        }
        // What it saw may have come while the forkers' bits were clear, and there may be more of it: the debt stays, for `found`.
        // AcqRel: pairs with a waker that came first.
        match state.compare_exchange(ASLEEP, RUNNING, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => Announced::Awake(Awake::ForMail),
            Err(_) => Announced::Awake(self.woken(rest).expect("only wakers end a sleep, and they do")),
        }
    }

    /// Whether a waker ended this core's sleep, and for what.
    pub(crate) fn woken(&self, rest: &mut Rest) -> Option<Awake> {
        // Acquire: pairs with the Release of the waker.
        match self.states[rest.core].load(Ordering::Acquire) {
            ASLEEP => None,
            SEARCHING => {
                rest.owes = true;
                Some(Awake::ForWork)
            }
            _ => Some(Awake::ForMail),
        }
    }

    /// Wakes one sleeper for work that any core may take. `me` is the core that asks and whose bit is cleared, if it is
    /// a core; another thread passes none. Returns who was woken.
    #[cold]
    pub(crate) fn wake_one<C: Cores>(&self, me: Option<usize>, cores: &C) -> Option<usize> {
        if let Some(me) = me {
            // AcqRel: Acquire pairs with the Release in `set_bits`, see there.
            cores.attention(me).fetch_and(!C::SLEEPER, Ordering::AcqRel);
        }
        let count = self.states.len();
        let start = me.map_or(0, |me| me + 1);
        for core in (0..count).map(|step| (start + step) % count) {
            let state = &self.states[core];
            // Relaxed: the exchange decides, and a state that the bit's exchange made visible is not missed.
            if state.load(Ordering::Relaxed) != ASLEEP {
                continue;
            }
            // AcqRel: Release pairs with the Acquire of `woken`.
            if state.compare_exchange(ASLEEP, SEARCHING, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
                // Relaxed: only statistics.
                self.searchers.fetch_add(1, Ordering::Relaxed);
                cores.unpark(core);
                return Some(core);
            }
        }
        None
    }

    /// Wakes `core` for what was just pushed into its inbox, if it sleeps.
    #[inline]
    pub(crate) fn notify(&self, core: usize, cores: &impl Cores) {
        // M2, M3.
        B::light();
        // Relaxed: the exchange decides; that an ASLEEP of before the last look is not missed is the barrier's work.
        if self.states[core].load(Ordering::Relaxed) >= NAPPING {
            self.wake_for_mail(core, cores);
        }
    }

    #[cold]
    fn wake_for_mail(&self, core: usize, cores: &impl Cores) {
        let state = &self.states[core];
        for sleeping in [NAPPING, ASLEEP] {
            // AcqRel: Release pairs with the Acquire of `woken` and `announce`. In this order: a napper that falls asleep
            // meanwhile is met by the second; what is awake looks into its inbox before it sleeps again.
            if state.compare_exchange(sleeping, RUNNING, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
                cores.unpark(core);
                return;
            }
        }
    }

    /// Whether `core` is parked for good, as far as this thread can see: for reports and verdicts.
    pub(crate) fn is_asleep_hint(&self, core: usize) -> bool {
        // Relaxed: a hint.
        self.states[core].load(Ordering::Relaxed) == ASLEEP
    }
}
