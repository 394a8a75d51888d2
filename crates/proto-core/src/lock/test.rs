//! The lock without a language around it. Fairness, cancels and conditions are tested with the languages that use it, too.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::{Absentees, RawLock, RawRwLock};
use crate::ended::{Ended, OrUnwind};
use crate::env::EnvCell;
use crate::guarded::{Guard, Guarded, Opened, OpenedShared, PanicMark};

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

/// Here the straight way declines, and the general one finds out who had held it.
#[test]
fn who_did_not_take_it_may_give_it_back() {
    let held_by_me = || {
        let block = crate::ctx::get().current().expect("an attached thread runs a timeline");
        block.held.load(Ordering::Relaxed)
    };
    let (lock, given) = (RawLock::new(), AtomicBool::new(false));
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::scope(|s| {
        s.spawn(|| {
            let taken = lock.lock();
            assert_eq!(held_by_me(), 1);
            sender.send(taken.grant).unwrap();
            while !given.load(Ordering::Acquire) {
                std::thread::yield_now();
            }
            assert_eq!(held_by_me(), 0, "it is told that it does not hold the lock any more");
        });
        let grant = receiver.recv().unwrap();
        assert!(lock.try_take().or_unwind().is_none());
        lock.give(grant, PanicMark::now());
        given.store(true, Ordering::Release);
        lock.give(lock.lock().grant, PanicMark::now());
        assert_eq!(held_by_me(), 0);
    });
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

type Reader<'a> = Guard<'a, RawRwLock, OpenedShared<'a, u32>, &'a Guarded<u32>>;
type Writer<'a> = Guard<'a, RawRwLock, Opened<'a, u32>, &'a Guarded<u32>>;

#[test]
fn readers_are_inside_together_and_a_writer_alone() {
    let (lock, data) = (RawRwLock::new(), Guarded::new(1));
    let one = Reader::open(&lock, &data, lock.read(None).or_unwind().grant);
    let two = Reader::open(&lock, &data, lock.try_read().or_unwind().expect("nobody writes").grant);
    assert_eq!(*one + *two, 2);
    assert!(lock.try_write().or_unwind().is_none());
    assert!(matches!(lock.write(soon()), Err(Ended::Deadline)));
    drop((one, two));
    let writer = Writer::open(&lock, &data, lock.write(None).or_unwind().grant);
    assert!(lock.try_read().or_unwind().is_none());
    assert!(matches!(lock.read(soon()), Err(Ended::Deadline)));
    let reader = Writer::downgrade(writer);
    assert!(lock.try_read().or_unwind().is_some_and(|held| {
        drop(Reader::open(&lock, &data, held.grant));
        true
    }));
    drop(reader);
    assert!(lock.try_write().or_unwind().is_some());
}

#[test]
fn readers_behind_a_writer_that_gives_up_go_in() {
    // The reader has to find the writer there: with more time for it on a machine that is too slow.
    let mut time = Duration::from_millis(50);
    loop {
        let (lock, data) = (RawRwLock::new(), Guarded::new(1));
        let first = Reader::open(&lock, &data, lock.read(None).or_unwind().grant);
        let in_time = std::thread::scope(|s| {
            let writer = s.spawn(|| lock.write(Some(Instant::now() + time)).map(|held| held.poisoned));
            // Who comes while a writer waits queues behind it.
            let waits =
                || lock.try_read().or_unwind().map(|held| drop(Reader::open(&lock, &data, held.grant))).is_none();
            while !waits() && !writer.is_finished() {
                std::thread::yield_now();
            }
            let reader = s.spawn(|| drop(Reader::open(&lock, &data, lock.read(None).or_unwind().grant)));
            let in_time = waits();
            assert!(writer.join().expect("it only waits").is_err(), "the first reader is still inside");
            reader.join().expect("nobody is in its way any more");
            in_time
        });
        drop(first);
        if in_time {
            break;
        }
        time *= 2;
    }
}

#[test]
fn a_writer_that_panics_poisons_and_a_reader_does_not() {
    let (mut lock, data) = (RawRwLock::new(), Guarded::new(1));
    let panic_with = |guard: &dyn Fn()| {
        assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(guard)).is_err());
    };
    panic_with(&|| {
        let _reader = Reader::open(&lock, &data, lock.read(None).or_unwind().grant);
        panic!("with a share");
    });
    assert!(!lock.is_poisoned());
    panic_with(&|| {
        let _writer = Writer::open(&lock, &data, lock.write(None).or_unwind().grant);
        panic!("with the lock");
    });
    assert!(lock.is_poisoned() && lock.get_poisoned());
    lock.set_poisoned(false);
    assert!(!lock.is_poisoned());
}
