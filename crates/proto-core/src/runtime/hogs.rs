//! VPs that hold their core while other work of it is ready [design rule 14].
//!
//! Looked for by the watchdog at each of its ticks. A VP is a hog when its core has switched to no other for ten of them, and its OS thread
//! has really run meanwhile. Hooks are told each time; standard error names each VP once, and one a second, so a program that computes
//! on purpose is not flooded: a VP that is not the first in its second is named later, if it goes on.

use std::collections::HashSet;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::core::Core;
use super::shared::Shared;
use super::watchdog::TICK;
use crate::VpRef;
use crate::report::pace::Pace;
use crate::vp::VpName;

/// Ticks after which a VP that has not come by is named.
const HOGGING: u32 = 10;

/// VPs that are remembered as named. Beyond that, all are forgotten.
const REMEMBERED: usize = 4096;

/// What the watchdog remembers of a core.
#[derive(Clone, Debug, Default)]
struct Seen {
    switches: u64,
    looks: u32,
    said: Said,
    /// The controller's processor time then.
    worked: Option<Duration>,
}

/// What was said of the VP that a core runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Said {
    #[default]
    Nothing,
    /// Hooks were told, and standard error is to be.
    ToHooks,
    Everything,
}

/// What the watchdog of a runtime remembers.
#[derive(Debug)]
pub(super) struct Hogs {
    seen: Vec<Seen>,
    named: Named,
}

impl Hogs {
    pub(super) fn new(cores: usize) -> Hogs {
        Hogs { seen: vec![Seen::default(); cores], named: Named::default() }
    }

    /// A core with other work ready: has its VP come by since the last look?
    pub(super) fn look_at(&mut self, shared: &Shared, core: &Core) {
        let seen = &mut self.seen[core.index];
        // ORDERING: Relaxed: a hint.
        let switches = core.switches.load(Ordering::Relaxed);
        if switches != seen.switches {
            *seen = Seen { switches, looks: 0, said: Said::Nothing, worked: worked(core) };
            return;
        }
        seen.looks += 1;
        if seen.looks < HOGGING || seen.said == Said::Everything || !has_worked(core, seen) {
            return;
        }
        let Some(block) = core.ctx.current() else { return };
        let name = VpName::of(block);
        if seen.said == Said::Nothing {
            let kept = shared.hooks.report_hog(&name, core.place);
            seen.said = if kept { Said::Everything } else { Said::ToHooks };
        }
        if seen.said == Said::ToHooks {
            match self.named.take(VpRef::of(block).id()) {
                Turn::Later => {}
                Turn::Was => seen.said = Said::Everything,
                Turn::Now => {
                    seen.said = Said::Everything;
                    write(shared, core, &name, seen.looks);
                }
            }
        }
    }
}

fn worked(core: &Core) -> Option<Duration> {
    core.time.get()?.read()
}

/// Whether the core's OS thread has really run since `seen`. The system may have given its processor to another program: then its VP is no
/// hog. Where that is not known, it has.
fn has_worked(core: &Core, seen: &Seen) -> bool {
    match (seen.worked, worked(core)) {
        (Some(before), Some(now)) => now.saturating_sub(before) >= TICK * (HOGGING - 1),
        _ => true,
    }
}

#[cold]
fn write(shared: &Shared, core: &Core, name: &VpName, looks: u32) {
    eprintln!(
        "proto-runtime: {name} has held core {} of runtime '{}' for {} ms while other work of the core is ready: a loop without \
         requests? Let it call `yield_now` now and then, or run it with `blocking` (a `Hooks::hog` that returns `true` keeps this \
         from being written)",
        core.index,
        shared.name,
        TICK.as_millis() * u128::from(looks)
    );
}

/// Whom standard error has named.
#[derive(Debug, Default)]
struct Named {
    all: HashSet<u64>,
    pace: Pace,
}

/// Whether a VP is to be named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    Now,
    /// Another one has just been.
    Later,
    /// It has been.
    Was,
}

impl Named {
    fn take(&mut self, vp: u64) -> Turn {
        if self.all.contains(&vp) {
            return Turn::Was;
        }
        if !self.pace.once_in_a_while() {
            return Turn::Later;
        }
        if self.all.len() >= REMEMBERED {
            self.all.clear();
        }
        self.all.insert(vp);
        Turn::Now
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{Named, Turn};

    #[test]
    fn each_is_named_once_and_not_all_at_once() {
        let mut named = Named::default();
        assert_eq!(named.take(1), Turn::Now);
        assert_eq!(named.take(1), Turn::Was);
        assert_eq!(named.take(2), Turn::Later, "in the same second");
        assert_eq!(named.take(1), Turn::Was);
    }
}
