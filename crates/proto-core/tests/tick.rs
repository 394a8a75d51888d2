//! A VP that does not leave its core: with requests in its loop it is made to; without, it is named, and only if others wait.

mod common;

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

#[test]
fn a_loop_without_requests_is_named_while_others_wait() {
    watched("hog", || {
        let hogs = Arc::new(Hogs::default());
        let runtime = build(Runtime::builder().controllers(1).hooks(hogs.clone()));
        let seen = Arc::clone(&hogs);
        runtime
            .run(move || {
                scope(|s| {
                    s.spawn(|| ());
                    // Holds the core until it was named.
                    while seen.0.lock().unwrap().is_empty() {
                        std::hint::spin_loop();
                    }
                });
            })
            .unwrap();
        let hogs = hogs.0.lock().unwrap();
        assert_eq!(hogs.len(), 1, "named once, not every millisecond");
        assert!(hogs[0].0.contains("1:0"), "the VP that held the core is named: {hogs:?}");
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
