//! A started VP stays on its OS thread: what a release build keeps of a `thread_local!` across a switch stays right.

mod common;

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use common::lang::{Mailbox, sleep};
use common::{build, runtime, sized, watched};
use proto_core::{Runtime, VpBuilder, join, scope, yield_now};

thread_local! {
    static COUNT: Cell<usize> = const { Cell::new(0) };
    static SHARED: Rc<RefCell<Vec<usize>>> = Rc::default();
}

fn address() -> usize {
    COUNT.with(|count| std::ptr::from_ref(count).addr())
}

/// Two VPs on two cores that wake each other all the time.
#[test]
fn a_vp_that_is_woken_by_another_core_stays_on_its_thread() {
    watched("two threads", || {
        let runtime = runtime(2);
        let cores = runtime.cores();
        let (there, back) = (Mailbox::new(), Mailbox::new());
        let rounds = sized(20_000, 20);
        runtime
            .run(|| {
                scope(|s| {
                    for (core, mine, other) in [(cores[0], &there, &back), (cores[1], &back, &there)] {
                        let body = move || {
                            let (id, place) = (std::thread::current().id(), address());
                            let own = SHARED.with(Rc::clone);
                            for round in 0..rounds {
                                COUNT.set(round);
                                other.put(round);
                                let got: usize = mine.take();
                                assert_eq!(got, round);
                                assert_eq!(COUNT.get(), round, "another thread's value");
                                assert_eq!(address(), place, "another thread's variable");
                                own.borrow_mut().push(round);
                                if own.borrow().len() > 10 {
                                    own.borrow_mut().clear();
                                }
                            }
                            assert_eq!(std::thread::current().id(), id);
                            assert!(SHARED.with(|shared| Rc::ptr_eq(shared, &own)));
                        };
                        s.spawn_with(VpBuilder::new().home(core), body).unwrap();
                    }
                });
            })
            .unwrap();
    });
}

/// With every way to leave a core there is, and more controllers than processors.
#[test]
fn no_construct_moves_a_started_vp() {
    watched("no construct moves", || {
        for backend in [false, true] {
            let runtime = build(Runtime::builder().controllers(sized(4, 2)).thread_per_vp(backend));
            runtime
                .run(|| {
                    scope(|s| {
                        for n in 0..sized(100, 3) {
                            s.spawn(move || {
                                // Not `Send`: it may only be used where it was made.
                                let own = Rc::new(Cell::new(n));
                                let (id, place) = (std::thread::current().id(), address());
                                for round in 0..sized(20, 2) {
                                    match round % 4 {
                                        0 => yield_now(),
                                        1 => sleep(std::time::Duration::from_micros(10)),
                                        2 => drop(join(yield_now, yield_now)),
                                        _ => proto_core::blocking(|| ()),
                                    }
                                    own.set(own.get() + 1);
                                    assert_eq!(std::thread::current().id(), id);
                                    assert_eq!(address(), place);
                                }
                                assert_eq!(own.get(), n + sized(20, 2));
                            });
                        }
                    });
                })
                .unwrap();
        }
    });
}
