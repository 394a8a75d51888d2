//! Hooks see everything that orders timelines: every birth has an end, every resume a request, the events of an object form a chain.

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use common::programs::ALL;
use common::{build, sized, watched};
use proto_core::{Event, Hooks, Runtime};

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
    for event in events {
        match event {
            Event::Born { vp } => {
                assert!(alive.insert(vp.to_string()), "{program}: {vp} is born twice");
                assert!(born.insert(vp.to_string()), "{program}: two VPs are called {vp}");
            }
            Event::Ended { vp } => assert!(alive.remove(&vp.to_string()), "{program}: {vp} ends unborn"),
            Event::Assigned { vp, .. } | Event::Ready { vp, .. } => {
                assert!(alive.contains(&vp.to_string()), "{program}: {vp} runs and does not live");
            }
            Event::Request { vp, number, .. } => {
                let last = requests.insert(vp.to_string(), *number);
                assert!(last.unwrap_or(0) < *number, "{program}: {vp}'s request {number} comes after {last:?}");
            }
            Event::Resumed { vp, .. } => {
                let waited =
                    requests.contains_key(&vp.to_string()) || program.contains("fork") || program.contains("panics");
                assert!(waited, "{program}: {vp} was resumed and never asked for anything");
            }
            _ => {}
        }
    }
    assert!(alive.is_empty(), "{program}: {alive:?} have not ended");
    assert!(!born.is_empty());
}

#[test]
fn the_requests_of_one_object_form_a_chain() {
    watched("chain", || {
        let log = Arc::new(Log::default());
        let runtime = build(Runtime::builder().controllers(2).hooks(log.clone()));
        runtime
            .run(|| {
                let lock = common::lang::Lock::new();
                proto_core::scope(|s| {
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
        let of_lock = events.iter().filter_map(|event| match event {
            Event::Request { environment, after, .. } if environment.ends_with("LockEnv") => Some(after),
            _ => None,
        });
        let mut seen = BTreeSet::new();
        let mut firsts = 0;
        for after in of_lock {
            match after {
                None => firsts += 1,
                Some(edge) => assert!(seen.insert(*edge), "two requests follow the same one: {edge:?}"),
            }
        }
        assert_eq!(firsts, 1, "one request of the object has no predecessor");
        assert_eq!(seen.len() + 1, 2 * sized(8, 2) * sized(20, 2));
    });
}
