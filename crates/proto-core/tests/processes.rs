//! What a process brings and leaves: assigners of its languages, daemons, VPs that end with its seed.

mod common;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use common::cancelling::{Drops, Witness};
use common::lang::{Gate, sleep};
use common::turns::Assignments;
use common::{build, runtime, sized, watched};
use proto_core::{
    Assigner, Cores, Fifo, Lifo, Locked, OnSeedEnd, Runtime, Scheduled, VpBuilder, Why, Work, scope, yield_now,
};

/// Whoever drops a runtime finds that daemons have unwound, whether they waited, were ready or had not started.
#[test]
fn daemons_have_unwound_when_their_runtime_is_gone() {
    watched("daemons unwind", || {
        for round in 0..sized(300, 4) {
            let begun = Arc::new(AtomicUsize::new(0));
            let ended = Arc::new(Drops::default());
            let runtime = runtime(1 + round % 3);
            let seed = {
                let (begun, ended) = (Arc::clone(&begun), Arc::clone(&ended));
                move || {
                    for n in 0..4 {
                        let (begun, witness) = (Arc::clone(&begun), Witness(Arc::clone(&ended)));
                        let daemon = move || {
                            let _witness = witness;
                            begun.fetch_add(1, Ordering::Relaxed);
                            if n % 2 == 0 {
                                return Gate::new().pass();
                            }
                            loop {
                                sleep(Duration::from_micros(10));
                            }
                        };
                        drop(VpBuilder::new().daemon().spawn(daemon).unwrap());
                    }
                    // None, one or some of them have started.
                    while begun.load(Ordering::Relaxed) < round % 5 {
                        yield_now();
                    }
                }
            };
            if round % 2 == 0 {
                runtime.run(seed).unwrap()
            } else {
                runtime.start_with(Fifo, seed).unwrap().wait().unwrap()
            }
            drop(runtime);
            assert_eq!(ended.all.load(Ordering::Relaxed), 4, "round {round}: a daemon's frame was left as it was");
        }
    });
}

#[test]
fn what_a_process_created_ends_with_its_seed_if_it_says_so() {
    watched("seed end", || {
        for round in 0..sized(100, 4) {
            let ended = Arc::new(Drops::default());
            let runtime = runtime(1 + round % 2);
            let witnesses = Arc::clone(&ended);
            let value = runtime
                .process()
                .on_seed_end(OnSeedEnd::Cancel)
                .run(move || {
                    for _ in 0..3 {
                        let witness = Witness(Arc::clone(&witnesses));
                        let waits = move || {
                            let _witness = witness;
                            Gate::new().pass();
                        };
                        drop(VpBuilder::new().spawn(waits).unwrap());
                    }
                    (0..round % 4).for_each(|_| yield_now());
                    7
                })
                .unwrap();
            assert_eq!(value, 7, "the seed's value counts");
            assert_eq!(ended.all.load(Ordering::Relaxed), 3, "`run` returns when all have unwound");
        }
    });
}

/// Notes whose work it is given.
struct Marked(&'static AtomicUsize);

impl Assigner for Marked {
    type Core = VecDeque<Work>;
    type Shared = ();

    fn core(&self, _: &Cores<'_>) -> Self::Core {
        VecDeque::new()
    }

    fn shared(&self) {}

    fn ready(&self, queue: &mut Self::Core, _: &Locked<()>, _: &Cores<'_>, work: Work, why: Why) {
        if why == Why::Born {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
        queue.push_back(work);
    }

    fn assign(&self, queue: &mut Self::Core, _: &Locked<()>, _: &Cores<'_>) -> Option<Work> {
        queue.pop_front()
    }
}

static MADE: AtomicUsize = AtomicUsize::new(0);
static BORN: AtomicUsize = AtomicUsize::new(0);

struct Markers;
impl Scheduled for Markers {
    type Assigner = Marked;
    fn assigner() -> Marked {
        MADE.fetch_add(1, Ordering::Relaxed);
        Marked(&BORN)
    }
}

#[test]
fn a_languages_vps_belong_to_the_assigner_it_brings_one_in_each_process() {
    watched("belongs", || {
        let runtime = runtime(1);
        let family = || {
            let child = || VpBuilder::new().language::<Markers>().spawn(|| ()).unwrap().join().unwrap();
            VpBuilder::new().language::<Markers>().spawn(child).unwrap().join().unwrap();
            VpBuilder::new().spawn(|| ()).unwrap().join().unwrap();
        };
        for processes in 1..=2 {
            runtime.run(family).unwrap();
            assert_eq!(MADE.load(Ordering::Relaxed), processes, "one assigner for each process");
            assert_eq!(BORN.load(Ordering::Relaxed), 2 * processes, "the two that the language created");
        }
    });
}

struct Greedy;
impl Scheduled for Greedy {
    type Assigner = Lifo;
    fn assigner() -> Lifo {
        Lifo
    }
}

/// Two languages in one process, one of which always has work.
#[test]
fn each_language_of_a_process_is_served_once_in_64() {
    watched("fair between languages", || {
        let log = Arc::new(Assignments::default());
        let runtime: Runtime = build(Runtime::builder().controllers(1).hooks(log.clone()));
        let turns = sized(200, 5);
        let quiet = runtime
            .run(|| {
                let over = AtomicBool::new(false);
                scope(|s| {
                    for _ in 0..sized(100, 10) {
                        let flood = || {
                            while !over.load(Ordering::Relaxed) {
                                yield_now();
                            }
                        };
                        s.spawn_with(VpBuilder::new().language::<Greedy>(), flood).unwrap();
                    }
                    let quiet = s.spawn(move || {
                        (0..turns).for_each(|_| yield_now());
                        proto_core::current_name().to_string()
                    });
                    let name = quiet.join().unwrap();
                    over.store(true, Ordering::Relaxed);
                    name
                })
            })
            .unwrap();
        log.assert_one_in_64(turns, |name| name == quiet);
    });
}
