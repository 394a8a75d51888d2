//! Tasks that make tasks.

mod common;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};

use common::{in_runtime, text};
use proto_core::yield_now;
use proto_lang_tasks::{Data, Flow, dataflow};

#[test]
fn children_come_after_their_parent_and_before_its_successors() {
    let list = Data::new(Vec::new());
    in_runtime(2, || {
        let list = &list;
        dataflow(|df| {
            df.task().inout(list).run(|list| list.push(1));
            df.task().inout(list).nest(move |df, own| {
                for number in 3..6 {
                    df.task().inout(list).nest(move |df, own| {
                        df.task().inout(list).run(move |list| list.push(number * 10));
                        own.push(number);
                    });
                }
                own.push(2);
            });
            df.task().inout(list).run(|list| list.push(9));
        });
    });
    assert_eq!(list.into_inner(), [1, 2, 3, 30, 4, 40, 5, 50, 9]);
}

#[test]
fn a_weak_access_does_not_keep_a_task_from_running_but_its_children_wait() {
    let (x, go) = (Data::new(0), AtomicBool::new(false));
    in_runtime(1, || {
        let (x, go) = (&x, &go);
        dataflow(|df| {
            df.task().inout(x).run(move |x| {
                // The nesting task has run although it comes later.
                while !go.load(Ordering::Relaxed) {
                    yield_now();
                }
                *x += 1;
            });
            df.task().weak_inout(x).nest(move |df| {
                df.task().inout(x).run(|x| *x *= 10);
                go.store(true, Ordering::Relaxed);
            });
            df.task().inout(x).run(|x| *x += 2);
        });
    });
    assert_eq!(x.into_inner(), 12);
}

#[test]
fn a_successor_does_not_wait_for_children_that_are_at_something_else() {
    let (x, y, go) = (Data::new(0), Data::new(0), AtomicBool::new(false));
    in_runtime(1, || {
        let (x, y, go) = (&x, &y, &go);
        dataflow(|df| {
            df.task().weak_inout(x).weak_inout(y).nest(move |df| {
                df.task().inout(x).run(|x| *x += 1);
                df.task().inout(y).run(move |_| {
                    while !go.load(Ordering::Relaxed) {
                        yield_now();
                    }
                });
            });
            df.task().inout(x).run(move |_| go.store(true, Ordering::Relaxed));
        });
    });
    assert_eq!(x.into_inner(), 1);
}

#[test]
fn what_is_released_early_goes_on_while_its_parent_still_runs() {
    let (x, go) = (Data::new(0), AtomicBool::new(false));
    in_runtime(1, || {
        let (x, go) = (&x, &go);
        dataflow(|df| {
            df.task().weak_inout(x).nest(move |df| {
                df.task().inout(x).run(|x| *x += 1);
                df.release(x);
                while !go.load(Ordering::Relaxed) {
                    yield_now();
                }
                let more = catch_unwind(AssertUnwindSafe(|| df.task().inout(x).run(|x| *x += 100)));
                assert!(more.is_err(), "it was released");
            });
            df.task().inout(x).run(move |_| go.store(true, Ordering::Relaxed));
        });
    });
    assert_eq!(x.into_inner(), 1);
}

#[test]
fn a_task_waits_for_its_own_children_only() {
    let (x, other, go) = (Data::new(0), Data::new(0), AtomicBool::new(false));
    in_runtime(2, || {
        let (x, go) = (&x, &go);
        dataflow(|df| {
            df.task().inout(&other).run(move |_| {
                while !go.load(Ordering::Relaxed) {
                    yield_now();
                }
            });
            df.task().weak_inout(x).nest(move |df| {
                for _ in 0..5 {
                    df.task().inout(x).run(|x| *x += 1);
                }
                df.taskwait();
                let seen = df.task().input(x).undeferred().result(|x| *x);
                assert_eq!(seen.join().unwrap(), 5);
                go.store(true, Ordering::Relaxed);
            });
        });
    });
}

#[test]
fn a_task_over_slices_cuts_itself_down() {
    const LENGTH: usize = 200;

    fn add<'env>(df: &Flow<'_, 'env>, cells: &'env Data<[u32]>, start: usize, end: usize) {
        let part = cells.range(start..end);
        if end - start <= 7 {
            df.task().inout(part).run(|part| part.iter_mut().for_each(|x| *x += 1));
            return;
        }
        df.task().weak_inout(part).nest(move |df| {
            let middle = start.midpoint(end);
            add(df, cells, start, middle);
            add(df, cells, middle, end);
        });
    }

    let cells: Data<[u32]> = Data::from(vec![0; LENGTH]);
    in_runtime(3, || {
        let cells = &cells;
        dataflow(|df| {
            for _ in 0..4 {
                add(df, cells, 0, LENGTH);
                df.task().inout(cells.range(50..150)).run(|middle| middle.iter_mut().for_each(|x| *x *= 2));
            }
        });
    });
    let expected = [4; 50].into_iter().chain([30; 100]).chain([4; 50]);
    assert!(cells.into_boxed_slice().into_iter().eq(expected));
}

#[test]
fn children_declare_only_what_their_parent_has() {
    let (x, y) = (Data::new(0), Data::new(0));
    in_runtime(1, || {
        let (x, y) = (&x, &y);
        dataflow(|df| {
            df.task().input(x).nest(move |df, _| {
                let refused = |made: std::thread::Result<_>| text(&*made.map(drop).expect_err("refused"));
                let other = catch_unwind(AssertUnwindSafe(|| df.task().input(y).run(|_| ())));
                assert!(refused(other).contains("has not declared"));
                let write = catch_unwind(AssertUnwindSafe(|| df.task().inout(x).run(|_| ())));
                assert!(refused(write).contains("has not declared"));
                df.task().input(x).run(|_| ());
                df.taskwait();
            });
            df.taskwait();
        });
    });
}

#[test]
fn who_would_wait_for_a_child_that_needs_what_it_holds_is_told() {
    let x = Data::new(0);
    in_runtime(1, || {
        let x = &x;
        dataflow(|df| {
            df.task().inout(x).nest(move |df, own| {
                let at_once = catch_unwind(AssertUnwindSafe(|| df.task().inout(x).undeferred().run(|_| ())));
                assert!(text(&*at_once.expect_err("refused")).contains("needs what it holds itself"));
                df.task().inout(x).run(|x| *x += 1);
                let wait = catch_unwind(AssertUnwindSafe(|| df.taskwait()));
                assert!(text(&*wait.expect_err("refused")).contains("needs what it holds itself"));
                *own = 5;
            });
        });
    });
    assert_eq!(x.into_inner(), 6);
}

#[test]
fn a_panic_of_a_child_is_its_parents_if_nobody_was_told() {
    let (mut x, mut y) = (Data::new(0), Data::new(0));
    in_runtime(2, || {
        let (x, y) = (&x, &y);
        dataflow(|df| {
            df.task().weak_inout(x).nest(move |df| {
                df.task().label("child").inout(x).run(|_| panic!("on purpose"));
            });
            df.task().inout(x).inout(y).run(|_, y| *y = 1);
            assert!(df.try_taskwait().expect_err("the child panicked").to_string().contains("`child`"));
            // One that is told inside.
            df.task().output(x).nest(move |df, own| {
                *own = 7;
                drop(df.task().inout(x).result(|_| panic!("on purpose")));
            });
            assert!(df.try_taskwait().is_err());
        });
    });
    assert!(x.poison().is_some() && y.poison().is_some());
    assert_eq!((x.into_inner(), y.into_inner()), (7, 0));
}
