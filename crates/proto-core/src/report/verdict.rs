//! Verdicts: when it is certain that waits end by nobody, and what follows [design rule 10].
//!
//! # Everything waits
//!
//! Asked by the core that falls asleep last. Certain if nobody is outside (`runtime::activity`), no core of any runtime is awake, has mail, or
//! has a deadline. The cores are looked at twice, with their counts of switches: a core that was woken and slept again in between has
//! counted. The asking core has announced its sleep before it looks (`kernel::sleep`, S1 to S3), so of two that fall asleep at once
//! one sees the other asleep. Once it is certain nobody can wake anybody, so everything may be read without further ado; an OS thread that
//! comes just then is kept waiting (`activity::while_nobody`).
//!
//! # A cycle, or a holder that ended, while others run
//!
//! The watchdog collects the waits of all cores every half second, less often where there are very many, and once when all cores have slept for that long. Each edge of a cycle is stable: its timeline stands still until the next
//! one gives its object back, which stands still as well. So if two collections show the same waits (by key), they hold. A cycle with a deadline in it is none: the others are judged.
//!
//! While somebody is outside, the same is a suspicion (`suspicion`).
//!
//! # What follows
//!
//! The processes concerned are doomed: the report is kept for `wait()`, every abandonable wait of theirs is ended as Cancelled before the first
//! frame unwinds, later ones answer Cancelled. If then only binding waits are left, `wait()` returns, and those stacks stay.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use super::list::{self, Found};
use super::{Finding, Report, suspicion};
use crate::ctx;
use crate::hooks;
use crate::kernel::wait::{Interrupt, Key};
use crate::process::ProcessInner;
use crate::runtime::shared::Shared;
use crate::runtime::{activity, mail, send};
use crate::vp::block::{Block, mode};
use crate::vp::slab;

/// All runtimes of the program.
static RUNTIMES: Mutex<Vec<Weak<Shared>>> = Mutex::new(Vec::new());

pub(crate) fn register(shared: &Arc<Shared>) {
    let mut runtimes = RUNTIMES.lock().unwrap_or_else(PoisonError::into_inner);
    runtimes.retain(|other| other.strong_count() > 0);
    runtimes.push(Arc::downgrade(shared));
}

pub(crate) fn runtimes() -> Vec<Arc<Shared>> {
    RUNTIMES.lock().unwrap_or_else(PoisonError::into_inner).iter().filter_map(Weak::upgrade).collect()
}

/// The last OS thread, handle or blocking call that could have made progress is gone: the sleeping cores have to look again.
pub(crate) fn last_outsider_left() {
    for shared in runtimes() {
        if has_processes(&shared) {
            mail::post(&shared.cores[0], Box::new(|_| ()));
        }
    }
}

pub(crate) fn has_processes(shared: &Shared) -> bool {
    shared.processes.lock().unwrap_or_else(PoisonError::into_inner).iter().any(|process| !process.is_ended())
}

/// Whether the controllers of a runtime that is stopping may end: nothing is left that could still unwind.
pub(crate) fn may_end(shared: &Shared) -> bool {
    let processes = shared.processes.lock().unwrap_or_else(PoisonError::into_inner);
    !processes.iter().any(|process| process.is_inhabited()) || shared.gave_up.load(Ordering::Acquire)
}

/// All cores asleep, without mail and deadlines? Gives a number that changes if one of them was awake since.
pub(super) fn quiet(runtimes: &[Arc<Shared>]) -> Option<u64> {
    let mut sum = 0u64;
    for shared in runtimes {
        for core in &shared.cores {
            let alive = *shared.alive.lock().unwrap_or_else(PoisonError::into_inner) > 0;
            if alive
                && (!shared.sleep.is_asleep_hint(core.index)
                    || !core.inbox.is_empty_hint()
                    || core.ctx.attention() & ctx::attention::MAIL != 0
                    || core.next_deadline.load(Ordering::Acquire) != u64::MAX)
            {
                return None;
            }
            sum = sum.wrapping_add(core.switches.load(Ordering::Acquire));
        }
    }
    Some(sum)
}

/// A core has announced its sleep and found nothing.
pub(crate) fn core_falls_asleep() {
    if activity::anybody() {
        return;
    }
    let runtimes = runtimes();
    if !runtimes.iter().any(|shared| has_processes(shared)) || quiet(&runtimes).is_none() {
        return;
    }
    // Waited for, not tried: if who judges now gives it up because this core has just been awake, it is this core's turn.
    activity::while_nobody(|| {
        let Some(before) = quiet(&runtimes) else { return };
        std::sync::atomic::fence(Ordering::SeqCst);
        if quiet(&runtimes) == Some(before) {
            judge(&runtimes);
        }
    });
}

/// A process that can go on no more, and all of its waits.
struct Standing {
    process: Arc<ProcessInner>,
    found: Vec<Found>,
    /// It waits for the end of another process, whose verdict comes first: then it may go on.
    for_process: bool,
}

