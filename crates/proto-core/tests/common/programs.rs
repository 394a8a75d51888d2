//! Programs of every kind, to be run with every number of controllers, back end and assigner.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use proto_core::{Ended, JoinError, Runtime, VpBuilder, blocking, join, scope, yield_now};

use super::cancelling::{Drops, Witness};
use super::lang::{Gate, Lock, Mailbox, sleep};
use super::sized;

/// A program, by its name.
pub type Program = (&'static str, fn(&Runtime));

/// All of them.
pub const ALL: &[Program] = &[
    ("spawns and joins", spawns_and_joins),
    ("scopes borrow", scopes_borrow),
    ("fork tree", fork_tree),
    ("locks exclude", locks_exclude),
    ("mailboxes ping-pong", mailboxes_ping_pong),
    ("yields interleave", yields_interleave),
    ("deadlines pass", deadlines_pass),
    ("blocking calls", blocking_calls),
    ("panics reach who joins", panics_reach_who_joins),
    ("cancels unwind", cancels_unwind),
    ("locks over forks", |runtime| locks_over_forks(runtime, sized(16, 3))),
    ("spins end", spins_end),
    ("daemons are ended", daemons_are_ended),
    ("processes nest", processes_nest),
];

/// Runs all of them on runtimes that `make` makes.
pub fn run_all(what: &str, make: impl Fn() -> Runtime) {
    run(ALL, what, make);
}

/// As [`run_all`]. Under Miri, where they take some minutes, only the first ones: for those who have many runtimes to try.
pub fn run_most(what: &str, make: impl Fn() -> Runtime) {
    run(&ALL[..sized(ALL.len(), 3)], what, make);
}

fn run(programs: &[Program], what: &str, make: impl Fn() -> Runtime) {
    for (name, program) in programs {
        super::watched(&format!("{what}: {name}"), || {
            let runtime = make();
            program(&runtime);
        });
    }
}

fn spawns_and_joins(runtime: &Runtime) {
    let count = sized(500, 10);
    let sum = runtime
        .run(move || {
            let vps: Vec<_> = (0..count).map(|n| VpBuilder::new().spawn(move || n).unwrap()).collect();
            vps.into_iter().map(|vp| vp.join().unwrap()).sum::<usize>()
        })
        .unwrap();
    assert_eq!(sum, count * (count - 1) / 2, "every VP gives its value once");
}

fn scopes_borrow(runtime: &Runtime) {
    let mut numbers: Vec<usize> = (0..sized(300, 8)).collect();
    runtime
        .run(|| {
            scope(|s| {
                for n in &mut numbers {
                    s.spawn(move || {
                        yield_now();
                        *n += 1;
                    });
                }
            });
        })
        .unwrap();
    assert!(numbers.iter().enumerate().all(|(index, n)| *n == index + 1), "a scope waits for all of its VPs");
}

/// A tree of forks whose leaves `leaf` makes.
pub fn tree(depth: usize, leaf: &(impl Fn() -> u64 + Sync)) -> u64 {
    if depth == 0 {
        return leaf();
    }
    let (a, b) = join(|| tree(depth - 1, leaf), || tree(depth - 1, leaf));
    a + b
}

fn fork_tree(runtime: &Runtime) {
    let depth = sized(10, 3);
    assert_eq!(runtime.run(|| tree(depth, &|| 1)).unwrap(), 1 << depth, "every leaf runs once");
    let yielding = runtime.run(|| {
        tree(depth.min(7), &|| {
            yield_now();
            1
        })
    });
    assert_eq!(yielding.unwrap(), 1 << depth.min(7), "leaves that leave their core are joined all the same");
}

fn locks_exclude(runtime: &Runtime) {
    let (vps, turns) = (sized(16, 3), sized(50, 3));
    let lock = Lock::new();
    let inside = AtomicBool::new(false);
    let total = AtomicU64::new(0);
    runtime
        .run(|| {
            scope(|s| {
                for _ in 0..vps {
                    s.spawn(|| {
                        for turn in 0..turns {
                            let _held = lock.lock();
                            assert!(!inside.swap(true, Ordering::Relaxed), "two VPs hold one lock");
                            total.fetch_add(1, Ordering::Relaxed);
                            if turn % 3 == 0 {
                                yield_now();
                            }
                            inside.store(false, Ordering::Relaxed);
                        }
                    });
                }
            });
        })
        .unwrap();
    assert_eq!(total.into_inner(), (vps * turns) as u64, "no turn is lost");
}

fn mailboxes_ping_pong(runtime: &Runtime) {
    let rounds = sized(300, 10);
    let (there, back) = (Mailbox::new(), Mailbox::new());
    runtime
        .run(|| {
            scope(|s| {
                s.spawn(|| {
                    for _ in 0..rounds {
                        back.put(there.take() + 1);
                    }
                });
                let mut n = 0;
                for _ in 0..rounds {
                    there.put(n);
                    n = back.take();
                }
                assert_eq!(n, rounds, "every value comes back once");
            });
        })
        .unwrap();
}

fn yields_interleave(runtime: &Runtime) {
    let done = AtomicU64::new(0);
    let (vps, turns) = (sized(20, 3), sized(50, 3));
    runtime
        .run(|| {
            scope(|s| {
                for _ in 0..vps {
                    s.spawn(|| {
                        (0..turns).for_each(|_| yield_now());
                        done.fetch_add(1, Ordering::Relaxed);
                    });
                }
            });
        })
        .unwrap();
    assert_eq!(done.into_inner(), vps as u64, "a VP that yields goes on");
}

fn deadlines_pass(runtime: &Runtime) {
    runtime
        .run(|| {
            scope(|s| {
                for n in 0..sized(30, 3) as u64 {
                    s.spawn(move || sleep(Duration::from_micros(n * 100)));
                }
            });
        })
        .unwrap();
}

fn blocking_calls(runtime: &Runtime) {
    let sum: u64 = runtime
        .run(|| {
            let calls: Vec<_> =
                (0..sized(20, 2) as u64).map(|n| VpBuilder::new().spawn(move || blocking(|| n)).unwrap()).collect();
            calls.into_iter().map(|call| call.join().unwrap()).sum()
        })
        .unwrap();
    let count = sized(20, 2) as u64;
    assert_eq!(sum, count * (count - 1) / 2);
}

fn panics_reach_who_joins(runtime: &Runtime) {
    let caught = runtime
        .run(|| {
            let vp = VpBuilder::new().spawn(|| std::panic::resume_unwind(Box::new(7u32))).unwrap();
            match vp.join() {
                Err(JoinError::Panic(payload)) => *payload.downcast::<u32>().unwrap(),
                other => panic!("a panic was expected, not {other:?}"),
            }
        })
        .unwrap();
    assert_eq!(caught, 7);
    let in_fork = runtime.run(|| {
        catch_unwind(AssertUnwindSafe(|| {
            join(yield_now, || -> () { std::panic::resume_unwind(Box::new(8u32)) });
        }))
        .unwrap_err()
        .downcast::<u32>()
        .map(|payload| *payload)
        .unwrap()
    });
    assert_eq!(in_fork.unwrap(), 8);
}

fn cancels_unwind(runtime: &Runtime) {
    let drops = Drops::default();
    let gate = Gate::new();
    let count = sized(20, 3);
    runtime
        .run(|| {
            scope(|s| {
                for _ in 0..count {
                    s.spawn(|| {
                        let _witness = Witness(&drops);
                        gate.pass();
                        unreachable!("nobody opens the gate");
                    });
                }
                // All wait, so each has a frame to unwind.
                while gate.waiting() < count {
                    yield_now();
                }
                s.cancel().unwrap();
            });
        })
        .unwrap();
    assert_eq!(drops.all(), count, "every frame is unwound once, before the scope ends");
    assert_eq!(drops.panicking(), 0, "a cancel was taken for a panic");
}

/// The situation of rayon-rs/rayon#592: a lock held over a parallel wait, and the waiter's core gets a job that wants it.
pub fn locks_over_forks(runtime: &Runtime, holders: usize) {
    let (lock, done) = (Lock::new(), AtomicUsize::new(0));
    runtime
        .run(|| {
            scope(|s| {
                for _ in 0..holders {
                    s.spawn(|| {
                        let _held = lock.lock();
                        // The yields make this VP leave its core, so the second closure becomes an ordinary task, queued behind those
                        // that want the lock.
                        join(yield_now, yield_now);
                        done.fetch_add(1, Ordering::Relaxed);
                    });
                }
            });
        })
        .unwrap();
    assert_eq!(done.into_inner(), holders, "everybody has had the lock");
}

fn spins_end(runtime: &Runtime) {
    let flag = AtomicBool::new(false);
    let lock = Lock::new();
    runtime
        .run(|| {
            scope(|s| {
                s.spawn(|| {
                    while !flag.load(Ordering::Relaxed) {
                        drop(lock.lock());
                    }
                });
                s.spawn(|| {
                    yield_now();
                    flag.store(true, Ordering::Relaxed);
                });
            });
        })
        .unwrap();
}

fn daemons_are_ended(runtime: &Runtime) {
    runtime
        .run(|| {
            let daemon = VpBuilder::new().daemon().spawn(|| Gate::new().pass()).unwrap();
            drop(daemon);
            yield_now();
        })
        .unwrap();
}

fn processes_nest(runtime: &Runtime) {
    let inner = runtime.clone();
    let value = runtime.run(move || inner.run(|| inner.run(|| 5).unwrap() + 1).unwrap() + 1).unwrap();
    assert_eq!(value, 7);
    // A wait with a deadline, from outside.
    let process = runtime.start(|| sleep(Duration::from_secs(3600))).unwrap();
    let process = match process.wait_timeout(Duration::from_millis(1)) {
        Err(process) => process,
        Ok(ended) => panic!("a process that sleeps an hour has ended: {ended:?}"),
    };
    process.cancel().unwrap();
    assert!(process.wait().is_err(), "a cancelled process gives no value");
    let late = runtime.run(|| {
        let gate = Gate::new();
        gate.pass_until(Instant::now())
    });
    assert_eq!(late.unwrap(), Err(Ended::Deadline));
}
