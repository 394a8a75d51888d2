//! `vp_local!`: each timeline its own value, dropped on its own stack when it ends.

mod common;

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use common::lang::{Gate, Lock};
use common::{build, runtime, sized, watched};
use proto_core::{AccessError, Event, Hooks, Runtime, Scope, VpBuilder, current_name, scope, yield_now};

proto_core::vp_local! {
    static NUMBER: Cell<usize> = Cell::new(0);
}

#[test]
fn each_timeline_has_its_own() {
    watched("own values", || {
        for backend in [false, true] {
            let runtime = build(Runtime::builder().controllers(2).thread_per_vp(backend));
            NUMBER.with(|number| number.set(77));
            runtime
                .run(|| {
                    scope(|s| {
                        for n in 0..sized(200, 5) {
                            s.spawn(move || {
                                assert_eq!(NUMBER.with(Cell::get), 0, "a new timeline begins with the first value");
                                NUMBER.with(|number| number.set(n));
                                yield_now();
                                assert_eq!(NUMBER.with(Cell::get), n);
                            });
                        }
                    });
                })
                .unwrap();
            assert_eq!(NUMBER.with(Cell::get), 77, "an OS thread keeps its own");
        }
    });
}

/// Notes who drops it, and that constructs work there.
struct Told;

static DROPS: Mutex<Vec<String>> = Mutex::new(Vec::new());
static LOCK: Lock = Lock::new();

impl Drop for Told {
    fn drop(&mut self) {
        let _held = LOCK.lock();
        yield_now();
        DROPS.lock().unwrap().push(current_name().to_string());
    }
}

proto_core::vp_local! {
    static TOLD: Told = Told;
}

#[test]
fn values_are_dropped_on_the_stack_of_their_timeline() {
    watched("dropped at home", || {
        let names = runtime(2)
            .run(|| {
                let vps: Vec<_> = (0..sized(50, 3))
                    .map(|_| {
                        VpBuilder::new().spawn(|| {
                            TOLD.with(|_| yield_now());
                            current_name().to_string()
                        })
                    })
                    .collect();
                vps.into_iter().map(|vp| vp.unwrap().join().unwrap()).collect::<Vec<_>>()
            })
            .unwrap();
        // A VP's value is given to its joiner before its destructors have run, but its process waits for them.
        let mut drops = DROPS.lock().unwrap().clone();
        let mut names = names;
        drops.sort();
        names.sort();
        assert_eq!(drops, names, "each dropped once, by its own timeline");
    });
}

proto_core::vp_local! {
    static FIRST: Again = Again(0);
    static SECOND: Again = Again(0);
}

static MADE_AGAIN: AtomicUsize = AtomicUsize::new(0);

/// Makes values of other keys while it is dropped.
struct Again(usize);

impl Drop for Again {
    fn drop(&mut self) {
        if MADE_AGAIN.fetch_add(1, Ordering::Relaxed) < 10 {
            FIRST.with(|again| again.0 + SECOND.with(|again| again.0));
        }
    }
}

#[test]
fn a_destructor_may_make_new_values() {
    watched("made again", || {
        runtime(1).run(|| FIRST.with(|_| ())).unwrap();
        assert!(MADE_AGAIN.load(Ordering::Relaxed) > 10, "every value that was made was dropped");
    });
}

proto_core::vp_local! {
    static STACKED: usize = 0;
}

#[test]
fn a_scoped_value_is_seen_by_its_timeline_only_and_goes_by_itself() {
    watched("scoped", || {
        runtime(1)
            .run(|| {
                scope(|s| {
                    for n in 1..sized(20, 4) {
                        s.spawn(move || {
                            STACKED.scope(n, || {
                                yield_now();
                                STACKED.with(|value| assert_eq!(*value, n));
                                STACKED.scope(n * 100, || {
                                    yield_now();
                                    STACKED.with(|value| assert_eq!(*value, n * 100));
                                });
                                let caught = std::panic::catch_unwind(|| {
                                    STACKED.scope(n * 1000, || std::panic::resume_unwind(Box::new(())));
                                });
                                assert!(caught.is_err());
                                STACKED.with(|value| assert_eq!(*value, n, "a panic puts the value back too"));
                            });
                            STACKED.with(|value| assert_eq!(*value, 0));
                        });
                    }
                });
            })
            .unwrap();
    });
}

