//! `Singleton`, `atomic`, `transaction`.

mod common;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use common::{ROUNDS, cancelled_in_a_wait, on_1_2_4, text, until, until_waits};
use proto_core::Cancelled;
use proto_lang_mutex::sync::Arc;
use proto_lang_mutex::sync::atomic::{AtomicUsize, Ordering};
use proto_lang_mutex::{
    OutOfOrder, Singleton, atomic, atomic_timeout, thread, transaction, transaction_timeout, try_atomic,
    try_transaction,
};

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
        let ran = Arc::new(AtomicUsize::new(0));
        let waits = atomic(|| {
            let waits = thread::spawn({
                let ran = Arc::clone(&ran);
                move || {
                    atomic(|| ran.store(1, Ordering::Relaxed));
                    thread::park();
                }
            });
            until_waits(waits.thread());
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

#[test]
fn a_waiter_before_a_section_can_be_cancelled() {
    on_1_2_4(|| {
        transaction(78, || {
            cancelled_in_a_wait(|| transaction(78, || unreachable!("the section is held")));
            cancelled_in_a_wait(|| transaction_timeout(78, LONG, || unreachable!("the section is held")));
        });
        assert_eq!(try_transaction(78, || 5), Ok(Some(5)), "nobody has it, nobody waits for it");
    });
}

const SHORT: Duration = Duration::from_millis(1);
const LONG: Duration = Duration::from_secs(600);

#[test]
fn who_does_not_wait_for_its_turn_comes_away_without() {
    fn never<T>() -> T {
        unreachable!("it is not its turn")
    }
    on_1_2_4(|| {
        let done = Singleton::new();
        thread::scope(|s| {
            let busy = s.spawn(|| atomic(|| transaction(79, || done.run(thread::park))));
            until_waits(busy.thread());
            assert_eq!((try_atomic(never::<u32>), atomic_timeout(SHORT, never::<u32>)), (None, None));
            assert_eq!(try_transaction(79, never::<u32>), Ok(None));
            assert_eq!(transaction_timeout(79, SHORT, never::<u32>), Ok(None));
            assert_eq!((done.try_run(never), done.run_timeout(SHORT, never)), (None, None));
            let waits = s.spawn(|| (atomic_timeout(LONG, || 1), transaction_timeout(79, LONG, || 2)));
            until_waits(waits.thread());
            busy.thread().unpark();
            assert_eq!(waits.join().unwrap(), (Some(1), Ok(Some(2))));
        });
        assert_eq!((try_atomic(|| 1), try_transaction(79, || 2)), (Some(1), Ok(Some(2))));
        assert_eq!((done.try_run(never), done.run_timeout(SHORT, never)), (Some(&()), Some(&())));
        let nested = atomic(|| try_atomic(|| atomic_timeout(SHORT, || 3)));
        assert_eq!(nested, Some(Some(3)), "who is in isolation has it");
        let wrong = transaction(80, || transaction_timeout(79, SHORT, never::<u32>));
        assert_eq!(wrong, Err(OutOfOrder { inside: 80, wanted: 79 }));
    });
}
