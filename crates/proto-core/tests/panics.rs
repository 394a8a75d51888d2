//! Where panics go: to whoever joins, else to the process; and what they leave alone: the cores, the locks, and other VPs of the same core.

mod common;

use std::cell::RefCell;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use common::assigners::{Twist, Twisted};
use common::lang::{Gate, Lock, Mailbox};
use common::{runtime, sized, watched};
use proto_core::{
    Caller, EnvCell, Hidden, JoinError, Kind, ProcessError, RequestHandler, VpBuilder, Why, Work, join, panicking,
    scope, unwinding, vp_local, yield_now,
};

/// A panic without a message on standard error.
fn quiet_panic(text: &'static str) -> ! {
    proto_core::resume_unwind(Box::new(text))
}

#[track_caller]
fn process_panic<T: std::fmt::Debug>(result: Result<T, ProcessError>) -> &'static str {
    match result {
        Err(ProcessError::Panic(payload)) => payload.downcast_ref::<&'static str>().unwrap(),
        other => panic!("expected a panic, got {other:?}"),
    }
}

#[test]
fn of_the_seed_it_is_the_processs_result() {
    watched("seed", || {
        let runtime = runtime(2);
        assert_eq!(process_panic(runtime.run(|| -> () { quiet_panic("seed") })), "seed");
        // With others alive: they run to their end first.
        let ended = Arc::new(AtomicBool::new(false));
        let flag = ended.clone();
        let result = runtime.run(move || -> () {
            drop(VpBuilder::new().spawn(move || {
                for _ in 0..100 {
                    yield_now();
                }
                flag.store(true, Ordering::Relaxed);
            }));
            quiet_panic("seed again")
        });
        assert_eq!(process_panic(result), "seed again");
        assert!(ended.load(Ordering::Relaxed), "the process ended before its VPs");
    });
}

#[test]
fn of_a_vp_it_goes_to_who_joins_else_to_the_process() {
    watched("joiner", || {
        for controllers in [1, 2] {
            let runtime = runtime(controllers);
            runtime
                .run(|| {
                    let vp = VpBuilder::new().spawn(|| -> () { quiet_panic("joined") }).unwrap();
                    match vp.join() {
                        Err(JoinError::Panic(payload)) => assert_eq!(payload.downcast_ref(), Some(&"joined")),
                        other => panic!("{other:?}"),
                    }
                })
                .expect("who joins has it");
            let result = runtime.run(|| drop(VpBuilder::new().spawn(|| -> () { quiet_panic("detached") })));
            assert_eq!(process_panic(result), "detached");
            let result = runtime.run(|| {
                scope(|s| {
                    s.spawn(|| -> () { quiet_panic("in a scope") });
                });
            });
            assert_eq!(process_panic(result), "in a scope");
            // Whether the handle is dropped before the panic or after it.
            for late in [false, true] {
                let caught = runtime.run(|| {
                    catch_unwind(|| {
                        scope(|s| {
                            let vp = s.spawn(|| -> () { quiet_panic("in a scope, caught") });
                            while late && !vp.is_finished() {
                                yield_now();
                            }
                        });
                    })
                });
                let caught = caught.expect("it went to the scope, so not to the process").unwrap_err();
                assert_eq!(caught.downcast_ref(), Some(&"in a scope, caught"), "handle dropped late: {late}");
            }
        }
    });
}

#[test]
fn of_a_vp_that_others_wait_for_releases_them_by_its_guards() {
    watched("waiters of a panicking VP", || {
        for controllers in [1, 2] {
            runtime(controllers)
                .run(|| {
                    let (lock, held) = (Lock::new(), Gate::new());
                    let entered = AtomicUsize::new(0);
                    scope(|s| {
                        let panics = s.spawn(|| {
                            let _held = lock.lock();
                            held.open();
                            for _ in 0..10 {
                                yield_now();
                            }
                            quiet_panic("with the lock")
                        });
                        for _ in 0..10 {
                            s.spawn(|| {
                                held.pass();
                                drop(lock.lock());
                                entered.fetch_add(1, Ordering::Relaxed);
                            });
                        }
                        assert!(matches!(panics.join(), Err::<(), _>(JoinError::Panic(_))));
                    });
                    assert_eq!(entered.into_inner(), 10);
                })
                .unwrap();
        }
    });
}

#[test]
fn of_either_closure_of_a_join_goes_on_when_both_have_ended() {
    watched("join", || {
        for controllers in [1, 2] {
            let runtime = runtime(controllers);
            for _ in 0..sized(20, 1) {
                let other = AtomicUsize::new(0);
                let ends = || {
                    yield_now();
                    other.fetch_add(1, Ordering::Relaxed);
                };
                assert_eq!(process_panic(runtime.run(|| join(|| -> () { quiet_panic("a") }, ends))), "a");
                assert_eq!(process_panic(runtime.run(|| join(ends, || -> () { quiet_panic("b") }))), "b");
                let both = runtime.run(|| join(|| -> () { quiet_panic("a first") }, || -> () { quiet_panic("b") }));
                assert_eq!(process_panic(both), "a first");
                assert_eq!(other.into_inner(), 2);
            }
        }
    });
}

