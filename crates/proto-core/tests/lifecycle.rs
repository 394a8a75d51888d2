//! Runtimes come and go: dropped from anywhere, shut down at random moments, several at once, made inside VPs.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use common::cancelling::{Drops, Witness};
use common::lang::{Gate, Lock, sleep};
use common::{Dice, build, runtime, sized, watched};
use proto_core::{Runtime, SpawnError, VpBuilder, blocking, external, join, scope, yield_now};

/// A program that does a little of everything until it is ended, with `lock` for what it holds.
fn busy_program(lock: &Arc<Lock>) {
    let lock = Arc::clone(lock);
    scope(|s| {
        for n in 0..6u64 {
            let lock = &lock;
            s.spawn(move || {
                loop {
                    match n {
                        0 => sleep(Duration::from_micros(50)),
                        1 => drop(lock.lock()),
                        2 => {
                            let _held = lock.lock();
                            sleep(Duration::from_micros(10));
                        }
                        3 => {
                            join(yield_now, || sleep(Duration::from_micros(5)));
                        }
                        4 => match VpBuilder::new().spawn(yield_now) {
                            Ok(vp) => drop(vp.join()),
                            Err(SpawnError::Stopping) => sleep(Duration::from_secs(1)),
                            Err(error) => panic!("{error}"),
                        },
                        _ => Gate::new().pass(),
                    }
                }
            });
        }
    });
}

#[test]
fn shutdown_at_any_moment_ends_everything() {
    watched("shutdown at any moment", || {
        let mut dice = Dice::new(1);
        for round in 0..sized(150, 3) {
            let runtime = build(Runtime::builder().controllers(1 + round % 4).thread_per_vp(round % 5 == 4));
            let lock = Arc::new(Lock::new());
            let processes: Vec<_> = (0..2)
                .map(|_| {
                    let lock = Arc::clone(&lock);
                    runtime.start(move || busy_program(&lock)).unwrap()
                })
                .collect();
            let until = Instant::now() + Duration::from_micros(dice.below(800));
            while Instant::now() < until {
                std::hint::spin_loop();
            }
            if let Err(error) = runtime.shutdown(Instant::now() + Duration::from_secs(30)) {
                panic!("round {round}: everything can be cancelled, yet: {error}");
            }
            for process in processes {
                assert!(process.wait().is_err(), "a process that never ends by itself was cancelled");
            }
            // Whoever held the lock gave it back while it unwound.
            drop(lock.lock());
        }
    });
}

#[test]
fn dropping_the_last_handle_ends_everything() {
    watched("drop", || {
        let drops = Arc::new(Drops::default());
        for round in 0..sized(50, 2) {
            let runtime = runtime(1 + round % 3);
            let witness = Witness(Arc::clone(&drops));
            let process = runtime
                .start(move || {
                    let _witness = witness;
                    Gate::new().pass();
                })
                .unwrap();
            drop(runtime);
            assert!(process.wait().is_err());
            assert_eq!(drops.all(), round + 1, "what the VP held was dropped before the runtime was gone");
        }
    });
}

#[test]
fn a_vp_may_drop_the_last_handle_of_its_own_runtime() {
    watched("drop inside", || {
        for _ in 0..sized(50, 2) {
            let own = runtime(2);
            let inside = own.clone();
            let process = own
                .start(move || {
                    drop(inside);
                    // It asked for the end of this very process: the next wait is the last.
                    Gate::new().pass();
                })
                .unwrap();
            drop(own);
            assert!(process.wait().is_err());
        }
    });
}

#[test]
fn a_vp_may_drop_the_last_handle_of_another_runtime() {
    watched("drop in another", || {
        let here = runtime(1);
        for _ in 0..sized(50, 2) {
            let there = runtime(2);
            let process = there.start(|| Gate::new().pass()).unwrap();
            here.run(move || drop(there)).unwrap();
            assert!(process.wait().is_err());
        }
    });
}

#[test]
fn runtimes_are_made_and_used_inside_vps() {
    watched("made inside", || {
        let outer = runtime(2);
        let sum: u64 = outer
            .run(|| {
                scope(|s| {
                    let vps: Vec<_> = (0..sized(8, 2) as u64)
                        .map(|n| {
                            s.spawn(move || {
                                let inner = runtime(1 + n as usize % 2);
                                inner.run(|| common::programs::tree(4, &|| n)).unwrap()
                            })
                        })
                        .collect();
                    vps.into_iter().map(|vp| vp.join().unwrap()).sum()
                })
            })
            .unwrap();
        let n = sized(8, 2) as u64;
        assert_eq!(sum, 16 * n * (n - 1) / 2);
    });
}

#[test]
fn vps_of_different_runtimes_share_objects() {
    watched("shared objects", || {
        let lock = Lock::new();
        let (one, two) = (runtime(1), runtime(2));
        let count = AtomicUsize::new(0);
        let inside = AtomicBool::new(false);
        let work = || {
            for _ in 0..sized(300, 5) {
                let _held = lock.lock();
                assert!(!inside.swap(true, Ordering::Relaxed), "two hold one lock");
                count.fetch_add(1, Ordering::Relaxed);
                inside.store(false, Ordering::Relaxed);
            }
        };
        std::thread::scope(|s| {
            s.spawn(|| one.run(work).unwrap());
            s.spawn(|| {
                two.run(|| {
                    join(work, work);
                })
                .unwrap()
            });
            s.spawn(work);
        });
        assert_eq!(count.into_inner(), 4 * sized(300, 5));
    });
}

