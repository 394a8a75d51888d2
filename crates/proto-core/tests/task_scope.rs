//! Tasks of a scope: each is run once, and its result arrives, whether it was run inline, stolen, left behind in a bundle, or touched.

mod common;

use std::cell::Cell;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use common::lang::{Gate, Lock};
use common::trees::wait_perhaps;
use common::{Dice, build, runtime, sized, watched};
use proto_core::{Event, Hooks, Runtime, Task, TaskScope, blocking, current_name, join, scope, task_scope, yield_now};

const CONTROLLERS: [usize; 4] = [1, 2, 3, 8];

/// A tree of tasks that spawn tasks, and sometimes wait, block or panic.
fn mixed<'scope>(
    s: &'scope TaskScope<'scope, '_>,
    depth: usize,
    seed: u64,
    leaves: &'scope AtomicUsize,
    panics: &'scope AtomicUsize,
    lock: &'scope Lock,
) {
    let mut dice = Dice::new(seed);
    wait_perhaps(dice.below(60), lock);
    if depth == 0 {
        leaves.fetch_add(1, Ordering::Relaxed);
        if dice.below(40) == 0 {
            panics.fetch_add(1, Ordering::Relaxed);
            resume_unwind(Box::new(seed));
        }
        return;
    }
    let (left, right) = (dice.below(u64::MAX), dice.below(u64::MAX));
    match dice.below(4) {
        0 => {
            join(
                || s.spawn(move || mixed(s, depth - 1, left, leaves, panics, lock)),
                || s.spawn(move || mixed(s, depth - 1, right, leaves, panics, lock)),
            );
        }
        1 => {
            let left = s.task(move || mixed(s, depth - 1, left, leaves, panics, lock));
            let right = s.task(move || mixed(s, depth - 1, right, leaves, panics, lock));
            match dice.below(3) {
                0 => drop((left, right)),
                1 => {
                    left.touch();
                    right.touch();
                }
                _ => {
                    drop(right.join());
                    left.touch();
                }
            }
        }
        2 => {
            s.spawn(move || mixed(s, depth - 1, left, leaves, panics, lock));
            task_scope(|inner| {
                inner.spawn(|| s.spawn(move || mixed(s, depth - 1, right, leaves, panics, lock)));
            });
        }
        _ => {
            s.spawn(move || mixed(s, depth - 1, left, leaves, panics, lock));
            s.spawn(move || mixed(s, depth - 1, right, leaves, panics, lock));
        }
    }
}