#[test]
fn os_threads_drop_theirs_when_they_end() {
    static DROPPED: AtomicUsize = AtomicUsize::new(0);
    struct Counted;
    impl Drop for Counted {
        fn drop(&mut self) {
            DROPPED.fetch_add(1, Ordering::Relaxed);
        }
    }
    proto_core::vp_local! {
        static COUNTED: Counted = Counted;
    }
    for _ in 0..3 {
        std::thread::spawn(|| COUNTED.with(|_| ())).join().unwrap();
    }
    assert_eq!(DROPPED.load(Ordering::Relaxed), 3);
}

#[test]
fn a_destructor_that_panics_reaches_the_process() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            std::panic::resume_unwind(Box::new("a destructor panicked"));
        }
    }
    proto_core::vp_local! {
        static BOMB: Bomb = Bomb;
    }
    watched("panic in a destructor", || {
        let runtime = runtime(1);
        let error = runtime.run(|| BOMB.with(|_| ())).unwrap_err();
        assert!(error.to_string().contains("a destructor panicked"), "{error}");
        assert_eq!(runtime.run(|| 1).unwrap(), 1, "the runtime goes on");
    });
}

static IN_DESTRUCTOR: Gate = Gate::new();
static CHILDREN: AtomicUsize = AtomicUsize::new(0);
static OVER: AtomicUsize = AtomicUsize::new(0);

/// Waits while it is dropped, and opens a scope.
struct Outlives;

impl Drop for Outlives {
    fn drop(&mut self) {
        struct Over;
        impl Drop for Over {
            fn drop(&mut self) {
                OVER.fetch_add(1, Ordering::Relaxed);
            }
        }
        let _over = Over;
        IN_DESTRUCTOR.pass();
        scope(|s| {
            s.spawn(|| CHILDREN.fetch_add(1, Ordering::Relaxed));
        });
    }
}

proto_core::vp_local! {
    static OUTLIVES: Outlives = Outlives;
}

/// A scope that lies at the same place of the stack whenever it is called from the same frame.
#[inline(never)]
fn scope_here(f: for<'s> fn(&'s Scope<'s, '_>)) {
    scope(|s| f(s));
}

fn spawns_one<'s>(s: &'s Scope<'s, '_>) {
    drop(s.spawn(|| OUTLIVES.with(|_| ())));
}

fn is_cancelled<'s>(s: &'s Scope<'s, '_>) {
    while IN_DESTRUCTOR.waiting() == 0 {
        yield_now();
    }
    s.cancel().unwrap();
    // The core looks for the scope's VPs before it comes back.
    yield_now();
    IN_DESTRUCTOR.open();
    while OVER.load(Ordering::Relaxed) == 0 {
        yield_now();
    }
}

#[test]
fn a_destructor_is_in_no_scope_even_if_another_one_lies_where_that_was() {
    watched("destructor after the scope", || {
        runtime(1)
            .run(|| {
                let both: [for<'s> fn(&'s Scope<'s, '_>); 2] = [spawns_one, is_cancelled];
                for f in both {
                    scope_here(f);
                }
            })
            .unwrap();
        assert_eq!(CHILDREN.load(Ordering::Relaxed), 1, "a child of the destructor met the other scope's cancel");
    });
}

#[test]
fn a_controllers_own_stack_has_none() {
    #[derive(Default)]
    struct Looks(Mutex<Vec<Result<usize, AccessError>>>);
    impl Hooks for Looks {
        fn event(&self, event: &Event) {
            if let Event::Assigned { .. } = event {
                self.0.lock().unwrap().push(NUMBER.try_with(Cell::get));
            }
        }
    }
    watched("no values", || {
        let looks = Arc::new(Looks::default());
        build(Runtime::builder().controllers(1).hooks(looks.clone())).run(|| NUMBER.set(5)).unwrap();
        let seen = looks.0.lock().unwrap();
        assert!(!seen.is_empty() && seen.iter().all(Result::is_err), "{seen:?}");
    });
}
