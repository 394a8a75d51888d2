//! `Mutex` and its guards.

mod common;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use common::{ROUNDS, much_later, on_1_2_4, runtime, soon, until};
use proto_core::Cancelled;
use proto_lang_mutex::sync::atomic::{AtomicUsize, Ordering};
use proto_lang_mutex::sync::{Arc, MappedMutexGuard, Mutex, MutexGuard, TryLockError};
use proto_lang_mutex::thread;

#[test]
fn excludes() {
    on_1_2_4(|| {
        let count = Mutex::new(0);
        thread::scope(|s| {
            for vp in 0..16 {
                let count = &count;
                s.spawn(move || {
                    for round in 0..ROUNDS {
                        let mut guard = count.lock().unwrap();
                        let seen = *guard;
                        if (round + vp) % 16 == 0 {
                            thread::yield_now();
                        }
                        *guard = seen + 1;
                    }
                });
            }
        });
        assert_eq!(*count.lock().unwrap(), 16 * ROUNDS, "an update was lost inside the lock");
    });
}

#[test]
fn excludes_virtual_processors_from_operating_system_threads() {
    static COUNT: Mutex<usize> = Mutex::new(0);
    let add = || {
        for round in 0..ROUNDS {
            let mut guard = COUNT.lock().unwrap();
            let seen = *guard;
            if round % 8 == 0 {
                std::thread::yield_now();
            }
            *guard = seen + 1;
        }
    };
    let runtime = runtime(2);
    std::thread::scope(|s| {
        s.spawn(add);
        s.spawn(add);
        s.spawn(|| {
            runtime
                .run(|| {
                    thread::scope(|s| {
                        for _ in 0..6 {
                            s.spawn(add);
                        }
                    });
                })
                .unwrap();
        });
    });
    assert_eq!(*COUNT.lock().unwrap(), 8 * ROUNDS);
}

#[test]
fn a_waiter_is_not_starved_by_a_barging_pair() {
    on_1_2_4(|| {
        let (lock, stop) = (Mutex::new(()), AtomicUsize::new(0));
        thread::scope(|s| {
            for _ in 0..2 {
                s.spawn(|| {
                    while stop.load(Ordering::Relaxed) == 0 {
                        let held = lock.lock().unwrap();
                        thread::yield_now();
                        drop(held);
                    }
                });
            }
            for _ in 0..20 {
                drop(lock.lock().unwrap());
            }
            stop.store(1, Ordering::Relaxed);
        });
    });
}

#[test]
fn every_waiter_of_a_crowd_gets_its_turn() {
    on_1_2_4(|| {
        let lock = Mutex::new(0);
        let held = lock.lock().unwrap();
        thread::scope(|s| {
            for _ in 0..500 {
                s.spawn(|| *lock.lock().unwrap() += 1);
            }
            thread::yield_now();
            drop(held);
        });
        assert_eq!(*lock.lock().unwrap(), 500);
    });
}

#[test]
fn try_lock_takes_a_free_lock_only() {
    on_1_2_4(|| {
        let lock = Mutex::new(1);
        let guard = lock.try_lock().unwrap();
        thread::scope(|s| {
            s.spawn(|| assert!(matches!(lock.try_lock(), Err(TryLockError::WouldBlock))));
        });
        drop(guard);
        assert_eq!(*lock.try_lock().unwrap(), 1);
    });
}

#[test]
fn a_timed_lock_gives_up_and_leaves_the_queue() {
    on_1_2_4(|| {
        let lock = Mutex::new(1);
        let guard = lock.lock().unwrap();
        thread::scope(|s| {
            let given_up = s.spawn(|| lock.try_lock_for(Duration::from_millis(2)).is_err());
            assert!(given_up.join().unwrap(), "the lock was held all the time");
            assert!(s.spawn(|| lock.try_lock_until(soon()).is_err()).join().unwrap());
        });
        drop(guard);
        // Were the dead waiter still in line, it would get the lock.
        assert_eq!(*lock.lock().unwrap(), 1);
        assert_eq!(*lock.try_lock_for(Duration::from_secs(60)).unwrap(), 1);
        assert_eq!(*lock.try_lock_until(much_later()).unwrap(), 1);
    });
}

