//! VPs that may move after they have started: they do, and survive it.
#![cfg(feature = "migrate")]

mod common;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use common::assigners::Heap;
use common::lang::{Gate, Lock};
use common::{build, sized, watched};
use proto_core::{
    CoreId, Ended, JoinHandle, ProcessError, Runtime, VpBuilder, VpRef, current_name, join, task_scope, yield_now,
};

fn spawn<T: Send + 'static>(f: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    // SAFETY: the closures of this file hold nothing of a thread across a construct.
    unsafe { VpBuilder::new().migratable() }.spawn(f).unwrap()
}

#[inline(never)]
fn here() -> u32 {
    VpRef::current().home().unwrap().index() as u32
}

#[test]
fn a_migratable_vp_moves_and_goes_on() {
    watched("moves", || {
        for threads in [false, true] {
            let runtime = build(Runtime::builder().controllers(2).assigner(Heap).thread_per_vp(threads));
            // On its own OS thread none moves: some turns show it. Else until one has; on one processor that may take a while.
            let turns = if threads { 1000 } else { usize::MAX };
            let moved = Arc::new(AtomicBool::new(false));
            let seen = runtime
                .run(|| {
                    let vps: Vec<_> = (0..8)
                        .map(|n| {
                            let moved = Arc::clone(&moved);
                            spawn(move || {
                                let mut seen = BTreeSet::new();
                                let mut sum = 0;
                                for _ in 0..turns {
                                    yield_now();
                                    seen.insert(here());
                                    sum += n;
                                    if seen.len() > 1 {
                                        moved.store(true, Ordering::Relaxed);
                                    }
                                    if moved.load(Ordering::Relaxed) {
                                        break;
                                    }
                                }
                                std::hint::black_box(sum);
                                seen.len()
                            })
                        })
                        .collect();
                    vps.into_iter().map(|vp| vp.join().unwrap()).max().unwrap()
                })
                .unwrap();
            assert_eq!(seen, if threads { 1 } else { 2 }, "cores that one VP has seen");
        }
    });
}

/// Keeps its core busy.
fn until(happened: &AtomicBool) {
    while !happened.load(Ordering::Acquire) {
        std::thread::yield_now();
    }
}

/// Keeps the other one of two cores busy until `goes_on`: from then on the caller's core, which is told, runs everything.
fn keep_other_busy(places: &[CoreId], goes_on: &'static AtomicBool) -> (CoreId, JoinHandle<()>) {
    let home = VpRef::current().home().unwrap();
    let other = places.iter().find(|place| **place != home).unwrap();
    let held = Arc::new(AtomicBool::new(false));
    let holds = Arc::clone(&held);
    let busy = VpBuilder::new().home(*other).spawn(move || {
        holds.store(true, Ordering::Release);
        until(goes_on);
    });
    while !held.load(Ordering::Acquire) {
        yield_now();
    }
    (home, busy.unwrap())
}

/// The core that a VP has left no longer looks for it, and the one that takes it over has looked already.
#[test]
fn a_cancel_meets_a_vp_that_is_just_changing_cores() {
    static BEGUN: AtomicBool = AtomicBool::new(false);
    static LEFT: AtomicBool = AtomicBool::new(false);
    static OTHER_GOES_ON: AtomicBool = AtomicBool::new(false);
    static HOME_GOES_ON: AtomicBool = AtomicBool::new(false);
    static OVER: AtomicBool = AtomicBool::new(false);
    static NEVER: Gate = Gate::new();

    /// Says that the VP has got this far, whichever way.
    struct Over;
    impl Drop for Over {
        fn drop(&mut self) {
            OVER.store(true, Ordering::Release);
        }
    }

    watched("changes cores", || {
        let runtime = build(Runtime::builder().controllers(2).assigner(Heap));
        let places = runtime.cores();
        let process = runtime
            .start(move || {
                let (home, busy) = keep_other_busy(&places, &OTHER_GOES_ON);
                // From here on this core runs everything: first the VP that is to move, until it yields with this core's time taken.
                let moves = spawn(move || {
                    BEGUN.store(true, Ordering::Release);
                    while !LEFT.load(Ordering::Acquire) {
                        assert_eq!(VpRef::current().home(), Some(home));
                        yield_now();
                    }
                    let _over = Over;
                    NEVER.pass();
                });
                while !BEGUN.load(Ordering::Acquire) {
                    yield_now();
                }
                let holds = VpBuilder::new().home(home).spawn(|| {
                    LEFT.store(true, Ordering::Release);
                    until(&HOME_GOES_ON);
                });
                drop((busy.join(), moves.join(), holds.unwrap().join()));
            })
            .unwrap();
        until(&LEFT);
        process.cancel().unwrap();
        OTHER_GOES_ON.store(true, Ordering::Release);
        while !OVER.load(Ordering::Acquire) && NEVER.waiting() == 0 {
            std::thread::yield_now();
        }
        HOME_GOES_ON.store(true, Ordering::Release);
        // A lost one would be found waiting for ever.
        let outcome = process.wait();
        assert!(matches!(outcome, Err(ProcessError::Cancelled)), "{outcome:?}");
    });
}

