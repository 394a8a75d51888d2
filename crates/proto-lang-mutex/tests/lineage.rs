//! `Singleton`, `atomic`, `transaction`.

mod common;

use std::panic::{AssertUnwindSafe, catch_unwind};

use common::{ROUNDS, on_1_2_4, text, until};
use proto_core::Cancelled;
use proto_lang_mutex::sync::Arc;
use proto_lang_mutex::sync::atomic::{AtomicUsize, Ordering};
use proto_lang_mutex::{OutOfOrder, Singleton, atomic, thread, transaction, try_transaction};

#[test]
fn a_singleton_is_done_once_and_gives_the_same_to_all() {
    on_1_2_4(|| {
        let (done, times) = (Singleton::new(), AtomicUsize::new(0));
        thread::scope(|s| {
            for _ in 0..10 {
                s.spawn(|| {
                    let got = *done.run(|| {
                        thread::yield_now();
                        times.fetch_add(1, Ordering::Relaxed) + 5
                    });
                    assert_eq!(got, 5);
                });
            }
        });
        assert_eq!(done.get(), Some(&5));
    });
}

#[test]
fn isolated_closures_run_one_at_a_time() {
    on_1_2_4(|| {
        let count = AtomicUsize::new(0);
        thread::scope(|s| {
            for _ in 0..8 {
                s.spawn(|| {
                    for _ in 0..ROUNDS {
                        atomic(|| {
                            let seen = count.load(Ordering::Relaxed);
                            atomic(thread::yield_now);
                            count.store(seen + 1, Ordering::Relaxed);
                        });
                    }
                });
            }
        });
        assert_eq!(count.load(Ordering::Relaxed), 8 * ROUNDS);
    });
}

#[test]
fn a_panic_in_isolation_leaves_it_free() {
    assert!(catch_unwind(|| atomic(|| panic!("inside"))).is_err());
    assert_eq!(atomic(|| 1), 1);
}

#[test]
fn a_cancel_does_not_end_the_wait_for_isolation() {
    on_1_2_4(|| {
        let (state, ran) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let waits = atomic(|| {
            let waits = thread::spawn({
                let (state, ran) = (Arc::clone(&state), Arc::clone(&ran));
                move || {
                    state.store(1, Ordering::Relaxed);
                    atomic(|| ran.store(1, Ordering::Relaxed));
                    thread::park();
                }
            });
            until(|| state.load(Ordering::Relaxed) == 1);
            waits.cancel().unwrap();
            waits
        });
        assert!(waits.join().unwrap_err().is::<Cancelled>());
        assert_eq!(ran.load(Ordering::Relaxed), 1, "it was cancelled after its isolated closure");
    });
}

#[test]
fn sections_of_one_number_exclude_each_other() {
    on_1_2_4(|| {
        let counts = [AtomicUsize::new(0), AtomicUsize::new(0)];
        thread::scope(|s| {
            for vp in 0..8 {
                let counts = &counts;
                s.spawn(move || {
                    for _ in 0..ROUNDS / 3 {
                        transaction(vp % 2, || {
                            let count = &counts[vp as usize % 2];
                            let seen = count.load(Ordering::Relaxed);
                            thread::yield_now();
                            count.store(seen + 1, Ordering::Relaxed);
                        });
                    }
                });
            }
        });
        assert!(counts.iter().all(|count| count.load(Ordering::Relaxed) == 4 * (ROUNDS / 3)));
    });
}

#[test]
fn sections_nest_in_rising_order_only() {
    on_1_2_4(|| {
        transaction(10, || {
            assert_eq!(try_transaction(10, || ()), Err(OutOfOrder { inside: 10, wanted: 10 }));
            transaction(11, || assert!(try_transaction(10, || ()).is_err()));
            let wrong = catch_unwind(AssertUnwindSafe(|| transaction(9, || ())));
            let said = wrong.unwrap_err();
            assert_eq!(
                text(&*said),
                "transaction 9 entered inside transaction 10: numbers must rise from the outside in"
            );
        });
        transaction(9, || transaction(10, || ()));
    });
}

#[test]
fn a_cancelled_section_lets_the_next_in() {
    on_1_2_4(|| {
        let inside = Arc::new(AtomicUsize::new(0));
        let holder = thread::spawn({
            let inside = Arc::clone(&inside);
            move || {
                transaction(77, || {
                    inside.store(1, Ordering::Relaxed);
                    loop {
                        thread::park();
                    }
                })
            }
        });
        until(|| inside.load(Ordering::Relaxed) == 1);
        holder.cancel().unwrap();
        assert_eq!(transaction(77, || 5), 5);
        assert!(holder.join().is_err());
    });
}
