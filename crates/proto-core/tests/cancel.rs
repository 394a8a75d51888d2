//! A VP cancelled at each kind of wait: abandonable ones end at once, binding ones note it; children unwind before the frames they borrow,
//! guards release what they hold, and a cancel is no panic. (Cancels that meet an unwinding: `cancel_unwinding.rs`.)

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use common::cancelling::{Drops, Witness, cancelled_when, everywhere};
use common::lang::{Gate, Lock, Mailbox, sleep};
use common::{runtime, sized, watched};
use proto_core::{
    Caller, Ended, EnvCell, Hidden, JoinError, ProcessError, RequestHandler, Select, Suspended, VpBuilder, blocking,
    join, scope, yield_now,
};

/// Hands out its callers' tokens.
#[derive(Default)]
struct Desk {
    tokens: Vec<Suspended<u32>>,
}
struct Wait;
struct Tokens;

impl RequestHandler<Wait> for Desk {
    type Reply = u32;
    fn handle(&mut self, _: Wait, caller: Caller<'_, u32>, hidden: &mut Hidden<'_>) {
        let token = hidden.suspend(caller);
        self.tokens.push(token);
    }
}

impl RequestHandler<Tokens> for Desk {
    type Reply = Vec<Suspended<u32>>;
    fn handle(&mut self, _: Tokens, caller: Caller<'_, Self::Reply>, hidden: &mut Hidden<'_>) {
        let tokens = std::mem::take(&mut self.tokens);
        hidden.answer(caller, tokens);
    }
}

#[test]
fn in_a_queue_while_it_holds_another_lock_which_its_guard_releases() {
    everywhere("lock queue", |runtime| {
        runtime
            .run(|| {
                let drops = Arc::new(Drops::default());
                let (held, wanted) = (Arc::new(Lock::new()), Arc::new(Lock::new()));
                let mine = wanted.lock();
                let holding = Arc::new(AtomicBool::new(false));
                let (h, w, d, flag) = (held.clone(), wanted.clone(), drops.clone(), holding.clone());
                cancelled_when(
                    || holding.load(Ordering::Relaxed),
                    move || {
                        let _held = h.lock();
                        let _witness = Witness(d);
                        flag.store(true, Ordering::Relaxed);
                        drop(w.lock());
                        unreachable!("the lock is held by the canceller");
                    },
                );
                drop(held.lock());
                drop(mine);
                drop(wanted.lock());
                assert_eq!(drops.all(), 1);
                assert_eq!(drops.panicking(), 0, "a cancel was taken for a panic");
            })
            .unwrap();
    });
}

#[test]
fn with_its_token_at_large_whose_value_comes_back() {
    everywhere("token", |runtime| {
        runtime
            .run(|| {
                let desk = Arc::new(EnvCell::new(Desk::default()));
                let of_vp = Arc::clone(&desk);
                let token = std::cell::Cell::new(None);
                cancelled_when(
                    || {
                        token.set(desk.request(Tokens).unwrap().pop());
                        let token_is_there = token.take();
                        let there = token_is_there.is_some();
                        token.set(token_is_there);
                        there
                    },
                    move || {
                        let ended = of_vp.request(Wait).unwrap_err();
                        assert_eq!(ended, Ended::Cancelled);
                        ended.unwind_if_cancelled();
                    },
                );
                assert_eq!(token.take().unwrap().resume(7), Err(7), "the wait was over, so the value comes back");
            })
            .unwrap();
    });
}

