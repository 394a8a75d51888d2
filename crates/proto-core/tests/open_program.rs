//! While somebody outside could still end a wait, nothing is certain: what looks like a deadlock is a suspicion, nobody is killed, and a late
//! wake-up from outside succeeds.
//!
//! One test at a time: open or closed is a matter of the whole program.

mod common;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use common::lang::{Gate, Lock};
use common::{runtime, watched};
use proto_core::{Finding, ProcessError, Runtime, VpBuilder, external, scope};

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits until `count` timelines of the runtime stand in a request whose name ends so.
fn until_waiting(runtime: &Runtime, request: &str, count: usize) {
    while runtime.waits().iter().filter(|wait| wait.request.ends_with(request)).count() < count {
        std::thread::yield_now();
    }
}

#[test]
fn a_late_wake_up_from_outside_succeeds() {
    let _alone = alone();
    watched("late wake-up", || {
        for controllers in [1, 2] {
            let runtime = runtime(controllers);
            let (event, waker) = external::<u32>();
            let process = runtime.start(move || event.wait(None)).unwrap();
            until_waiting(&runtime, "Await", 1);
            // Everything waits, long enough for the last core to fall asleep and for the watchdog to look.
            let process = process.wait_timeout(Duration::from_millis(700)).expect_err("the waker is alive");
            assert!(!process.has_ended());
            waker.wake(7);
            assert_eq!(process.wait().unwrap(), Ok(Some(7)));
        }
    });
}

#[test]
fn the_last_wakers_end_is_told_to_who_waits() {
    let _alone = alone();
    watched("waker dropped", || {
        let runtime = runtime(2);
        let (event, waker) = external::<u32>();
        let process = runtime.start(move || event.wait(None)).unwrap();
        until_waiting(&runtime, "Await", 1);
        drop(waker);
        assert_eq!(process.wait().unwrap(), Ok(None));
    });
}

#[test]
fn a_cycle_is_a_suspicion_while_a_waker_lives_and_a_verdict_when_it_is_gone() {
    let _alone = alone();
    watched("suspicion", || {
        let runtime = runtime(2);
        let (event, waker) = external::<()>();
        let process = runtime
            .start(|| {
                let lock = Lock::new();
                scope(|s| {
                    let hog = VpBuilder::new().name("waits for itself");
                    s.spawn_with(hog, || {
                        let _held = lock.lock();
                        drop(lock.lock());
                    })
                    .unwrap();
                });
            })
            .unwrap();
        until_waiting(&runtime, "Acquire", 1);
        let suspicion = runtime.suspicion().expect("a cycle is listed on demand");
        assert_eq!(suspicion.finding, Finding::Cycle { length: 1 });
        assert_eq!(suspicion.waits[0].vp.user(), Some("waits for itself"));
        let process = process.wait_timeout(Duration::from_millis(700)).expect_err("an open program has no verdict");
        assert!(runtime.suspicion().is_some(), "nobody was killed");
        drop((event, waker));
        let Err(ProcessError::Deadlock(report)) = process.wait() else { panic!("closed: the verdict follows") };
        assert_eq!(report.finding, Finding::Cycle { length: 1 });
    });
}

#[test]
fn an_attached_os_thread_that_is_not_in_wait_keeps_the_program_open() {
    let _alone = alone();
    watched("attached thread", || {
        let runtime = runtime(2);
        let gate = Arc::new(Gate::new());
        let (of_vp, of_thread) = (gate.clone(), gate.clone());
        let (attached, is_attached) = std::sync::mpsc::channel();
        let (go, gone) = std::sync::mpsc::channel::<()>();
        let helper = std::thread::spawn(move || {
            // A request attaches it.
            let _ = of_thread.waiting();
            attached.send(()).unwrap();
            gone.recv().unwrap();
            of_thread.open();
        });
        is_attached.recv().unwrap();
        let process = runtime.start(move || of_vp.pass()).unwrap();
        let process = process.wait_timeout(Duration::from_millis(700)).expect_err("the helper may open the gate");
        go.send(()).unwrap();
        process.wait().unwrap();
        helper.join().unwrap();
    });
}

#[test]
fn the_end_of_the_last_attached_thread_closes_the_program() {
    let _alone = alone();
    watched("last thread ends", || {
        let runtime = runtime(2);
        let gate = Arc::new(Gate::new());
        let (of_vp, of_thread) = (gate.clone(), gate.clone());
        let (go, gone) = std::sync::mpsc::channel::<()>();
        let helper = std::thread::spawn(move || {
            while of_thread.waiting() == 0 {
                std::thread::yield_now();
            }
            gone.recv().unwrap();
            // Ends without opening the gate.
        });
        let process = runtime.start(move || of_vp.pass()).unwrap();
        let waiter = std::thread::spawn(move || process.wait());
        go.send(()).unwrap();
        // This thread has attached itself by its requests; it must not count while it only waits for others outside.
        drop(gate);
        let ended = std::thread::spawn(move || waiter.join().unwrap());
        helper.join().unwrap();
        // Here it still counts: `wait` on a process of its own is what tells that it only waits.
        let empty = runtime.run(proto_core::yield_now);
        assert!(empty.is_ok());
        let own = runtime.run(|| Gate::new().pass());
        assert!(matches!(own, Err(ProcessError::Deadlock(_))));
        assert!(matches!(ended.join().unwrap(), Err(ProcessError::Deadlock(_))));
    });
}

#[test]
fn a_wait_with_a_deadline_is_no_deadlock() {
    let _alone = alone();
    watched("deadline", || {
        let runtime = runtime(2);
        runtime
            .run(|| {
                let lock = Lock::new();
                let _held = lock.lock();
                scope(|s| {
                    s.spawn(|| {
                        // All others wait for this one, which waits for the clock.
                        let until = Instant::now() + Duration::from_millis(700);
                        assert!(Gate::new().pass_until(until).is_err());
                    });
                });
            })
            .unwrap();
    });
}
