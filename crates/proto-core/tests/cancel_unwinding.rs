//! A cancel is our own unwinding: swallowed it comes again; while a VP unwinds its waits are binding; a binding wait keeps its answer.

mod common;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use common::cancelling::{Drops, Witness, cancelled_when, everywhere};
use common::desk::{Fall, Pit, Pull};
use common::lang::{Gate, Lock, sleep};
use common::{runtime, watched};
use proto_core::{
    Cancelled, EnvCell, JoinError, ProcessError, VpBuilder, join, panicking, scope, unwinding, yield_now,
};

#[test]
fn swallowed_it_comes_again_at_the_next_abandonable_wait() {
    everywhere("swallowed", |runtime| {
        runtime
            .run(|| {
                let waits = Arc::new(AtomicBool::new(false));
                let (flag, rounds) = (waits.clone(), Arc::new(AtomicUsize::new(0)));
                let count = rounds.clone();
                cancelled_when(
                    || waits.load(Ordering::Relaxed),
                    move || {
                        flag.store(true, Ordering::Relaxed);
                        for _ in 0..3 {
                            let gate = Gate::new();
                            let caught = catch_unwind(AssertUnwindSafe(|| gate.pass()));
                            assert!(caught.unwrap_err().is::<Cancelled>());
                            assert!(!unwinding());
                            // Not at a binding request that is answered at once, not at a release, and not at a yield.
                            assert_eq!(gate.waiting(), 0);
                            gate.open();
                            yield_now();
                            count.fetch_add(1, Ordering::Relaxed);
                        }
                        Gate::new().pass();
                        unreachable!("the fourth one is not swallowed");
                    },
                );
                assert_eq!(rounds.load(Ordering::Relaxed), 3);
            })
            .unwrap();
    });
}

#[test]
fn while_it_unwinds_by_a_panic_it_is_not_delivered() {
    struct Waits(Arc<Gate>, Arc<AtomicBool>);
    impl Drop for Waits {
        fn drop(&mut self) {
            assert!(panicking());
            self.1.store(true, Ordering::Relaxed);
            // An abandonable wait by itself, but this VP unwinds: binding. Longer than the millisecond for which it holds its core.
            self.0.pass();
            assert!(panicking());
        }
    }
    watched("cancel while unwinding", || {
        for controllers in [1, 2] {
            let result = runtime(controllers).run(|| {
                let (gate, inside) = (Arc::new(Gate::new()), Arc::new(AtomicBool::new(false)));
                let waits = Waits(gate.clone(), inside.clone());
                let vp = VpBuilder::new()
                    .spawn(move || {
                        let _waits = waits;
                        std::panic::resume_unwind(Box::new("the panic"));
                    })
                    .unwrap();
                while !inside.load(Ordering::Relaxed) || gate.waiting() == 0 {
                    yield_now();
                }
                vp.cancel().unwrap();
                for _ in 0..100 {
                    yield_now();
                }
                assert_eq!(gate.waiting(), 1, "a cancel ended a wait of a VP that unwinds");
                assert!(!panicking() && !unwinding(), "another VP's panic was taken for this one's");
                gate.open();
                match vp.join() {
                    Err(JoinError::Panic(payload)) => assert_eq!(payload.downcast_ref(), Some(&"the panic")),
                    other => panic!("the panic goes on: {other:?}"),
                }
            });
            result.unwrap();
        }
    });
}

#[test]
fn while_it_unwinds_by_a_cancel_its_waits_are_binding() {
    struct Waits(Arc<Gate>, Arc<AtomicUsize>);
    impl Drop for Waits {
        fn drop(&mut self) {
            assert!(!panicking() && unwinding());
            self.0.pass();
            self.1.fetch_add(1, Ordering::Relaxed);
        }
    }
    everywhere("waits while cancelled", |runtime| {
        runtime
            .run(|| {
                let (first, second) = (Arc::new(Gate::new()), Arc::new(Gate::new()));
                let passed = Arc::new(AtomicUsize::new(0));
                let (waits, of_vp) = (Waits(second.clone(), passed.clone()), first.clone());
                let vp = VpBuilder::new()
                    .spawn(move || {
                        let _waits = waits;
                        of_vp.pass();
                    })
                    .unwrap();
                while first.waiting() == 0 {
                    yield_now();
                }
                vp.cancel().unwrap();
                while second.waiting() == 0 {
                    assert!(!panicking() && !unwinding());
                    yield_now();
                }
                vp.cancel().unwrap();
                yield_now();
                second.open();
                assert!(matches!(vp.join(), Err(JoinError::Cancelled)));
                assert_eq!(passed.load(Ordering::Relaxed), 1);
            })
            .unwrap();
    });
}

#[test]
fn a_binding_wait_yields_its_answer_and_the_next_one_the_cancel() {
    everywhere("binding wait", |runtime| {
        runtime
            .run(|| {
                let pit = Arc::new(EnvCell::new(Pit::default()));
                let (of_vp, got) = (pit.clone(), Arc::new(AtomicUsize::new(0)));
                let (place, started) = (got.clone(), Arc::new(AtomicBool::new(false)));
                let flag = started.clone();
                let vp = VpBuilder::new()
                    .spawn(move || {
                        flag.store(true, Ordering::Relaxed);
                        place.store(of_vp.request(Fall).unwrap() as usize, Ordering::Relaxed);
                        Gate::new().pass();
                    })
                    .unwrap();
                while !started.load(Ordering::Relaxed) {
                    yield_now();
                }
                vp.cancel().unwrap();
                while !pit.request(Pull(7)).unwrap() {
                    yield_now();
                }
                assert!(matches!(vp.join(), Err(JoinError::Cancelled)));
                assert_eq!(got.load(Ordering::Relaxed), 7);
            })
            .unwrap();
    });
}

#[test]
fn a_whole_process_unwinds_from_everything_at_once() {
    everywhere("process", |runtime| {
        let drops = Arc::new(Drops::default());
        let (of_seed, all_in) = (drops.clone(), Arc::new(AtomicUsize::new(0)));
        let count = all_in.clone();
        let process = runtime
            .start(move || {
                let lock = Lock::new();
                let enter = || {
                    count.fetch_add(1, Ordering::Relaxed);
                    Witness(of_seed.clone())
                };
                scope(|s| {
                    s.spawn(|| {
                        let _witness = enter();
                        let _held = lock.lock();
                        Gate::new().pass();
                    });
                    s.spawn(|| {
                        let _witness = enter();
                        loop {
                            drop(lock.lock());
                            yield_now();
                        }
                    });
                    s.spawn(|| {
                        let _witness = enter();
                        sleep(Duration::from_secs(600));
                    });
                    s.spawn(|| {
                        join(
                            || {
                                let _witness = enter();
                                Gate::new().pass();
                            },
                            || {
                                let _witness = enter();
                                Gate::new().pass();
                            },
                        )
                    });
                    s.spawn(|| {
                        let _witness = enter();
                        scope(|inner| drop(inner.spawn(|| Gate::new().pass())));
                    });
                });
            })
            .unwrap();
        while all_in.load(Ordering::Relaxed) < 6 {
            std::thread::yield_now();
        }
        process.cancel().unwrap();
        assert!(matches!(process.wait(), Err(ProcessError::Cancelled)));
        assert_eq!(drops.all(), 6);
        assert_eq!(drops.panicking(), 0);
    });
}
