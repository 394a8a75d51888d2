//! Which tasks may run at once, and which goes first.

mod common;

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use common::in_runtime;
use proto_core::{Event, Hooks, Runtime, yield_now};
use proto_lang_tasks::{Data, dataflow};

/// Waits until `n` are here at once: each of them has to have begun.
fn meet(here: &AtomicU32, n: u32) {
    here.fetch_add(1, Ordering::Relaxed);
    while here.load(Ordering::Relaxed) < n {
        yield_now();
    }
}

#[test]
fn readers_are_at_it_at_once() {
    let (x, here) = (Data::new(5), AtomicU32::new(0));
    in_runtime(2, || {
        dataflow(|df| {
            df.task().inout(&x).run(|x| *x += 1);
            for _ in 0..3 {
                df.task().input(&x).run(|x| {
                    meet(&here, 3);
                    assert_eq!(*x, 6);
                });
            }
            df.task().inout(&x).run(|x| *x += 1);
        });
    });
    assert_eq!(x.into_inner(), 7);
}

#[test]
fn concurrent_tasks_and_parts_that_do_not_overlap_are_at_it_at_once() {
    let (x, cells) = (Data::new(AtomicU32::new(0)), Data::from(vec![0; 9]));
    let there = AtomicU32::new(0);
    in_runtime(1, || {
        dataflow(|df| {
            for _ in 0..3 {
                df.task().concurrent(&x).run(|here| meet(here, 3));
            }
            for tile in cells.tiles(3) {
                df.task().inout(tile).run(|tile| {
                    meet(&there, 3);
                    tile.fill(1);
                });
            }
        });
    });
    assert_eq!(*cells.into_boxed_slice(), [1; 9]);
}

#[test]
fn a_commutative_task_goes_before_an_older_one_that_lacks_something_else() {
    let (x, late, go) = (Data::new(Vec::new()), Data::new(()), AtomicBool::new(false));
    in_runtime(2, || {
        dataflow(|df| {
            df.task().inout(&late).run(|_| {
                while !go.load(Ordering::Relaxed) {
                    yield_now()
                }
            });
            df.task().input(&late).commutative(&x).run(|_, x| x.push("older"));
            df.task().commutative(&x).run(|x| {
                x.push("younger");
                go.store(true, Ordering::Relaxed);
            });
        });
    });
    assert_eq!(x.into_inner(), ["younger", "older"]);
}

#[test]
fn two_commutative_tasks_that_want_the_same_two_data_do_not_wait_for_each_other() {
    let (x, y) = (Data::new(0), Data::new(0));
    in_runtime(3, || {
        dataflow(|df| {
            for _ in 0..300 {
                df.task().commutative(&x).commutative(&y).run(|x, y| {
                    *x += 1;
                    yield_now();
                    *y += 1;
                });
                df.task().commutative(&y).commutative(&x).run(|y, x| (*x, *y) = (*x + 1, *y + 1));
                df.task().commutative(&x).run(|x| *x += 1);
            }
        });
    });
    assert_eq!((x.into_inner(), y.into_inner()), (900, 600));
}

#[test]
fn a_ready_task_of_higher_priority_goes_first() {
    let (gate, order) = (Data::new(()), Mutex::new(Vec::new()));
    in_runtime(1, || {
        dataflow(|df| {
            df.task().inout(&gate).run(|_| ());
            for priority in [3, 200, 7, 128] {
                let order = &order;
                df.task().priority(priority).input(&gate).run(move |_| order.lock().unwrap().push(priority));
            }
        });
    });
    assert_eq!(order.into_inner().unwrap(), [200, 128, 7, 3]);
}