#[test]
fn in_a_select_in_a_sleep_and_at_a_join() {
    everywhere("select, sleep, join", |runtime| {
        runtime
            .run(|| {
                let (a, b) = (Arc::new(EnvCell::new(Desk::default())), Arc::new(EnvCell::new(Desk::default())));
                let (a2, b2) = (a.clone(), b.clone());
                let kept = std::cell::RefCell::new(Vec::new());
                cancelled_when(
                    || {
                        kept.borrow_mut().extend(b.request(Tokens).unwrap());
                        !kept.borrow().is_empty()
                    },
                    move || {
                        let ended = Select::new().on(&*a2, || Wait, |n| n).on(&*b2, || Wait, |n| n).wait(None);
                        ended.unwrap_err().unwind_if_cancelled();
                    },
                );
                drop(kept);

                let sleeps = Arc::new(AtomicBool::new(false));
                let flag = sleeps.clone();
                cancelled_when(
                    || sleeps.load(Ordering::Relaxed),
                    move || {
                        flag.store(true, Ordering::Relaxed);
                        // Far longer than `everywhere` waits for the end of this test.
                        sleep(Duration::from_secs(86_400));
                    },
                );

                let gate = Arc::new(Gate::new());
                let for_child = gate.clone();
                let joins = Arc::new(AtomicBool::new(false));
                let flag = joins.clone();
                cancelled_when(
                    || joins.load(Ordering::Relaxed) && gate.waiting() == 1,
                    move || {
                        let child = VpBuilder::new().spawn(move || for_child.pass()).unwrap();
                        flag.store(true, Ordering::Relaxed);
                        let _ = child.join();
                    },
                );
                // The child belongs to nobody but the process.
                gate.open();
            })
            .unwrap();
    });
}

#[test]
fn at_the_end_of_a_scope_whose_children_borrow_they_unwind_first() {
    everywhere("scope end", |runtime| {
        runtime
            .run(|| {
                let order = Arc::new(Mailbox::new());
                let (of_vp, inside) = (order.clone(), Arc::new(AtomicUsize::new(0)));
                let count = inside.clone();
                cancelled_when(
                    || inside.load(Ordering::Relaxed) == 4,
                    move || {
                        struct Last<'a>(&'a Mailbox<&'static str>, &'a AtomicUsize);
                        impl Drop for Last<'_> {
                            fn drop(&mut self) {
                                self.0.put("frame");
                            }
                        }
                        let alive = AtomicUsize::new(0);
                        let last = Last(&of_vp, &alive);
                        scope(|s| {
                            for _ in 0..3 {
                                s.spawn(|| {
                                    struct Child<'a>(&'a Mailbox<&'static str>, &'a AtomicUsize);
                                    impl Drop for Child<'_> {
                                        fn drop(&mut self) {
                                            self.1.fetch_sub(1, Ordering::Relaxed);
                                            self.0.put("child");
                                        }
                                    }
                                    last.1.fetch_add(1, Ordering::Relaxed);
                                    let _child = Child(&of_vp, last.1);
                                    count.fetch_add(1, Ordering::Relaxed);
                                    Gate::new().pass();
                                });
                            }
                            count.fetch_add(1, Ordering::Relaxed);
                        });
                        unreachable!("the scope's end delivers the cancel");
                    },
                );
                let order: Vec<_> = (0..4).map(|_| order.take()).collect();
                assert_eq!(order, ["child", "child", "child", "frame"]);
            })
            .unwrap();
    });
}

#[test]
fn before_it_opens_a_scope_whose_children_wait_for_ever() {
    everywhere("cancelled before the scope", |runtime| {
        runtime
            .run(|| {
                let (started, go) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
                let (s2, g2) = (started.clone(), go.clone());
                let vp = VpBuilder::new()
                    .spawn(move || {
                        s2.store(true, Ordering::Relaxed);
                        while !g2.load(Ordering::Relaxed) {
                            yield_now();
                        }
                        // Cancelled by now, and has not met it: a scope's end is no abandonable wait.
                        let never = Gate::new();
                        scope(|s| {
                            s.spawn(|| never.pass());
                            s.spawn(|| scope(|inner| drop(inner.spawn(|| never.pass()))));
                        });
                    })
                    .unwrap();
                while !started.load(Ordering::Relaxed) {
                    yield_now();
                }
                vp.cancel().unwrap();
                go.store(true, Ordering::Relaxed);
                assert!(matches!(vp.join(), Err(JoinError::Cancelled)));
            })
            .unwrap();
    });
}

#[test]
fn in_a_join_the_closure_that_was_taken_is_cancelled_too() {
    everywhere("stolen join", |runtime| {
        runtime
            .run(|| {
                let inside = Arc::new(AtomicUsize::new(0));
                let count = inside.clone();
                cancelled_when(
                    || inside.load(Ordering::Relaxed) == 2,
                    move || {
                        let enter = || {
                            count.fetch_add(1, Ordering::Relaxed);
                            Gate::new().pass();
                        };
                        // Both wait, so one of them is run elsewhere: on another core, or on another stack of this one.
                        join(enter, enter);
                    },
                );
            })
            .unwrap();
    });
}

