//! The user's code in a handler's hands: values whose destructors panic, wait or release where the handler dropped them, and a branch of a select
//! that panics when it is made.

mod common;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use common::lang::Gate;
use common::{runtime, watched};
use proto_core::{
    Caller, EnvCell, Grant, Hidden, PanicMark, ProcessError, RawLock, RequestHandler, Select, Waiters, scope, yield_now,
};

/// Drops user values from its handlers.
struct Bin {
    waiting: Waiters<()>,
}
struct Throw<T> {
    value: T,
    wait: bool,
}
struct Empty;

impl<T: Send> RequestHandler<Throw<T>> for Bin {
    type Reply = ();
    fn handle(&mut self, Throw { value, wait }: Throw<T>, caller: Caller<'_, ()>, hidden: &mut Hidden<'_>) {
        hidden.drop_later(value);
        if wait { self.waiting.push(caller, hidden) } else { hidden.answer(caller, ()) }
    }
}

impl RequestHandler<Empty> for Bin {
    type Reply = usize;
    fn handle(&mut self, _: Empty, caller: Caller<'_, usize>, hidden: &mut Hidden<'_>) {
        let mut count = 0;
        while self.waiting.resume_next((), hidden).is_ok() {
            count += 1;
        }
        hidden.answer(caller, count);
    }
}

struct Explodes(Arc<AtomicBool>);
impl Drop for Explodes {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
        panic!("dropped on purpose");
    }
}

#[test]
fn a_panic_in_drop_later_goes_to_the_process_and_the_request_to_its_end() {
    watched("panic in drop_later", || {
        for wait in [false, true] {
            let runtime = runtime(2);
            let cell = EnvCell::new(Bin { waiting: Waiters::new() });
            let dropped = Arc::new(AtomicBool::new(false));
            let result = runtime.run(|| {
                scope(|s| {
                    let value = Explodes(Arc::clone(&dropped));
                    let thrower = s.spawn(|| cell.request(Throw { value, wait }));
                    while wait && cell.request(Empty).unwrap() == 0 {
                        yield_now();
                    }
                    assert_eq!(thrower.join().unwrap(), Ok(()), "the reply is not lost with the destructor's panic");
                });
            });
            assert!(dropped.load(Ordering::Relaxed));
            match result {
                Err(ProcessError::Panic(payload)) => assert_eq!(payload.downcast_ref(), Some(&"dropped on purpose")),
                other => panic!("the panic of a destructor is the process's: {other:?}"),
            }
            // The environment is as it was.
            assert_eq!(cell.request(Empty), Ok(0));
        }
    });
}

#[test]
fn a_panicking_make_of_a_select_leaves_all_queues() {
    watched("panicking make", || {
        let bin = EnvCell::new(Bin { waiting: Waiters::new() });
        runtime(1)
            .run(|| {
                let caught = catch_unwind(AssertUnwindSafe(|| {
                    Select::new()
                        .on(&bin, || Throw { value: (), wait: true }, |()| ())
                        .on(&bin, || -> Throw<()> { panic!("made on purpose") }, |()| ())
                        .wait(None)
                }));
                assert_eq!(caught.unwrap_err().downcast_ref(), Some(&"made on purpose"));
                assert_eq!(bin.request(Empty), Ok(0), "a node of a select that is gone was left in a queue");
                scope(|s| s.spawn(yield_now).join().unwrap());
            })
            .unwrap();
    });
}

/// Waits when it is dropped.
struct Nosy;

impl Drop for Nosy {
    fn drop(&mut self) {
        Gate::new().pass();
    }
}

/// The destructor runs on the stack of a timeline that waits already. It cannot wait for a second thing; the first wait is not disturbed.
#[test]
fn a_request_in_drop_later_of_a_caller_that_waits_is_refused() {
    watched("second wait", || {
        for controllers in [1, 2] {
            let bin = EnvCell::new(Bin { waiting: Waiters::new() });
            let result = runtime(controllers).run(|| {
                scope(|s| {
                    let kept = s.spawn(|| bin.request(Throw { value: Nosy, wait: true }));
                    while bin.request(Empty) == Ok(0) {
                        yield_now();
                    }
                    assert_eq!(kept.join().unwrap(), Ok(()), "its own wait goes on, and ends");
                });
            });
            let Err(ProcessError::Panic(payload)) = result else { panic!("nobody was told: {result:?}") };
            let text = payload.downcast_ref::<String>().expect("a message");
            assert!(text.contains("a timeline that waits already"), "{text}");
        }
    });
}

/// Gives a lock back when it is dropped.
struct Gives<'a>(&'a RawLock, Option<Grant>, PanicMark);

impl Drop for Gives<'_> {
    fn drop(&mut self) {
        self.0.give(self.1.take().expect("it is dropped once"), self.2);
    }
}

/// A release never waits, so it may be made where the timeline waits already; with somebody in line for the lock, and without.
#[test]
fn a_release_in_drop_later_of_a_caller_that_waits_is_carried_out() {
    watched("release while waiting", || {
        for controllers in [1, 2] {
            let (bin, lock) = (EnvCell::new(Bin { waiting: Waiters::new() }), RawLock::new());
            runtime(controllers)
                .run(|| {
                    for wanted in [false, true] {
                        scope(|s| {
                            let held = lock.lock();
                            let next = wanted.then(|| s.spawn(|| lock.give(lock.lock().grant, PanicMark::now())));
                            let kept = s.spawn(|| {
                                let value = Gives(&lock, Some(held.grant), PanicMark::now());
                                bin.request(Throw { value, wait: true })
                            });
                            while bin.request(Empty) == Ok(0) {
                                yield_now();
                            }
                            assert_eq!(kept.join().unwrap(), Ok(()), "its wait is not disturbed");
                            if let Some(next) = next {
                                next.join().unwrap();
                            }
                            assert!(lock.try_take().unwrap().is_some_and(|held| {
                                lock.give(held.grant, PanicMark::now());
                                true
                            }));
                        });
                    }
                })
                .unwrap();
        }
    });
}
