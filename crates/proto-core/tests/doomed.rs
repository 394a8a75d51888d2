//! What becomes of a process after its verdict: abandonable waits end as cancelled, destructors run, releases are served; where only
//! binding waits are left, `wait()` returns and those stacks stay.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use common::cancelling::{Drops, Witness};
use common::desk::{Fall, Pit, Pull};
use common::lang::{Gate, Lock};
use common::{alone, runtime, watched};
use proto_core::{EnvCell, ProcessError, join, scope};

#[test]
fn doomed_vps_unwind_and_their_locks_are_released() {
    let _alone = alone();
    watched("doomed unwinds", || {
        for controllers in [1, 2] {
            let runtime = runtime(controllers);
            let drops = Drops::default();
            // Outlives the process: shows afterwards that it was unlocked.
            let outer = Lock::new();
            let result = runtime.run(|| {
                let gate = Gate::new();
                scope(|s| {
                    for _ in 0..10 {
                        s.spawn(|| {
                            let _witness = Witness(&drops);
                            let _held = outer.lock();
                            let _inner = Witness(&drops);
                            gate.pass();
                        });
                    }
                });
            });
            assert!(matches!(result, Err(ProcessError::Deadlock(_))), "{result:?}");
            assert_eq!(drops.panicking(), 0, "a verdict was taken for a panic");
            // The one with the lock had both of its guards; the other nine waited for the lock, with one.
            assert_eq!(drops.all(), 11);
            runtime.run(|| drop(outer.lock())).expect("the lock was given back");
        }
    });
}

#[test]
fn a_doomed_process_is_refused_further_waits_but_served_releases() {
    let _alone = alone();
    watched("doomed asks again", || {
        let runtime = runtime(1);
        let (refused, opened) = (AtomicUsize::new(0), Gate::new());
        let result = runtime.run(|| {
            let gate = Gate::new();
            let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| gate.pass()));
            assert!(caught.unwrap_err().is::<proto_core::Cancelled>());
            // Swallowed; it comes again at each abandonable wait, and releases go through all the same.
            for _ in 0..3 {
                let again = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| Gate::new().pass()));
                assert!(again.unwrap_err().is::<proto_core::Cancelled>());
                refused.fetch_add(1, Ordering::Relaxed);
                opened.open();
            }
        });
        assert!(matches!(result, Err(ProcessError::Deadlock(_))), "{result:?}");
        assert_eq!(refused.into_inner(), 3);
        assert_eq!(opened.pass_until(Instant::now()), Ok(()), "a release of a doomed process was not served");
    });
}

#[test]
fn only_binding_waits_left_returns_from_wait_and_nobody_can_resume_them() {
    let _alone = alone();
    watched("binding waits", || {
        for controllers in [1, 2] {
            let runtime = runtime(controllers);
            let pit = EnvCell::new(Pit::default());
            let went_on = AtomicUsize::new(0);
            let result = runtime.run(|| {
                scope(|s| {
                    s.spawn(|| {
                        let _ = pit.request(Fall);
                        went_on.fetch_add(1, Ordering::Relaxed);
                    });
                });
                went_on.fetch_add(1, Ordering::Relaxed);
            });
            assert!(matches!(result, Err(ProcessError::Deadlock(_))), "{result:?}");
            // `went_on` may go from here on, so the one in the pit must never come out.
            assert_eq!(pit.request(Pull(1)), Ok(false), "a frame whose borrows are over was resumed");
            assert_eq!(went_on.into_inner(), 0);
            drop(pit);
            runtime.run(|| ()).expect("the runtime is unaffected");
        }
    });
}

#[test]
fn binding_and_abandonable_waits_mixed_unwind_as_far_as_they_can() {
    let _alone = alone();
    watched("mixed waits", || {
        let runtime = runtime(2);
        let pit = EnvCell::new(Pit::default());
        let drops = Drops::default();
        let result = runtime.run(|| {
            scope(|s| {
                s.spawn(|| {
                    let _witness = Witness(&drops);
                    Gate::new().pass();
                });
                s.spawn(|| {
                    let _witness = Witness(&drops);
                    let _ = pit.request(Fall);
                });
            });
        });
        assert!(matches!(result, Err(ProcessError::Deadlock(_))), "{result:?}");
        assert_eq!(drops.all(), 1, "the abandonable one unwound, the binding one stayed");
        assert_eq!(drops.panicking(), 0, "a verdict was taken for a panic");
        assert_eq!(pit.request(Pull(1)), Ok(false));
    });
}

#[test]
fn a_doomed_process_leaves_others_alone() {
    let _alone = alone();
    watched("others go on", || {
        let runtime = runtime(2);
        let gate = Arc::new(Gate::new());
        let other = Arc::clone(&gate);
        // Stands in a cycle while another process of the runtime is alive and runs.
        let doomed = runtime.start(|| {
            let lock = Lock::new();
            let _held = lock.lock();
            drop(lock.lock());
        });
        let healthy = runtime.start(move || {
            while other.waiting() == 0 {
                proto_core::yield_now();
            }
            other.open();
            7
        });
        assert!(matches!(doomed.unwrap().wait(), Err(ProcessError::Deadlock(_))));
        let opener = Arc::clone(&gate);
        runtime.run(move || opener.pass()).expect("a healthy process is not concerned");
        assert_eq!(healthy.unwrap().wait().unwrap(), 7);
    });
}

#[test]
fn joins_of_a_doomed_process_run_to_their_end() {
    let _alone = alone();
    watched("doomed join", || {
        for controllers in [1, 2] {
            let runtime = runtime(controllers);
            let drops = Drops::default();
            let result = runtime.run(|| {
                let gate = Gate::new();
                let waits = || {
                    let _witness = Witness(&drops);
                    gate.pass();
                };
                join(waits, waits);
            });
            assert!(matches!(result, Err(ProcessError::Deadlock(_))), "{result:?}");
            assert_eq!(drops.all(), 2, "both closures of a join are run, and unwound");
        }
    });
}
