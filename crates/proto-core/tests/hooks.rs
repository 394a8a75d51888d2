//! Hooks see everything that orders timelines: every birth has an end, every resume a request, the events of an object form a chain.

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::lang::{Gate, Lock, sleep};
use common::programs::ALL;
use common::{build, runtime, sized, watched};
use proto_core::{Cause, Event, Hooks, Runtime, VpBuilder, join, scope, yield_now};

#[derive(Default)]
struct Log(Mutex<Vec<Event>>);

impl Hooks for Log {
    fn event(&self, event: &Event) {
        self.0.lock().unwrap().push(event.clone());
    }
}

#[test]
fn every_birth_has_an_end_and_every_resume_a_request() {
    for controllers in [1, sized(3, 2)] {
        for (name, program) in ALL {
            watched(&format!("hooks: {name}"), || {
                let log = Arc::new(Log::default());
                let runtime = build(Runtime::builder().controllers(controllers).hooks(log.clone()));
                program(&runtime);
                drop(runtime);
                check(name, &log.0.lock().unwrap());
            });
        }
    }
}

fn check(program: &str, events: &[Event]) {
    let mut alive = BTreeSet::new();
    let mut born = BTreeSet::new();
    let mut requests = BTreeMap::new();
    let mut assigned = BTreeSet::new();
    for event in events {
        match event {
            Event::Born { vp } => {
                assert!(alive.insert(vp.to_string()), "{program}: {vp} is born twice");
                assert!(born.insert(vp.to_string()), "{program}: two VPs are called {vp}");
            }
            Event::Ended { vp } => assert!(alive.remove(&vp.to_string()), "{program}: {vp} ends unborn"),
            Event::Assigned { vp, .. } | Event::Ready { vp, .. } => {
                assigned.insert(vp.to_string());
                assert!(alive.contains(&vp.to_string()), "{program}: {vp} runs and does not live");
            }
            Event::Request { vp, number, .. } => {
                let last = requests.insert(vp.to_string(), *number);
                assert!(last.unwrap_or(0) < *number, "{program}: {vp}'s request {number} comes after {last:?}");
            }
            // The wait for a latent task is no request.
            Event::Resumed { cause: Cause::Task, .. } => {}
            Event::Resumed { vp, .. } => {
                assert!(
                    requests.contains_key(&vp.to_string()),
                    "{program}: {vp} was resumed and never asked for anything"
                );
            }
            _ => {}
        }
    }
    assert!(alive.is_empty(), "{program}: {alive:?} have not ended");
    assert!(!born.is_empty());
    assert_eq!(born, assigned, "{program}: who was born has run");
}

#[test]
fn the_requests_of_one_object_form_a_chain() {
    watched("chain", || {
        let log = Arc::new(Log::default());
        let runtime = build(Runtime::builder().controllers(2).hooks(log.clone()));
        runtime
            .run(|| {
                let lock = Lock::new();
                scope(|s| {
                    for _ in 0..sized(8, 2) {
                        s.spawn(|| {
                            for _ in 0..sized(20, 2) {
                                drop(lock.lock());
                            }
                        });
                    }
                });
            })
            .unwrap();
        drop(runtime);
        let events = log.0.lock().unwrap();
        // Events are told under the lock of the object: per object they come in order, each naming the one before.
        let mut before = None;
        let mut count = 0;
        for event in events.iter() {
            let Event::Request { vp, number, environment, after, .. } = event else { continue };
            if environment.ends_with("LockEnv") {
                assert_eq!(*after, before, "request {number} of {vp} names another predecessor");
                before = Some((vp.clone(), *number));
                count += 1;
            }
        }
        assert_eq!(count, 2 * sized(8, 2) * sized(20, 2));
    });
}

/// What is told of the timeline with this name.
fn of<'a>(events: &'a [Event], name: &'a str) -> impl Iterator<Item = &'a Event> {
    events.iter().filter(move |event| match event {
        Event::Born { vp } | Event::Ended { vp } => vp.to_string() == name,
        Event::Request { vp, .. } | Event::Resumed { vp, .. } => vp.to_string() == name,
        Event::Ready { vp, .. } | Event::Assigned { vp, .. } => vp.to_string() == name,
        _ => false,
    })
}

