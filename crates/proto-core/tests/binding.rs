//! `binding`: a cancel does not come into it, nor into what it opened scopes or forked for; and is there when it has ended.

mod common;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use common::cancelling::{Drops, Witness, everywhere};
use common::lang::Gate;
use proto_core::{EnvCell, JoinError, VpBuilder, Waiters, binding, join, scope, yield_now};

/// Until so many wait at `gate`; then as long as a cancel that was asked for needs to be carried out on this core.
fn until_waiting(gate: &Gate, count: usize) {
    while gate.waiting() != count {
        yield_now();
    }
    for _ in 0..5 {
        yield_now();
    }
}

#[test]
fn waits_scopes_and_forks_in_it_come_to_their_end() {
    everywhere("binding alone", |runtime| {
        runtime
            .run(|| {
                let gates: [Gate; 4] = std::array::from_fn(|_| Gate::new());
                let (gates, passed) = (Arc::new(gates), Arc::new(AtomicUsize::new(0)));
                let vp = VpBuilder::new()
                    .spawn({
                        let (gates, passed) = (Arc::clone(&gates), Arc::clone(&passed));
                        move || {
                            let pass = |gate: &Gate| {
                                gate.pass();
                                passed.fetch_add(1, Ordering::Relaxed);
                            };
                            binding(|| {
                                pass(&gates[0]);
                                scope(|s| {
                                    s.spawn(|| pass(&gates[1]));
                                });
                                binding(|| join(|| pass(&gates[2]), || pass(&gates[2])));
                            });
                            pass(&gates[3]);
                        }
                    })
                    .unwrap();
                until_waiting(&gates[0], 1);
                vp.cancel().unwrap();
                for (gate, waiting) in gates.iter().zip([1, 1, 2]) {
                    until_waiting(gate, waiting);
                    gate.open();
                }
                assert!(matches!(vp.join(), Err(JoinError::Cancelled)));
                assert_eq!(passed.load(Ordering::Relaxed), 4, "all of the closure, and nothing after it");
            })
            .unwrap();
    });
}

#[test]
fn so_does_a_single_request_that_is_a_closure() {
    #[derive(Default)]
    struct Desk {
        here: bool,
        waiting: Waiters<u32>,
    }
    everywhere("ask_binding", |runtime| {
        runtime
            .run(|| {
                let (desk, never) = (Arc::new(EnvCell::new(Desk::default())), Arc::new(Gate::new()));
                let answer = Arc::new(AtomicUsize::new(0));
                let vp = VpBuilder::new()
                    .spawn({
                        let (desk, never, answer) = (Arc::clone(&desk), Arc::clone(&never), Arc::clone(&answer));
                        move || {
                            let answered = desk.ask_binding(|desk, caller, hidden| {
                                desk.here = true;
                                desk.waiting.push(caller, hidden);
                            });
                            answer.store(answered.unwrap() as usize, Ordering::Relaxed);
                            never.pass();
                        }
                    })
                    .unwrap();
                while desk.visit(|desk, _, _| desk.here) != Some(true) {
                    yield_now();
                }
                vp.cancel().unwrap();
                // As long as that needs to be carried out on this core.
                (0..5).for_each(|_| yield_now());
                let resumed = desk.update(|desk, _, hidden| desk.waiting.resume_next(7, hidden).is_ok());
                assert_eq!(resumed, Some(true), "it has not left the queue");
                assert!(matches!(vp.join(), Err(JoinError::Cancelled)), "after the wait");
                assert_eq!(answer.load(Ordering::Relaxed), 7);
            })
            .unwrap();
    });
}

#[test]
fn a_cancel_of_what_is_around_stays_outside() {
    everywhere("binding in a scope", |runtime| {
        let (gate, never) = (Gate::new(), Gate::new());
        runtime
            .run(|| {
                let passed = AtomicUsize::new(0);
                scope(|s| {
                    let inside = s.spawn(|| {
                        binding(|| {
                            scope(|t| {
                                t.spawn(|| {
                                    gate.pass();
                                    passed.fetch_add(1, Ordering::Relaxed);
                                });
                            });
                        });
                        never.pass();
                    });
                    until_waiting(&gate, 1);
                    s.cancel().unwrap();
                    until_waiting(&gate, 1);
                    gate.open();
                    assert!(matches!(inside.join(), Err(JoinError::Cancelled)));
                });
                assert_eq!(passed.load(Ordering::Relaxed), 1);
            })
            .unwrap();
    });
}

#[test]
fn the_scopes_around_it_are_cancelled_meanwhile() {
    everywhere("a scope around", |runtime| {
        runtime
            .run(|| {
                let (gate, never, drops) = (Arc::new(Gate::new()), Arc::new(Gate::new()), Arc::new(Drops::default()));
                let vp = VpBuilder::new()
                    .spawn({
                        let (gate, never, drops) = (Arc::clone(&gate), Arc::clone(&never), Arc::clone(&drops));
                        move || {
                            scope(|s| {
                                s.spawn(|| {
                                    let _witness = Witness(Arc::clone(&drops));
                                    never.pass();
                                });
                                binding(|| gate.pass());
                            });
                        }
                    })
                    .unwrap();
                until_waiting(&gate, 1);
                until_waiting(&never, 1);
                vp.cancel().unwrap();
                while drops.all.load(Ordering::Relaxed) == 0 {
                    yield_now();
                }
                assert_eq!(gate.waiting(), 1, "its owner waits on");
                gate.open();
                assert!(matches!(vp.join(), Err(JoinError::Cancelled)));
            })
            .unwrap();
    });
}

#[test]
fn a_process_that_is_cancelled_waits_for_it() {
    everywhere("binding in a process", |runtime| {
        let (gate, passed) = (Arc::new(Gate::new()), Arc::new(AtomicUsize::new(0)));
        let process = runtime
            .start({
                let (gate, passed) = (Arc::clone(&gate), Arc::clone(&passed));
                move || {
                    binding(|| {
                        scope(|s| {
                            s.spawn(|| {
                                gate.pass();
                                passed.fetch_add(1, Ordering::Relaxed);
                            });
                        });
                    });
                    Gate::new().pass();
                }
            })
            .unwrap();
        while gate.waiting() == 0 {
            std::thread::yield_now();
        }
        process.cancel().unwrap();
        gate.open();
        let _ended = process.wait();
        assert_eq!(passed.load(Ordering::Relaxed), 1);
    });
}

#[test]
fn a_panic_leaves_it_as_its_end_does() {
    everywhere("a panic in it", |runtime| {
        runtime
            .run(|| {
                let never = Arc::new(Gate::new());
                let vp = VpBuilder::new()
                    .spawn({
                        let never = Arc::clone(&never);
                        move || {
                            let caught = catch_unwind(AssertUnwindSafe(|| binding(|| std::panic::panic_any(5))));
                            assert!(caught.is_err());
                            scope(|s| {
                                s.spawn(|| never.pass());
                            });
                        }
                    })
                    .unwrap();
                until_waiting(&never, 1);
                vp.cancel().unwrap();
                assert!(matches!(vp.join(), Err(JoinError::Cancelled)));
            })
            .unwrap();
    });
}
