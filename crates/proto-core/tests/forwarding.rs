//! A wait that is sent on to another environment while its timeline gives up.

mod common;

use std::sync::atomic::{AtomicBool, Ordering};

use common::lang::Gate;
use common::{runtime, watched};
use proto_core::{Caller, Ended, EnvCell, Hidden, Kind, Loan, RequestHandler, Waiters, scope, yield_now};

/// Where timelines wait until they are sent on to a desk.
struct Bell {
    waiting: Waiters<u32, Loan<Desk>>,
}

struct Desk;
/// Waits at the bell.
struct Listen(Loan<Desk>);
/// Takes a timeline out, waits for `gone` after saying so by `taken`, and sends it on to its desk.
struct Ring<'a> {
    taken: &'a AtomicBool,
    gone: &'a AtomicBool,
}
/// Sends two on, each to what the other lent.
struct Mix;
struct Serve;

impl RequestHandler<Listen> for Bell {
    type Reply = u32;
    fn handle(&mut self, Listen(loan): Listen, caller: Caller<'_, u32>, hidden: &mut Hidden<'_>) {
        self.waiting.push_with(caller, loan, hidden);
    }
}

impl RequestHandler<Ring<'_>> for Bell {
    /// Whether somebody was sent on.
    type Reply = bool;
    const KIND: Kind = Kind::Binding;
    fn handle(&mut self, Ring { taken, gone }: Ring<'_>, caller: Caller<'_, bool>, hidden: &mut Hidden<'_>) {
        let (token, loan) = self.waiting.take_next(hidden).expect("somebody waits");
        // ORDERING: Release and Acquire: each side has done what it says.
        taken.store(true, Ordering::Release);
        while !gone.load(Ordering::Acquire) {
            std::hint::spin_loop();
        }
        let sent = hidden.forward(token, loan, Serve).is_ok();
        hidden.answer(caller, sent);
    }
}

impl RequestHandler<Mix> for Bell {
    type Reply = ();
    fn handle(&mut self, _: Mix, caller: Caller<'_, ()>, hidden: &mut Hidden<'_>) {
        let first = self.waiting.take_next(hidden);
        let second = self.waiting.take_next(hidden);
        if let (Some((token, _)), Some((_, loan))) = (first, second) {
            let _ = hidden.forward(token, loan, Serve);
        }
        hidden.answer(caller, ());
    }
}

impl RequestHandler<Serve> for Desk {
    type Reply = u32;
    fn handle(&mut self, _: Serve, caller: Caller<'_, u32>, hidden: &mut Hidden<'_>) {
        hidden.answer(caller, 1);
    }
}

/// How many wait at the bell.
struct Count;

impl RequestHandler<Count> for Bell {
    type Reply = usize;
    const KIND: Kind = Kind::Binding;
    fn handle(&mut self, _: Count, caller: Caller<'_, usize>, hidden: &mut Hidden<'_>) {
        let count = self.waiting.len(hidden);
        hidden.answer(caller, count);
    }
}

fn await_listeners(bell: &EnvCell<Bell>, number: usize) {
    while bell.request(Count).unwrap() < number {
        yield_now();
        std::thread::yield_now();
    }
}

#[test]
fn one_that_has_given_up_and_asks_for_something_else_is_not_sent_on() {
    watched("gives up while it is sent on", || {
        let runtime = runtime(1);
        let bell = EnvCell::new(Bell { waiting: Waiters::new() });
        let desk = EnvCell::new(Desk);
        let other = Gate::new();
        let (taken, gone) = (AtomicBool::new(false), AtomicBool::new(false));
        std::thread::scope(|threads| {
            let ringer = threads.spawn(|| {
                await_listeners(&bell, 1);
                bell.request(Ring { taken: &taken, gone: &gone })
            });
            let ended = runtime
                .run(|| {
                    scope(|s| {
                        let listener = s.spawn(|| {
                            let ended = bell.request_lending(&desk, Listen, None).unwrap_err();
                            // Its next request, while the ringer still has the token of the one before.
                            other.open();
                            gone.store(true, Ordering::Release);
                            ended
                        });
                        while !taken.load(Ordering::Acquire) {
                            yield_now();
                        }
                        listener.vp().cancel().unwrap();
                        listener.join().unwrap()
                    })
                })
                .unwrap();
            assert_eq!(ended, Ended::Cancelled);
            assert_eq!(ringer.join().unwrap(), Ok(false), "nobody was there to be sent on");
        });
    });
}

#[test]
fn another_ones_loan_is_refused_and_nobody_is_left_waiting() {
    watched("another one's loan", || {
        let runtime = runtime(2);
        let bell = EnvCell::new(Bell { waiting: Waiters::new() });
        let desks = [EnvCell::new(Desk), EnvCell::new(Desk)];
        runtime
            .run(|| {
                scope(|s| {
                    let listeners: Vec<_> =
                        desks.iter().map(|desk| s.spawn(|| bell.request_lending(desk, Listen, None))).collect();
                    await_listeners(&bell, 2);
                    match bell.request(Mix) {
                        Err(Ended::Broken(message)) => assert!(message.contains("lent with"), "{message}"),
                        other => panic!("{other:?}"),
                    }
                    for listener in listeners {
                        let ended = listener.join().unwrap().unwrap_err();
                        assert!(matches!(ended, Ended::Abandoned(_)), "its token was dropped: {ended:?}");
                    }
                });
            })
            .unwrap();
    });
}
