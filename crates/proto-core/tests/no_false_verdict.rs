//! Correct programs that come to rest all the time, by timers, blocking calls, wake-ups from outside, other runtimes and OS threads, are never
//! judged: each round has moments in which every core sleeps.

mod common;

use std::sync::Arc;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use common::lang::{Gate, Lock, Mailbox, sleep};
use common::{Dice, runtime, sized, watched};
use proto_core::{Runtime, blocking, external, join, scope, yield_now};

/// One program that comes to rest in one of several ways, and goes on.
fn program(which: u64, micros: u64, other: &Runtime) -> u64 {
    match which {
        0 => {
            sleep(Duration::from_micros(micros));
            1
        }
        1 => blocking(|| {
            let until = Instant::now() + Duration::from_micros(micros);
            while Instant::now() < until {
                std::thread::yield_now();
            }
            1
        }),
        2 => {
            let (event, waker) = external();
            let thread = std::thread::spawn(move || waker.wake(1));
            let value = event.wait(None).unwrap().unwrap();
            blocking(move || thread.join().unwrap());
            value
        }
        3 => other.run(|| scope(|s| s.spawn(|| 1).join().unwrap())).unwrap(),
        4 => {
            let mailbox = Mailbox::new();
            scope(|s| {
                s.spawn(|| {
                    sleep(Duration::from_micros(micros));
                    mailbox.put(1);
                });
                mailbox.take()
            })
        }
        5 => {
            let lock = Lock::new();
            scope(|s| {
                for _ in 0..3 {
                    s.spawn(|| {
                        let _held = lock.lock();
                        sleep(Duration::from_micros(micros / 4));
                    });
                }
            });
            1
        }
        6 => {
            let (send, receive) = mpsc::channel();
            let gate = Arc::new(Gate::new());
            let opener = gate.clone();
            let thread = std::thread::spawn(move || {
                // A request attaches the thread. One that nobody knows of yet does not keep a program open.
                let _ = opener.waiting();
                send.send(()).unwrap();
                opener.open();
            });
            blocking(move || receive.recv().unwrap());
            gate.pass();
            blocking(move || thread.join().unwrap());
            1
        }
        _ => {
            let (a, b) = join(|| sleep(Duration::from_micros(micros)), yield_now);
            let ((), ()) = (a, b);
            1
        }
    }
}

#[test]
fn programs_that_rest_and_go_on_are_not_judged() {
    watched("no false verdict", || {
        for controllers in [1, 2, 4] {
            let (first, second) = (runtime(controllers), runtime(1));
            let mut dice = Dice::new(controllers as u64);
            for round in 0..sized(400, 4) {
                let (which, micros) = (dice.below(8), dice.below(200));
                let value = first.run(|| program(which, micros, &second));
                assert_eq!(value.unwrap_or_else(|error| panic!("round {round}, kind {which}: {error}")), 1);
            }
        }
    });
}

#[test]
fn nor_are_many_of_them_at_once() {
    watched("no false verdict, many", || {
        let (first, second) = (runtime(2), runtime(1));
        let mut dice = Dice::new(7);
        for round in 0..sized(60, 1) {
            let kinds: Vec<(u64, u64)> = (0..8).map(|_| (dice.below(8), dice.below(100))).collect();
            let sum: u64 = first
                .run(|| {
                    scope(|s| {
                        let second = &second;
                        let all: Vec<_> = kinds
                            .iter()
                            .map(|&(which, micros)| s.spawn(move || program(which, micros, second)))
                            .collect();
                        all.into_iter().map(|one| one.join().unwrap()).sum()
                    })
                })
                .unwrap_or_else(|error| panic!("round {round}, kinds {kinds:?}: {error}"));
            assert_eq!(sum, 8);
        }
    });
}

#[test]
fn os_threads_that_wait_in_different_runtimes_are_not_judged() {
    watched("no false verdict, threads", || {
        let runtimes: Vec<_> = (0..3).map(|_| runtime(1)).collect();
        let lock = Lock::new();
        std::thread::scope(|s| {
            for (n, runtime) in runtimes.iter().enumerate() {
                let (lock, next) = (&lock, &runtimes[(n + 1) % 3]);
                s.spawn(move || {
                    for _ in 0..sized(200, 2) {
                        // The lock goes round between VPs of three runtimes and their OS threads.
                        runtime
                            .run(|| {
                                let _held = lock.lock();
                                yield_now();
                            })
                            .unwrap();
                        drop(lock.lock());
                        next.run(|| drop(lock.lock())).unwrap();
                    }
                });
            }
        });
    });
}

/// Starting the process is the first thing the thread does that anybody learns of, just when new cores fall asleep for the first time and look
/// whether somebody is left.
#[test]
fn nor_is_a_process_that_a_new_os_thread_starts_while_the_cores_fall_asleep() {
    watched("no false verdict, new threads", || {
        for round in 0..sized(500, 5) {
            let judged = std::thread::spawn(|| {
                let runtime = runtime(2);
                let gate = Arc::new(Gate::new());
                let passes = gate.clone();
                let process = runtime.start(move || scope(|s| s.spawn(move || passes.pass()).join())).unwrap();
                while gate.waiting() == 0 && !process.has_ended() {
                    std::thread::yield_now();
                }
                // All of it waits, and its opener is this thread. Each core answers, so it does nothing else any more.
                drop(runtime.waits());
                let early = process.has_ended();
                gate.open();
                early || process.wait().is_err()
            });
            assert!(!judged.join().unwrap(), "round {round}: judged, with somebody there to open the gate");
        }
    });
}