/// Does what it is told when it is dropped.
struct OnDrop<F: FnMut()>(F);
impl<F: FnMut()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

#[test]
fn destructors_use_every_construct_while_the_vp_unwinds() {
    watched("constructs while unwinding", || {
        for controllers in [1, 2] {
            runtime(controllers)
                .run(|| {
                    let (lock, mailbox) = (Lock::new(), Mailbox::new());
                    let done = AtomicUsize::new(0);
                    let vp_result = scope(|s| {
                        s.spawn(|| {
                            let _on_drop = OnDrop(|| {
                                assert!(panicking() && unwinding());
                                drop(lock.lock());
                                // VPs of an unwinding one: they do not panic, it does.
                                scope(|inner| {
                                    inner.spawn(|| assert!(!panicking() && !unwinding())).join().unwrap();
                                });
                                join(yield_now, || mailbox.put(1));
                                assert_eq!(mailbox.take(), 1);
                                // A panic inside, caught inside.
                                let inner = catch_unwind(|| quiet_panic("inner"));
                                assert!(inner.is_err());
                                assert!(panicking());
                                done.fetch_add(1, Ordering::Relaxed);
                            });
                            quiet_panic("outer")
                        })
                        .join()
                    });
                    let Err::<(), _>(JoinError::Panic(payload)) = vp_result else { panic!("the panic was lost") };
                    assert_eq!(payload.downcast_ref(), Some(&"outer"));
                    assert_eq!(done.into_inner(), 1);
                    assert!(!std::thread::panicking(), "the core is left panicking");
                })
                .unwrap();
        }
    });
}

vp_local! {
    static LOCAL: RefCell<Option<Box<dyn std::any::Any>>> = RefCell::new(None);
}

#[test]
fn in_a_vp_locals_destructor_it_goes_to_the_process() {
    watched("VP-local's destructor", || {
        let runtime = runtime(1);
        let result = runtime.run(|| {
            let vp = VpBuilder::new().spawn(|| {
                let explodes = OnDrop(|| quiet_panic("in a VP-local"));
                LOCAL.with(|local| *local.borrow_mut() = Some(Box::new(explodes)));
                5
            });
            assert_eq!(vp.unwrap().join().unwrap(), 5, "the value was given before");
        });
        assert_eq!(process_panic(result), "in a VP-local");
        runtime.run(|| ()).unwrap();
    });
}

/// Poison as a lock keeps it: set by its release when the core says that its caller panics.
struct Poisonable(bool);
struct Give;
struct IsPoisoned;

impl RequestHandler<Give> for Poisonable {
    type Reply = ();
    const KIND: Kind = Kind::Release;
    fn handle(&mut self, _: Give, caller: Caller<'_, ()>, hidden: &mut Hidden<'_>) {
        self.0 |= hidden.caller_panics();
        hidden.answer(caller, ());
    }
}

impl RequestHandler<IsPoisoned> for Poisonable {
    type Reply = bool;
    fn handle(&mut self, _: IsPoisoned, caller: Caller<'_, bool>, hidden: &mut Hidden<'_>) {
        hidden.answer(caller, self.0);
    }
}

#[test]
fn no_false_poison_while_another_vp_of_the_core_unwinds_and_waits() {
    watched("no false poison", || {
        runtime(1)
            .run(|| {
                let gate = Arc::new(Gate::new());
                let waits = gate.clone();
                // Unwinds, and waits for much longer than it holds its core.
                let unwinds = VpBuilder::new()
                    .spawn(move || {
                        let _on_drop = OnDrop(|| waits.pass());
                        quiet_panic("waits")
                    })
                    .unwrap();
                // Has caught a panic of its own before the other began: over.
                assert!(catch_unwind(|| panic!("caught: this message is expected")).is_err());
                while gate.waiting() == 0 {
                    yield_now();
                }
                let cell = EnvCell::new(Poisonable(false));
                assert!(std::thread::panicking(), "the test's own premise: the OS thread says that it panics");
                assert!(!panicking() && !unwinding());
                cell.release(Give);
                scope(|s| s.spawn(|| cell.release(Give)).join().unwrap());
                assert_eq!(cell.request(IsPoisoned), Ok(false), "another VP's panic poisoned this one's lock");
                // A real one beside it does.
                let poisons = scope(|s| {
                    s.spawn(|| {
                        let _give = OnDrop(|| cell.release(Give));
                        panic!("poisons: this message is expected");
                    })
                    .join()
                });
                assert!(poisons.is_err());
                assert_eq!(cell.request(IsPoisoned), Ok(true));
                gate.open();
                assert!(matches!(unwinds.join(), Err::<(), _>(JoinError::Panic(_))));
                assert!(!std::thread::panicking());
            })
            .unwrap();
    });
}

