//! `Once`, `OnceLock`, `LazyLock`.

mod common;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use common::{cancelled_in_a_wait, is_cancelled, much_later, on_1_2_4, soon, text, until, until_waits};
use proto_core::Cancelled;
use proto_lang_mutex::sync::atomic::{AtomicUsize, Ordering};
use proto_lang_mutex::sync::{Arc, LazyLock, Mutex, Once, OnceLock};
use proto_lang_mutex::thread;

#[test]
fn it_is_done_once_and_everybody_waits_until_it_is() {
    on_1_2_4(|| {
        let (once, times) = (Once::new(), AtomicUsize::new(0));
        thread::scope(|s| {
            for _ in 0..10 {
                s.spawn(|| {
                    once.call_once(|| {
                        thread::yield_now();
                        times.fetch_add(1, Ordering::Relaxed);
                    });
                    assert_eq!(times.load(Ordering::Relaxed), 1);
                });
            }
            s.spawn(|| {
                once.wait();
                assert!(once.is_completed());
            });
        });
    });
}

#[test]
fn a_panic_poisons_a_once_until_somebody_forces_it() {
    on_1_2_4(|| {
        let once = Once::new();
        let panics = || catch_unwind(AssertUnwindSafe(|| once.call_once(|| panic!("the first"))));
        assert!(panics().is_err());
        let second = catch_unwind(AssertUnwindSafe(|| once.call_once(|| {})));
        assert!(second.is_err(), "it is poisoned");
        assert!(catch_unwind(AssertUnwindSafe(|| once.wait())).is_err());
        assert!(!once.wait_timeout(Duration::from_millis(1)) && !once.wait_until(soon()));
        thread::scope(|s| {
            let waits = s.spawn(|| once.wait_force());
            until_waits(waits.thread());
            once.call_once_force(|state| assert!(state.is_poisoned()));
            waits.join().unwrap();
        });
        once.call_once(|| panic!("it has been done"));
        once.wait();
        assert!(once.wait_until(much_later()));
    });
}

#[test]
fn one_cancelled_while_it_does_it_leaves_it_to_the_next() {
    on_1_2_4(|| {
        let (once, begun) = (Arc::new(Once::new()), Arc::new(AtomicUsize::new(0)));
        let cancelled = thread::spawn({
            let (once, begun) = (Arc::clone(&once), Arc::clone(&begun));
            move || {
                once.call_once(|| {
                    begun.store(1, Ordering::Relaxed);
                    loop {
                        thread::park();
                    }
                });
            }
        });
        until(|| begun.load(Ordering::Relaxed) == 1);
        let next = thread::spawn({
            let once = Arc::clone(&once);
            move || once.call_once(|| {})
        });
        cancelled.cancel().unwrap();
        assert!(cancelled.join().unwrap_err().is::<Cancelled>());
        next.join().unwrap();
        assert!(once.is_completed());
    });
}

#[test]
fn a_once_lock_has_one_value() {
    on_1_2_4(|| {
        let lock = OnceLock::new();
        let values = thread::scope(|s| {
            let asks: Vec<_> = (0..8)
                .map(|vp| {
                    let lock = &lock;
                    s.spawn(move || {
                        *lock.get_or_init(|| {
                            thread::yield_now();
                            vp
                        })
                    })
                })
                .collect();
            asks.into_iter().map(|ask| ask.join().unwrap()).collect::<Vec<_>>()
        });
        assert!(values.iter().all(|value| Some(value) == lock.get()));
        assert_eq!(lock.set(99), Err(99));
        assert_eq!(lock.clone(), lock);
        let mut lock = lock;
        lock.take();
        assert_eq!(lock.set(5), Ok(()));
        assert_eq!(lock.into_inner(), Some(5));
    });
}

#[test]
fn a_once_lock_whose_maker_panicked_can_be_set() {
    let lock = OnceLock::new();
    assert!(catch_unwind(AssertUnwindSafe(|| lock.get_or_init(|| panic!("no value")))).is_err());
    assert_eq!(lock.get(), None);
    assert_eq!(*lock.get_or_init(|| 3), 3);
}

#[test]
fn a_once_lock_can_be_waited_for() {
    on_1_2_4(|| {
        let lock = OnceLock::new();
        assert_eq!((lock.wait_timeout(Duration::from_millis(1)), lock.wait_until(soon())), (None, None));
        thread::scope(|s| {
            let waits = s.spawn(|| *lock.wait());
            until_waits(waits.thread());
            lock.set(4).unwrap();
            assert_eq!(waits.join().unwrap(), 4);
        });
        assert_eq!(lock.wait_until(much_later()), Some(&4));
    });
}