/// A tick takes the core from a VP at the door of a request, which it then makes, and waits for, on another core.
#[test]
fn a_vp_that_moves_at_the_door_of_a_request_makes_it_as_itself() {
    static BEGUN: AtomicBool = AtomicBool::new(false);
    static LOCKED: AtomicBool = AtomicBool::new(false);
    static OTHER_GOES_ON: AtomicBool = AtomicBool::new(false);
    static HOME_GOES_ON: AtomicBool = AtomicBool::new(false);
    static LOCK: Lock = Lock::new();

    watched("moves at the door", || {
        let runtime = build(Runtime::builder().controllers(2).assigner(Heap));
        let places = runtime.cores();
        let process = runtime
            .start(move || {
                let (home, busy) = keep_other_busy(&places, &OTHER_GOES_ON);
                // From here on this core runs everything.
                // SAFETY: as in `spawn`.
                let moves = unsafe { VpBuilder::new().migratable() }.name("moves").spawn(move || {
                    BEGUN.store(true, Ordering::Release);
                    // Nothing but the door of `lock` lets others run here. One of them keeps the lock.
                    while VpRef::current().home() == Some(home) {
                        drop(LOCK.lock());
                    }
                });
                while !BEGUN.load(Ordering::Acquire) {
                    yield_now();
                }
                let holds = VpBuilder::new().home(home).spawn(|| {
                    let _held = LOCK.lock();
                    LOCKED.store(true, Ordering::Release);
                    until(&HOME_GOES_ON);
                });
                busy.join().unwrap();
                holds.unwrap().join().unwrap();
                moves.unwrap().join().unwrap();
            })
            .unwrap();
        until(&LOCKED);
        OTHER_GOES_ON.store(true, Ordering::Release);
        // Seen from the other core, for that of the holder is busy.
        while !runtime.waits().iter().any(|wait| wait.vp.user() == Some("moves")) {}
        HOME_GOES_ON.store(true, Ordering::Release);
        process.wait().unwrap();
    });
}

/// Deadlines, locks and forks of VPs that move all the time.
#[test]
fn a_vp_that_moves_keeps_its_deadlines() {
    watched("moves and waits", || {
        let runtime = build(Runtime::builder().controllers(3).assigner(Heap));
        runtime
            .run(|| {
                static LOCK: Lock = Lock::new();
                let vps: Vec<_> = (0..sized(30, 3))
                    .map(|n| {
                        spawn(move || {
                            for round in 0..sized(50, 3) {
                                let gate = Gate::new();
                                let time = Duration::from_micros((n * 7 + round * 3) as u64 % 200);
                                assert_eq!(gate.pass_until(Instant::now() + time), Err(Ended::Deadline));
                                // A deadline that is answered long before.
                                let far = Instant::now() + Duration::from_secs(3600);
                                join(|| gate.open(), || gate.pass_until(far).unwrap());
                                let _held = LOCK.lock();
                                yield_now();
                            }
                        })
                    })
                    .collect();
                vps.into_iter().for_each(|vp| vp.join().unwrap());
            })
            .unwrap();
    });
}

/// A tick takes the core from a VP at the door of a touch, which it then goes on with on another core.
#[test]
fn a_vp_that_moves_at_the_door_of_a_touch_goes_on_as_itself() {
    static BEGUN: AtomicBool = AtomicBool::new(false);
    static HELD: AtomicBool = AtomicBool::new(false);
    static OTHER_GOES_ON: AtomicBool = AtomicBool::new(false);
    static OVER: AtomicBool = AtomicBool::new(false);

    watched("moves at a touch", || {
        let runtime = build(Runtime::builder().controllers(2).assigner(Heap));
        let places = runtime.cores();
        let process = runtime
            .start(move || {
                let (home, busy) = keep_other_busy(&places, &OTHER_GOES_ON);
                // From here on this core runs everything.
                let moves = spawn(move || {
                    BEGUN.store(true, Ordering::Release);
                    let me = current_name().to_string();
                    while VpRef::current().home() == Some(home) {
                        task_scope(|s| {
                            let task = s.task(|| current_name().to_string());
                            // Long enough for a tick, most of the time.
                            let until = Instant::now() + Duration::from_millis(1);
                            while Instant::now() < until {}
                            assert_ne!(task.touch(), me, "a task has a name of its own");
                        });
                    }
                    OVER.store(true, Ordering::Release);
                });
                while !BEGUN.load(Ordering::Acquire) {
                    yield_now();
                }
                let holds = VpBuilder::new().home(home).spawn(|| {
                    HELD.store(true, Ordering::Release);
                    until(&OVER);
                });
                busy.join().unwrap();
                holds.unwrap().join().unwrap();
                moves.join().unwrap();
            })
            .unwrap();
        until(&HELD);
        OTHER_GOES_ON.store(true, Ordering::Release);
        process.wait().unwrap();
    });
}
