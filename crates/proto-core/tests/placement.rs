//! Where VPs start: where they were asked to, near others, or wherever a core is free; and no work waits while a core is idle.

mod common;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use common::{build, runtime, sized, watched};
use proto_core::{CoreId, Locality, Runtime, SpawnError, Topology, VpBuilder, VpRef, scope, yield_now};

fn here() -> CoreId {
    VpRef::current().home().unwrap()
}

#[test]
fn a_home_is_kept() {
    watched("home", || {
        let runtime = runtime(3);
        let cores = runtime.cores();
        runtime
            .run(move || {
                scope(|s| {
                    for round in 0..sized(60, 4) {
                        let core = cores[round % cores.len()];
                        let body = move || {
                            assert_eq!(here(), core);
                            yield_now();
                            assert_eq!(here(), core);
                            let near = VpBuilder::new().near(&VpRef::current()).spawn(here).unwrap();
                            assert_eq!(near.join().unwrap(), core, "near a VP is where it lives");
                        };
                        s.spawn_with(VpBuilder::new().home(core), body).unwrap();
                    }
                });
            })
            .unwrap();
    });
}

#[test]
fn a_home_that_is_no_core_is_an_error() {
    watched("no such core", || {
        let nowhere = CoreId::new(9999);
        let error = runtime(1).run(move || VpBuilder::new().home(nowhere).spawn(|| ()).map(drop)).unwrap().unwrap_err();
        assert_eq!(error, SpawnError::NoSuchCore(nowhere));
        assert!(error.to_string().contains("9999"), "{error}");
    });
}

/// Their home core computes and makes no requests.
#[test]
fn unstarted_work_goes_to_an_idle_core() {
    watched("idle core", || {
        let runtime = runtime(2);
        for _ in 0..sized(50, 2) {
            runtime
                .run(|| {
                    let ran = AtomicUsize::new(0);
                    let count = sized(100, 3);
                    scope(|s| {
                        for _ in 0..count {
                            s.spawn(|| ran.fetch_add(1, Ordering::Relaxed));
                        }
                        while ran.load(Ordering::Relaxed) < count {
                            std::hint::spin_loop();
                        }
                    });
                })
                .unwrap();
        }
    });
}

/// A process from outside whose first choice is a core that computes for long.
#[test]
fn work_from_outside_goes_to_an_idle_core() {
    watched("from outside", || {
        let runtime = runtime(2);
        let over = Arc::new(AtomicBool::new(false));
        let (stop, running) = (Arc::clone(&over), Arc::new(AtomicBool::new(false)));
        let started = Arc::clone(&running);
        let hog = runtime
            .start(move || {
                started.store(true, Ordering::Relaxed);
                while !stop.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            })
            .unwrap();
        while !running.load(Ordering::Relaxed) {
            std::thread::yield_now();
        }
        for n in 0..sized(50, 4) {
            assert_eq!(runtime.run(move || n).unwrap(), n);
        }
        over.store(true, Ordering::Relaxed);
        hog.wait().unwrap();
    });
}

/// Two cores of each package: one computes and has children that nobody else runs, the other takes its work where it is nearest.
#[test]
fn locality_takes_near_work_first() {
    watched("near first", || {
        let topology = Topology::parse("2 packages x 2 cores").unwrap();
        for _ in 0..sized(20, 1) {
            let runtime = build(Runtime::builder().controllers(4).topology(topology.clone()).assigner(Locality));
            let cores = runtime.cores();
            let first_takes = Mutex::new(Vec::new());
            let (busy, released) = (AtomicUsize::new(0), AtomicBool::new(false));
            let children = 8;
            let ran = AtomicUsize::new(0);
            runtime
                .run(|| {
                    scope(|s| {
                        for package in [0, 2] {
                            let (cores, first_takes, busy, released, ran) =
                                (&cores, &first_takes, &busy, &released, &ran);
                            // Keeps the neighbour from looking for work too early.
                            let neighbour = move || {
                                busy.fetch_add(1, Ordering::Relaxed);
                                while !released.load(Ordering::Relaxed) {
                                    std::thread::yield_now();
                                }
                            };
                            s.spawn_with(VpBuilder::new().home(cores[package + 1]), neighbour).unwrap();
                            let parent = move || {
                                // All four have their cores: else a core that still waits for its parent might take the first child of the other one.
                                busy.fetch_add(1, Ordering::Relaxed);
                                while busy.load(Ordering::Relaxed) < 4 {
                                    std::thread::yield_now();
                                }
                                for _ in 0..children {
                                    s.spawn(move || {
                                        first_takes.lock().unwrap().push((here(), package));
                                        ran.fetch_add(1, Ordering::Relaxed);
                                        // Long enough for the others to take theirs.
                                        while ran.load(Ordering::Relaxed) < 2 {
                                            std::thread::yield_now();
                                        }
                                    });
                                }
                                busy.fetch_add(1, Ordering::Relaxed);
                                while ran.load(Ordering::Relaxed) < 2 * children {
                                    if busy.load(Ordering::Relaxed) == 6 {
                                        released.store(true, Ordering::Relaxed);
                                    }
                                    std::thread::yield_now();
                                }
                            };
                            s.spawn_with(VpBuilder::new().home(cores[package]), parent).unwrap();
                        }
                    });
                })
                .unwrap();
            let takes = first_takes.into_inner().unwrap();
            for (thief, package) in [(1, 0), (3, 2)] {
                let first = takes.iter().find(|(core, _)| *core == cores[thief]);
                assert!(first.is_none_or(|(_, from)| *from == package), "core {thief} took from {takes:?}");
            }
        }
    });
}
