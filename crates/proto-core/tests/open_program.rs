//! While somebody outside could still end a wait, nothing is certain: what looks like a deadlock is a suspicion, nobody is killed, and a late
//! wake-up from outside succeeds.
//!
//! One test at a time: open or closed is a matter of the whole program.

mod common;

use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use common::lang::{Gate, Held, Lock};
use common::{build, runtime, watched};
use proto_core::{Event, Finding, Hooks, ProcessError, Report, Runtime, VpBuilder, external, scope};

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
        let (attached, is_attached) = channel();
        let (go, gone) = channel::<()>();
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
        let (go, gone) = channel::<()>();
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

/// Hears what the watchdog suspects.
struct Ear(Mutex<Sender<Report>>);

impl Hooks for Ear {
    fn event(&self, _: &Event) {}

    fn suspicion(&self, report: &Report) -> bool {
        assert!(!report.certain, "{report}");
        self.0.lock().unwrap().send(report.clone()).unwrap();
        true
    }
}

/// A runtime and what its watchdog suspects.
fn heard(controllers: usize) -> (Runtime, Receiver<Report>) {
    let (say, hear) = channel();
    (build(Runtime::builder().controllers(controllers).hooks(Arc::new(Ear(Mutex::new(say))))), hear)
}

/// The watchdog has said everything else that it had to say.
fn nothing_more(runtime: Runtime, heard: &Receiver<Report>) {
    drop(runtime);
    let more: Vec<String> = heard.try_iter().map(|report| report.to_string()).collect();
    assert!(more.is_empty(), "said once: {more:?}");
}

fn leaked() -> &'static Lock {
    Box::leak(Box::new(Lock::new()))
}

#[test]
fn a_lost_wake_up_is_suspected_and_a_late_one_helps() {
    let _alone = alone();
    watched("suspected: lost wake-up", || {
        for controllers in [1, 2] {
            let (runtime, heard) = heard(controllers);
            // Waits for what is known to be outside, as a program does that has nothing to do: not worth a line of the watchdog's.
            let (event, waker) = external::<u32>();
            let idle = runtime.start(move || event.wait(None)).unwrap();
            let gate = Arc::new(Gate::new());
            let of_process = Arc::clone(&gate);
            let process = runtime
                .start(move || {
                    scope(|s| {
                        s.spawn(|| of_process.pass());
                        s.spawn(|| of_process.pass());
                    });
                })
                .unwrap();
            let report = heard.recv().unwrap();
            assert_eq!(report.finding, Finding::AllWait, "{report}");
            let passes = report.waits.iter().filter(|wait| wait.request.ends_with("Pass")).count();
            assert_eq!((passes, report.waits.len()), (2, 3), "all of this process, and nothing else: {report}");
            assert_eq!(runtime.suspicion().expect("on demand too").finding, Finding::AllWait);
            gate.open();
            process.wait().expect("nobody was killed");
            let listed = runtime.suspicion().expect("whether a waker is forgotten is not known");
            assert!(listed.waits[0].request.ends_with("Await"), "{listed}");
            waker.wake(1);
            assert_eq!(idle.wait().unwrap(), Ok(Some(1)));
            assert!(runtime.suspicion().is_none(), "nothing waits");
            nothing_more(runtime, &heard);
        }
    });
}

#[test]
fn abba_is_suspected_and_a_late_unlock_from_outside_helps() {
    let _alone = alone();
    watched("suspected: abba", || {
        let (runtime, heard) = heard(2);
        let (a, b) = (leaked(), leaked());
        // What `first` holds is given back by an OS thread, if at all.
        let (give, given) = channel::<Held<'static>>();
        let (has_a, has_b, ends) = (Gate::new(), Gate::new(), Arc::new(AtomicBool::new(false)));
        let over = Arc::clone(&ends);
        let process = runtime
            .start(move || {
                scope(|s| {
                    s.spawn(|| {
                        give.send(a.lock()).unwrap();
                        has_a.open();
                        has_b.pass();
                        drop(b.lock());
                    });
                    s.spawn(|| {
                        let _b = b.lock();
                        has_b.open();
                        has_a.pass();
                        drop(a.lock());
                    });
                    // Others go on: what is stuck is found beside them.
                    s.spawn(|| {
                        while !over.load(Ordering::Relaxed) {
                            proto_core::yield_now();
                        }
                    });
                });
            })
            .unwrap();
        let report = heard.recv().unwrap();
        assert_eq!(report.finding, Finding::Cycle { length: 2 }, "{report}");
        assert_eq!(runtime.suspicion().expect("on demand too").finding, Finding::Cycle { length: 2 });
        drop(given.recv().unwrap());
        ends.store(true, Ordering::Relaxed);
        process.wait().expect("nobody was killed");
        nothing_more(runtime, &heard);
    });
}

