//! The lock without a language around it. Fairness, cancels and conditions are tested with the languages that use it, too.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::{Absentees, RawLock};
use crate::ended::{Ended, OrUnwind};
use crate::env::EnvCell;
use crate::guarded::{Guard, Guarded, Opened, PanicMark};

fn soon() -> Option<Instant> {
    Some(Instant::now() + Duration::from_millis(1))
}

#[test]
fn one_holds_it_at_a_time() {
    let (lock, data) = (RawLock::new(), Guarded::new(0));
    let rounds = if cfg!(miri) { 20 } else { 2_000 };
    std::thread::scope(|s| {
        for _ in 0..4 {
            s.spawn(|| {
                for _ in 0..rounds {
                    let grant = lock.lock().grant;
                    *Guard::<_, Opened<'_, _>, _>::open(&lock, &data, grant) += 1;
                }
            });
        }
    });
    assert_eq!(data.into_inner(), 4 * rounds);
}

#[test]
fn a_held_lock_is_neither_tried_nor_had_in_time() {
    let lock = RawLock::new();
    let held = lock.take(None).or_unwind();
    assert!(lock.try_take().or_unwind().is_none());
    assert!(matches!(lock.take(soon()), Err(Ended::Deadline)));
    lock.give(held.grant, PanicMark::now());
    let held = lock.take_binding().or_unwind();
    assert!(!held.poisoned);
    lock.give(held.grant, PanicMark::now());
}

#[test]
fn a_panic_poisons_until_it_is_declared_sound() {
    let (mut lock, data) = (RawLock::new(), Guarded::new(0));
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let _guard = Guard::<_, Opened<'_, _>, _>::open(&lock, &data, lock.lock().grant);
        panic!("with the lock");
    }));
    assert!(outcome.is_err());
    assert!(lock.is_poisoned() && lock.get_poisoned());
    let held = lock.lock();
    assert!(held.poisoned);
    lock.give(held.grant, PanicMark::now());
    lock.set_poisoned(false);
    assert!(!lock.is_poisoned());
}

#[test]
fn who_is_called_back_has_the_lock_again() {
    let (lock, absent) = (RawLock::new(), EnvCell::new(Absentees::new()));
    let called = AtomicBool::new(false);
    std::thread::scope(|s| {
        let held = lock.lock();
        s.spawn(|| {
            let held = lock.lock();
            assert_eq!(absent.update(|absent, _, hidden| absent.call_back(hidden)), Some(true));
            called.store(true, Ordering::Relaxed);
            lock.give(held.grant, PanicMark::now());
        });
        let (held, late) = lock.wait_in(held.grant, PanicMark::now(), &absent, |absent| absent, None).or_unwind();
        assert!(called.load(Ordering::Relaxed) && !late);
        assert!(lock.try_take().or_unwind().is_none(), "it is held again");
        lock.give(held.grant, PanicMark::now());
    });
}

#[test]
fn who_is_not_called_back_in_time_has_the_lock_all_the_same() {
    let (lock, absent) = (RawLock::new(), EnvCell::new(Absentees::new()));
    let held = lock.lock();
    let (held, late) = lock.wait_in(held.grant, PanicMark::now(), &absent, |absent| absent, soon()).or_unwind();
    assert!(late);
    assert_eq!(absent.update(|absent, _, hidden| absent.call_back(hidden)), Some(false), "it does not wait any more");
    lock.give(held.grant, PanicMark::now());
}
