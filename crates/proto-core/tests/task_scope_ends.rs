//! How tasks of a scope end otherwise: by panics, and by cancels of the process, of the scope, or of one task.

mod common;

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use common::assigners::{Twist, Twisted};
use common::lang::{Gate, sleep};
use common::trees::cancel_some_time;
use common::{build, runtime, sized, watched};
use proto_core::{Cancelled, JoinError, Runtime, VpRef, Why, Work, blocking, task_scope, yield_now};

#[test]
fn panics_come_once_after_all_tasks_and_cancels_are_none() {
    watched("panics", || {
        for round in 0..sized(100, 8) {
            let ran = AtomicUsize::new(0);
            let tasks = 30;
            let runtime = runtime([1, 2, 3, 8][round % 4]);
            let outcome = runtime
                .run(|| {
                    catch_unwind(AssertUnwindSafe(|| {
                        task_scope(|s| {
                            for n in 0..tasks {
                                let ran = &ran;
                                let body = move || {
                                    ran.fetch_add(1, Ordering::Relaxed);
                                    if n == round % tasks {
                                        resume_unwind(Box::new(n));
                                    }
                                };
                                if n % 2 == 0 { s.spawn(body) } else { drop(s.task(body)) }
                            }
                            if round % 3 == 0 {
                                resume_unwind(Box::new("the closure"));
                            }
                        });
                    }))
                })
                .unwrap();
            let payload = outcome.unwrap_err();
            assert_eq!(ran.into_inner(), tasks, "all tasks are run");
            match round % 3 {
                0 => assert_eq!(*payload.downcast::<&str>().unwrap(), "the closure"),
                _ => assert_eq!(*payload.downcast::<usize>().unwrap(), round % tasks),
            }
        }
        let outcome = runtime(2).run(|| {
            task_scope(|s| {
                let task = s.task(|| -> () { resume_unwind(Box::new(9u8)) });
                match task.join() {
                    Err(JoinError::Panic(payload)) => *payload.downcast::<u8>().unwrap(),
                    other => panic!("{other:?}"),
                }
            })
        });
        assert_eq!(outcome.unwrap(), 9);
    });
}

/// A result that panics when it is dropped.
struct Bomb;
impl Drop for Bomb {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            resume_unwind(Box::new("bomb"));
        }
    }
}

#[test]
fn a_result_that_panics_in_its_drop_is_a_panic_of_the_scope() {
    watched("bombs", || {
        for controllers in [1, 2] {
            let outcome = runtime(controllers).run(|| {
                catch_unwind(|| {
                    task_scope(|s| {
                        let task = s.task(|| Bomb);
                        drop(task);
                    });
                })
            });
            assert_eq!(*outcome.unwrap().unwrap_err().downcast::<&str>().unwrap(), "bomb");
        }
    });
}

#[test]
fn tasks_of_a_cancelled_process_are_run_or_told() {
    watched("cancelled processes", || {
        cancel_some_time(|| {
            task_scope(|s| {
                for n in 0..20 {
                    s.spawn(yield_now);
                    let task = s.task(|| sleep(Duration::from_micros(1)));
                    if n % 3 == 0 {
                        task.touch();
                    }
                }
            });
        });
    });
}

#[test]
fn a_cancelled_scope_ends_the_waits_of_its_crew() {
    watched("cancelled scopes", || {
        for round in 0..sized(60, 3) {
            let gate = Gate::new();
            let cancelled = AtomicUsize::new(0);
            runtime(1 + round % 3)
                .run(|| {
                    task_scope(|s| {
                        for _ in 0..5 {
                            s.spawn(|| {
                                let caught = catch_unwind(AssertUnwindSafe(|| gate.pass()));
                                let payload = caught.unwrap_err();
                                assert!(payload.is::<Cancelled>());
                                cancelled.fetch_add(1, Ordering::Relaxed);
                                resume_unwind(payload);
                            });
                        }
                        if round % 2 == 0 {
                            while gate.waiting() == 0 {
                                yield_now();
                            }
                        }
                        let unstarted = s.task(|| gate.pass());
                        s.cancel().unwrap();
                        assert!(matches!(unstarted.join(), Err(JoinError::Cancelled)));
                    });
                })
                .unwrap();
            assert_eq!(cancelled.into_inner(), 5, "round {round}");
        }
    });
}

#[test]
fn a_cancel_of_one_task_is_not_one_of_the_next_on_its_vp() {
    watched("one cancelled task", || {
        for round in 0..sized(40, 2) {
            let passed = AtomicUsize::new(0);
            runtime(1 + round % 2)
                .run(|| {
                    task_scope(|s| {
                        for n in 0..10 {
                            let passed = &passed;
                            s.spawn(move || {
                                if n == 0 {
                                    return VpRef::current().cancel().unwrap();
                                }
                                sleep(Duration::from_micros(1));
                                passed.fetch_add(1, Ordering::Relaxed);
                            });
                        }
                        // The tasks become one bundle, which begins with the first.
                        yield_now();
                    });
                })
                .unwrap();
            assert_eq!(passed.into_inner(), 9);
        }
    });
}

/// Prefers what has started: a bundle that was left behind is not begun while its owner can go on.
struct StartedFirst;

impl Twist for StartedFirst {
    fn ready(&self, queue: &mut VecDeque<Work>, work: Work, why: Why) {
        if why == Why::Born { queue.push_back(work) } else { queue.push_front(work) }
    }
}

#[test]
fn a_scope_whose_tasks_were_all_taken_out_of_a_bundle_waits_for_the_bundle() {
    watched("an empty bundle", || {
        let runtime = build(Runtime::builder().controllers(1).assigner(Twisted(StartedFirst)));
        for _ in 0..sized(50, 2) {
            runtime
                .run(|| {
                    let over = AtomicUsize::new(0);
                    task_scope(|s| {
                        let task = s.task(|| 5);
                        yield_now();
                        assert_eq!(task.touch(), 5);
                    });
                    // Another one in its place.
                    task_scope(|s| {
                        for _ in 0..3 {
                            s.spawn(|| {
                                (0..10).for_each(|_| yield_now());
                                over.fetch_add(1, Ordering::Relaxed);
                            });
                        }
                        (0..10).for_each(|_| yield_now());
                    });
                    assert_eq!(over.into_inner(), 3);
                })
                .unwrap();
        }
    });
}

#[test]
fn an_os_thread_may_cancel_a_scope() {
    watched("cancelled from outside", || {
        runtime(2)
            .run(|| {
                let gate = Gate::new();
                task_scope(|s| {
                    s.spawn(|| gate.pass());
                    while gate.waiting() == 0 {
                        yield_now();
                    }
                    blocking(|| std::thread::scope(|threads| drop(threads.spawn(|| s.cancel().unwrap()))));
                });
            })
            .unwrap();
    });
}