#[test]
fn a_wait_for_one_datum_does_not_wait_for_others() {
    let (x, y, go) = (Data::new(0), Data::new(0), AtomicBool::new(false));
    in_runtime(2, || {
        dataflow(|df| {
            df.task().inout(&y).run(|_| {
                while !go.load(Ordering::Relaxed) {
                    yield_now()
                }
            });
            df.task().inout(&x).run(|x| *x += 1);
            df.taskwait_on(&x);
            let seen = df.task().input(&x).undeferred().result(|x| *x);
            assert_eq!(seen.join().unwrap(), 1);
            go.store(true, Ordering::Relaxed);
        });
    });
}

#[test]
fn no_more_tasks_are_in_flight_than_the_limit_says() {
    const LIMIT: usize = 50;
    let (made, over, most) = (AtomicU32::new(0), AtomicU32::new(0), AtomicU32::new(0));
    let x = Data::new(0);
    in_runtime(2, || {
        dataflow(|df| {
            df.limit(LIMIT);
            for _ in 0..2000 {
                df.task().inout(&x).run(|x| {
                    *x += 1;
                    over.fetch_add(1, Ordering::Relaxed);
                });
                let made = made.fetch_add(1, Ordering::Relaxed) + 1;
                most.fetch_max(made - over.load(Ordering::Relaxed), Ordering::Relaxed);
            }
        });
    });
    assert_eq!(x.into_inner(), 2000);
    assert!(most.into_inner() <= LIMIT as u32);
}

#[test]
fn a_graph_runs_from_an_os_thread_and_in_a_task_of_another() {
    let x = Data::new(0);
    dataflow(|df| {
        for _ in 0..10 {
            df.task().inout(&x).run(|x| {
                let inner = Data::new(*x);
                dataflow(|df| {
                    for _ in 0..10 {
                        df.task().inout(&inner).run(|inner| *inner += 1);
                    }
                });
                *x = inner.into_inner();
            });
        }
    });
    assert_eq!(x.into_inner(), 100);
}

#[test]
fn eight_accesses_come_in_their_order() {
    let data = [0, 1, 2, 3, 4, 5, 6, 7].map(Data::new);
    let [a, b, c, d, e, f, g, h] = &data;
    let all = dataflow(|df| {
        let task = df.task().input(a).output(b).inout(c).commutative(d).concurrent(e).input(f).input(g).inout(h);
        task.result(|a, b, c, d, e, f, g, h| [*a, *b, *c, *d, *e, *f, *g, *h]).join()
    });
    assert_eq!(all.unwrap(), [0, 1, 2, 3, 4, 5, 6, 7]);
}

#[test]
fn a_task_may_wait_for_a_mutex_that_another_holds_while_it_waits() {
    let (sums, lock) = ([0; 4].map(Data::new), proto_lang_mutex::Mutex::new(0));
    in_runtime(2, || {
        let (sums, lock) = (&sums, &lock);
        dataflow(|df| {
            for _ in 0..50 {
                for sum in sums {
                    df.task().inout(sum).run(move |sum| {
                        let mut guard = lock.lock().unwrap();
                        yield_now();
                        *guard += 1;
                        *sum += 1;
                    });
                }
            }
        });
    });
    assert_eq!((lock.into_inner().unwrap(), sums.map(Data::into_inner)), (200, [50; 4]));
}

struct Watches;

impl Hooks for Watches {
    fn event(&self, _: &Event) {}
}

#[test]
fn the_same_program_runs_with_hooks_and_with_an_os_thread_for_each_vp() {
    let program = || {
        let x = Data::new(0_u64);
        dataflow(|df| {
            for number in 0..40 {
                df.task().inout(&x).run(move |x| *x = *x * 3 + number);
                df.task().input(&x).run(|x| assert!(*x < u64::MAX));
            }
        });
        x.into_inner()
    };
    let builders = [
        Runtime::builder().controllers(2),
        Runtime::builder().controllers(2).hooks(Arc::new(Watches)),
        Runtime::builder().controllers(2).thread_per_vp(true),
    ];
    let results = builders.map(|builder| builder.build().expect("a runtime").run(program).expect("it ends well"));
    assert!(results.iter().all(|result| *result == results[0]), "{results:?}");
}
