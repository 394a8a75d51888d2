//! What becomes of a graph in which a task panics, or that is cancelled.

mod common;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU32, Ordering};

use common::text;
use proto_core::{OrUnwind, sleep_until, yield_now};
use proto_lang_tasks::{Data, Reduction, dataflow};

fn in_runtime<T: Send>(f: impl FnOnce() -> T + Send) -> T {
    common::in_runtime(2, f)
}

#[test]
fn a_panic_poisons_what_the_task_writes_and_all_that_is_made_of_it() {
    let (x, y, z, other) = (Data::new(1), Data::new(2), Data::new(3), Data::new(4));
    let told = in_runtime(|| {
        dataflow(|df| {
            df.task().label("breaker").input(&other).inout(&x).run(|_, _| panic!("on purpose"));
            df.task().input(&x).inout(&y).run(|_, y| *y = 20);
            df.task().input(&y).commutative(&z).run(|_, z| *z = 30);
            df.task().inout(&other).run(|other| *other = 40);
            df.try_taskwait().expect_err("a task panicked").to_string()
        })
    });
    assert!(told.contains("`breaker`") && told.ends_with("panicked: on purpose"), "{told}");
    let mut poisoned = [x, y, z, other];
    assert_eq!(poisoned.each_mut().map(|data| data.poison().is_some()), [true, true, true, false]);
    assert_eq!(poisoned.map(Data::into_inner), [1, 2, 3, 40], "what was to read a poisoned datum did not run");
}

#[test]
fn an_output_heals() {
    let (mut x, y) = (Data::new(1), Data::new(2));
    in_runtime(|| {
        dataflow(|df| {
            df.task().inout(&x).run(|_| panic!("on purpose"));
            df.task().output(&x).run(|x| *x = 10);
            df.task().input(&x).output(&y).run(|x, y| *y = x + 1);
            assert!(df.try_taskwait().is_err());
        });
    });
    assert!(x.poison().is_none());
    assert_eq!((x.into_inner(), y.into_inner()), (10, 11));
}

#[test]
fn only_the_part_that_was_to_be_written_is_poisoned() {
    let mut cells: Data<[u32]> = Data::from(vec![0; 10]);
    in_runtime(|| {
        dataflow(|df| {
            df.task().inout(cells.range(2..4)).run(|_| panic!("on purpose"));
            df.task().inout(cells.range(3..6)).run(|part| part.fill(1));
            df.task().inout(cells.range(6..)).run(|part| part.fill(2));
            df.task().input(cells.range(5..7)).run(|_| unreachable!("it reads what was not written"));
            assert!(df.try_taskwait().is_err());
        });
    });
    assert!(cells.poison().is_some());
    assert_eq!(*cells.into_boxed_slice(), [0, 0, 0, 0, 0, 0, 2, 2, 2, 2]);
}

#[test]
fn the_end_panics_with_the_first_payload_that_nobody_was_told_of() {
    struct Payload(u32);
    let x = Data::new(0);
    let panic = in_runtime(|| {
        catch_unwind(AssertUnwindSafe(|| {
            dataflow(|df| {
                df.task().inout(&x).run(|_| std::panic::panic_any(Payload(5)));
                df.task().inout(&x).run(|x| *x = 1);
            });
        }))
        .expect_err("it panics")
    });
    assert_eq!(panic.downcast_ref::<Payload>().map(|payload| payload.0), Some(5));
    assert_eq!(x.into_inner(), 0);
}

#[test]
fn a_taskwait_panics_and_who_is_told_once_is_not_told_again() {
    let message = in_runtime(|| {
        let x = Data::new(0);
        dataflow(|df| {
            df.task().inout(&x).run(|_| panic!("on purpose"));
            let panic = catch_unwind(AssertUnwindSafe(|| df.taskwait())).expect_err("a task panicked");
            df.taskwait();
            text(&*panic)
        })
    });
    assert!(message.ends_with("panicked: on purpose"), "{message}");
}

#[test]
fn a_wait_for_poisoned_data_says_so() {
    let message = in_runtime(|| {
        let (x, y) = (Data::new(0), Data::new(0));
        dataflow(|df| {
            df.task().inout(&x).run(|_| panic!("on purpose"));
            df.taskwait_on(&y);
            let panic = catch_unwind(AssertUnwindSafe(|| df.taskwait_on(&x))).expect_err("x is poisoned");
            df.taskwait(); // This wait was told.
            text(&*panic)
        })
    });
    assert!(message.ends_with("panicked: on purpose"), "{message}");
}

#[test]
fn a_handle_tells_why_there_is_no_result() {
    in_runtime(|| {
        let x = Data::new(0);
        dataflow(|df| {
            let first = df.task().label("first").inout(&x).result(|_| -> u32 { panic!("on purpose") });
            let second = df.task().inout(&x).result(|x| *x);
            assert!(second.join().expect_err("it was not run").to_string().contains("`first`"));
            assert!(first.join().is_err());
            df.taskwait();
        });
    });
}

