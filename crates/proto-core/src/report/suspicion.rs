//! Suspicions: what would be a verdict if nobody were outside [design rule 10].
//!
//! An OS thread that has used a construct, a waker, or a call that blocks could still end a wait, and nobody can know whether it will. So what
//! looks like a deadlock is said, and nobody is killed: on demand ([`Runtime::suspicion`](crate::Runtime::suspicion)), and by the watchdog, to
//! [`Hooks::suspicion`](crate::Hooks::suspicion) and standard error.
//!
//! A cycle of owners and an ended holder do not end by themselves whoever comes, so they are said whenever they are new. That everything in a process waits is
//! what a pool of workers does that has nothing to do, too. So the watchdog says it once in the life of a process, only when nothing at all has run for a
//! while, and not if the process is known to wait for somebody: a waker, a call that blocks, another process, a deadline.
//!
//! As for verdicts, what two collections of waits both show has held all the time between them (`verdict`).

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::list::{self, Found};
use super::verdict::{self, Waits};
use super::{Finding, Report};
use crate::process::ProcessInner;
use crate::runtime::blocking;
use crate::runtime::shared::Shared;

/// How long nothing may have run before it is looked for, and how long between two looks while something runs, in milliseconds.
pub(crate) const AFTER_MS: u32 = 2_000;

/// Waits that are written to standard error.
const WRITTEN: usize = 32;

/// What two looks at a runtime show that nobody can be sure of.
pub(crate) fn on_demand(shared: &Arc<Shared>) -> Option<Report> {
    let found = list::of_runtime(shared);
    let report = verdict::report(&found, false);
    if report.finding != Finding::AllWait {
        return Some(report);
    }
    let runtime = std::slice::from_ref(shared);
    let standing = standing(runtime, &found, |found| found.wait.timed || is_under_way(found));
    let again = Waits::of(&verdict::collect(runtime));
    standing.into_iter().find(|standing| standing.holds(&again)).map(|standing| standing.report())
}

/// A process all of whose timelines wait.
struct Standing {
    process: Arc<ProcessInner>,
    found: Vec<Found>,
}

impl Standing {
    /// Whether all of it still stands in the same waits.
    fn holds(&self, again: &Waits) -> bool {
        self.alive() && self.found.iter().all(|found| again.contain(found))
    }

    /// Whether the waits found are all its timelines.
    fn alive(&self) -> bool {
        self.process.alive() == self.found.len() as u64
    }

    fn report(&self) -> Report {
        verdict::report(&self.found, false)
    }
}

/// What ends by somebody who is at work: a blocking call, another process.
fn is_under_way(found: &Found) -> bool {
    blocking::is_awaited_by(&found.wait) || ProcessInner::is_awaited_by(&found.wait)
}

/// The processes of these runtimes all of whose timelines are among `found`, unless one of the waits is `excused`.
fn standing(runtimes: &[Arc<Shared>], found: &[Found], excused: impl Fn(&Found) -> bool) -> Vec<Standing> {
    let mut of: HashMap<*const ProcessInner, Vec<&Found>> = HashMap::new();
    for found in found {
        of.entry(found.block.process_hint()).or_default().push(found);
    }
    let mut standing = Vec::new();
    for shared in runtimes {
        for process in shared.processes.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            let Some(found) = of.get(&Arc::as_ptr(process)) else { continue };
            if process.is_ended() || found.iter().any(|found| excused(found)) {
                continue;
            }
            let found = found.iter().copied().cloned().collect();
            standing.push(Standing { process: Arc::clone(process), found });
        }
    }
    standing.retain(Standing::alive);
    standing
}

/// Looks for what is new. On a watchdog's thread.
pub(super) fn look(runtimes: &[Arc<Shared>]) {
    /// What is stuck and was said.
    static SAID: Mutex<Vec<(usize, u64)>> = Mutex::new(Vec::new());
    let rest = verdict::quiet(runtimes);
    let found = verdict::collect(runtimes);
    let mut stuck = verdict::stuck(&found);
    let mut standing = match rest {
        Some(_) => standing(runtimes, &found, |found| {
            found.wait.timed || is_under_way(found) || crate::external::is_awaited_by(&found.wait)
        }),
        None => Vec::new(),
    };
    if !stuck.is_empty() || !standing.is_empty() {
        let again = Waits::of(&verdict::collect(runtimes));
        stuck.retain(|part| part.iter().all(|found| again.contain(found)));
        standing.retain(|standing| standing.holds(&again));
    }
    let name = |found: &Found| (std::ptr::from_ref(found.block).addr(), found.key.number());
    let mut said = SAID.lock().unwrap_or_else(PoisonError::into_inner);
    let fresh: Vec<&Vec<Found>> =
        stuck.iter().filter(|part| part.iter().any(|found| !said.contains(&name(found)))).collect();
    let news: Vec<(Arc<Shared>, Report)> = fresh
        .iter()
        .filter_map(|part| Some((home_of(runtimes, part.first()?)?, verdict::report(part, false))))
        .collect();
    *said = stuck.iter().flatten().map(name).collect();
    drop(said);
    for (shared, report) in &news {
        tell(shared, report);
    }
    // A process in which something is stuck was just spoken of.
    let is_stuck = |process: &Arc<ProcessInner>| {
        stuck.iter().flatten().any(|found| std::ptr::eq(found.block.process_hint(), Arc::as_ptr(process)))
    };
    for Standing { process, found } in standing.iter().filter(|standing| !is_stuck(&standing.process)) {
        if process.suspect() {
            tell(process.shared_handle(), &verdict::report(found, false));
        }
    }
}

/// The runtime in which a wait was found.
fn home_of(runtimes: &[Arc<Shared>], found: &Found) -> Option<Arc<Shared>> {
    runtimes.iter().find(|shared| shared.core_of(found.block.home_hint()).is_some()).cloned()
}

/// Says it to the runtime's hooks, and unless one of them does not want that, on standard error.
fn tell(shared: &Shared, report: &Report) {
    if shared.hooks.report_suspicion(report) {
        return;
    }
    let mut written = report.clone();
    written.waits.truncate(WRITTEN);
    let more = match report.waits.len() - written.waits.len() {
        0 => String::new(),
        more => format!("  and {more} more\n"),
    };
    eprintln!(
        "proto-runtime: in runtime '{}', {written}{more}  (not certain, so nobody is killed: an OS thread, a waker or a blocking call may still \
         end a wait; `Hooks::suspicion` keeps this from being written)",
        shared.name
    );
}
