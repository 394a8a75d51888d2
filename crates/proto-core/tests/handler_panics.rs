//! A panicking handler breaks its environment, never the runtime: whoever waits there or comes later gets the first message, and the value is
//! dropped after the unlock. (When the user's panic hook runs: `user_hook.rs`.)

mod common;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};

use common::lang::{Gate, Lock, Mailbox};
use common::{runtime, watched};
use proto_core::{
    Caller, Ended, EnvCell, Hidden, Kind, Loan, RequestHandler, Select, Suspended, Waiters, scope, yield_now,
};

/// An environment whose handlers fail in every way.
struct Fragile {
    waiting: Waiters<u32>,
    tokens: Vec<Suspended<u32>>,
    /// Its drop is user code: it makes a request to the environment it was in.
    user: Option<Box<dyn Send>>,
}

impl Fragile {
    fn new() -> Fragile {
        Fragile { waiting: Waiters::new(), tokens: Vec::new(), user: None }
    }
}

/// What a handler does before it panics.
#[derive(Clone, Copy, Debug, PartialEq)]
enum First {
    Nothing,
    Answer,
    Queue,
    Suspend,
    SuspendAndResume,
}

struct Wait;
struct Count;
struct Break(First);
struct BreakRelease;
struct Keep(Box<dyn Send>);
struct Forget;
struct NoTime;

impl RequestHandler<Wait> for Fragile {
    type Reply = u32;
    fn handle(&mut self, _: Wait, caller: Caller<'_, u32>, hidden: &mut Hidden<'_>) {
        self.waiting.push(caller, hidden);
    }
}

impl RequestHandler<Count> for Fragile {
    type Reply = usize;
    fn handle(&mut self, _: Count, caller: Caller<'_, usize>, hidden: &mut Hidden<'_>) {
        let count = self.waiting.len(hidden);
        hidden.answer(caller, count);
    }
}

impl RequestHandler<Break> for Fragile {
    type Reply = u32;
    fn handle(&mut self, Break(first): Break, caller: Caller<'_, u32>, hidden: &mut Hidden<'_>) {
        match first {
            First::Nothing => {}
            First::Answer => hidden.answer(caller, 1),
            First::Queue => self.waiting.push(caller, hidden),
            First::Suspend => self.tokens.push(hidden.suspend(caller)),
            First::SuspendAndResume => {
                let token = hidden.suspend(caller);
                assert!(hidden.resume(token, 5).is_ok());
            }
        }
        panic!("broken on purpose");
    }
}

impl RequestHandler<BreakRelease> for Fragile {
    type Reply = ();
    const KIND: Kind = Kind::Release;
    fn handle(&mut self, _: BreakRelease, _: Caller<'_, ()>, _: &mut Hidden<'_>) {
        panic!("broken by a release");
    }
}

impl RequestHandler<Keep> for Fragile {
    type Reply = ();
    fn handle(&mut self, Keep(value): Keep, caller: Caller<'_, ()>, hidden: &mut Hidden<'_>) {
        self.user = Some(value);
        hidden.answer(caller, ());
    }
}

impl RequestHandler<Forget> for Fragile {
    type Reply = ();
    fn handle(&mut self, _: Forget, _: Caller<'_, ()>, _: &mut Hidden<'_>) {}
}

impl RequestHandler<NoTime> for Fragile {
    type Reply = ();
    const KIND: Kind = Kind::Release;
    fn handle(&mut self, _: NoTime, caller: Caller<'_, ()>, hidden: &mut Hidden<'_>) {
        std::mem::forget(hidden.suspend(caller));
    }
}

#[track_caller]
fn message(ended: Ended) -> String {
    match ended {
        Ended::Broken(message) => message.to_string(),
        other => panic!("expected a broken environment, got {other}"),
    }
}