#[test]
fn who_does_not_wait_for_the_one_that_makes_it_comes_away_without() {
    on_1_2_4(|| {
        let (lock, once) = (OnceLock::new(), Once::new());
        let never = || -> u32 { unreachable!("another is at it") };
        thread::scope(|s| {
            let makes = s.spawn(|| {
                once.call_once(|| {
                    lock.get_or_init(|| {
                        thread::park();
                        3
                    });
                });
            });
            until_waits(makes.thread());
            assert_eq!(lock.try_get_or_init(never), None);
            assert_eq!(lock.get_or_init_timeout(Duration::from_millis(1), never), None);
            assert!(!once.try_call_once(|| unreachable!("another is at it")));
            assert!(!once.call_once_timeout(Duration::from_millis(1), || unreachable!("another is at it")));
            let waits = s.spawn(|| lock.get_or_init_timeout(Duration::from_secs(600), never));
            until_waits(waits.thread());
            makes.thread().unpark();
            assert_eq!(waits.join().unwrap(), Some(&3));
            makes.join().unwrap();
        });
        assert_eq!(lock.try_get_or_init(never), Some(&3));
        assert!(once.try_call_once(|| unreachable!("it is done")));
    });
}

#[test]
fn who_waits_for_it_can_be_cancelled() {
    on_1_2_4(|| {
        let (once, lock) = (Arc::new(Once::new()), Arc::new(OnceLock::new()));
        let makes = thread::spawn({
            let (once, lock) = (Arc::clone(&once), Arc::clone(&lock));
            move || once.call_once(|| _ = lock.get_or_init(|| thread::park()))
        });
        until_waits(makes.thread());
        for wait in [Once::wait, Once::wait_force, |once: &Once| once.call_once(|| {})] {
            let once = Arc::clone(&once);
            cancelled_in_a_wait(move || wait(&once));
        }
        for wait in [|lock: &OnceLock<()>| *lock.wait(), |lock: &OnceLock<()>| *lock.get_or_init(|| {})] {
            let lock = Arc::clone(&lock);
            cancelled_in_a_wait(move || wait(&lock));
        }
        assert!(!once.is_completed() && lock.get().is_none());
        is_cancelled(makes);
        once.call_once(|| lock.set(()).unwrap());
    });
}

#[test]
fn a_lazy_value_is_made_once_when_first_used() {
    static MADE: AtomicUsize = AtomicUsize::new(0);
    static LAZY: LazyLock<Mutex<u32>> = LazyLock::new(|| {
        MADE.fetch_add(1, Ordering::Relaxed);
        thread::yield_now();
        Mutex::new(0)
    });
    assert_eq!(format!("{LAZY:?}"), "LazyLock(<not made>)");
    on_1_2_4(|| {
        thread::scope(|s| {
            for _ in 0..8 {
                s.spawn(|| *LAZY.lock().unwrap() += 1);
            }
        });
    });
    assert_eq!((*LAZY.lock().unwrap(), MADE.load(Ordering::Relaxed)), (24, 1));
}

#[test]
fn a_lazy_value_whose_maker_panicked_stays_poisoned() {
    let lazy: LazyLock<u32> = LazyLock::new(|| panic!("no value"));
    let looks = || text(&*catch_unwind(AssertUnwindSafe(|| *lazy)).unwrap_err()).to_owned();
    assert_eq!(looks(), "no value");
    for _ in 0..2 {
        assert_eq!(looks(), "LazyLock instance has previously been poisoned");
    }
}

#[test]
fn a_cancel_waits_until_a_lazy_value_is_made() {
    on_1_2_4(|| {
        let begun = Arc::new(AtomicUsize::new(0));
        let lazy = Arc::new(LazyLock::new({
            let begun = Arc::clone(&begun);
            move || {
                begun.store(1, Ordering::Relaxed);
                thread::park();
                thread::scope(|s| s.spawn(thread::yield_now).join().unwrap());
                7
            }
        }));
        let makes = thread::spawn({
            let lazy = Arc::clone(&lazy);
            move || {
                assert_eq!(**lazy, 7);
                loop {
                    thread::park();
                }
            }
        });
        until(|| begun.load(Ordering::Relaxed) == 1);
        let waits = thread::spawn({
            let lazy = Arc::clone(&lazy);
            move || **lazy
        });
        makes.cancel().unwrap();
        assert_eq!(LazyLock::try_force(&lazy), None, "it is being made");
        assert_eq!(LazyLock::force_timeout(&lazy, Duration::from_millis(1)), None);
        makes.thread().unpark();
        assert_eq!(waits.join().unwrap(), 7);
        assert!(makes.join().unwrap_err().is::<Cancelled>(), "once the value is made");
        assert_eq!(LazyLock::try_force(&lazy), Some(&7));
    });
}

#[test]
fn a_maker_that_passes_a_cancel_on_poisons_as_one_that_panics() {
    on_1_2_4(|| {
        let lazy: LazyLock<u32> = LazyLock::new(|| {
            let cancelled = thread::spawn(|| {
                loop {
                    thread::park()
                }
            });
            cancelled.cancel().unwrap();
            proto_core::resume_unwind(cancelled.join().unwrap_err())
        });
        assert!(catch_unwind(AssertUnwindSafe(|| *lazy)).is_err());
        let said = catch_unwind(AssertUnwindSafe(|| *lazy)).unwrap_err();
        assert_eq!(text(&*said), "LazyLock instance has previously been poisoned");
    });
}