#[test]
fn whatever_a_reduction_panics_in_nothing_is_lost_and_the_datum_is_poisoned() {
    static STARTS: Reduction<u32> = Reduction::new(|| panic!("start"), |_, _| ());
    static COMBINES: Reduction<u32> = Reduction::new(|| 0, |_, _| panic!("combine"));
    in_runtime(|| {
        for operation in [&STARTS, &COMBINES] {
            let mut x = Data::new(7);
            dataflow(|df| {
                for _ in 0..5 {
                    df.task().reduction(&x, operation).run(|own| *own += 1);
                }
                assert!(df.try_taskwait().is_err());
            });
            assert!(x.poison().is_some());
            assert_eq!(*x.get_mut(), 7);
        }
    });
}

#[test]
fn after_a_cancel_nothing_begins_and_all_closures_are_dropped() {
    struct CountsDrops<'a>(&'a AtomicU32);
    impl Drop for CountsDrops<'_> {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
    let (drops, runs) = (AtomicU32::new(0), AtomicU32::new(0));
    let mut x = Data::new(0);
    in_runtime(|| {
        dataflow(|df| {
            df.cancel().expect("panics unwind here");
            for _ in 0..10 {
                let (counts, runs) = (CountsDrops(&drops), &runs);
                df.task().inout(&x).run(move |_| {
                    let _ = &counts;
                    runs.fetch_add(1, Ordering::Relaxed);
                });
            }
            assert!(df.try_taskwait().expect_err("they were cancelled").is_cancelled());
        });
    });
    assert_eq!((drops.into_inner(), runs.into_inner()), (10, 0));
    assert!(x.poison().is_some_and(|error| error.is_cancelled()));
}

#[test]
fn a_panic_of_the_maker_is_passed_on_when_its_tasks_have_run() {
    let x = Data::new(0);
    let panic = in_runtime(|| {
        catch_unwind(AssertUnwindSafe(|| {
            dataflow(|df| {
                for _ in 0..100 {
                    df.task().inout(&x).run(|x| *x += 1);
                }
                panic!("the maker's");
            });
        }))
        .expect_err("it panics")
    });
    assert_eq!(text(&*panic), "the maker's");
    assert_eq!(x.into_inner(), 100);
}

#[test]
fn one_dataflow_has_a_datum_at_a_time() {
    let x = Data::new(0);
    let (message, other) = in_runtime(|| {
        let mut message = None;
        dataflow(|df| {
            df.task().inout(&x).run(|x| *x += 1);
            let inner = catch_unwind(AssertUnwindSafe(|| dataflow(|df| _ = df.task().inout(&x).run(|x| *x += 1))));
            message = inner.err().map(|panic| text(&*panic));
        });
        dataflow(|df| _ = df.task().inout(&x).run(|x| *x += 10));
        (message, 0)
    });
    assert_eq!(
        (message.as_deref(), other),
        (Some("a task declares data that another dataflow has, which has not ended"), 0)
    );
    assert_eq!(x.into_inner(), 11);
}

#[test]
fn a_task_that_would_wait_for_itself_is_refused() {
    let cells: Data<[u32]> = Data::from(vec![0; 10]);
    in_runtime(|| {
        dataflow(|df| {
            // Reading twice is fine.
            df.task().input(cells.range(..6)).input(cells.range(4..)).run(|_, _| ());
            df.task().inout(cells.range(..5)).inout(cells.range(5..)).run(|_, _| ());
            let twice = catch_unwind(AssertUnwindSafe(|| {
                df.task().inout(cells.range(..6)).input(cells.range(4..)).run(|_, _| ())
            }));
            assert!(text(&*twice.expect_err("refused")).contains("declares a datum twice"));
            df.taskwait();
        });
    });
}

#[test]
fn a_cancel_ends_the_waits_of_tasks_that_run() {
    let begun = AtomicU32::new(0);
    let x = Data::new(0);
    in_runtime(|| {
        let (begun, x) = (&begun, &x);
        dataflow(|df| {
            for _ in 0..5 {
                df.task().run(move || {
                    begun.fetch_add(1, Ordering::Relaxed);
                    sleep_until(None).or_unwind();
                });
            }
            // One that waits for its child, which waits for ever.
            df.task().weak_inout(x).nest(move |df| {
                df.task().inout(x).run(move |_| {
                    begun.fetch_add(1, Ordering::Relaxed);
                    sleep_until(None).or_unwind();
                });
                df.taskwait();
            });
            while begun.load(Ordering::Relaxed) < 6 {
                yield_now();
            }
            df.cancel().expect("panics unwind here");
            assert!(df.try_taskwait().expect_err("they were cancelled").is_cancelled());
        });
    });
}

#[test]
fn tasks_that_are_made_ready_after_a_cancel_are_over_wherever_they_are_made_from() {
    let all = || {
        let mut data = [Data::new(0), Data::new(0)];
        dataflow(|df| {
            let [x, y] = &data;
            let first = df.task().held().inout(x).run(|_| unreachable!("it was cancelled"));
            df.task().input(x).inout(y).priority(200).run(|_, _| unreachable!("it was cancelled"));
            df.cancel().expect("panics unwind here");
            df.start(first);
            assert!(df.try_taskwait().expect_err("they were cancelled").is_cancelled());
        });
        data.each_mut().map(|data| data.poison().is_some())
    };
    assert_eq!(all(), [true, true], "from an OS thread");
    assert_eq!(in_runtime(all), [true, true]);
}
