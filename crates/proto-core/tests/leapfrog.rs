//! A core whose timeline waits for what another core took from it helps that one, rather than a nearer one.

mod common;

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use common::{runtime, sized, watched};
use proto_core::{join, scope, task_scope};

/// Spins until `flag` is set: no construct, so the core has to be robbed the hard way.
fn until(flag: &AtomicBool) {
    while !flag.load(Ordering::Acquire) {
        std::thread::yield_now();
    }
}

/// What three cores do: the waiter's, that of the job which was taken from it, and one with something else.
#[derive(Default)]
struct Stage {
    taken: AtomicBool,
    job_has_forked: AtomicBool,
    other_has_forked: AtomicBool,
    /// Set by the first of the two forks that runs.
    over: AtomicBool,
    /// Whose fork that was: 1, the job's; 2, the other's.
    helped: AtomicU32,
}

impl Stage {
    fn fork(&self, has_forked: &AtomicBool, mine: u32) {
        join(
            || {
                has_forked.store(true, Ordering::Release);
                until(&self.over);
            },
            || {
                let _ = self.helped.compare_exchange(0, mine, Ordering::AcqRel, Ordering::Acquire);
                self.over.store(true, Ordering::Release);
            },
        );
    }

    /// Is taken by another core, and forks there.
    fn job(&self) {
        self.taken.store(true, Ordering::Release);
        self.fork(&self.job_has_forked, 1);
    }

    /// Runs on the third core, and forks there.
    fn other(&self, runs: &AtomicBool) {
        runs.store(true, Ordering::Release);
        until(&self.taken);
        self.fork(&self.other_has_forked, 2);
    }

    /// Until nobody is idle, and there are two forks to choose from.
    fn until_set(&self) {
        until(&self.job_has_forked);
        until(&self.other_has_forked);
    }
}

fn plays(waits: impl Fn(&Stage) + Sync) {
    for round in 0..sized(30, 2) {
        let runtime = runtime(3);
        let stage = Stage::default();
        let runs = AtomicBool::new(false);
        runtime
            .run(|| {
                scope(|s| {
                    s.spawn(|| stage.other(&runs));
                    until(&runs);
                    waits(&stage);
                });
            })
            .unwrap();
        assert_eq!(stage.helped.load(Ordering::Relaxed), 1, "round {round}: the core helped somebody else");
    }
}

#[test]
fn a_join_helps_its_thief() {
    watched("join", || plays(|stage| _ = join(|| stage.until_set(), || stage.job())));
}

#[test]
fn a_touch_helps_its_thief() {
    watched("touch", || {
        plays(|stage| {
            task_scope(|s| {
                let job = s.task(|| stage.job());
                stage.until_set();
                job.touch();
            });
        });
    });
}

#[test]
fn a_scope_helps_its_thief() {
    watched("scope", || {
        plays(|stage| {
            task_scope(|s| {
                s.spawn(|| stage.job());
                stage.until_set();
            });
        });
    });
}
