//! A wait that is sent on to another environment while its timeline gives up.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use common::lang::Gate;
use common::{runtime, watched};
use proto_core::{Caller, Ended, EnvCell, Hidden, Kind, Loan, RequestHandler, Waiters, scope, yield_now};

/// Where timelines wait until they are sent on to a desk.
struct Bell {
    waiting: Waiters<u32, Loan<Desk>>,
}

#[derive(Default)]
struct Desk {
    waiting: Waiters<u32>,
}
/// Waits at the bell.
struct Listen(Loan<Desk>);
/// Takes a timeline out, waits for `gone` after saying so by `taken`, and sends it on to its desk.
struct Ring<'a> {
    taken: &'a AtomicBool,
    gone: &'a AtomicBool,
}
/// Sends two on, each to what the other lent.
struct Mix;
/// Sends a timeline on, to stay at its desk.
struct RingForLong(Stay);
struct Serve;
/// Says so, stays at the desk until `noted`, and then waits there. What it leaves is dropped after that.
struct Stay {
    entered: Arc<AtomicBool>,
    noted: Arc<AtomicBool>,
    leaves: Until,
}
/// Lets one go who waits at the desk.
struct Dismiss;

/// Is not dropped before something has happened.
struct Until(Arc<AtomicBool>);

impl Drop for Until {
    fn drop(&mut self) {
        until(&self.0);
    }
}

fn until(happened: &AtomicBool) {
    // ORDERING: Acquire pairs with the Release of who says so.
    while !happened.load(Ordering::Acquire) {
        std::thread::yield_now();
    }
}

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

impl RequestHandler<RingForLong> for Bell {
    type Reply = bool;
    const KIND: Kind = Kind::Binding;
    fn handle(&mut self, RingForLong(stay): RingForLong, caller: Caller<'_, bool>, hidden: &mut Hidden<'_>) {
        let (token, loan) = self.waiting.take_next(hidden).expect("somebody waits");
        let sent = hidden.forward(token, loan, stay).is_ok();
        hidden.answer(caller, sent);
    }
}

impl RequestHandler<Stay> for Desk {
    type Reply = u32;
    fn handle(&mut self, Stay { entered, noted, leaves }: Stay, caller: Caller<'_, u32>, hidden: &mut Hidden<'_>) {
        entered.store(true, Ordering::Release);
        until(&noted);
        self.waiting.push(caller, hidden);
        hidden.drop_later(leaves);
    }
}

impl RequestHandler<Dismiss> for Desk {
    type Reply = ();
    const KIND: Kind = Kind::Release;
    fn handle(&mut self, _: Dismiss, caller: Caller<'_, ()>, hidden: &mut Hidden<'_>) {
        let _ = self.waiting.resume_next(2, hidden);
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
        let desk = EnvCell::new(Desk::default());
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
        let desks = [EnvCell::new(Desk::default()), EnvCell::new(Desk::default())];
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

/// Whoever sends a wait on from outside looks after a cancel that came meanwhile when it may be over, and its runtime gone. (What shows it is
/// a tool that sees freed memory.)
#[test]
fn a_wait_that_is_sent_on_from_outside_may_end_with_its_runtime_at_once() {
    watched("sent on from outside", || {
        let runtime = runtime(1);
        let bell = Arc::new(EnvCell::new(Bell { waiting: Waiters::new() }));
        let desk = Arc::new(EnvCell::new(Desk::default()));
        let [entered, noted, gone] = [(); 3].map(|()| Arc::new(AtomicBool::new(false)));
        let of_vp = (bell.clone(), desk.clone());
        let process = runtime.start(move || of_vp.0.request_lending(&of_vp.1, Listen, None)).unwrap();
        await_listeners(&bell, 1);
        let stay = Stay { entered: entered.clone(), noted: noted.clone(), leaves: Until(gone.clone()) };
        let ringer = std::thread::spawn(move || bell.request(RingForLong(stay)));
        until(&entered);
        process.cancel().unwrap();
        // The only core has looked when it comes to this.
        runtime.run(|| ()).unwrap();
        noted.store(true, Ordering::Release);
        desk.release(Dismiss);
        let outcome = process.wait();
        assert!(matches!(outcome, Ok(Ok(2) | Err(Ended::Cancelled))), "{outcome:?}");
        drop(runtime);
        gone.store(true, Ordering::Release);
        assert_eq!(ringer.join().unwrap(), Ok(true));
    });
}
