//! In a closed program what can go on no more ends with an error from `wait()` that names everything concerned.
//!
//! Closed means: nobody outside could end a wait. That is a matter of the whole program, so these tests run one after the other.

mod common;

use std::sync::Arc;

use common::lang::{Gate, Lock, Mailbox};
use common::{alone, runtime, watched};
use proto_core::{Finding, ProcessError, Report, VpBuilder, scope, yield_now};

#[track_caller]
fn deadlock<T>(result: Result<T, ProcessError>) -> Box<Report> {
    match result {
        Err(ProcessError::Deadlock(report)) => report,
        Err(other) => panic!("expected a deadlock, got {other}"),
        Ok(_) => panic!("expected a deadlock, got a value"),
    }
}

/// The line in this file at which `what` stands, for checks of source places.
fn line_of(what: &str) -> u32 {
    let at = include_str!("verdicts.rs").lines().position(|line| line.contains(what) && !line.contains("line_of"));
    u32::try_from(at.expect("the marker is in this file")).unwrap() + 1
}

#[test]
fn abba_names_both_vps_both_locks_and_all_four_places() {
    let _alone = alone();
    watched("abba", || {
        for controllers in [1, 2] {
            let runtime = runtime(controllers);
            let report = deadlock(runtime.run(|| {
                let a = Lock::new(); // made: a
                let b = Lock::new(); // made: b
                let (has_a, has_b) = (Gate::new(), Gate::new());
                scope(|s| {
                    let first = VpBuilder::new().name("first");
                    s.spawn_with(first, || {
                        let _a = a.lock(); // first takes a
                        has_a.open();
                        has_b.pass();
                        let _b = b.lock(); // first wants b
                    })
                    .unwrap();
                    let second = VpBuilder::new().name("second");
                    s.spawn_with(second, || {
                        let _b = b.lock(); // second takes b
                        has_b.open();
                        has_a.pass();
                        let _a = a.lock(); // second wants a
                    })
                    .unwrap();
                });
            }));
            assert_eq!(report.finding, Finding::Cycle { length: 2 }, "{report}");
            assert_eq!(report.waits.len(), 3, "the seed waits for its scope: {report}");
            for (name, wants, made, holder, taken) in [
                ("first", "// first wants b", "// made: b", "second", "// second takes b"),
                ("second", "// second wants a", "// made: a", "first", "// first takes a"),
            ] {
                let wait = report.waits.iter().find(|wait| wait.vp.user() == Some(name)).unwrap();
                assert!(wait.request.ends_with("Acquire"), "{wait}");
                assert!(wait.environment.ends_with("LockEnv"), "{wait}");
                assert_eq!(wait.sent_from.line(), line_of(wants), "{wait}");
                // `Lock::new` is const and tracks its caller.
                assert_eq!(wait.made_at.unwrap().line(), line_of(made), "{wait}");
                let by = wait.holder.as_ref().unwrap();
                assert_eq!(by.vp.user(), Some(holder), "{wait}");
                assert!(!by.ended, "{wait}");
                assert_eq!(by.taken_at.unwrap().line(), line_of(taken), "{wait}");
            }
            let text = report.to_string();
            assert!(text.contains("'first'") && text.contains("'second'") && text.contains("verdicts.rs:"), "{text}");
        }
    });
}

#[test]
fn a_wait_for_a_lock_that_one_holds_oneself_is_a_cycle_of_one() {
    let _alone = alone();
    watched("self-deadlock", || {
        let report = deadlock(runtime(2).run(|| {
            let lock = Lock::new();
            let _first = lock.lock();
            let _second = lock.lock();
        }));
        assert_eq!(report.finding, Finding::Cycle { length: 1 }, "{report}");
        assert_eq!(report.waits.len(), 1);
        assert_eq!(report.waits[0].holder.as_ref().unwrap().vp, report.waits[0].vp);
    });
}

#[test]
fn a_lost_wake_up_is_found_when_everything_waits() {
    let _alone = alone();
    watched("lost wake-up", || {
        let report = deadlock(runtime(2).run(|| {
            let gate = Gate::new();
            scope(|s| {
                s.spawn(|| gate.pass());
                s.spawn(|| gate.pass());
            });
        }));
        assert_eq!(report.finding, Finding::AllWait, "{report}");
        let passes = report.waits.iter().filter(|wait| wait.request.ends_with("Pass")).count();
        assert_eq!((passes, report.waits.len()), (2, 3), "{report}");
    });
}

