//! `RwLock` and its guards.

mod common;

use std::time::Duration;

use common::{ROUNDS, cancelled_in_a_wait, much_later, on_1_2_4, soon, until, until_waits};
use proto_core::Cancelled;
use proto_lang_mutex::sync::atomic::{AtomicUsize, Ordering};
use proto_lang_mutex::sync::{Arc, Barrier, RwLock, RwLockReadGuard, RwLockWriteGuard};
use proto_lang_mutex::thread;

#[test]
fn readers_are_inside_together() {
    on_1_2_4(|| {
        let (lock, all_inside) = (RwLock::new(7), Barrier::new(5));
        thread::scope(|s| {
            for _ in 0..5 {
                s.spawn(|| {
                    let guard = lock.read().unwrap();
                    all_inside.wait();
                    assert_eq!(*guard, 7);
                });
            }
        });
    });
}

#[test]
fn a_writer_is_alone() {
    on_1_2_4(|| {
        let lock = RwLock::new((0, 0));
        thread::scope(|s| {
            for _ in 0..4 {
                s.spawn(|| {
                    for _ in 0..ROUNDS {
                        let mut pair = lock.write().unwrap();
                        pair.0 += 1;
                        thread::yield_now();
                        pair.1 += 1;
                    }
                });
                s.spawn(|| {
                    for _ in 0..ROUNDS {
                        let pair = lock.read().unwrap();
                        assert_eq!(pair.0, pair.1, "a reader saw half a write");
                        thread::yield_now();
                    }
                });
            }
        });
        assert_eq!(lock.into_inner().unwrap(), (4 * ROUNDS, 4 * ROUNDS));
    });
}

#[test]
fn a_reader_that_comes_after_a_waiting_writer_lets_it_go_first() {
    on_1_2_4(|| {
        let (lock, wants) = (RwLock::new(0), AtomicUsize::new(0));
        thread::scope(|s| {
            let reader = lock.read().unwrap();
            s.spawn(|| {
                wants.store(1, Ordering::Relaxed);
                *lock.write().unwrap() = 1;
            });
            until(|| wants.load(Ordering::Relaxed) == 1 && lock.try_read().is_err());
            let late = s.spawn(|| *lock.read().unwrap());
            drop(reader);
            assert_eq!(late.join().unwrap(), 1, "the reader came before the writer");
        });
    });
}

#[test]
fn readers_behind_a_writer_that_gives_up_go_in() {
    on_1_2_4(|| {
        let lock = RwLock::new(0);
        let inside = lock.read().unwrap();
        thread::scope(|s| {
            let writer = s.spawn(|| lock.try_write_for(Duration::from_millis(50)).is_err());
            until(|| writer.is_finished() || lock.try_read().is_err());
            // Behind the writer, unless it took more than its time to find that out. It must come in while `inside` is held.
            let reader = s.spawn(|| *lock.read().unwrap());
            assert!(writer.join().unwrap());
            assert_eq!(reader.join().unwrap(), 0);
        });
        drop(inside);
    });
}

#[test]
fn readers_behind_a_cancelled_writer_go_in() {
    on_1_2_4(|| {
        let lock = Arc::new(RwLock::new(0));
        let inside = lock.read().unwrap();
        let writer = thread::spawn({
            let lock = Arc::clone(&lock);
            move || *lock.write().unwrap() = 1
        });
        until(|| lock.try_read().is_err());
        let reader = thread::spawn({
            let lock = Arc::clone(&lock);
            move || *lock.read().unwrap()
        });
        writer.cancel().unwrap();
        assert!(writer.join().unwrap_err().is::<Cancelled>());
        assert_eq!(reader.join().unwrap(), 0);
        drop(inside);
        assert!(!lock.is_poisoned());
    });
}

#[test]
fn who_waits_in_line_can_be_cancelled() {
    on_1_2_4(|| {
        let lock = Arc::new(RwLock::new(0));
        let reads = |lock: &Arc<RwLock<i32>>| {
            let lock = Arc::clone(lock);
            move || *lock.read().unwrap()
        };
        let writer = lock.write().unwrap();
        cancelled_in_a_wait(reads(&lock));
        cancelled_in_a_wait({
            let lock = Arc::clone(&lock);
            move || *lock.write().unwrap() = 1
        });
        drop(writer);
        assert_eq!(*lock.try_write().unwrap(), 0, "nobody has it, nobody waits for it");
    });
}

#[test]
fn try_and_timed_forms_give_up() {
    on_1_2_4(|| {
        let lock = RwLock::new(0);
        let writer = lock.write().unwrap();
        assert!(lock.try_read().is_err() && lock.try_write().is_err());
        assert!(lock.try_read_for(Duration::from_millis(1)).is_err());
        assert!(lock.try_read_until(soon()).is_err() && lock.try_write_until(soon()).is_err());
        drop(writer);
        let reader = lock.read().unwrap();
        assert!(lock.try_read().is_ok() && lock.try_write().is_err());
        assert!(lock.try_write_for(Duration::from_millis(1)).is_err() && lock.try_write_until(soon()).is_err());
        assert!(lock.try_read_until(much_later()).is_ok());
        drop(reader);
        assert!(lock.try_write().is_ok());
        assert!(lock.try_write_until(much_later()).is_ok());
    });
}

#[test]
fn a_writer_that_panics_poisons_and_a_reader_does_not() {
    on_1_2_4(|| {
        let lock = Arc::new(RwLock::new(0));
        let panics = |write: bool| {
            let lock = Arc::clone(&lock);
            let panicked = thread::spawn(move || {
                let _reader = (!write).then(|| lock.read().unwrap());
                let _writer = write.then(|| lock.write().unwrap());
                panic!("inside");
            });
            assert!(panicked.join().is_err());
        };
        panics(false);
        assert!(!lock.is_poisoned());
        panics(true);
        assert!(lock.is_poisoned() && lock.read().is_err() && lock.try_write().is_err());
        lock.clear_poison();
        assert!(lock.write().is_ok());
    });
}

#[test]
fn a_writer_can_go_on_as_a_reader() {
    on_1_2_4(|| {
        let lock = RwLock::new(0);
        thread::scope(|s| {
            let mut writer = lock.write().unwrap();
            let waiting = s.spawn(|| *lock.read().unwrap());
            until_waits(waiting.thread());
            *writer = 1;
            let reader = RwLockWriteGuard::downgrade(writer);
            assert_eq!(waiting.join().unwrap(), 1, "readers that wait come along");
            assert!(lock.try_write().is_err());
            drop(reader);
        });
        assert!(lock.try_write().is_ok());
    });
}

#[test]
fn mapped_guards_leave_as_the_whole_ones() {
    let lock = RwLock::new((1, 2));
    {
        let one = RwLockReadGuard::map(lock.read().unwrap(), |pair| &pair.0);
        let two = RwLockReadGuard::filter_map(lock.read().unwrap(), |pair| Some(&pair.1)).unwrap();
        assert_eq!((*one, *two), (1, 2));
        assert!(lock.try_write().is_err());
    }
    *RwLockWriteGuard::map(lock.write().unwrap(), |pair| &mut pair.0) = 5;
    assert_eq!(*lock.try_write().unwrap(), (5, 2));
}