#[test]
fn many_vps_unwind_and_wait_at_once_and_each_answers_for_itself() {
    watched("many unwind", || {
        for controllers in [1, 2] {
            let wrong = AtomicUsize::new(0);
            runtime(controllers)
                .run(|| {
                    scope(|s| {
                        for n in 0..sized(40, 4) {
                            let (wrong, gate) = (&wrong, Arc::new(Gate::new()));
                            let (opens, panics) = (gate.clone(), n % 2 == 0);
                            s.spawn(move || {
                                let outcome = catch_unwind(AssertUnwindSafe(|| {
                                    // Before and after others had the core.
                                    let _on_drop = OnDrop(|| {
                                        wrong.fetch_add(usize::from(panicking() != panics), Ordering::Relaxed);
                                        gate.pass();
                                        wrong.fetch_add(usize::from(panicking() != panics), Ordering::Relaxed);
                                    });
                                    if panics {
                                        quiet_panic("one of many");
                                    }
                                }));
                                assert_eq!(outcome.is_err(), panics);
                            });
                            s.spawn(move || {
                                for _ in 0..n {
                                    yield_now();
                                }
                                wrong.fetch_add(usize::from(panicking() || unwinding()), Ordering::Relaxed);
                                opens.open();
                            });
                        }
                    });
                })
                .unwrap();
            assert_eq!(wrong.into_inner(), 0, "a VP was told of another one's panic, or not of its own");
        }
    });
}

/// Fails after some calls, with work in its hands.
struct Fails {
    calls: AtomicUsize,
    at: usize,
    in_idle: bool,
}

impl Fails {
    fn count(&self) {
        if self.calls.fetch_add(1, Ordering::Relaxed) == self.at {
            panic!("the assigner: this message is expected");
        }
    }
}

impl Twist for Fails {
    fn ready(&self, queue: &mut VecDeque<Work>, work: Work, _: Why) {
        if !self.in_idle {
            self.count();
        }
        queue.push_back(work);
    }

    fn assigns(&self) {
        if !self.in_idle {
            self.count();
        }
    }

    fn idles(&self) {
        if self.in_idle {
            self.count();
        }
    }
}

/// What a program does, whatever its assigner does.
fn program() -> usize {
    let done = AtomicUsize::new(0);
    let lock = Lock::new();
    scope(|s| {
        for _ in 0..20 {
            s.spawn(|| {
                for _ in 0..3 {
                    drop(lock.lock());
                    yield_now();
                }
                join(yield_now, yield_now);
                done.fetch_add(1, Ordering::Relaxed);
            });
        }
    });
    done.into_inner()
}

#[test]
fn of_an_assigner_is_survived_and_no_work_is_lost() {
    watched("assigner", || {
        for controllers in [1, 2] {
            for at in (0..sized(60, 6)).chain([100, 150]) {
                let runtime = runtime(controllers);
                let fails = Fails { calls: AtomicUsize::new(0), at, in_idle: at % 5 == 4 };
                let done = runtime.start_with(Twisted(fails), program).unwrap().wait().unwrap();
                assert_eq!(done, 20, "work was lost when the assigner panicked at call {at}");
                assert_eq!(runtime.run(program).unwrap(), 20, "other processes are unaffected");
            }
        }
    });
}

#[test]
fn of_the_runtimes_own_assigner_too() {
    watched("default assigner", || {
        for at in 0..sized(20, 3) {
            let fails = Fails { calls: AtomicUsize::new(0), at, in_idle: false };
            let runtime = common::build(proto_core::Runtime::builder().controllers(2).assigner(Twisted(fails)));
            assert_eq!(runtime.run(program).unwrap(), 20, "at call {at}");
        }
    });
}

/// Panics when it is dropped.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        quiet_panic("dropped");
    }
}

/// What a VP leaves is dropped before its scope hears of its end, and may panic: the scope ends all the same, with that panic.
#[test]
fn a_scope_ends_also_if_what_its_vps_leave_panics_when_dropped() {
    watched("bombs", || {
        for controllers in [1, 2] {
            let runtime = runtime(controllers);
            // A value that nobody joins.
            let value = runtime.run(|| {
                scope(|s| {
                    drop(s.spawn(|| {
                        yield_now();
                        Bomb
                    }));
                })
            });
            assert!(matches!(value, Err(ProcessError::Panic(_))), "{value:?}");
            // What a closure owned that never ran: it was cancelled before.
            let captured = runtime.run(|| {
                scope(|s| {
                    let bomb = Bomb;
                    let vp = s.spawn(move || std::mem::forget(bomb));
                    vp.vp().cancel().unwrap();
                    drop(vp);
                })
            });
            assert!(matches!(captured, Err(ProcessError::Panic(_)) | Ok(())), "{captured:?}");
            // Outside of scopes the process has it.
            let alone = runtime.run(|| drop(VpBuilder::new().spawn(|| Bomb).unwrap()));
            assert!(matches!(alone, Err(ProcessError::Panic(_))), "{alone:?}");
        }
    });
}
