//! Tasks in order by their names, events that keep tasks from being over, and tasks that run at once.

mod common;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use common::in_runtime;
use proto_core::ExternalWaker;
use proto_lang_tasks::{Data, Flow, dataflow};

#[test]
fn tasks_run_in_the_order_of_their_edges() {
    let order = Mutex::new(Vec::new());
    in_runtime(3, || {
        let order = &order;
        dataflow(|df| {
            let tasks: Vec<_> =
                (0..50).map(|number| df.task().held().run(move || order.lock().unwrap().push(number))).collect();
            // Backwards.
            for pair in tasks.windows(2) {
                df.precedes(pair[1], pair[0]).expect("no cycle");
            }
        });
    });
    assert!(order.into_inner().unwrap().into_iter().eq((0..50).rev()));
}

#[test]
fn what_is_over_keeps_nobody_waiting_and_only_what_is_held_can_be_made_to_wait() {
    let runs = AtomicU32::new(0);
    in_runtime(1, || {
        let run = || _ = runs.fetch_add(1, Ordering::Relaxed);
        let run = &run;
        dataflow(|df| {
            let over = df.task().run(run);
            df.taskwait();
            let held = df.task().held().run(run);
            df.precedes(over, held).expect("no cycle");
            df.start(held);
            df.start(held);
            assert!(catch_unwind(AssertUnwindSafe(|| df.precedes(over, held))).is_err(), "it was started");
            df.taskwait();
            assert_eq!(runs.load(Ordering::Relaxed), 2);
        });
    });
}

#[test]
fn a_cycle_through_edges_and_data_is_named_and_changes_nothing() {
    let (x, y) = (Data::new(Vec::new()), Data::new(()));
    in_runtime(2, || {
        dataflow(|df| {
            let first = df.task().label("first").held().inout(&x).run(|x| x.push(1));
            // By the data: after the first.
            let second = df.task().label("second").held().inout(&x).input(&y).run(|x, _| x.push(2));
            let third = df.task().label("third").held().inout(&y).run(|_| ());
            let error = df.precedes(third, first).expect_err("first → second → third → first").to_string();
            assert_eq!(error, "a cycle: first → second → third → first");
            assert_eq!(df.precedes(second, second).expect_err("itself").to_string(), "a cycle: second → second");
            df.taskwait();
        });
    });
    assert_eq!(x.into_inner(), [1, 2]);
}

#[test]
fn who_comes_after_a_task_that_failed_does_not_run() {
    in_runtime(1, || {
        let mut x = Data::new(0);
        dataflow(|df| {
            let fails = df.task().held().run(|| panic!("on purpose"));
            let next = df.task().held().inout(&x).run(|x| *x = 1);
            df.precedes(fails, next).expect("no cycle");
            assert!(df.try_taskwait().is_err());
        });
        assert!(x.poison().is_some());
        assert_eq!(x.into_inner(), 0);
    });
}

#[test]
fn held_tasks_do_not_count_as_in_flight() {
    let runs = AtomicU32::new(0);
    in_runtime(1, || {
        let runs = &runs;
        dataflow(|df| {
            df.limit(2);
            for _ in 0..10 {
                df.task().held().run(move || _ = runs.fetch_add(1, Ordering::Relaxed));
            }
        });
    });
    assert_eq!(runs.into_inner(), 10);
}

#[test]
fn a_task_is_over_when_its_events_have_come() {
    let (x, y, wakers, woken) = (Data::new(0), Data::new(0), Mutex::new(Vec::new()), AtomicBool::new(false));
    in_runtime(2, || {
        let (x, y, wakers, woken) = (&x, &y, &wakers, &woken);
        dataflow(|df| {
            df.task().inout(x).nest(move |df, x| {
                wakers.lock().unwrap().extend([df.event(), df.event()]);
                *x = 1;
            });
            let after = df.task().input(x).inout(y).result(move |x, y| {
                *y = *x;
                woken.load(Ordering::Relaxed)
            });
            std::thread::scope(|s| {
                s.spawn(|| {
                    let wait = || {
                        let both = |wakers: Vec<ExternalWaker<()>>| (wakers.len() == 2).then_some(wakers);
                        both(wakers.lock().unwrap().clone())
                    };
                    let both = loop {
                        match wait() {
                            Some(both) => break both,
                            None => std::thread::yield_now(),
                        }
                    };
                    both[0].wake(());
                    woken.store(true, Ordering::Relaxed);
                    // The other by being dropped.
                    wakers.lock().unwrap().clear();
                });
                assert!(after.join().expect("it runs"), "it ran before the second event");
            });
        });
    });
    assert_eq!(y.into_inner(), 1);
}

#[test]
fn what_a_task_at_once_makes_runs_where_it_is_made() {
    fn deep<'env>(df: &Flow<'_, 'env>, depth: u32, list: &'env Mutex<Vec<u32>>) {
        df.task().nest(move |df| {
            if depth > 0 {
                deep(df, depth - 1, list);
            }
            list.lock().unwrap().push(depth);
        });
    }
    let list = Mutex::new(Vec::new());
    in_runtime(2, || {
        let list = &list;
        dataflow(|df| {
            df.task().at_once().nest(move |df| {
                for _ in 0..3 {
                    deep(df, 2, list);
                }
                list.lock().unwrap().push(9);
            });
        });
    });
    assert_eq!(list.into_inner().unwrap(), [0, 1, 2, 0, 1, 2, 0, 1, 2, 9]);
}
