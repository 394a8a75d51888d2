//! Assigners: each ready-made one runs everything and keeps its order; broken, greedy and foreign ones lose nothing.

mod common;

use std::collections::{BTreeSet, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use common::assigners::{Heap, Twist, Twisted};
use common::lang::{Gate, Mailbox};
use common::programs::run_most;
use common::turns::Assignments;
use common::{build, sized, watched};
use proto_core::{
    Assigner, CoreId, Cores, Fifo, Lifo, Locality, Priority, Runtime, Topology, VpBuilder, Why, Work, WorkStealing,
    on_vp, scope, yield_now,
};

#[test]
fn every_ready_made_assigner_runs_everything() {
    for controllers in [1, sized(3, 2)] {
        let with = |builder: fn() -> proto_core::Builder| move || build(builder().controllers(controllers));
        run_most("Fifo", with(|| Runtime::builder().assigner(Fifo)));
        run_most("Lifo", with(|| Runtime::builder().assigner(Lifo)));
        run_most("Priority", with(|| Runtime::builder().assigner(Priority)));
        run_most("WorkStealing", with(|| Runtime::builder().assigner(WorkStealing)));
        run_most("Locality", with(|| Runtime::builder().assigner(Locality)));
    }
}

/// The order in which VPs of one core start that were all made before the first could.
fn order_of<A: Assigner + Copy>(assigner: A, priorities: &[u8]) -> Vec<usize> {
    // A tick may come while they are being made, on a machine that is busy with other things: then that was nothing.
    (0..1000).find_map(|_| order_if_all_were_made(assigner, priorities)).expect("no tick in one of many tries")
}

fn order_if_all_were_made(assigner: impl Assigner, priorities: &[u8]) -> Option<Vec<usize>> {
    let runtime = build(Runtime::builder().controllers(1).assigner(assigner));
    let (order, early) = (Mutex::new(Vec::new()), AtomicBool::new(false));
    runtime
        .run(|| {
            let made = AtomicBool::new(false);
            scope(|s| {
                for (n, priority) in priorities.iter().enumerate() {
                    let (order, early, made) = (&order, &early, &made);
                    let start = move || {
                        early.fetch_or(!made.load(Ordering::Relaxed), Ordering::Relaxed);
                        order.lock().unwrap().push(n);
                    };
                    s.spawn_with(VpBuilder::new().priority(*priority), start).unwrap();
                }
                made.store(true, Ordering::Relaxed);
            });
        })
        .unwrap();
    (!early.into_inner()).then(|| order.into_inner().unwrap())
}

#[test]
fn fifo_lifo_and_priority_keep_their_order() {
    watched("order", || {
        assert_eq!(order_of(Fifo, &[128; 6]), [0, 1, 2, 3, 4, 5]);
        assert_eq!(order_of(Lifo, &[128; 6]), [5, 4, 3, 2, 1, 0]);
        assert_eq!(order_of(WorkStealing, &[128; 6]), [0, 1, 2, 3, 4, 5]);
        assert_eq!(order_of(Priority, &[1, 200, 128, 255, 0, 200]), [3, 1, 5, 2, 0, 4]);
    });
}

/// Gives the places of its cores.
fn two_packages(controllers: usize) -> Runtime {
    let topology = Topology::parse("2 packages x 2 cores").unwrap();
    assert_eq!(topology.len(), 4);
    build(Runtime::builder().controllers(controllers).topology(topology).assigner(Locality))
}

#[test]
fn locality_runs_on_another_machine_than_this_one() {
    run_most("Locality on two packages", || two_packages(4));
}

#[test]
fn work_stealing_spreads_work() {
    watched("spread", || {
        let runtime = build(Runtime::builder().controllers(2));
        let here = Arc::new(AtomicUsize::new(0));
        runtime
            .run(move || {
                // None of the two ends before both run at once, on two cores.
                scope(|s| {
                    for _ in 0..2 {
                        let here = &here;
                        s.spawn(move || {
                            here.fetch_add(1, Ordering::Relaxed);
                            while here.load(Ordering::Relaxed) < 2 {
                                std::hint::spin_loop();
                            }
                        });
                    }
                });
            })
            .unwrap();
    });
}

/// Two processes with assigners of their own, one of which always has work: the other is served at least once in 64.
#[test]
fn each_language_with_ready_work_is_served_once_in_64() {
    watched("fair between languages", || {
        let log = Arc::new(Assignments::default());
        let runtime = build(Runtime::builder().controllers(1).hooks(log.clone()));
        let over = Arc::new(AtomicBool::new(false));
        let stop = Arc::clone(&over);
        let flood = runtime
            .start_with(Lifo, move || {
                scope(|s| {
                    for _ in 0..sized(100, 10) {
                        s.spawn(|| {
                            while !stop.load(Ordering::Relaxed) {
                                yield_now();
                            }
                        });
                    }
                });
            })
            .unwrap();
        let turns = sized(200, 5);
        let quiet = runtime.start_with(Fifo, move || (0..turns).for_each(|_| yield_now())).unwrap();
        let id = format!("vp {}:", quiet.id());
        quiet.wait().unwrap();
        over.store(true, Ordering::Relaxed);
        flood.wait().unwrap();
        log.assert_one_in_64(turns, |name| name.starts_with(&id));
    });
}

/// Drops every second piece of work that it is given.
#[derive(Default)]
struct Careless(AtomicUsize);

impl Twist for Careless {
    fn ready(&self, queue: &mut VecDeque<Work>, work: Work, _: Why) {
        if self.0.fetch_add(1, Ordering::Relaxed).is_multiple_of(2) {
            queue.push_back(work);
        }
    }
}

#[test]
fn work_that_an_assigner_drops_is_run_most_the_same() {
    for controllers in [1, 2] {
        run_most("careless", || {
            build(Runtime::builder().controllers(controllers).assigner(Twisted(Careless::default())))
        });
    }
}

#[test]
fn started_work_that_is_assigned_to_a_wrong_core_goes_home() {
    for controllers in [1, 2, sized(4, 2)] {
        run_most("one heap", || build(Runtime::builder().controllers(controllers).assigner(Heap)));
    }
}

/// Panics at its hundredth call.
#[derive(Default)]
struct Fragile(AtomicUsize);

impl Twist for Fragile {
    fn ready(&self, queue: &mut VecDeque<Work>, work: Work, _: Why) {
        if self.0.fetch_add(1, Ordering::Relaxed) == sized(100, 5) {
            panic!("too much");
        }
        queue.push_back(work);
    }
}

#[test]
fn an_assigner_that_panics_is_replaced_and_loses_nothing() {
    for controllers in [1, sized(3, 2)] {
        run_most("fragile", || {
            build(Runtime::builder().controllers(controllers).assigner(Twisted(Fragile::default())))
        });
    }
}

/// Keeps new work of priority 1 until it was given so many pieces, then gives it out.
struct Hoarder(usize, Mutex<Vec<Work>>);

impl Twist for Hoarder {
    fn ready(&self, queue: &mut VecDeque<Work>, work: Work, why: Why) {
        if why == Why::Born && work.priority() == 1 {
            let mut hoard = self.1.lock().unwrap();
            hoard.push(work);
            if hoard.len() == self.0 {
                queue.extend(hoard.drain(..));
            }
        } else {
            queue.push_back(work);
        }
    }
}

#[test]
fn hoarded_work_runs_when_it_is_given_out() {
    watched("hoarder", || {
        let count = sized(50, 3);
        let runtime = build(Runtime::builder().controllers(1).assigner(Twisted(Hoarder(count, Mutex::default()))));
        let ran = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&ran);
        runtime
            .run(move || {
                scope(|s| {
                    for n in 0..count {
                        assert_eq!(counted.load(Ordering::Relaxed), 0, "piece {n} is not the last");
                        s.spawn_with(VpBuilder::new().priority(1), || counted.fetch_add(1, Ordering::Relaxed)).unwrap();
                        yield_now();
                    }
                });
            })
            .unwrap();
        assert_eq!(ran.load(Ordering::Relaxed), count);
    });
}