#[test]
fn a_forgotten_unlock_is_suspected_and_a_late_one_helps() {
    let _alone = alone();
    watched("suspected: forgotten unlock", || {
        let (runtime, heard) = heard(1);
        let lock = leaked();
        let (give, given) = channel::<Held<'static>>();
        let process = runtime
            .start(move || {
                let forgetful = VpBuilder::new().name("forgetful");
                forgetful.spawn(move || give.send(lock.lock()).unwrap()).unwrap().join().unwrap();
                drop(lock.lock());
            })
            .unwrap();
        let report = heard.recv().unwrap();
        assert_eq!(report.finding, Finding::HolderEnded, "{report}");
        assert_eq!(report.waits[0].holder.as_ref().unwrap().vp.user(), Some("forgetful"), "{report}");
        assert_eq!(runtime.suspicion().expect("on demand too").finding, Finding::HolderEnded);
        drop(given.recv().unwrap());
        process.wait().expect("nobody was killed");
        nothing_more(runtime, &heard);
    });
}

/// Names the child in the environment.
const CHILD: &str = "PROTO_SUSPECTS";

/// Does nothing unless it is run as a child.
#[test]
fn the_child() {
    if std::env::var_os(CHILD).is_none() {
        return;
    }
    let runtime = runtime(1);
    let (_event, _waker) = external::<()>();
    let process = runtime
        .start(|| {
            let lock = Lock::new();
            let _held = lock.lock();
            // Cycles with a deadline end by themselves.
            lock.lock_until(Instant::now() + Duration::from_millis(2_500)).map(drop).unwrap_err();
            drop(lock.lock());
        })
        .unwrap();
    drop(process.wait_timeout(Duration::from_secs(6)).expect_err("the program is open"));
    std::process::exit(0);
}

#[test]
fn without_hooks_a_suspicion_is_written_to_standard_error_once() {
    watched("written", || {
        let exe = std::env::current_exe().unwrap();
        let child = ["--exact", "the_child", "--nocapture"];
        let output = Command::new(exe).args(child).env(CHILD, "1").output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{text}");
        assert_eq!(text.matches("suspected deadlock: a cycle of 1").count(), 1, "{text}");
        assert_eq!(text.matches("suspected deadlock").count(), 1, "{text}");
    });
}

/// What is certain is judged, whatever else has a deadline.
#[test]
fn a_certain_cycle_is_judged_beside_others_with_deadlines() {
    let _alone = alone();
    watched("cycles with and without a deadline", || {
        let runtime = runtime(2);
        let far = Instant::now() + Duration::from_secs(3600);
        let timed = move || {
            let lock = Lock::new();
            let _held = lock.lock();
            drop(lock.lock_until(far));
        };
        let result = runtime.run(|| {
            scope(|s| {
                // On both sides of it in every list.
                s.spawn(timed);
                s.spawn_with(VpBuilder::new().name("certain"), || {
                    let lock = Lock::new();
                    let _held = lock.lock();
                    drop(lock.lock());
                })
                .unwrap();
                s.spawn(timed);
            });
        });
        let Err(ProcessError::Deadlock(report)) = result else { panic!("{result:?}") };
        assert_eq!(report.finding, Finding::Cycle { length: 1 }, "{report}");
        assert!(report.certain);
        assert_eq!(report.waits[0].vp.user(), Some("certain"), "{report}");
    });
}