#[test]
fn a_forgotten_unlock_names_the_holder_that_has_ended() {
    let _alone = alone();
    watched("forgotten unlock", || {
        let report = deadlock(runtime(2).run(|| {
            let lock = Arc::new(Lock::new());
            let of_other = Arc::clone(&lock);
            let forgetful = VpBuilder::new().name("forgetful");
            forgetful.spawn(move || std::mem::forget(of_other.lock())).unwrap().join().unwrap();
            // Others live and end meanwhile: the name must not become theirs.
            for _ in 0..100 {
                VpBuilder::new().name("somebody").spawn(|| ()).unwrap().join().unwrap();
            }
            drop(lock.lock());
        }));
        assert_eq!(report.finding, Finding::HolderEnded, "{report}");
        let holder = report.waits[0].holder.as_ref().unwrap();
        assert!(holder.ended);
        assert_eq!(holder.vp.user(), Some("forgetful"), "{report}");
    });
}

#[test]
fn a_holder_of_a_process_that_is_gone_is_still_named() {
    let _alone = alone();
    watched("holder of another process", || {
        static LOCK: Lock = Lock::new();
        let runtime = runtime(2);
        runtime
            .run(|| {
                let forgetful = VpBuilder::new().name("long gone");
                forgetful.spawn(|| std::mem::forget(LOCK.lock())).unwrap().join().unwrap();
            })
            .unwrap();
        let report = deadlock(runtime.run(|| drop(LOCK.lock())));
        assert_eq!(report.finding, Finding::HolderEnded, "{report}");
        assert_eq!(report.waits[0].holder.as_ref().unwrap().vp.user(), Some("long gone"));
    });
}

#[test]
fn five_philosophers_are_one_cycle_of_five() {
    let _alone = alone();
    watched("philosophers", || {
        let report = deadlock(runtime(2).run(|| {
            let forks: Vec<Lock> = (0..5).map(|_| Lock::new()).collect();
            let all_have_one = Mailbox::new();
            let go = Gate::new();
            scope(|s| {
                for n in 0..5 {
                    let (forks, all_have_one, go) = (&forks, &all_have_one, &go);
                    s.spawn(move || {
                        let _left = forks[n].lock();
                        all_have_one.put(());
                        go.pass();
                        let _right = forks[(n + 1) % 5].lock();
                    });
                }
                for _ in 0..5 {
                    all_have_one.take();
                }
                go.open();
            });
        }));
        assert_eq!(report.finding, Finding::Cycle { length: 5 }, "{report}");
        for pair in report.waits[..5].windows(2) {
            assert_eq!(pair[0].holder.as_ref().unwrap().vp, pair[1].vp, "the cycle is listed in its order: {report}");
        }
    });
}

#[test]
fn a_cycle_is_found_while_others_of_the_process_run() {
    let _alone = alone();
    watched("cycle beside running VPs", || {
        let report = deadlock(runtime(2).run(|| {
            let lock = Lock::new();
            let gate = Gate::new();
            scope(|s| {
                s.spawn(|| {
                    let _first = lock.lock();
                    let _second = lock.lock();
                });
                // Runs until the verdict cancels it: at the next request that may wait.
                s.spawn(|| {
                    gate.open();
                    loop {
                        gate.pass();
                        yield_now();
                    }
                });
            });
        }));
        assert_eq!(report.finding, Finding::Cycle { length: 1 }, "{report}");
    });
}

#[test]
fn a_runtime_that_waits_is_judged_when_another_one_comes_to_rest() {
    let _alone = alone();
    watched("two runtimes", || {
        let (stands, runs) = (runtime(1), runtime(1));
        let gate = Arc::new(Gate::new());
        let (inside, outside) = (Arc::clone(&gate), Arc::clone(&gate));
        let process = stands.start(move || inside.pass()).unwrap();
        let busy = runs
            .start(move || {
                while outside.waiting() == 0 {
                    yield_now();
                }
                // By now the other runtime's core is asleep, or about to be, and this one is awake.
                for _ in 0..1000 {
                    yield_now();
                }
            })
            .unwrap();
        let report = deadlock(process.wait());
        assert_eq!(report.finding, Finding::AllWait, "{report}");
        busy.wait().unwrap();
    });
}

#[test]
fn who_waits_for_a_process_that_is_judged_goes_on() {
    let _alone = alone();
    watched("nested runtimes", || {
        let (outer, inner) = (runtime(1), runtime(1));
        let text = outer
            .run(|| {
                let borrowed = String::from("still here");
                let report = deadlock(inner.run(|| Gate::new().pass()));
                assert_eq!(report.finding, Finding::AllWait);
                borrowed
            })
            .expect("the outer process only waits for the inner one");
        assert_eq!(text, "still here");
        // The same within one runtime.
        outer.run(|| deadlock(outer.run(|| Gate::new().pass())).finding).expect("as above");
    });
}