/// Makes a request, which an assigner may not.
struct Asks(Gate);

impl Twist for Asks {
    fn ready(&self, queue: &mut VecDeque<Work>, work: Work, _: Why) {
        queue.push_back(work);
        self.0.pass();
    }
}

#[test]
fn an_assigner_that_makes_a_request_is_replaced() {
    watched("request in an assigner", || {
        let runtime = build(Runtime::builder().controllers(1).assigner(Twisted(Asks(Gate::new()))));
        assert!(runtime.run(on_vp).unwrap());
    });
}

/// Starts every new VP on the core after the one where it was born.
struct Next;

impl Twist for Next {
    fn place(&self, cores: &Cores<'_>) -> Option<CoreId> {
        Some(cores.place_of((cores.index() + 1) % cores.count()))
    }
}

#[test]
fn an_assigner_places_new_work() {
    run_most("placed", || build(Runtime::builder().controllers(sized(3, 2)).assigner(Twisted(Next))));
    watched("placed elsewhere", || {
        let runtime = build(Runtime::builder().controllers(2).assigner(Twisted(Next)));
        let places = runtime
            .run(|| {
                let own = proto_core::VpRef::current().home().unwrap();
                let others: BTreeSet<_> = scope(|s| {
                    let vps: Vec<_> =
                        (0..sized(20, 2)).map(|_| s.spawn(|| proto_core::VpRef::current().home().unwrap())).collect();
                    vps.into_iter().map(|vp| vp.join().unwrap().index()).collect()
                });
                (own.index(), others)
            })
            .unwrap();
        assert!(!places.1.contains(&places.0), "children start on the other core");
    });
}

/// Counts the resumed work it is told of.
struct Tally<const UNASKED: bool>(Arc<AtomicUsize>);

impl<const UNASKED: bool> Twist for Tally<UNASKED> {
    const ONLY_WORK_UNASKED: bool = UNASKED;

    fn ready(&self, queue: &mut VecDeque<Work>, work: Work, why: Why) {
        self.0.fetch_add(usize::from(why == Why::Resumed), Ordering::Relaxed);
        queue.push_back(work);
    }
}

#[test]
fn the_only_work_of_a_core_runs_unasked_where_the_assigner_says_so_and_else_is_asked_for() {
    fn told<const UNASKED: bool>() -> usize {
        let count = Arc::new(AtomicUsize::new(0));
        let tally = Twisted(Tally::<UNASKED>(Arc::clone(&count)));
        let runtime = build(Runtime::builder().controllers(1).assigner(tally));
        runtime
            .run(|| {
                let (there, back) = (Mailbox::new(), Mailbox::new());
                scope(|s| {
                    s.spawn(|| (0..100).for_each(|n| (there.put(n), assert_eq!(back.take(), n)).1));
                    s.spawn(|| (0..100).for_each(|_| back.put(there.take())));
                });
            })
            .unwrap();
        count.load(Ordering::Relaxed)
    }
    watched("unasked", || {
        let (asked, unasked) = (told::<false>(), told::<true>());
        assert!(asked >= 100, "the assigner was told of {asked} only");
        // Some it is told of: while there is more than one piece, and at a tick, which a slow interpreter takes for every piece.
        assert!(unasked < asked || cfg!(miri), "the assigner was told of {unasked}, of {asked} in all");
    });
}
