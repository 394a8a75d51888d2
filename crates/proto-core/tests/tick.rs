//! A VP that does not leave its core: with requests in its loop it is made to; without, it is named, and only if others wait.

mod common;

use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use common::lang::{Gate, Lock};
use common::{build, runtime, watched};
use proto_core::{CoreId, Event, Hooks, Runtime, VpBuilder, VpName, join, scope, yield_now};

#[test]
fn a_spin_with_requests_lets_others_run() {
    watched("spin with requests", || {
        let flag = AtomicBool::new(false);
        let lock = Lock::new();
        runtime(1)
            .run(|| {
                scope(|s| {
                    s.spawn(|| flag.store(true, Ordering::Relaxed));
                    while !flag.load(Ordering::Relaxed) {
                        drop(lock.lock());
                    }
                });
            })
            .unwrap();
    });
}

#[test]
fn a_spin_with_forks_lets_others_run() {
    watched("spin with forks", || {
        let flag = AtomicBool::new(false);
        runtime(1)
            .run(|| {
                scope(|s| {
                    s.spawn(|| flag.store(true, Ordering::Relaxed));
                    while !flag.load(Ordering::Relaxed) {
                        join(|| (), || ());
                    }
                });
            })
            .unwrap();
    });
}

#[test]
fn a_spin_with_spawns_lets_others_run() {
    watched("spin with spawns", || {
        let flag = Arc::new(AtomicBool::new(false));
        runtime(1)
            .run(move || {
                let set = Arc::clone(&flag);
                drop(VpBuilder::new().spawn(move || set.store(true, Ordering::Relaxed)).unwrap());
                while !flag.load(Ordering::Relaxed) {
                    drop(VpBuilder::new().spawn(|| ()).unwrap());
                }
            })
            .unwrap();
    });
}

/// A deadline of a core whose VP spins with requests.
#[test]
fn a_spin_with_requests_lets_deadlines_pass() {
    watched("spin and deadline", || {
        let flag = AtomicBool::new(false);
        let (lock, gate) = (Lock::new(), Gate::new());
        runtime(1)
            .run(|| {
                scope(|s| {
                    s.spawn(|| {
                        gate.pass_until(Instant::now() + Duration::from_millis(3)).unwrap_err();
                        flag.store(true, Ordering::Relaxed);
                    });
                    while !flag.load(Ordering::Relaxed) {
                        drop(lock.lock());
                    }
                });
            })
            .unwrap();
    });
}

#[derive(Default)]
struct Hogs(Mutex<Vec<(String, CoreId)>>);

impl Hooks for Hogs {
    fn event(&self, _: &Event) {}

    fn hog(&self, vp: &VpName, core: CoreId) -> bool {
        self.0.lock().unwrap().push((vp.to_string(), core));
        true
    }
}

/// Spins without a request until `over`.
fn spin(over: impl Fn() -> bool) {
    while !over() {
        std::hint::spin_loop();
    }
}

impl Hogs {
    /// How often a VP that the user gave this name was named.
    fn times(&self, name: &str) -> usize {
        self.0.lock().unwrap().iter().filter(|(vp, _)| vp.contains(name)).count()
    }
}

