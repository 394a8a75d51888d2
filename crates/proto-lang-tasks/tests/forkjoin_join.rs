//! `join`, `join!`, `scope`, `spawn`: results, panics, and waits on constructs of another language.

mod common;

use std::panic::resume_unwind;
use std::sync::atomic::{AtomicU32, Ordering};

use common::{on_1_2_4, panic_of, sized, watched};
use proto_core::{JoinError, yield_now};
use proto_lang_mutex::sync::{Barrier, Mutex, mpsc};
use proto_lang_tasks::{join, scope, spawn};

fn panics<T>(with: u32) -> T {
    resume_unwind(Box::new(with))
}

#[test]
fn both_closures_always_run_and_the_first_panic_wins() {
    on_1_2_4("panics of join", || {
        for round in 0..sized(50, 3) {
            // Now and then the other closure is left to another core, or becomes an ordinary task.
            let pause = || (0..round % 3).for_each(|_| yield_now());
            let ran = AtomicU32::new(0);
            let run = |what: u32| {
                pause();
                ran.fetch_add(what, Ordering::Relaxed);
            };
            assert_eq!(panic_of::<u32, _>(|| join(|| (run(1), panics::<()>(1)).1, || run(2))), 1);
            assert_eq!(panic_of::<u32, _>(|| join(|| run(1), || (run(2), panics::<()>(2)).1)), 2);
            assert_eq!(panic_of::<u32, _>(|| join(|| (run(1), panics::<()>(3)).1, || (run(2), panics::<()>(4)).1)), 3);
            assert_eq!(ran.load(Ordering::Relaxed), 9, "a closure did not run, or ran twice");
        }
    });
}

#[test]
fn a_join_of_many_gives_results_in_the_order_written_and_the_first_panic_written() {
    on_1_2_4("join of many", || {
        assert_eq!(proto_lang_tasks::join!(|| 1), (1,));
        assert_eq!(proto_lang_tasks::join!(|| 1, || "two"), (1, "two"));
        let text = String::from("borrowed");
        let mut written = 0;
        let five = proto_lang_tasks::join!(|| 1u8, || text.len(), || written = 3, || (), || [5; 2],);
        assert_eq!(five, (1, 8, (), (), [5; 2]));
        assert_eq!(written, 3);
        let ran = AtomicU32::new(0);
        let tick = || ran.fetch_add(1, Ordering::Relaxed);
        let payload = panic_of::<u32, _>(|| {
            proto_lang_tasks::join!(tick, || (tick(), panics::<()>(2)), tick, || (tick(), panics::<()>(4)), tick)
        });
        assert_eq!(payload, 2);
        assert_eq!(ran.load(Ordering::Relaxed), 5);
    });
}

#[test]
fn a_lock_held_over_a_join_deadlocks_nothing() {
    // rayon-rs/rayon#592: there a job that waits for the lock runs on top of the frame that holds it.
    on_1_2_4("lock over join", || {
        let lock = Mutex::new(0);
        scope(|s| {
            for _ in 0..sized(40, 4) {
                s.spawn(|| {
                    let mut held = lock.lock().unwrap();
                    let (a, b) = join(
                        || {
                            yield_now();
                            1
                        },
                        || 1,
                    );
                    *held += a + b;
                });
            }
        });
        assert_eq!(lock.into_inner().unwrap(), 2 * sized(40, 4));
    });
}

#[test]
fn two_forks_may_wait_for_each_other() {
    on_1_2_4("forks that talk", || {
        let (ask, asked) = mpsc::channel();
        let (answer, answered) = mpsc::channel();
        let rounds = sized(100, 5);
        let (got, ()) = join(
            move || {
                let exchange = |number| {
                    ask.send(number).unwrap();
                    answered.recv().unwrap()
                };
                (0..rounds).map(exchange).sum::<usize>()
            },
            move || (0..rounds).for_each(|_| answer.send(asked.recv().unwrap() * 2).unwrap()),
        );
        assert_eq!(got, rounds * (rounds - 1));
        // All of them have to be there at a time, on however few cores.
        let barrier = Barrier::new(9);
        scope(|s| {
            for _ in 0..8 {
                s.spawn(|| {
                    barrier.wait();
                });
            }
            barrier.wait();
        });
    });
}

#[test]
fn a_scope_borrows_and_a_sync_waits() {
    on_1_2_4("scope", || {
        let mut squares = vec![0; 100];
        let total = scope(|s| {
            for (number, square) in squares.iter_mut().enumerate() {
                s.spawn(move || *square = number * number);
            }
            s.sync();
            let (low, high) = (s.task(|| 1), s.task(|| 2));
            high.touch() + low.touch()
        });
        assert_eq!(total, 3);
        assert!(squares.iter().enumerate().all(|(number, square)| *square == number * number));
    });
}

#[test]
fn a_spawned_closure_has_a_handle() {
    on_1_2_4("spawn", || {
        let answers: Vec<_> = (0..sized(50, 5)).map(|number| spawn(move || number * 2)).collect();
        assert!(answers.into_iter().enumerate().all(|(number, answer)| answer.join().unwrap() == number * 2));
        let Err(JoinError::Panic(payload)) = spawn(|| panics::<()>(7)).join() else { panic!("it panicked") };
        assert_eq!(payload.downcast_ref(), Some(&7u32));
        drop(spawn(yield_now));
    });
}

/// Counts itself when it is dropped.
struct Dropped<'a>(&'a AtomicU32);

impl Drop for Dropped<'_> {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn a_cancel_reaches_both_forks_that_wait() {
    static UNWOUND: AtomicU32 = AtomicU32::new(0);
    on_1_2_4("cancel", || {
        UNWOUND.store(0, Ordering::Relaxed);
        let (began, begun) = mpsc::channel();
        let waits = spawn(move || {
            let wait = || {
                let _dropped = Dropped(&UNWOUND);
                let (_keep, never) = mpsc::channel::<()>();
                began.send(()).unwrap();
                let _ = never.recv();
            };
            join(wait, wait)
        });
        // The first waits: so the second is an ordinary task, whether it has begun or not.
        begun.recv().unwrap();
        waits.cancel().unwrap();
        assert!(matches!(waits.join(), Err(JoinError::Cancelled)));
        assert_eq!(UNWOUND.load(Ordering::Relaxed), 2, "both closures always run, to their end");
    });
}

#[test]
fn an_os_thread_forks_on_the_default_runtime() {
    watched("OS threads", || {
        std::thread::scope(|s| {
            for _ in 0..sized(4, 2) {
                s.spawn(|| {
                    let (a, b, c) = proto_lang_tasks::join!(|| 1, || 2, || 3);
                    assert_eq!(a + b + c, 6);
                    let mut cells = [0; 10];
                    scope(|s| cells.iter_mut().for_each(|cell| s.spawn(|| *cell += 1)));
                    assert_eq!(cells, [1; 10]);
                    assert_eq!(spawn(|| 4).join().unwrap(), 4);
                });
            }
        });
    });
}
