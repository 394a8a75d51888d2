//! Series of tasks: their names, their values, and that they are run to their end.

mod common;

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

use common::{build, runtime, sized, watched};
use proto_core::{Event, Hooks, Runtime, TaskScope, current_name, task_scope, vp_local, yield_now};

/// Spawns a series of so many tasks.
fn spawn_steps<'scope>(
    scope: &'scope TaskScope<'scope, '_>,
    first: u32,
    count: u32,
    step: impl Fn(u32) + Send + 'scope,
) {
    let mut numbers = first..first + count;
    let mut next = numbers.next();
    scope.spawn_series(first, move || {
        step(next?);
        next = numbers.next();
        next
    });
}

#[test]
fn names_are_the_numbers_whoever_spawns_and_wherever_it_runs() {
    const STEPS: usize = sized(20, 4);
    let names_with = |controllers: usize| {
        let names = Mutex::new(Vec::new());
        let note = || names.lock().unwrap().push(current_name().path().to_vec());
        let run = || {
            task_scope(|s| {
                let note = &note;
                spawn_steps(s, 0, STEPS as u32, move |step| {
                    note();
                    yield_now();
                    spawn_steps(s, 100 * step + 100, 3, move |_| note());
                });
            });
        };
        runtime(controllers).run(run).expect("it ends well");
        let mut names = names.into_inner().unwrap();
        names.sort();
        names
    };
    let one = watched("names of series, 1", || names_with(1));
    assert_eq!(one.len(), 4 * STEPS);
    assert!(one.windows(2).all(|pair| pair[0] != pair[1]), "{one:?}");
    assert!(one.iter().all(|name| name.len() == one[0].len()), "all are children of the scope: {one:?}");
    assert_eq!(watched("names of series, 3", || names_with(3)), one);
}

vp_local! {
    static SEEN: Cell<u32> = Cell::new(0);
}

#[test]
fn a_task_does_not_see_the_values_of_the_one_before_it() {
    struct Watches;
    impl Hooks for Watches {
        fn event(&self, _: &Event) {}
    }
    let run = || {
        let seen = AtomicU32::new(0);
        task_scope(|s| {
            spawn_steps(s, 0, sized(10, 3) as u32, |_| {
                _ = seen.fetch_add(SEEN.with(|seen| seen.replace(1)), Ordering::Relaxed)
            })
        });
        seen.into_inner()
    };
    assert_eq!(runtime(1).run(run).expect("it ends well"), 0);
    let watched = build(Runtime::builder().controllers(2).hooks(Arc::new(Watches)));
    assert_eq!(watched.run(run).expect("it ends well"), 0);
    // From an OS thread, each is a VP.
    assert_eq!(run(), 0);
}

#[test]
fn a_series_is_run_to_its_end_also_when_its_scope_is_cancelled() {
    for controllers in [1, 3] {
        let runs = AtomicU32::new(0);
        let run = || {
            task_scope(|s| {
                for series in 0..10 {
                    let runs = &runs;
                    spawn_steps(s, series * 100, 10, move |_| _ = runs.fetch_add(1, Ordering::Relaxed));
                }
                s.cancel().expect("panics unwind here");
                spawn_steps(s, 5000, 10, |_| _ = runs.fetch_add(1, Ordering::Relaxed));
            });
        };
        watched("cancelled series", || runtime(controllers).run(run)).expect("it ends well");
        assert_eq!(runs.into_inner(), 110);
    }
}

#[test]
fn a_panic_ends_its_series_and_no_other_and_goes_to_the_scope() {
    let runs = AtomicU32::new(0);
    let run = || {
        let panic = catch_unwind(AssertUnwindSafe(|| {
            task_scope(|s| {
                for series in 0..3 {
                    let runs = &runs;
                    spawn_steps(s, series * 10, 10, move |step| {
                        runs.fetch_add(1, Ordering::Relaxed);
                        assert_ne!(step, 14, "the fifth of the second");
                    });
                }
            });
        }));
        panic
            .expect_err("it panics")
            .downcast_ref::<String>()
            .is_some_and(|text| text.contains("the fifth of the second"))
    };
    assert!(watched("a panic in a series", || runtime(2).run(run)).expect("it ends well"));
    assert_eq!(runs.into_inner(), 25);
}