#[test]
fn loops_without_requests_are_named_once_each_while_others_wait() {
    watched("hogs", || {
        let hogs = Arc::new(Hogs::default());
        let runtime = build(Runtime::builder().controllers(2).hooks(hogs.clone()));
        let cores = runtime.cores();
        let (named, done) = (AtomicBool::new(false), AtomicBool::new(false));
        runtime
            .run(|| {
                scope(|s| {
                    let vp = |name: &str, core| VpBuilder::new().name(name).home(cores[core]);
                    for core in 0..2 {
                        // Somebody who is ready while the others spin.
                        s.spawn_with(vp("waits", core), || {
                            while !done.load(Ordering::Relaxed) {
                                yield_now()
                            }
                        })
                        .unwrap();
                    }
                    s.spawn_with(vp("first", 0), || {
                        spin(|| hogs.times("first") > 0);
                        named.store(true, Ordering::Relaxed);
                        // In one piece with the above, for as many ticks again at least.
                        spin(|| hogs.times("second") > 0);
                        done.store(true, Ordering::Relaxed);
                    })
                    .unwrap();
                    s.spawn_with(vp("second", 1), || {
                        while !named.load(Ordering::Relaxed) {
                            yield_now();
                        }
                        spin(|| hogs.times("second") > 0);
                    })
                    .unwrap();
                });
            })
            .unwrap();
        assert_eq!(hogs.times("first"), 1, "named once, not every millisecond");
        assert_eq!(hogs.times("second"), 1);
        let all = hogs.0.lock().unwrap();
        assert_eq!(all.len(), 2, "nobody else is: {all:?}");
        for ((_, core), expected) in all.iter().zip(&cores) {
            assert_eq!(core, expected, "where it spins");
        }
    });
}

/// As [`Hogs`], and lets the runtime write.
#[derive(Default)]
struct Listens(Hogs);

impl Hooks for Listens {
    fn event(&self, _: &Event) {}

    fn hog(&self, vp: &VpName, core: CoreId) -> bool {
        !self.0.hog(vp, core)
    }
}

/// Names the child in the environment.
const CHILD: &str = "PROTO_HOGS";

/// Does nothing unless it is run as a child.
#[test]
fn the_child() {
    if std::env::var_os(CHILD).is_none() {
        return;
    }
    let listens = Arc::new(Listens::default());
    let runtime = build(Runtime::builder().controllers(1).hooks(listens.clone()));
    let hogs = &listens.0;
    let over = AtomicBool::new(false);
    runtime
        .run(|| {
            scope(|s| {
                s.spawn(|| {
                    while !over.load(Ordering::Relaxed) {
                        yield_now()
                    }
                });
                let first = s.spawn_with(VpBuilder::new().name("first"), || {
                    spin(|| hogs.times("first") == 1);
                    yield_now();
                    // It was named in this second, so this one is named later, if it goes on for so long.
                    let second = s.spawn_with(VpBuilder::new().name("second"), || {
                        let until = Instant::now() + Duration::from_secs(3);
                        spin(|| Instant::now() >= until && hogs.times("second") > 0);
                    });
                    second.unwrap().join().unwrap();
                    // Hooks hear of it again.
                    spin(|| hogs.times("first") == 2);
                });
                first.unwrap().join().unwrap();
                over.store(true, Ordering::Relaxed);
            });
        })
        .unwrap();
}

#[test]
fn each_hog_is_written_to_standard_error_once() {
    watched("hogs written", || {
        let exe = std::env::current_exe().unwrap();
        let output = Command::new(exe).args(["--exact", "the_child", "--nocapture"]).env(CHILD, "1").output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{text}");
        for name in ["'first'", "'second'"] {
            let lines = text.lines().filter(|line| line.contains(name) && line.contains("has held core"));
            assert_eq!(lines.count(), 1, "{name}: {text}");
        }
    });
}

/// Computing is no offence while nobody waits for the core.
#[test]
fn a_loop_without_requests_is_not_named_while_nobody_waits() {
    watched("no hog", || {
        let hogs = Arc::new(Hogs::default());
        let runtime = build(Runtime::builder().controllers(1).hooks(hogs.clone()));
        runtime
            .run(|| {
                scope(|s| {
                    s.spawn(|| ());
                });
                yield_now();
                let lock = Lock::new();
                join(|| drop(lock.lock()), yield_now);
                let until = Instant::now() + Duration::from_millis(60);
                while Instant::now() < until {
                    std::hint::spin_loop();
                }
            })
            .unwrap();
        assert!(hogs.0.lock().unwrap().is_empty(), "named although no other work was there");
    });
}
