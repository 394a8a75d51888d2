//! Latent tasks: the same results, names and values, whether a fork was run inline, taken by another core, or made an ordinary task.

mod common;

use std::cell::Cell;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use common::cancelling::{Drops, Witness};
use common::lang::{Gate, Lock};
use common::programs::tree;
use common::trees::{cancel_some_time, wait_perhaps};
use common::{Dice, build, runtime, sized, watched};
use proto_core::{Cancelled, Runtime, VpBuilder, current_name, join, join_wanted, scope, work_wanted, yield_now};

/// A fork tree whose leaves do something drawn by dice: nothing, yield, wait, block, panic.
fn mixed(depth: usize, seed: u64, panics: &AtomicUsize, lock: &Lock) -> u64 {
    let mut dice = Dice::new(seed);
    if depth == 0 {
        match dice.below(40) {
            5 => {
                panics.fetch_add(1, Ordering::Relaxed);
                resume_unwind(Box::new(seed));
            }
            drawn => wait_perhaps(drawn, lock),
        }
        return 1;
    }
    let (left, right) = (dice.below(u64::MAX), dice.below(u64::MAX));
    let (a, b) = join(|| mixed(depth - 1, left, panics, lock), || mixed(depth - 1, right, panics, lock));
    a + b
}

#[test]
fn fork_trees_with_waits_and_panics_come_to_their_end() {
    watched("mixed trees", || {
        for round in 0..sized(40, 2) {
            let runtime = runtime([1, 2, 3, 8][round % 4]);
            let depth = sized(9, 3);
            let panics = AtomicUsize::new(0);
            let lock = Lock::new();
            let outcome = runtime.run(|| catch_unwind(AssertUnwindSafe(|| mixed(depth, round as u64, &panics, &lock))));
            match outcome.unwrap() {
                Ok(leaves) => {
                    assert_eq!(leaves, 1 << depth, "every leaf has run once");
                    assert_eq!(panics.into_inner(), 0, "a panic was lost");
                }
                Err(payload) => {
                    assert!(payload.is::<u64>(), "a panic's payload arrives");
                    assert_ne!(panics.into_inner(), 0);
                }
            }
            runtime.run(|| drop(lock.lock())).unwrap();
        }
    });
}

#[test]
fn forks_of_os_threads_run_on_the_default_runtime() {
    watched("from OS threads", || {
        std::thread::scope(|s| {
            for _ in 0..sized(4, 2) {
                s.spawn(|| assert_eq!(tree(sized(6, 2), &|| 1), 1 << sized(6, 2)));
            }
        });
        let caught = catch_unwind(|| join(|| 1, || -> u8 { resume_unwind(Box::new(5u8)) })).unwrap_err();
        assert_eq!(*caught.downcast::<u8>().unwrap(), 5);
    });
}

/// Depth first, the first fork's branch is a recursion of its own: every level stays on the stack.
fn deep(levels: usize) -> usize {
    let ballast = std::hint::black_box([1u8; 200]);
    if levels == 0 {
        return 0;
    }
    let ((), b) = join(|| (), || deep(levels - 1));
    b + usize::from(ballast[levels % 200])
}

#[test]
fn recursion_deeper_than_a_stack_goes_on_on_the_next() {
    watched("deep recursion", || {
        for controllers in [1, 2] {
            for stack in [32 << 10, 64 << 10, 256 << 10] {
                let runtime = Runtime::builder().controllers(controllers).stack_size(stack).build().unwrap();
                let levels = sized(5_000, 20);
                assert_eq!(runtime.run(move || deep(levels)).unwrap(), levels);
            }
        }
    });
}

proto_core::vp_local! {
    static LEVEL: Cell<u32> = Cell::new(0);
}

/// Notes the name and the value of `LEVEL` at each leaf.
fn note(depth: usize, yields: bool, notes: &Mutex<BTreeMap<String, u32>>) {
    LEVEL.with(|level| level.set(level.get() + 1));
    if depth == 0 {
        if yields {
            yield_now();
        }
        let before = notes.lock().unwrap().insert(current_name().to_string(), LEVEL.with(Cell::get));
        assert_eq!(before, None, "two tasks have one name");
        return;
    }
    join(|| note(depth - 1, yields, notes), || note(depth - 1, yields, notes));
}