#[test]
fn waiters_and_later_requests_get_the_first_message() {
    watched("waiters of a broken environment", || {
        for controllers in [1, 2] {
            for first in [First::Nothing, First::Answer, First::Queue, First::Suspend] {
                let cell = EnvCell::new(Fragile::new());
                runtime(controllers)
                    .run(|| {
                        let queued = Mailbox::new();
                        scope(|s| {
                            let (cell, queued) = (&cell, &queued);
                            let waiters: Vec<_> = (0..5)
                                .map(|_| {
                                    s.spawn(move || {
                                        queued.put(());
                                        cell.request(Wait)
                                    })
                                })
                                .collect();
                            for _ in 0..5 {
                                queued.take();
                            }
                            let broken = cell.request(Break(first)).unwrap_err();
                            assert_eq!(message(broken), "broken on purpose", "{first:?}");
                            for waiter in waiters {
                                // Those that had not queued yet come later: the same answer.
                                let ended = waiter.join().unwrap().unwrap_err();
                                assert_eq!(message(ended), "broken on purpose", "{first:?}");
                            }
                            // A handler that would panic with something else.
                            cell.release(BreakRelease);
                            assert_eq!(message(cell.request(Wait).unwrap_err()), "broken on purpose");
                            // The requester's own waits are in order.
                            let gate = Gate::new();
                            s.spawn(|| ()).join().unwrap();
                            gate.open();
                            gate.pass();
                        });
                    })
                    .unwrap();
                assert!(cell.into_inner().is_none(), "the value of a broken environment is gone");
            }
        }
    });
}

#[test]
fn a_caller_that_was_resumed_before_the_panic_has_its_reply() {
    watched("resumed, then broken", || {
        let cell = EnvCell::new(Fragile::new());
        let reply = runtime(1).run(|| cell.request(Break(First::SuspendAndResume))).unwrap();
        assert_eq!(reply, Ok(5));
        assert!(cell.request(Wait).is_err());
    });
}

#[test]
fn an_os_thread_that_was_queued_before_the_panic_is_told() {
    watched("OS thread in a broken environment", || {
        for first in [First::Nothing, First::Answer, First::Queue, First::Suspend] {
            let cell = EnvCell::new(Fragile::new());
            assert_eq!(message(cell.request(Break(first)).unwrap_err()), "broken on purpose");
            assert_eq!(message(cell.request(Wait).unwrap_err()), "broken on purpose");
        }
    });
}

#[test]
fn a_branch_of_a_select_breaks_the_select_and_leaves_the_others() {
    watched("select in a broken environment", || {
        for first in [First::Nothing, First::Queue, First::Suspend] {
            runtime(1)
                .run(|| {
                    let (good, bad) = (EnvCell::new(Fragile::new()), EnvCell::new(Fragile::new()));
                    let ended = Select::new()
                        .on(&good, || Wait, |n| n)
                        .on(&bad, || Break(first), |n| n)
                        .wait(None)
                        .unwrap_err();
                    assert_eq!(message(ended), "broken on purpose", "{first:?}");
                    assert_eq!(good.request(Count), Ok(0), "a branch of a wait that is over was left in its queue");
                })
                .unwrap();
        }
    });
}

/// A condition variable of sorts: waits here, is sent on to a fragile environment.
struct Station {
    waiting: Waiters<u32, Loan<Fragile>>,
}
struct Board(Loan<Fragile>);
struct SendOn(First);

impl RequestHandler<Board> for Station {
    type Reply = u32;
    fn handle(&mut self, Board(loan): Board, caller: Caller<'_, u32>, hidden: &mut Hidden<'_>) {
        self.waiting.push_with(caller, loan, hidden);
    }
}

impl RequestHandler<SendOn> for Station {
    type Reply = bool;
    fn handle(&mut self, SendOn(first): SendOn, caller: Caller<'_, bool>, hidden: &mut Hidden<'_>) {
        let sent = match self.waiting.take_next(hidden) {
            Some((token, loan)) => hidden.forward(token, loan, Break(first)).is_ok(),
            None => false,
        };
        hidden.answer(caller, sent);
    }
}

#[test]
fn a_forwarded_wait_ends_with_the_environment_that_breaks_under_it() {
    watched("forwarded into a broken environment", || {
        for controllers in [1, 2] {
            let runtime = runtime(controllers);
            for first in [First::Nothing, First::Answer, First::Queue, First::Suspend] {
                let (station, fragile) =
                    (EnvCell::new(Station { waiting: Waiters::new() }), EnvCell::new(Fragile::new()));
                runtime
                    .run(|| {
                        scope(|s| {
                            let traveller = s.spawn(|| station.request_lending(&fragile, Board, None));
                            while !station.request(SendOn(first)).unwrap() {
                                yield_now();
                            }
                            assert_eq!(
                                message(traveller.join().unwrap().unwrap_err()),
                                "broken on purpose",
                                "{first:?}"
                            );
                        });
                    })
                    .unwrap();
            }
        }
    });
}