/// Everything stands still: ends what can be ended, and lets those go who wait for what cannot.
///
/// One step at a time, for each may set others free: the next is taken when everything stands still again.
#[cold]
fn judge(runtimes: &[Arc<Shared>]) {
    let standing: Vec<Standing> = runtimes.iter().flat_map(standing).collect();
    for for_process in [false, true] {
        let (doomed, fresh): (Vec<_>, Vec<_>) =
            standing.iter().filter(|one| one.for_process == for_process).partition(|one| one.process.is_doomed());
        let mut freed = 0;
        for one in &fresh {
            freed += doom(one);
        }
        if freed > 0 {
            return;
        }
        // Only binding waits are left: those frames never go on.
        for one in doomed.iter().chain(&fresh) {
            bury_alive(one);
        }
        if !doomed.is_empty() || !fresh.is_empty() {
            return;
        }
    }
}

/// The processes of a runtime that wait. Everything stands still.
fn standing(shared: &Arc<Shared>) -> Vec<Standing> {
    let processes: Vec<Arc<ProcessInner>> = shared.processes.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let mut standing = Vec::new();
    for process in processes.into_iter().filter(|process| !process.is_ended()) {
        let found: Vec<Found> = slab::all()
            .into_iter()
            .flatten()
            .filter(|block| block.birth() % 2 == 1 && !block.is_thread())
            .filter(|block| block.process().is_some_and(|of| std::ptr::eq(of, Arc::as_ptr(&process))))
            // SAFETY: everything stands still.
            .filter_map(|block| unsafe { list::read(block) })
            .collect();
        if !found.is_empty() && !found.iter().any(|found| found.wait.timed) {
            let for_process = found.iter().any(|found| ProcessInner::is_awaited_by(&found.wait));
            standing.push(Standing { process, found, for_process });
        }
    }
    standing
}

/// Ends the abandonable waits of a process. Says how many there were.
fn doom(standing: &Standing) -> usize {
    let Standing { process, found, .. } = standing;
    process.note_report(report(found, true));
    process.mark_doomed();
    process.mark_cancelled();
    let mut ready = Vec::new();
    for &Found { block, key, .. } in found {
        if block.mode.get() & mode::ABANDONABLE != 0
            && crate::env::interrupt::interrupt_quietly(block, key, Interrupt::Cancel)
        {
            block.cancel_for.store(block.birth(), Ordering::Relaxed);
            ready.push(block);
        }
    }
    for block in &ready {
        if let Some(home) = block.home() {
            if home.shared().hooks.any() {
                hooks::resumed(ctx::get(), block);
            }
            send::deliver(home, block);
        }
    }
    ready.len()
}

/// Ends a process whose frames can neither go on nor unwind. Their waits are ended without making anybody ready, so nobody ever
/// can: what those frames borrow may go.
fn bury_alive(standing: &Standing) {
    for found in &standing.found {
        // Lost only by a wait that has an end already; and then nobody has been made ready, or not everything would stand still.
        let _ = crate::env::interrupt::interrupt_quietly(found.block, found.key, Interrupt::Cancel);
    }
    crate::runtime::thread::as_timeline(|| standing.process.give_up());
}

/// Orders what was found for people.
pub(super) fn report(found: &[Found], certain: bool) -> Report {
    let cycles = cycles(found);
    let timeless = |cycle: &&Vec<usize>| !cycle.iter().any(|&index| found[index].wait.timed);
    let (finding, order) = if let Some(cycle) = cycles.iter().find(timeless).or(cycles.first()) {
        (Finding::Cycle { length: cycle.len() }, cycle.clone())
    } else if let Some(first) = found.iter().position(|found| found.holder.is_some_and(|(_, ended)| ended)) {
        (Finding::HolderEnded, vec![first])
    } else {
        (Finding::AllWait, Vec::new())
    };
    let mut waits: Vec<_> = order.iter().map(|&index| found[index].wait.clone()).collect();
    let rest = found.iter().enumerate().filter(|(index, _)| !order.contains(index));
    waits.extend(rest.map(|(_, found)| found.wait.clone()));
    Report { finding, certain, waits }
}

/// The cycles of owners, by index. No wait is in two: each is for one object, with one first holder.
fn cycles(found: &[Found]) -> Vec<Vec<usize>> {
    let of: HashMap<*const Block, usize> =
        found.iter().enumerate().map(|(index, found)| (std::ptr::from_ref(found.block), index)).collect();
    let next = |index: usize| {
        let (holder, ended) = found[index].holder?;
        if ended { None } else { of.get(&std::ptr::from_ref(holder)).copied() }
    };
    let mut cycles = Vec::new();
    // A number for each walk: a walk that meets its own number has closed a cycle.
    let mut walk_of = vec![usize::MAX; found.len()];
    for start in 0..found.len() {
        let mut here = Some(start);
        while let Some(at) = here.filter(|&at| walk_of[at] == usize::MAX) {
            walk_of[at] = start;
            here = next(at);
        }
        if let Some(first) = here.filter(|&at| walk_of[at] == start) {
            cycles.push(std::iter::successors(Some(first), |&at| next(at).filter(|&then| then != first)).collect());
        }
    }
    cycles
}