#[test]
fn a_scope_opened_beside_a_taken_closure_does_not_matter_to_it() {
    everywhere("scope beside a stolen join", |runtime| {
        runtime
            .run(|| {
                let ends = AtomicUsize::new(0);
                let stop = AtomicBool::new(false);
                join(
                    || {
                        for _ in 0..sized(20, 2) {
                            // Each of these scopes ends, and is cancelled, while the other closure lives on.
                            scope(|s| {
                                s.spawn(|| Gate::new().pass());
                                s.cancel().unwrap();
                                yield_now();
                            });
                        }
                        stop.store(true, Ordering::Relaxed);
                    },
                    || {
                        while !stop.load(Ordering::Relaxed) {
                            // Would unwind if it were taken for a VP of one of those scopes.
                            let gate = Gate::new();
                            gate.open();
                            gate.pass();
                            sleep(Duration::from_micros(1));
                        }
                        ends.fetch_add(1, Ordering::Relaxed);
                    },
                );
                assert_eq!(ends.into_inner(), 1);
            })
            .unwrap();
    });
}

/// The closure borrows from the VP's frame.
#[test]
fn in_blocking_it_comes_after_the_call() {
    /// Notes, when the frame goes, whether the call was over.
    struct Frame(Arc<AtomicBool>, Arc<AtomicBool>);
    impl Drop for Frame {
        fn drop(&mut self) {
            self.1.store(self.0.load(Ordering::Relaxed), Ordering::Relaxed);
        }
    }
    everywhere("blocking", |runtime| {
        let (tell, told) = std::sync::mpsc::channel();
        let (go, gone) = std::sync::mpsc::channel::<()>();
        let (over, in_time) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let frame = Frame(Arc::clone(&over), Arc::clone(&in_time));
        runtime
            .run(move || {
                let vp = VpBuilder::new()
                    .spawn(move || {
                        let frame = frame;
                        let over = &frame.0;
                        blocking(move || {
                            tell.send(()).unwrap();
                            gone.recv().unwrap();
                            over.store(true, Ordering::Relaxed);
                        });
                        unreachable!("the cancel is delivered at the end of the call, not later");
                    })
                    .unwrap();
                blocking(move || told.recv().unwrap());
                vp.cancel().unwrap();
                // Time to unwind, if it did so too early.
                for _ in 0..100 {
                    yield_now();
                }
                assert!(!vp.vp().has_ended());
                go.send(()).unwrap();
                assert!(matches!(vp.join(), Err(JoinError::Cancelled)));
            })
            .unwrap();
        assert!(over.load(Ordering::Relaxed), "the call was not made to its end");
        assert!(in_time.load(Ordering::Relaxed), "what the closure borrows was given up under it");
    });
}

#[test]
fn before_it_has_started_its_closure_is_dropped_unrun() {
    everywhere("unstarted", |runtime| {
        runtime
            .run(|| {
                let drops = Arc::new(Drops::default());
                let witness = Witness(drops.clone());
                // Cancelled before this VP leaves its core; another one may still have started it.
                let vp = VpBuilder::new()
                    .spawn(move || {
                        let _witness = witness;
                        Gate::new().pass();
                    })
                    .unwrap();
                vp.cancel().unwrap();
                assert!(matches!(vp.join(), Err(JoinError::Cancelled)));
                assert_eq!(drops.all(), 1, "what the closure held is dropped once");
                assert_eq!(drops.panicking(), 0);
            })
            .unwrap();
    });
}

/// What an OS thread makes in a scope runs on the default runtime; a cancel of the scope's owner, on another one, reaches it.
#[test]
fn a_cancel_reaches_what_other_runtimes_run_of_a_scope() {
    static NEVER: Gate = Gate::new();
    watched("scope over two runtimes", || {
        let runtime = runtime(1);
        let process = runtime
            .start(|| {
                scope(|s| {
                    blocking(|| std::thread::scope(|threads| drop(threads.spawn(|| drop(s.spawn(|| NEVER.pass()))))));
                    NEVER.pass();
                });
            })
            .unwrap();
        while NEVER.waiting() < 2 {
            std::thread::yield_now();
        }
        process.cancel().unwrap();
        assert!(matches!(process.wait(), Err(ProcessError::Cancelled)));
    });
}