#[test]
fn timed_waiters_neither_lose_the_lock_nor_keep_it() {
    on_1_2_4(|| {
        let (lock, taken) = (Mutex::new(0), AtomicUsize::new(0));
        thread::scope(|s| {
            for vp in 0..8 {
                let (lock, taken) = (&lock, &taken);
                s.spawn(move || {
                    for round in 0..ROUNDS / 10 {
                        let micros = ((vp + round) % 4 * 10) as u64;
                        if let Ok(mut guard) = lock.try_lock_for(Duration::from_micros(micros)) {
                            *guard += 1;
                            taken.fetch_add(1, Ordering::Relaxed);
                            thread::yield_now();
                        }
                    }
                });
            }
        });
        assert_eq!(*lock.lock().unwrap(), taken.load(Ordering::Relaxed));
    });
}

#[test]
fn a_panic_poisons_and_the_data_can_be_had_all_the_same() {
    on_1_2_4(|| {
        let lock = Arc::new(Mutex::new(1));
        let other = Arc::clone(&lock);
        let panicked = thread::spawn(move || {
            let mut guard = other.lock().unwrap();
            *guard = 2;
            panic!("with the lock");
        });
        assert_eq!(common::text(&*panicked.join().unwrap_err()), "with the lock");
        assert!(lock.is_poisoned());
        assert_eq!(*lock.lock().unwrap_err().into_inner(), 2);
        assert!(matches!(lock.try_lock(), Err(TryLockError::Poisoned(_))));
        assert_eq!(format!("{lock:?}"), "Mutex { data: 2, poisoned: true, .. }");
        lock.clear_poison();
        assert_eq!(*lock.lock().unwrap(), 2);
        assert_eq!(Arc::try_unwrap(lock).unwrap().into_inner().unwrap(), 2);
    });
}

#[test]
fn a_lock_taken_and_given_back_while_unwinding_is_not_poisoned() {
    struct LocksInDrop<'a>(&'a Mutex<u32>);
    impl Drop for LocksInDrop<'_> {
        fn drop(&mut self) {
            *self.0.lock().unwrap() += 1;
        }
    }
    on_1_2_4(|| {
        let lock = Mutex::new(0);
        let unwound = catch_unwind(AssertUnwindSafe(|| {
            let _locks = LocksInDrop(&lock);
            panic!("unwinds through the guard");
        }));
        assert!(unwound.is_err());
        assert_eq!(*lock.lock().unwrap(), 1, "it was locked before the panic was over, and is sound");
    });
}

#[test]
fn a_cancelled_waiter_leaves_the_queue_and_poisons_nothing() {
    on_1_2_4(|| {
        let (lock, waits) = (Arc::new(Mutex::new(0)), Arc::new(AtomicUsize::new(0)));
        let held = lock.lock().unwrap();
        let waiters: Vec<_> = (0..4)
            .map(|_| {
                let (lock, waits) = (Arc::clone(&lock), Arc::clone(&waits));
                thread::spawn(move || {
                    waits.fetch_add(1, Ordering::Relaxed);
                    *lock.lock().unwrap() += 1;
                })
            })
            .collect();
        until(|| waits.load(Ordering::Relaxed) == 4);
        for waiter in &waiters {
            waiter.cancel().unwrap();
        }
        for waiter in waiters {
            assert!(waiter.join().unwrap_err().is::<Cancelled>());
        }
        drop(held);
        assert_eq!(*lock.lock().unwrap(), 0);
    });
}