#[test]
fn trees_of_tasks_with_waits_and_panics_come_to_their_end() {
    watched("mixed trees", || {
        for round in 0..sized(80, 4) {
            let runtime = runtime(CONTROLLERS[round % 4]);
            let depth = sized(9, 3);
            let (leaves, panics) = (AtomicUsize::new(0), AtomicUsize::new(0));
            let lock = Lock::new();
            let outcome = runtime
                .run(|| {
                    catch_unwind(AssertUnwindSafe(|| {
                        task_scope(|s| mixed(s, depth, round as u64, &leaves, &panics, &lock));
                    }))
                })
                .unwrap();
            // A touch that panics ends its task early; what it had spawned runs all the same.
            match outcome {
                Ok(()) => assert_eq!(leaves.into_inner(), 1 << depth, "every leaf has run once"),
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
fn many_tasks_of_one_spawner_run_once_each() {
    watched("many tasks", || {
        for controllers in CONTROLLERS {
            let ran = AtomicUsize::new(0);
            let many = sized(100_000, 300);
            runtime(controllers)
                .run(|| {
                    task_scope(|s| {
                        for _ in 0..many {
                            s.spawn(|| {
                                ran.fetch_add(1, Ordering::Relaxed);
                            });
                        }
                        s.sync();
                        assert_eq!(ran.load(Ordering::Relaxed), many, "a sync waits for all");
                        s.spawn(|| {
                            ran.fetch_add(1, Ordering::Relaxed);
                        });
                    });
                })
                .unwrap();
            assert_eq!(ran.into_inner(), many + 1);
        }
    });
}

#[test]
fn a_spawner_may_hold_a_lock_that_its_tasks_want() {
    watched("a lock across spawns", || {
        for controllers in [1, 2] {
            let lock = Lock::new();
            runtime(controllers)
                .run(|| {
                    task_scope(|s| {
                        let held = lock.lock();
                        // More than the latent list holds.
                        for _ in 0..sized(10_000, 50) {
                            s.spawn(|| drop(lock.lock()));
                        }
                        drop(held);
                    });
                })
                .unwrap();
        }
    });
}

/// A chain: each task spawns the next one.
fn chain<'scope>(s: &'scope TaskScope<'scope, '_>, left: usize, ran: &'scope AtomicUsize) {
    ran.fetch_add(1, Ordering::Relaxed);
    if left > 0 {
        s.spawn(move || chain(s, left - 1, ran));
    }
}

#[test]
fn a_chain_of_spawns_needs_no_stack() {
    watched("a chain", || {
        for controllers in [1, 3] {
            let ran = AtomicUsize::new(0);
            let length = sized(50_000, 100);
            runtime(controllers).run(|| task_scope(|s| chain(s, length, &ran))).unwrap();
            assert_eq!(ran.into_inner(), length + 1);
        }
    });
}

/// Each task touches the next one: every level stays on the stack.
fn deep<'scope>(s: &'scope TaskScope<'scope, '_>, left: usize) -> usize {
    let ballast = std::hint::black_box([1u8; 200]);
    if left == 0 {
        return 0;
    }
    s.task(move || deep(s, left - 1)).touch() + usize::from(ballast[left % 200])
}

#[test]
fn touches_deeper_than_a_stack_go_on_on_the_next() {
    watched("deep touches", || {
        for controllers in [1, 2] {
            for stack in [32 << 10, 64 << 10, 256 << 10] {
                let runtime = Runtime::builder().controllers(controllers).stack_size(stack).build().unwrap();
                let levels = sized(5_000, 20);
                assert_eq!(runtime.run(move || task_scope(|s| deep(s, levels))).unwrap(), levels);
            }
        }
    });
}

#[test]
fn a_task_that_is_touched_out_of_order_gives_its_own_result() {
    watched("out of order", || {
        for round in 0..sized(60, 4) {
            let mut dice = Dice::new(round as u64);
            let runtime = runtime(CONTROLLERS[round % 4]);
            runtime
                .run(move || {
                    task_scope(|s| {
                        let mut tasks: Vec<(usize, Task<'_, Box<usize>>)> =
                            (0..sized(200, 20)).map(|n| (n, s.task(move || Box::new(n)))).collect();
                        while !tasks.is_empty() {
                            let (n, task) = tasks.swap_remove(dice.below(tasks.len() as u64) as usize);
                            match dice.below(8) {
                                0 => yield_now(),
                                1 => s.sync(),
                                2 => {
                                    let stays = s.task(|| 1);
                                    join(|| assert_eq!(*task.touch(), n), || assert_eq!(stays.touch(), 1));
                                    continue;
                                }
                                3 => {
                                    drop(task);
                                    continue;
                                }
                                _ => {}
                            }
                            assert_eq!(*task.touch(), n);
                        }
                    });
                })
                .unwrap();
        }
    });
}

#[test]
fn a_task_may_be_touched_by_another_timeline() {
    watched("foreign touch", || {
        for round in 0..sized(100, 4) {
            runtime(CONTROLLERS[round % 4])
                .run(|| {
                    task_scope(|s| {
                        let first = s.task(|| 5);
                        let second = s.task(move || first.touch() + 1);
                        let third = s.task(|| 7);
                        scope(|vps| {
                            let vp = vps.spawn(move || third.touch());
                            assert_eq!(second.touch(), 6);
                            assert_eq!(vp.join().unwrap(), 7);
                        });
                        let fourth = s.task(|| 8);
                        std::thread::scope(|threads| {
                            let toucher = threads.spawn(move || assert_eq!(fourth.touch(), 8));
                            blocking(|| toucher.join().unwrap());
                        });
                    });
                })
                .unwrap();
        }
    });
}

#[test]
fn an_owner_that_suspends_hides_no_tasks() {
    watched("suspended owner", || {
        for controllers in [1, 2] {
            let (gate, back) = (Gate::new(), Gate::new());
            runtime(controllers)
                .run(|| {
                    task_scope(|s| {
                        s.spawn(|| back.pass());
                        s.spawn(|| gate.open());
                        let after = s.task(|| 3);
                        gate.pass();
                        assert_eq!(after.touch(), 3);
                        back.open();
                    });
                })
                .unwrap();
        }
    });
}

#[test]
fn an_owner_that_spawns_no_more_is_robbed() {
    watched("robbed owner", || {
        let runtime = runtime(2);
        for _ in 0..sized(50, 2) {
            let taken = AtomicBool::new(false);
            runtime
                .run(|| {
                    task_scope(|s| {
                        s.spawn(|| taken.store(true, Ordering::Release));
                        while !taken.load(Ordering::Acquire) {
                            std::hint::spin_loop();
                        }
                    });
                })
                .unwrap();
        }
    });
}

proto_core::vp_local! {
    static LEVEL: Cell<u32> = Cell::new(0);
}

/// Notes the name and the value of `LEVEL` in each task.
fn note<'scope>(
    s: &'scope TaskScope<'scope, '_>,
    depth: usize,
    yields: bool,
    notes: &'scope Mutex<BTreeMap<String, u32>>,
) {
    LEVEL.with(|level| level.set(level.get() + 1));
    if yields {
        yield_now();
    }
    let before = notes.lock().unwrap().insert(current_name().to_string(), LEVEL.with(Cell::get));
    assert_eq!(before, None, "two tasks have one name");
    if depth == 0 {
        return;
    }
    s.spawn(move || note(s, depth - 1, yields, notes));
    join(
        || s.spawn(move || note(s, depth - 1, yields, notes)),
        || task_scope(|inner| inner.spawn(move || note(s, 0, yields, notes))),
    );
    s.task(move || note(s, depth - 1, yields, notes)).touch();
}

/// Watches what no task passes that is run as a call.
struct Watching;
impl Hooks for Watching {
    fn event(&self, _: &Event) {}
}

#[test]
fn names_and_locals_are_the_same_wherever_a_task_runs() {
    watched("names and locals", || {
        let mut expected = None;
        for round in 0..sized(40, 3) {
            let mut builder = Runtime::builder().controllers(1 + round % 4);
            if round % 5 == 2 {
                builder = builder.hooks(Arc::new(Watching));
            }
            let runtime = build(builder);
            let notes = Mutex::new(BTreeMap::new());
            let depth = sized(4, 2);
            runtime.run(|| task_scope(|s| note(s, depth, round % 2 == 1, &notes))).unwrap();
            let notes = notes.into_inner().unwrap();
            assert_eq!(*expected.get_or_insert(notes.clone()), notes, "round {round}: the schedule shows");
        }
    });
}

#[test]
fn tasks_of_os_threads_run_on_the_default_runtime() {
    watched("from OS threads", || {
        let sum = AtomicUsize::new(0);
        task_scope(|s| {
            for n in 0..10 {
                let sum = &sum;
                s.spawn(move || {
                    sum.fetch_add(n, Ordering::Relaxed);
                    s.spawn(move || {
                        sum.fetch_add(n, Ordering::Relaxed);
                    });
                });
            }
            s.sync();
            assert_eq!(sum.load(Ordering::Relaxed), 90);
            assert_eq!(s.task(|| 4).touch(), 4);
        });
        let caught = catch_unwind(|| task_scope(|s| s.spawn(|| resume_unwind(Box::new(5u8))))).unwrap_err();
        assert_eq!(*caught.downcast::<u8>().unwrap(), 5);
    });
}

#[test]
fn a_sync_by_a_task_is_refused() {
    watched("misplaced sync", || {
        let outcome = runtime(2).run(|| {
            catch_unwind(|| {
                task_scope(|s| s.spawn(|| s.sync()));
            })
        });
        assert!(outcome.unwrap().is_err());
    });
}

#[test]
fn closures_and_results_of_any_size_and_alignment_arrive() {
    #[derive(Clone, Copy, PartialEq, Debug)]
    #[repr(align(256))]
    struct Aligned(u8);
    #[derive(Clone, Copy, PartialEq, Debug)]
    #[repr(align(4096))]
    struct Page(u8);
    watched("sizes", || {
        for controllers in [1, 2] {
            let runtime = Runtime::builder().controllers(controllers).pin(false).stack_size(1 << 20).build().unwrap();
            runtime
                .run(|| {
                    task_scope(|s| {
                        for n in 0..40u8 {
                            let large = vec![[n; 3000]; 1].remove(0);
                            let aligned = Aligned(n);
                            let (huge, back) = (s.task(move || large), s.task(move || aligned));
                            let page = s.task(move || Page(n));
                            let none = s.task(|| ());
                            if n % 4 == 0 {
                                yield_now();
                            }
                            assert_eq!(huge.touch()[2999], n);
                            assert_eq!(back.touch(), aligned);
                            assert_eq!(page.touch(), Page(n));
                            none.touch();
                        }
                    });
                })
                .unwrap();
        }
    });
}