#[test]
fn names_and_locals_are_the_same_stolen_or_inlined() {
    watched("names and locals", || {
        let mut expected = None;
        for round in 0..sized(30, 3) {
            let runtime = runtime(1 + round % 4);
            let notes = Mutex::new(BTreeMap::new());
            let depth = sized(6, 2);
            runtime.run(|| note(depth, round % 2 == 1, &notes)).unwrap();
            let notes = notes.into_inner().unwrap();
            assert_eq!(*expected.get_or_insert(notes.clone()), notes, "round {round}: the schedule shows");
        }
    });
}

#[test]
fn an_owner_that_forks_no_more_is_robbed() {
    watched("hard theft", || {
        let runtime = runtime(2);
        for _ in 0..sized(50, 2) {
            let taken = AtomicBool::new(false);
            // The first closure makes no request, no fork, and ends only when the second has run.
            runtime
                .run(|| {
                    join(
                        || {
                            while !taken.load(Ordering::Acquire) {
                                std::hint::spin_loop();
                            }
                        },
                        || taken.store(true, Ordering::Release),
                    )
                })
                .unwrap();
        }
    });
}

#[test]
fn a_sleeping_owner_hides_no_work() {
    watched("suspended owner", || {
        for controllers in [1, 2] {
            let gate = Gate::new();
            // The first closure waits for what only the second does: on one controller too.
            runtime(controllers).run(|| join(|| gate.pass(), || gate.open())).unwrap();
        }
    });
}

#[test]
fn a_fork_of_a_cancelled_process_is_run_or_told() {
    watched("cancelled forks", || {
        cancel_some_time(|| {
            tree(5, &|| {
                yield_now();
                1
            });
        });
    });
}

/// A cancel that comes back through a join is a cancel: guards that poison on a panic must not.
#[test]
fn a_cancel_through_a_stolen_fork_is_no_panic() {
    watched("no false poison", || {
        for round in 0..sized(50, 2) {
            let drops = Drops::default();
            let gate = Gate::new();
            let runtime = runtime(1 + round % 2);
            runtime
                .run(|| {
                    scope(|s| {
                        s.spawn(|| {
                            let _outer = Witness(&drops);
                            let caught = catch_unwind(AssertUnwindSafe(|| {
                                let _inner = Witness(&drops);
                                join(yield_now, || {
                                    let _guard = Witness(&drops);
                                    gate.pass();
                                })
                            }));
                            let payload = caught.unwrap_err();
                            assert!(payload.is::<Cancelled>());
                            resume_unwind(payload);
                        });
                        while gate.waiting() == 0 {
                            yield_now();
                        }
                        s.cancel().unwrap();
                    });
                })
                .unwrap();
            assert_eq!((drops.all(), drops.panicking()), (3, 0), "a cancel was taken for a panic");
        }
    });
}

#[test]
fn scopes_in_forks_in_scopes_end_in_order() {
    watched("scopes and forks", || {
        let runtime = build(Runtime::builder().controllers(3));
        let sum = AtomicUsize::new(0);
        runtime
            .run(|| {
                scope(|s| {
                    for n in 0..sized(20, 2) {
                        let sum = &sum;
                        s.spawn(move || {
                            join(
                                || {
                                    scope(|inner| {
                                        inner.spawn(|| sum.fetch_add(n, Ordering::Relaxed));
                                        yield_now();
                                    });
                                },
                                || {
                                    let vp = VpBuilder::new().spawn(move || n).unwrap();
                                    sum.fetch_add(vp.join().unwrap(), Ordering::Relaxed);
                                },
                            );
                        });
                    }
                });
            })
            .unwrap();
        let n = sized(20, 2);
        assert_eq!(sum.into_inner(), n * (n - 1));
    });
}

#[test]
fn a_loop_is_asked_for_a_part_until_it_has_one_to_take() {
    watched("wanted", || {
        // Nobody else is there.
        assert!(runtime(1).run(|| (0..1000).all(|_| !work_wanted())).unwrap());
        assert!(!work_wanted(), "an OS thread has no list");
        let runtime = runtime(2);
        for _ in 0..sized(50, 2) {
            runtime
                .run(|| {
                    while !work_wanted() {
                        std::hint::spin_loop();
                    }
                    let taken = AtomicBool::new(false);
                    // It is public at once: the first closure neither forks nor asks.
                    join_wanted(
                        || {
                            while !taken.load(Ordering::Acquire) {
                                std::hint::spin_loop();
                            }
                        },
                        || taken.store(true, Ordering::Release),
                    );
                })
                .unwrap();
        }
    });
}