#[test]
fn a_panic_right_after_a_swallowed_cancel_poisons() {
    on_1_2_4(|| {
        let (lock, held) = (Arc::new(Mutex::new(0)), Arc::new(AtomicUsize::new(0)));
        let holder = thread::spawn({
            let (lock, held) = (Arc::clone(&lock), Arc::clone(&held));
            move || {
                let _guard = lock.lock().unwrap();
                held.store(1, Ordering::Relaxed);
                let parked = catch_unwind(|| {
                    loop {
                        thread::park();
                    }
                });
                assert!(parked.unwrap_err().is::<Cancelled>());
                std::panic::resume_unwind(Box::new("its own"));
            }
        });
        until(|| held.load(Ordering::Relaxed) == 1);
        holder.cancel().unwrap();
        assert_eq!(holder.join().unwrap_err().downcast_ref(), Some(&"its own"));
        assert!(lock.is_poisoned(), "it was a panic that left the data as they are");
    });
}

#[test]
fn a_cancelled_holder_gives_the_lock_back_and_poisons_nothing() {
    on_1_2_4(|| {
        let (lock, held) = (Arc::new(Mutex::new(0)), Arc::new(AtomicUsize::new(0)));
        let holder = thread::spawn({
            let (lock, held) = (Arc::clone(&lock), Arc::clone(&held));
            move || {
                let _guard = lock.lock().unwrap();
                held.store(1, Ordering::Relaxed);
                loop {
                    thread::park();
                }
            }
        });
        until(|| held.load(Ordering::Relaxed) == 1);
        holder.cancel().unwrap();
        assert!(holder.join().unwrap_err().is::<Cancelled>());
        assert_eq!(*lock.lock().unwrap(), 0, "a cancel is no panic");
    });
}

#[test]
fn waiters_cancelled_at_random_moments_lose_no_wake_up() {
    on_1_2_4(|| {
        for _ in 0..ROUNDS / 30 {
            let lock = Arc::new(Mutex::new(0));
            let vps: Vec<_> = (0..8)
                .map(|_| {
                    let lock = Arc::clone(&lock);
                    thread::spawn(move || {
                        for _ in 0..10 {
                            let _guard = lock.lock().unwrap();
                            thread::yield_now();
                        }
                    })
                })
                .collect();
            thread::yield_now();
            for vp in vps.iter().step_by(2) {
                vp.cancel().unwrap();
            }
            for (index, vp) in vps.into_iter().enumerate() {
                let ended = vp.join();
                assert!(index % 2 == 0 || ended.is_ok(), "one that nobody cancelled");
            }
            assert!(!lock.is_poisoned());
        }
    });
}

#[test]
fn a_mapped_guard_unlocks_and_poisons_as_the_whole_one() {
    on_1_2_4(|| {
        let lock = Mutex::new((1, [2, 3]));
        let mapped = MutexGuard::map(lock.lock().unwrap(), |data| &mut data.1);
        let mut deeper = MappedMutexGuard::map(mapped, |data| &mut data[0]);
        assert!(lock.try_lock().is_err());
        *deeper = 7;
        drop(deeper);
        assert_eq!(lock.lock().unwrap().1, [7, 3]);
        let unwound = catch_unwind(AssertUnwindSafe(|| {
            let _part = MutexGuard::map(lock.lock().unwrap(), |_| -> &mut u32 { panic!("in the user's closure") });
        }));
        assert!(unwound.is_err());
        assert!(matches!(lock.try_lock(), Err(TryLockError::Poisoned(_))), "unlocked, and poisoned");
    });
}

#[test]
fn data_without_a_size_can_be_locked() {
    let lock: Box<Mutex<[u32]>> = Box::new(Mutex::new([1, 2, 3]));
    lock.lock().unwrap()[1] = 5;
    assert_eq!(*lock.lock().unwrap(), [1, 5, 3]);
    let mut lock: Box<Mutex<dyn std::fmt::Debug + Send>> = Box::new(Mutex::new("text"));
    assert_eq!(format!("{:?}", lock.get_mut().unwrap()), "\"text\"");
}