/// The waker still looks at the core of the timeline it has woken when that timeline's runtime may be gone already.
#[test]
fn a_runtime_may_end_while_an_outsider_wakes_its_last_vp() {
    watched("woken at the end", || {
        for _ in 0..sized(500, 5) {
            let (event, waker) = external::<u8>();
            let outsider = std::thread::spawn(move || waker.wake(1));
            let runtime = runtime(1);
            assert_eq!(runtime.run(move || event.wait(None)).unwrap(), Ok(Some(1)));
            drop(runtime);
            outsider.join().unwrap();
        }
    });
}

/// A reference to a VP may outlive the VP's runtime.
#[test]
fn references_outlive_their_runtime() {
    watched("stale references", || {
        let gone = runtime(2);
        let stale = gone.run(|| VpBuilder::new().spawn(|| ()).unwrap().vp()).unwrap();
        drop(gone);
        let runtime = runtime(2);
        assert!(stale.has_ended());
        assert_eq!(stale.home(), None, "a VP that has ended lives nowhere");
        stale.cancel().unwrap();
        let stale_inside = stale;
        let value = runtime.run(move || VpBuilder::new().near(&stale_inside).spawn(|| 3).unwrap().join().unwrap());
        assert_eq!(value.unwrap(), 3, "near something that is gone is anywhere");
    });
}

#[test]
fn a_shutdown_that_is_late_names_who_is_stuck() {
    // In a loop without requests.
    watched("stuck in a loop", || {
        let go = Arc::new(AtomicBool::new(false));
        let runs = Arc::new(AtomicBool::new(false));
        let runtime = runtime(1);
        let (go_inside, runs_inside) = (Arc::clone(&go), Arc::clone(&runs));
        let process = runtime
            .start(move || {
                let spinner = VpBuilder::new().name("spinner").spawn(move || {
                    runs_inside.store(true, Ordering::Relaxed);
                    while !go_inside.load(Ordering::Relaxed) {
                        std::hint::spin_loop();
                    }
                });
                drop(spinner.unwrap().join());
            })
            .unwrap();
        while !runs.load(Ordering::Relaxed) {
            std::thread::yield_now();
        }
        let error = runtime.shutdown(Instant::now() + Duration::from_millis(20)).unwrap_err();
        assert!(error.to_string().contains("spinner"), "the VP is named: {error}");
        go.store(true, Ordering::Relaxed);
        drop(process.wait());
    });
    // In a call that blocks an auxiliary thread, a binding wait.
    watched("stuck in blocking", || {
        let runtime = runtime(1);
        let (send, receive) = std::sync::mpsc::channel::<()>();
        let (begun, began) = std::sync::mpsc::channel::<()>();
        let process = runtime
            .start(move || {
                let reader = VpBuilder::new().name("reader").spawn(move || {
                    blocking(move || {
                        begun.send(()).unwrap();
                        receive.recv()
                    })
                });
                drop(reader.unwrap().join());
            })
            .unwrap();
        began.recv().unwrap();
        let error = runtime.shutdown(Instant::now() + Duration::from_millis(20)).unwrap_err();
        assert!(error.to_string().contains("reader"), "the VP is named: {error}");
        drop(send);
        drop(process);
    });
}

#[test]
fn new_work_is_refused_once_a_shutdown_began() {
    watched("refused", || {
        let runtime = runtime(1);
        let gate = Arc::new(Gate::new());
        let (refused, of_gate) = (Arc::new(AtomicBool::new(false)), Arc::clone(&gate));
        let told = Arc::clone(&refused);
        let process = runtime
            .start(move || {
                /// Tries to spawn while it is dropped.
                struct Late(Arc<AtomicBool>);
                impl Drop for Late {
                    fn drop(&mut self) {
                        let late = VpBuilder::new().spawn(|| ());
                        self.0.store(matches!(late, Err(SpawnError::Stopping)), Ordering::Relaxed);
                    }
                }
                let _late = Late(told);
                of_gate.pass();
            })
            .unwrap();
        while gate.waiting() == 0 {
            std::thread::yield_now();
        }
        runtime.shutdown(Instant::now() + Duration::from_secs(30)).unwrap();
        assert!(process.wait().is_err());
        assert!(refused.load(Ordering::Relaxed), "a spawn in a runtime that ends says so");
    });
}

/// The seed and its child end on two cores at the same moment, again and again: one of them finds that all has ended.
#[test]
fn two_ends_at_once_end_the_process() {
    watched("two ends at once", || {
        let runtime = runtime(2);
        for _ in 0..sized(3_000, 20) {
            let child_runs = AtomicBool::new(false);
            let go = Arc::new(AtomicBool::new(false));
            let theirs = Arc::clone(&go);
            runtime
                .run(|| {
                    let here = proto_core::VpRef::current().home().unwrap().index();
                    let there = proto_core::CoreId::new(1 - u32::try_from(here).unwrap());
                    let child_runs = Arc::new(child_runs);
                    let tells = Arc::clone(&child_runs);
                    let child = VpBuilder::new().home(there).spawn(move || {
                        tells.store(true, Ordering::Release);
                        while !theirs.load(Ordering::Acquire) {
                            std::hint::spin_loop();
                        }
                    });
                    drop(child.unwrap());
                    while !child_runs.load(Ordering::Acquire) {
                        yield_now();
                    }
                    go.store(true, Ordering::Release);
                })
                .unwrap();
        }
    });
}
