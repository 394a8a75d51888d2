//! `Barrier` and `Semaphore`.

mod common;

use std::time::Duration;

use common::{ROUNDS, cancelled_in_a_wait, much_later, on_1_2_4, soon, until, until_waits};
use proto_lang_mutex::sync::atomic::{AtomicUsize, Ordering};
use proto_lang_mutex::sync::{Arc, Barrier, Semaphore};
use proto_lang_mutex::thread;

#[test]
fn nobody_passes_a_barrier_before_all_have_come_and_one_leads() {
    on_1_2_4(|| {
        let (barrier, came, leaders) = (Barrier::new(8), AtomicUsize::new(0), AtomicUsize::new(0));
        thread::scope(|s| {
            for _ in 0..8 {
                s.spawn(|| {
                    for round in 1..=ROUNDS {
                        came.fetch_add(1, Ordering::Relaxed);
                        if barrier.wait().is_leader() {
                            leaders.fetch_add(1, Ordering::Relaxed);
                        }
                        assert!(came.load(Ordering::Relaxed) >= 8 * round);
                        barrier.wait();
                    }
                });
            }
        });
        assert_eq!(leaders.load(Ordering::Relaxed), ROUNDS);
    });
}

#[test]
fn a_barrier_for_nobody_or_one_holds_nobody_up() {
    assert!(Barrier::new(0).wait().is_leader());
    assert!(Barrier::new(1).wait().is_leader());
}

#[test]
fn who_gives_up_at_a_barrier_has_not_come() {
    on_1_2_4(|| {
        let barrier = Arc::new(Barrier::new(2));
        assert_eq!(barrier.wait_timeout(Duration::from_millis(1)), None);
        cancelled_in_a_wait({
            let barrier = Arc::clone(&barrier);
            move || barrier.wait()
        });
        assert_eq!(barrier.wait_until(soon()), None, "the other two have left");
        let other = thread::spawn({
            let barrier = Arc::clone(&barrier);
            move || barrier.wait().is_leader()
        });
        until_waits(other.thread());
        assert!(barrier.wait_until(much_later()).unwrap().is_leader(), "the last one to come leads");
        assert!(!other.join().unwrap());
    });
}

#[test]
fn those_whose_time_is_over_at_a_barrier_go_on_together_or_not_at_all() {
    on_1_2_4(|| {
        let (start, timed, passed) = (Barrier::new(3), Barrier::new(3), AtomicUsize::new(0));
        thread::scope(|s| {
            for _ in 0..3 {
                s.spawn(|| {
                    for round in 0..ROUNDS {
                        start.wait();
                        let in_time = timed.wait_timeout(Duration::from_micros(round as u64 % 30)).is_some();
                        passed.fetch_add(usize::from(in_time), Ordering::Relaxed);
                        start.wait();
                        let all = passed.load(Ordering::Relaxed);
                        assert!(all.is_multiple_of(3), "one went on before all had come: {all}");
                    }
                });
            }
        });
    });
}

#[test]
fn no_more_than_its_permits_are_inside_a_semaphore() {
    on_1_2_4(|| {
        let (doors, inside) = (Semaphore::new(3), AtomicUsize::new(0));
        thread::scope(|s| {
            for vp in 0..10 {
                let (doors, inside) = (&doors, &inside);
                s.spawn(move || {
                    for round in 0..ROUNDS {
                        let permit = doors.acquire_many(1 + (vp + round) % 3);
                        let now = inside.fetch_add(permit.count(), Ordering::Relaxed) + permit.count();
                        assert!(now <= 3, "{now} permits are out, of 3");
                        thread::yield_now();
                        inside.fetch_sub(permit.count(), Ordering::Relaxed);
                    }
                });
            }
        });
        assert_eq!(doors.available_permits(), 3);
    });
}

#[test]
fn a_wish_that_is_given_up_holds_up_nobody() {
    on_1_2_4(|| {
        let doors = Semaphore::new(1);
        thread::scope(|s| {
            let greedy = s.spawn(|| doors.acquire_timeout(5, Duration::from_millis(50)).is_none());
            until(|| greedy.is_finished() || doors.try_acquire().is_none());
            // Behind the greedy one, unless it took more than its time to find that out.
            drop(doors.acquire_until(1, much_later()).unwrap());
            assert!(greedy.join().unwrap());
        });
        assert_eq!(doors.available_permits(), 1);
    });
}

#[test]
fn a_cancelled_waiter_takes_no_permit() {
    on_1_2_4(|| {
        let doors = Arc::new(Semaphore::new(0));
        cancelled_in_a_wait({
            let doors = Arc::clone(&doors);
            move || drop(doors.acquire())
        });
        doors.add_permits(1);
        assert_eq!(doors.available_permits(), 1);
    });
}

#[test]
fn a_try_takes_what_is_there_only() {
    on_1_2_4(|| {
        let doors = Semaphore::new(0);
        assert!(doors.try_acquire().is_none() && doors.acquire_until(1, soon()).is_none());
        doors.add_permits(2);
        let two = doors.try_acquire_many(2).unwrap();
        assert!(doors.try_acquire().is_none());
        drop(two);
        assert_eq!(doors.available_permits(), 2);
    });
}