#[test]
fn what_a_fork_runs_is_told_under_its_own_name() {
    for controllers in [1, 2] {
        watched("forks are told", || {
            let log = Arc::new(Log::default());
            let runtime = build(Runtime::builder().controllers(controllers).hooks(log.clone()));
            let lock = Lock::new();
            runtime
                .run(|| {
                    let child = || drop(lock.lock());
                    join(yield_now, || join(|| (), child));
                    join(|| (), child);
                })
                .unwrap();
            drop(runtime);
            let events = log.0.lock().unwrap();
            for (name, locks) in [("vp 1:0.0", 0), ("vp 1:0.0.0", 2), ("vp 1:0.1", 2)] {
                let all: Vec<&Event> = of(&events, name).collect();
                let whole = format!("{name}: {all:?}");
                assert!(matches!(all.first(), Some(Event::Born { .. })), "{whole}");
                assert!(matches!(all.last(), Some(Event::Ended { .. })), "{whole}");
                assert!(all.iter().any(|event| matches!(event, Event::Assigned { .. })), "{whole}");
                let numbers: Vec<u64> = all
                    .iter()
                    .filter_map(|event| match event {
                        Event::Request { number, environment, .. } if environment.ends_with("LockEnv") => Some(*number),
                        _ => None,
                    })
                    .collect();
                assert_eq!(numbers, (1..=locks).collect::<Vec<u64>>(), "numbers are its own: {whole}");
            }
            let locks = of(&events, "vp 1:0").filter(
                |event| matches!(event, Event::Request { environment, .. } if environment.ends_with("LockEnv")),
            );
            assert_eq!(locks.count(), 0, "the forker itself locks nothing");
        });
    }
}

/// The only cause for which a timeline with this name was resumed, and by whom.
fn cause_of(events: &[Event], name: &str) -> (Cause, bool) {
    let mut causes = of(events, name).filter_map(|event| match event {
        Event::Resumed { cause, by, .. } => Some((*cause, by.is_some())),
        _ => None,
    });
    let cause = causes.next().unwrap_or_else(|| panic!("{name} was not resumed"));
    assert_eq!(causes.next(), None, "{name} waits once");
    cause
}

#[test]
fn a_resume_says_its_cause() {
    watched("causes", || {
        let log = Arc::new(Log::default());
        let runtime = build(Runtime::builder().controllers(1).hooks(log.clone()));
        let [answered, never, outside] = [const { Gate::new() }; 3];
        let inside = &outside;
        let known = std::sync::Barrier::new(2);
        std::thread::scope(|threads| {
            let helper = threads.spawn(|| {
                // With its first request the thread is known as one that could still help; before, the runtime is closed.
                assert_eq!(inside.waiting(), 0);
                known.wait();
                while inside.waiting() == 0 {
                    std::thread::yield_now();
                }
                inside.open();
            });
            known.wait();
            runtime
                .run(|| {
                    scope(|s| {
                        s.spawn(|| answered.pass());
                        s.spawn(|| sleep(Duration::from_millis(1)));
                        s.spawn(|| inside.pass());
                        let cancelled = s.spawn(|| never.pass()).vp();
                        while answered.waiting() == 0 || never.waiting() == 0 {
                            yield_now();
                        }
                        answered.open();
                        cancelled.cancel().unwrap();
                    });
                })
                .unwrap();
            helper.join().unwrap();
        });
        drop(runtime);
        let events = log.0.lock().unwrap();
        assert_eq!(cause_of(&events, "vp 1:0.0"), (Cause::Request, true));
        assert_eq!(cause_of(&events, "vp 1:0.1"), (Cause::Deadline, false), "the clock");
        assert_eq!(cause_of(&events, "vp 1:0.2"), (Cause::External, true));
        assert_eq!(cause_of(&events, "vp 1:0.3"), (Cause::Cancel, false));
    });
}

/// A name says who made whom, not who ran what where.
#[test]
fn names_are_the_same_with_hooks_and_without() {
    let names = |runtime: Runtime| {
        let name = || VpBuilder::new().spawn(|| ()).unwrap().name().to_string();
        let program = || (join(name, || join(name, || (name(), name()))), name());
        runtime.run(program).unwrap()
    };
    watched("names", || {
        let without = names(runtime(1));
        assert_eq!(without, names(build(Runtime::builder().controllers(1).hooks(Arc::new(Log::default())))));
        let ((first, (second, (third, fourth))), fifth) = without;
        assert_eq!([first, second, third], ["vp 1:0.1", "vp 1:0.0.1", "vp 1:0.0.0.0"]);
        assert_eq!([fourth, fifth], ["vp 1:0.0.0.1", "vp 1:0.2"]);
    });
}
