//! Published concurrency bugs in which locks, channels and waits meet, each with its order forced: the verdict lists every timeline that
//! stands still, and names the holder where a lock is held. The corrected twin of each ends.
//!
//! One test at a time: a verdict is a matter of the whole program.

mod common;

use common::lang::{Gate, Lock, Mailbox};
use common::{alone, runtime, watched};
use proto_core::{Finding, ProcessError, Report, Scope, VpBuilder, scope};

fn named<'scope>(s: &'scope Scope<'scope, '_>, name: &'static str, f: impl FnOnce() + Send + 'scope) {
    drop(s.spawn_with(VpBuilder::new().name(name), f).unwrap());
}

/// Runs the kernel, buggy and corrected, on one core and on two; gives the reports of the buggy ones.
fn verdicts(name: &str, kernel: impl Fn(bool) + Sync) -> Vec<Report> {
    let _alone = alone();
    watched(name, || {
        [1, 2]
            .map(|controllers| {
                let runtime = runtime(controllers);
                runtime.run(|| kernel(false)).unwrap_or_else(|error| panic!("the corrected {name}: {error}"));
                match runtime.run(|| kernel(true)) {
                    Err(ProcessError::Deadlock(report)) => *report,
                    other => panic!("{name}: expected a deadlock, got {other:?}"),
                }
            })
            .into()
    })
}

/// What `vp` waits for, and who holds it.
fn wait_of<'a>(report: &'a Report, vp: &str) -> (&'a str, Option<&'a str>) {
    let found = report.waits.iter().find(|wait| wait.vp.user() == Some(vp));
    let wait = found.unwrap_or_else(|| panic!("{vp} is not listed: {report}"));
    let request = wait.request.rsplit("::").next().unwrap();
    (request, wait.holder.as_ref().and_then(|holder| holder.vp.user()))
}

#[test]
fn stop_holds_the_lock_that_the_stopped_one_needs_to_say_so() {
    let reports = verdicts("stop-holds-lock", |buggy| {
        let (lock, all_done, stopping) = (Lock::new(), Gate::new(), Gate::new());
        scope(|s| {
            named(s, "stopper", || {
                let held = lock.lock();
                stopping.open();
                if !buggy {
                    drop(held);
                    return all_done.pass();
                }
                all_done.pass();
                drop(held);
            });
            named(s, "task", || {
                stopping.pass();
                drop(lock.lock());
                all_done.open();
            });
        });
    });
    for report in &reports {
        assert_eq!(report.finding, Finding::AllWait, "{report}");
        assert_eq!(wait_of(report, "task"), ("Acquire", Some("stopper")));
        assert_eq!(wait_of(report, "stopper"), ("Pass", None));
    }
}

#[test]
fn a_send_under_the_lock_that_the_receiver_wants_first() {
    let reports = verdicts("send-under-lock", |buggy| {
        let (lock, locked, received) = (Lock::new(), Gate::new(), Gate::new());
        let channel = Mailbox::new();
        scope(|s| {
            named(s, "sender", || {
                let held = lock.lock();
                locked.open();
                channel.put(1);
                if !buggy {
                    drop(held);
                    return received.pass();
                }
                // An unbuffered channel: the send ends when the value was received.
                received.pass();
                drop(held);
            });
            named(s, "receiver", || {
                locked.pass();
                drop(lock.lock());
                assert_eq!(channel.take(), 1);
                received.open();
            });
        });
    });
    for report in &reports {
        assert_eq!(wait_of(report, "receiver"), ("Acquire", Some("sender")), "{report}");
        assert_eq!(wait_of(report, "sender"), ("Pass", None), "{report}");
    }
}

#[test]
fn one_signal_for_two_waiters() {
    let reports = verdicts("one-signal-two-waiters", |buggy| {
        let signals = Mailbox::new();
        scope(|s| {
            named(s, "first", || signals.take());
            named(s, "second", || signals.take());
            named(s, "signaller", || {
                signals.put(());
                if !buggy {
                    signals.put(());
                }
            });
        });
    });
    for report in &reports {
        assert_eq!(report.finding, Finding::AllWait);
        let takers = report.waits.iter().filter(|wait| wait.request.contains("Take")).count();
        assert_eq!(takers, 1, "one of the two was woken: {report}");
        assert_eq!(report.waits.len(), 2, "it, and the seed at its scope's end: {report}");
    }
}

#[test]
fn three_locks_in_a_ring_with_a_bystander() {
    let reports = verdicts("ring of three", |buggy| {
        let locks = [Lock::new(), Lock::new(), Lock::new()];
        let (arrived, go) = (Mailbox::new(), Gate::new());
        scope(|s| {
            for (n, name) in ["zero", "one", "two"].into_iter().enumerate() {
                let (locks, arrived, go) = (&locks, &arrived, &go);
                named(s, name, move || {
                    let first = buggy.then(|| locks[n].lock());
                    arrived.put(());
                    go.pass();
                    let _second = locks[(n + 1) % 3].lock();
                    drop(first);
                });
            }
            for _ in 0..3 {
                arrived.take();
            }
            // Waits for one of the ring, and is no part of it.
            if buggy {
                named(s, "bystander", || drop(locks[0].lock()));
            }
            go.open();
        });
    });
    for report in &reports {
        assert_eq!(report.finding, Finding::Cycle { length: 3 }, "{report}");
        for (who, holder) in [("zero", "one"), ("one", "two"), ("two", "zero"), ("bystander", "zero")] {
            assert_eq!(wait_of(report, who), ("Acquire", Some(holder)), "{report}");
        }
        assert!(report.waits[..3].iter().all(|wait| wait.vp.user() != Some("bystander")), "{report}");
    }
}

#[test]
fn a_join_of_oneself_through_another() {
    let reports = verdicts("self-join", |buggy| {
        // The close of a connection waits for the dispatcher to end; the dispatcher itself asks for the close and waits for it.
        let (close, closed, ended) = (Mailbox::new(), Gate::new(), Gate::new());
        scope(|s| {
            named(s, "dispatcher", || {
                close.put(());
                if buggy {
                    closed.pass();
                }
                ended.open();
            });
            named(s, "closer", || {
                close.take();
                ended.pass();
                closed.open();
            });
        });
    });
    for report in &reports {
        assert_eq!(report.finding, Finding::AllWait);
        assert_eq!((wait_of(report, "dispatcher").0, wait_of(report, "closer").0), ("Pass", "Pass"), "{report}");
    }
}