/// How often the watchdog looks for cycles among the waits of busy cores.
const EVERY_MS: u32 = 500;
/// At most this part of a core's time goes into looking: with a million waits a look takes a while, and the next one comes later.
const PART: u64 = 100;
/// But not later than that.
const SELDOM_MS: u32 = 10_000;

/// How long to wait after a look that took so many nanoseconds of the cores' time.
fn pause_after(cost: u64) -> u32 {
    u32::try_from(cost.saturating_mul(PART) / 1_000_000).unwrap_or(u32::MAX).clamp(EVERY_MS, SELDOM_MS)
}

/// How long after a look the next one may come, by what that took.
static PAUSE: AtomicU32 = AtomicU32::new(EVERY_MS);

/// How long from one look to the next, or from the moment when everything came to rest. And whether the program is open.
pub(crate) fn pause() -> (Duration, bool) {
    let open = activity::anybody();
    // ORDERING: Relaxed: of several watchdogs one sets it.
    let least = PAUSE.load(Ordering::Relaxed);
    (Duration::from_millis(u64::from(if open { least.max(suspicion::AFTER_MS) } else { least })), open)
}

/// As [`look`], while other timelines run, if it is time to.
pub(crate) fn look_now_and_then() {
    static LAST: AtomicU32 = AtomicU32::new(0);
    let now = crate::runtime::watchdog::coarse_ms();
    // ORDERING: Relaxed: of several watchdogs one looks.
    let last = LAST.load(Ordering::Relaxed);
    if u128::from(now.wrapping_sub(last)) >= pause().0.as_millis()
        && LAST.compare_exchange(last, now, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    {
        look();
    }
}

/// Looks for what is stuck in all runtimes: a verdict if the program is closed, else a suspicion. On a watchdog's thread.
pub(crate) fn look() {
    let runtimes: Vec<Arc<Shared>> = runtimes().into_iter().filter(|shared| has_processes(shared)).collect();
    let before = list::spent();
    if activity::anybody() {
        suspicion::look(&runtimes)
    } else {
        judge_stuck(&runtimes)
    }
    // ORDERING: Relaxed: as in `pause`.
    PAUSE.store(pause_after(list::spent().saturating_sub(before)), Ordering::Relaxed);
}

/// Ends the processes in which a cycle, or a wait for a holder that ended, was seen twice.
fn judge_stuck(runtimes: &[Arc<Shared>]) {
    let found = collect(runtimes);
    let mut stuck = stuck(&found);
    if stuck.is_empty() {
        return;
    }
    let again = Waits::of(&collect(runtimes));
    stuck.retain(|part| part.iter().all(|found| again.contain(found)));
    if activity::anybody() {
        return;
    }
    let mut processes: Vec<Arc<ProcessInner>> = Vec::new();
    for process in stuck.iter().flatten().filter_map(|found| found.block.process()).map(ProcessInner::handle) {
        if !processes.iter().any(|other| Arc::ptr_eq(other, &process)) {
            processes.push(process);
        }
    }
    for process in processes.into_iter().filter(|process| !process.is_doomed() && !process.is_ended()) {
        let of_process = |found: &Found| std::ptr::eq(found.block.process_hint(), Arc::as_ptr(&process));
        let parts = stuck.iter().filter(|part| part.iter().any(of_process));
        let found: Vec<Found> = parts.flatten().cloned().collect();
        process.note_report(report(&found, true));
        process.mark_doomed();
        crate::vp::cancel::cancel_process(process.shared(), &process);
    }
}

/// The waits in these runtimes, as far as their cores answer.
pub(super) fn collect(runtimes: &[Arc<Shared>]) -> Vec<Found> {
    runtimes.iter().flat_map(|shared| list::of_runtime(shared)).collect()
}

/// Waits that were seen, to be compared with those of another look.
pub(super) struct Waits(HashSet<(*const Block, Key)>);

impl Waits {
    pub(super) fn of(found: &[Found]) -> Waits {
        Waits(found.iter().map(|found| (std::ptr::from_ref(found.block), found.key)).collect())
    }

    pub(super) fn contain(&self, found: &Found) -> bool {
        self.0.contains(&(std::ptr::from_ref(found.block), found.key))
    }
}

/// The cycles, and the waits for a holder that ended; without those in which a wait has a deadline and so ends by itself.
pub(super) fn stuck(found: &[Found]) -> Vec<Vec<Found>> {
    let cycles = cycles(found).into_iter().map(|cycle| cycle.into_iter().map(|index| found[index].clone()).collect());
    let ended =
        found.iter().filter(|found| found.holder.is_some_and(|(_, ended)| ended)).map(|found| vec![found.clone()]);
    cycles.chain(ended).filter(|part: &Vec<Found>| !part.iter().any(|found| found.wait.timed)).collect()
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{EVERY_MS, SELDOM_MS, pause_after};

    #[test]
    fn dear_looks_are_rare_and_cheap_ones_are_not() {
        assert_eq!(pause_after(0), EVERY_MS);
        assert_eq!(pause_after(1_000_000), EVERY_MS, "a millisecond in half a second");
        assert_eq!(pause_after(80_000_000), 8_000, "one part in a hundred");
        assert_eq!(pause_after(u64::MAX), SELDOM_MS, "never is too late");
    }
}
