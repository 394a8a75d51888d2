//! `Condvar`.

mod common;

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use common::{ROUNDS, on_1_2_4, runtime, soon, until};
use proto_core::Cancelled;
use proto_lang_mutex::sync::atomic::{AtomicUsize, Ordering};
use proto_lang_mutex::sync::{Arc, Condvar, Mutex};
use proto_lang_mutex::thread;

#[test]
fn two_timelines_take_turns() {
    on_1_2_4(|| {
        let (turn, changed) = (Mutex::new(0), Condvar::new());
        thread::scope(|s| {
            for me in 0..2 {
                let (turn, changed) = (&turn, &changed);
                s.spawn(move || {
                    for _ in 0..ROUNDS {
                        let mut guard = changed.wait_while(turn.lock().unwrap(), |turn| *turn % 2 != me).unwrap();
                        *guard += 1;
                        changed.notify_one();
                    }
                });
            }
        });
        assert_eq!(*turn.lock().unwrap(), 2 * ROUNDS);
    });
}

#[test]
fn no_value_of_a_bounded_queue_is_lost() {
    on_1_2_4(|| {
        let (queue, room, filled) = (Mutex::new(VecDeque::new()), Condvar::new(), Condvar::new());
        let sum = AtomicUsize::new(0);
        thread::scope(|s| {
            for _ in 0..4 {
                s.spawn(|| {
                    for value in 0..ROUNDS {
                        let mut queue = room.wait_while(queue.lock().unwrap(), |queue| queue.len() == 3).unwrap();
                        queue.push_back(value);
                        filled.notify_one();
                    }
                });
                s.spawn(|| {
                    for _ in 0..ROUNDS {
                        let mut queue = filled.wait_while(queue.lock().unwrap(), |queue| queue.is_empty()).unwrap();
                        sum.fetch_add(queue.pop_front().unwrap(), Ordering::Relaxed);
                        room.notify_one();
                    }
                });
            }
        });
        assert_eq!(sum.load(Ordering::Relaxed), 4 * (ROUNDS * (ROUNDS - 1) / 2));
    });
}

#[test]
fn notify_all_lets_everybody_go_on() {
    on_1_2_4(|| {
        let (state, changed) = (Mutex::new((0, false)), Condvar::new());
        thread::scope(|s| {
            for _ in 0..50 {
                s.spawn(|| {
                    let mut guard = state.lock().unwrap();
                    guard.0 += 1;
                    while !guard.1 {
                        guard = changed.wait(guard).unwrap();
                    }
                    guard.0 -= 1;
                });
            }
            until(|| state.lock().unwrap().0 == 50);
            state.lock().unwrap().1 = true;
            changed.notify_all();
        });
        assert_eq!(state.lock().unwrap().0, 0);
    });
}

#[test]
fn notify_one_lets_one_go_on_and_without_waiters_none_later() {
    on_1_2_4(|| {
        let (state, changed) = (Mutex::new((0, 0)), Condvar::new());
        changed.notify_one();
        thread::scope(|s| {
            for _ in 0..2 {
                s.spawn(|| {
                    let mut guard = state.lock().unwrap();
                    guard.0 += 1;
                    guard = changed.wait(guard).unwrap();
                    guard.1 += 1;
                });
            }
            until(|| state.lock().unwrap().0 == 2);
            assert_eq!(state.lock().unwrap().1, 0, "the notification before was for nobody");
            changed.notify_one();
            until(|| state.lock().unwrap().1 == 1);
            changed.notify_one();
        });
        assert_eq!(state.lock().unwrap().1, 2);
    });
}

#[test]
fn a_timed_wait_has_the_lock_again_and_says_why() {
    on_1_2_4(|| {
        let (data, changed) = (Mutex::new(1), Condvar::new());
        let (mut guard, result) = changed.wait_timeout(data.lock().unwrap(), Duration::from_millis(1)).unwrap();
        assert!(result.timed_out());
        *guard = 2;
        assert!(data.try_lock().is_err(), "the lock is held again");
        let (guard, result) = changed.wait_timeout_while(guard, Duration::from_millis(1), |data| *data == 2).unwrap();
        assert!(result.timed_out());
        let (_guard, result) = changed.wait_timeout_while(guard, Duration::ZERO, |data| *data == 1).unwrap();
        assert!(!result.timed_out(), "the condition did not hold");
        drop(_guard);
        let guard = data.lock().unwrap();
        let (guard, result) = changed.wait_while_until(guard, Some(soon()), |data| *data == 2).unwrap();
        assert!(result.timed_out());
        let (_guard, result) = changed.wait_while_until(guard, None, |data| *data == 1).unwrap();
        assert!(!result.timed_out());
    });
}