#[test]
fn the_value_is_dropped_after_the_unlock() {
    struct AsksAgain(Arc<EnvCell<Fragile>>, Arc<Mutex<Option<String>>>);
    impl Drop for AsksAgain {
        fn drop(&mut self) {
            // Would spin for ever, or panic, under the lock.
            *self.1.lock().unwrap() = Some(message(self.0.request(Wait).unwrap_err()));
        }
    }
    watched("value dropped after the unlock", || {
        let cell = Arc::new(EnvCell::new(Fragile::new()));
        let seen = Arc::new(Mutex::new(None));
        let kept = Box::new(AsksAgain(Arc::clone(&cell), Arc::clone(&seen)));
        runtime(1)
            .run(move || {
                cell.request(Keep(kept)).unwrap();
                assert!(cell.request(Break(First::Nothing)).is_err());
            })
            .unwrap();
        assert_eq!(seen.lock().unwrap().as_deref(), Some("broken on purpose"));
    });
}

#[test]
fn a_handler_that_forgets_its_caller_is_caught_in_debug_builds() {
    watched("forgotten caller", || {
        let cell = EnvCell::new(Fragile::new());
        let outcome = runtime(1).run(|| catch_unwind(AssertUnwindSafe(|| cell.request(Forget)))).unwrap();
        if cfg!(debug_assertions) {
            let payload = outcome.unwrap_err();
            let text = payload.downcast_ref::<String>().unwrap();
            assert!(text.contains("Forget") && text.contains("Fragile"), "{text}");
        } else {
            assert!(matches!(outcome, Ok(Err(Ended::Abandoned(name))) if name.ends_with("Forget")));
        }
        // Nothing is broken by that.
        runtime(1).run(|| cell.request(Keep(Box::new(())))).unwrap().unwrap();
    });
}

#[test]
fn a_release_whose_handler_makes_its_caller_wait_breaks_its_environment() {
    watched("waiting release", || {
        let cell = EnvCell::new(Fragile::new());
        runtime(1).run(|| cell.release(NoTime)).unwrap();
        let text = message(cell.request(Wait).unwrap_err());
        assert!(text.contains("NoTime") && text.contains("Fragile"), "{text}");
    });
}

struct Nested(Arc<EnvCell<Fragile>>, bool);
struct Ask;

impl RequestHandler<Ask> for Nested {
    type Reply = ();
    fn handle(&mut self, _: Ask, caller: Caller<'_, ()>, hidden: &mut Hidden<'_>) {
        if self.1 {
            let _ = Select::new().on(&self.0, || Wait, |n| n).wait(None);
        } else {
            let _ = self.0.request(Wait);
        }
        hidden.answer(caller, ());
    }
}

#[test]
fn a_request_inside_a_handler_panics_and_names_both() {
    watched("request inside a handler", || {
        for by_select in [false, true] {
            let inner = Arc::new(EnvCell::new(Fragile::new()));
            let outer = EnvCell::new(Nested(Arc::clone(&inner), by_select));
            runtime(1)
                .run(|| {
                    let text = message(outer.request(Ask).unwrap_err());
                    let asked = if by_select { "select" } else { "Wait" };
                    assert!(text.contains(asked) && text.contains("Ask") && text.contains("Nested"), "{text}");
                    inner.request(Keep(Box::new(()))).expect("the inner environment was not touched");
                    // The requester can wait as before.
                    scope(|s| s.spawn(yield_now).join().unwrap());
                })
                .unwrap();
        }
    });
}

#[test]
fn other_environments_of_the_vp_are_unaffected() {
    watched("others unaffected", || {
        let lock = Lock::new();
        let cell = EnvCell::new(Fragile::new());
        runtime(1)
            .run(|| {
                let held = lock.lock();
                assert!(cell.request(Break(First::Queue)).is_err());
                drop(held);
                drop(lock.lock());
            })
            .unwrap();
    });
}
