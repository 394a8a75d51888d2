//! The watchdog: one OS thread for each runtime that looks at the cores from outside.
//!
//! Every millisecond while any core runs a VP and has other work ready: it sets the tick in that core's attention word [design rule 14]. It raises
//! the timer bit of a busy core whose deadline has come, and names a VP that has held its core for long (`hogs`). When nothing
//! of this can be needed it looks every 10 ms, and when all cores sleep it sleeps as well, but wakes once more to look for what is stuck (`report`). It also does what controllers may not
//! do themselves (`leave`).
//!
//! # The dangerous race
//!
//! The watchdog falls asleep, for good or until the next deadline, while a core becomes busy. It announces that it sleeps, passes the heavy
//! barrier, looks once more, and parks; a core sets its mark, passes the light barrier, and reads the announcement (`poke`): as in
//! `kernel::sleep`. While a core is busy the watchdog does not sleep, and what is set then is seen at its next look.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use proto_arch::park::Parker;

use super::core::Core;
use super::hogs::Hogs;
use super::shared::Shared;
use crate::ctx::attention;
use crate::report::verdict;
use crate::sync::{Asymmetric, Barrier};

pub(super) const TICK: Duration = Duration::from_millis(1);
const LAZY: Duration = Duration::from_millis(10);

/// Milliseconds since the program's first look, as of the last look of any watchdog: good enough for "since when".
static COARSE: AtomicU32 = AtomicU32::new(0);

pub(crate) fn coarse_ms() -> u32 {
    // ORDERING: Relaxed: statistics.
    COARSE.load(Ordering::Relaxed)
}

fn advance_coarse() {
    static START: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    let now = START.get_or_init(Instant::now).elapsed().as_millis();
    // ORDERING: Relaxed: statistics.
    COARSE.store(u32::try_from(now).unwrap_or(u32::MAX), Ordering::Relaxed);
}

/// Does not unwind.
pub(crate) type Chore = Box<dyn FnOnce() + Send>;

/// What others see of the watchdog.
pub(crate) struct Watchdog {
    asleep: AtomicBool,
    parker: Parker,
    /// What controllers leave to an OS thread, because it runs user code that may wait. Rare. Each counts as somebody who could make
    /// progress (`activity`).
    chores: Mutex<Vec<Chore>>,
}

impl fmt::Debug for Watchdog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watchdog").field("asleep", &self.asleep).finish_non_exhaustive()
    }
}

impl Watchdog {
    pub(crate) fn new() -> Self {
        Watchdog { asleep: AtomicBool::new(false), parker: Parker::new(), chores: Mutex::new(Vec::new()) }
    }

    /// Has `chore` run by an OS thread.
    #[cold]
    pub(crate) fn leave(&self, chore: Chore) {
        self.chores.lock().unwrap_or_else(PoisonError::into_inner).push(chore);
        self.wake();
    }

    /// Does what was left. No thread of its own: it was left because memory is short.
    fn see_to_chores(&self) {
        let chores = std::mem::take(&mut *self.chores.lock().unwrap_or_else(PoisonError::into_inner));
        if chores.is_empty() {
            return;
        }
        chores.into_iter().for_each(|chore| chore());
        super::attach::count_no_more();
    }

    /// Something may need watching.
    #[inline]
    pub(crate) fn poke(&self) {
        Asymmetric::light();
        // ORDERING: Relaxed: the barriers order it.
        if self.asleep.load(Ordering::Relaxed) {
            self.wake();
        }
    }

    #[cold]
    pub(crate) fn wake(&self) {
        // ORDERING: Relaxed: the token is handed over by the parker.
        self.asleep.store(false, Ordering::Relaxed);
        self.parker.unpark();
    }
}

/// Not whether a VP runs at this moment: between two of them none does, and nobody wakes a watchdog that fell asleep on that.
fn busy(shared: &Shared, core: &Core) -> bool {
    !shared.sleep.is_asleep_hint(core.index)
}