#[test]
fn who_was_notified_in_time_does_not_say_that_it_timed_out() {
    on_1_2_4(|| {
        let mut patience = Duration::from_millis(20);
        // Until a notification came in time: then the deadline passes while the waiter stands in line for the lock.
        loop {
            let (waits, changed) = (Mutex::new(None), Condvar::new());
            let (in_time, timed_out) = thread::scope(|s| {
                let waiter = s.spawn(|| {
                    let mut guard = waits.lock().unwrap();
                    let deadline = Instant::now() + patience;
                    *guard = Some(deadline);
                    let (_guard, result) = changed.wait_until(guard, Some(deadline)).unwrap();
                    result.timed_out()
                });
                until(|| waits.lock().unwrap().is_some());
                let guard = waits.lock().unwrap();
                let deadline = guard.expect("the waiter has set it");
                changed.notify_one();
                let in_time = Instant::now() < deadline;
                thread::sleep_until(deadline + Duration::from_millis(1));
                drop(guard);
                (in_time, waiter.join().unwrap())
            });
            if in_time {
                assert!(!timed_out, "it used a notification up, and says that it got none");
                break;
            }
            patience *= 2;
        }
    });
}

#[test]
fn a_cancelled_waiter_goes_without_the_lock() {
    on_1_2_4(|| {
        let shared = Arc::new((Mutex::new(0), Condvar::new()));
        let waiter = thread::spawn({
            let shared = Arc::clone(&shared);
            move || {
                let mut guard = shared.0.lock().unwrap();
                *guard = 1;
                loop {
                    guard = shared.1.wait(guard).unwrap();
                }
            }
        });
        until(|| *shared.0.lock().unwrap() == 1);
        waiter.cancel().unwrap();
        assert!(waiter.join().unwrap_err().is::<Cancelled>());
        assert_eq!(*shared.0.lock().unwrap(), 1);
        shared.1.notify_all();
    });
}

#[test]
fn one_cancelled_before_it_waits_gives_the_lock_back() {
    on_1_2_4(|| {
        let shared = Arc::new((Mutex::new(0), Condvar::new(), AtomicUsize::new(0)));
        let waiter = thread::spawn({
            let shared = Arc::clone(&shared);
            move || {
                let guard = shared.0.lock().unwrap();
                shared.2.store(1, Ordering::Relaxed);
                // No wait in here, so the cancel is met at the condition variable's door.
                while shared.2.load(Ordering::Relaxed) == 1 {
                    thread::yield_now();
                }
                let _guard = shared.1.wait(guard).unwrap();
            }
        });
        until(|| shared.2.load(Ordering::Relaxed) == 1);
        waiter.cancel().unwrap();
        shared.2.store(2, Ordering::Relaxed);
        assert!(waiter.join().unwrap_err().is::<Cancelled>());
        assert_eq!(*shared.0.lock().unwrap(), 0, "neither held nor poisoned");
    });
}

#[test]
fn the_cancel_of_one_waiter_loses_nobody_elses_notification() {
    on_1_2_4(|| {
        for _ in 0..ROUNDS / 30 {
            let shared = Arc::new((Mutex::new((0, 0)), Condvar::new()));
            let waits = |shared: &Arc<(Mutex<(u32, u32)>, Condvar)>| {
                let shared = Arc::clone(shared);
                thread::spawn(move || {
                    let mut guard = shared.0.lock().unwrap();
                    guard.0 += 1;
                    while guard.1 == 0 {
                        guard = shared.1.wait(guard).unwrap();
                    }
                })
            };
            let (cancelled, other) = (waits(&shared), waits(&shared));
            until(|| shared.0.lock().unwrap().0 == 2);
            let mut guard = shared.0.lock().unwrap();
            guard.1 = 1;
            shared.1.notify_all();
            cancelled.cancel().unwrap();
            drop(guard);
            other.join().unwrap();
            let _either = cancelled.join();
            assert!(!shared.0.is_poisoned());
        }
    });
}

#[test]
fn operating_system_threads_and_virtual_processors_notify_each_other() {
    static TURN: Mutex<usize> = Mutex::new(0);
    static CHANGED: Condvar = Condvar::new();
    let play = |me| {
        for _ in 0..ROUNDS {
            let mut turn = CHANGED.wait_while(TURN.lock().unwrap(), |turn| *turn % 2 != me).unwrap();
            *turn += 1;
            CHANGED.notify_all();
        }
    };
    let runtime = runtime(1);
    std::thread::scope(|s| {
        s.spawn(|| runtime.run(|| play(1)).unwrap());
        play(0);
    });
    assert_eq!(*TURN.lock().unwrap(), 2 * ROUNDS);
}