/// The watchdog's thread.
pub(crate) fn run(shared: &Arc<Shared>) {
    let mut hogs = Hogs::new(shared.cores.len());
    let mut rest = Rest::default();
    while *shared.alive.lock().unwrap_or_else(PoisonError::into_inner) > 0 {
        advance_coarse();
        shared.watchdog.see_to_chores();
        let now = shared.nanoseconds(Instant::now());
        let mut pause = None;
        let mut next = u64::MAX;
        for core in &shared.cores {
            let due = core.next_deadline.load(Ordering::Relaxed);
            if due <= now {
                core.ctx.raise(attention::TIMER);
                super::send::wake(core);
            } else {
                next = next.min(due);
            }
            if !busy(shared, core) {
                continue;
            }
            if others_wait(core) {
                core.ctx.raise(attention::TICK);
                pause = Some(TICK);
                hogs.look_at(shared, core);
            } else {
                pause = pause.or(Some(LAZY));
            }
        }
        verdict::look_now_and_then();
        let until_due =
            (next != u64::MAX).then(|| Duration::from_nanos(next.saturating_sub(now)).max(Duration::from_micros(50)));
        let busy_pause = pause.map(|pause| until_due.map_or(pause, |due| due.min(pause)));
        match busy_pause {
            Some(pause) => {
                shared.watchdog.parker.park_timeout(pause);
            }
            None => {
                let until_look = rest.until_look(shared);
                sleep(shared, next, until_due.into_iter().chain(until_look).min());
            }
        }
    }
}

/// A time in which no core of the runtime was awake.
#[derive(Clone, Copy, Debug, Default)]
struct Rest {
    /// Switches of all cores until then.
    switches: u64,
    since: Option<Instant>,
    /// It was looked for what is stuck, in a program that was open or not.
    looked: Option<bool>,
}

impl Rest {
    /// No core is awake. How long until it is time to look for what is stuck, which is done once in a rest; looks if that is now.
    fn until_look(&mut self, shared: &Shared) -> Option<Duration> {
        // ORDERING: Relaxed: a hint; what is found is looked at twice.
        let switches = shared.cores.iter().map(|core| core.switches.load(Ordering::Relaxed)).fold(0, u64::wrapping_add);
        if self.since.is_none() || self.switches != switches {
            *self = Rest { switches, since: Some(Instant::now()), looked: None };
        }
        let (after, open) = verdict::pause();
        if self.looked == Some(open) || !verdict::has_processes(shared) {
            return None;
        }
        let left = after.saturating_sub(self.since.map_or(Duration::ZERO, |since| since.elapsed()));
        if left.is_zero() {
            self.looked = Some(open);
            verdict::look();
            // The cores were asked, so they were awake.
            return Some(LAZY);
        }
        Some(left)
    }
}

/// Whether there may be other work for `core` than the VP that it runs. Its own mark can be a moment old: what came into the inbox just
/// as it looked for more is seen here.
fn others_wait(core: &Core) -> bool {
    // ORDERING: Relaxed: a hint, looked at again.
    core.crowded.load(Ordering::Relaxed) || !core.inbox.is_empty_hint() || !core.newborn.is_empty()
}

/// Sleeps until a core becomes busy, or at most `most`: until the deadline `next`, or something else is due.
fn sleep(shared: &Shared, next: u64, most: Option<Duration>) {
    let watchdog = &shared.watchdog;
    // ORDERING: Relaxed: the heavy barrier orders it against the looks below; see the head.
    watchdog.asleep.store(true, Ordering::Relaxed);
    Asymmetric::heavy();
    let needed = shared
        .cores
        .iter()
        .any(|core| busy(shared, core) || others_wait(core) || core.next_deadline.load(Ordering::Relaxed) < next)
        || *shared.alive.lock().unwrap_or_else(PoisonError::into_inner) == 0;
    // If it is needed: between two VPs, perhaps; a core that was crowded all the time wakes nobody.
    match if needed { Some(TICK) } else { most } {
        Some(time) => {
            watchdog.parker.park_timeout(time);
        }
        None => watchdog.parker.park(),
    }
    watchdog.asleep.store(false, Ordering::Relaxed);
}
