//! `thread`: spawning, joining, scopes, parking, sleeping.

mod common;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use common::{ROUNDS, cancelled_in_a_wait, much_later, on_1_2_4, runtime, soon, text, until, until_waits};
use proto_core::Cancelled;
use proto_lang_mutex::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use proto_lang_mutex::sync::{Arc, Mutex};
use proto_lang_mutex::thread;

#[test]
fn join_gives_the_value_or_the_panic() {
    on_1_2_4(|| {
        assert_eq!(thread::spawn(|| 5).join().unwrap(), 5);
        let panicked = thread::spawn(|| panic!("by number {}", 7)).join();
        assert_eq!(text(&*panicked.unwrap_err()), "by number 7");
    });
}

#[test]
fn a_handle_says_when_its_thread_has_ended() {
    on_1_2_4(|| {
        let parked = thread::spawn(thread::park);
        assert!(!parked.is_finished());
        let parked = parked.join_timeout(Duration::from_millis(1)).unwrap_err();
        parked.thread().unpark();
        until(|| parked.is_finished());
        parked.join_until(Instant::now()).unwrap().unwrap();
    });
}

#[test]
fn names_and_numbers_are_the_threads_own() {
    on_1_2_4(|| {
        let named = thread::Builder::new().name("a name".to_owned()).stack_size(128 << 10).priority(200);
        let named = named.spawn(|| (thread::current().id(), thread::current().name().map(str::to_owned))).unwrap();
        let thread = named.thread().clone();
        assert_eq!(named.join().unwrap(), (thread.id(), Some("a name".to_owned())));
        assert_eq!(thread.name(), Some("a name"), "also after it has ended");
        assert_ne!(thread.id(), thread::current().id());
        assert_eq!(thread::spawn(|| thread::current().name().is_none()).join().ok(), Some(true));
    });
}

#[test]
fn a_thread_starts_at_the_home_it_was_given() {
    let runtime = runtime(2);
    let cores = runtime.cores();
    runtime
        .run(|| {
            for core in cores {
                let here = || thread::current().vp().home();
                let (tell, told) = proto_lang_mutex::channel();
                let stays = move || {
                    tell.send(here()).unwrap();
                    thread::park();
                };
                let home = thread::Builder::new().home(core).spawn(stays).unwrap();
                assert_eq!(told.recv(), Ok(Some(core)));
                for _ in 0..20 {
                    let near = thread::Builder::new().near(home.thread()).spawn(here).unwrap();
                    assert_eq!(near.join().unwrap(), Some(core));
                }
                home.thread().unpark();
                home.join().unwrap();
            }
        })
        .unwrap();
}

#[test]
fn threads_of_a_scope_borrow_and_start_others() {
    on_1_2_4(|| {
        let (count, text) = (AtomicUsize::new(0), String::from("borrowed"));
        thread::scope(|s| {
            for _ in 0..10 {
                s.spawn(|| {
                    for _ in 0..10 {
                        s.spawn(|| count.fetch_add(text.len(), Ordering::Relaxed));
                    }
                });
            }
            thread::Builder::new().name("scoped".to_owned()).spawn_scoped(s, thread::yield_now).unwrap();
        });
        assert_eq!(count.load(Ordering::Relaxed), 800);
    });
}

#[test]
fn a_scope_panics_if_a_thread_did_that_nobody_joined() {
    on_1_2_4(|| {
        let ended = AtomicBool::new(false);
        let unwound = catch_unwind(AssertUnwindSafe(|| {
            thread::scope(|s| {
                s.spawn(|| panic!("its own text"));
                s.spawn(|| {
                    thread::yield_now();
                    ended.store(true, Ordering::Relaxed);
                });
            });
        }));
        assert_eq!(text(&*unwound.unwrap_err()), "a scoped thread panicked");
        assert!(ended.load(Ordering::Relaxed), "the scope waits for the others first");
        let joined = thread::scope(|s| s.spawn(|| panic!("its own text")).join());
        assert_eq!(text(&*joined.unwrap_err()), "its own text");
        let own = catch_unwind(AssertUnwindSafe(|| {
            thread::scope(|s| {
                s.spawn(|| panic!("the thread's"));
                panic!("the closure's")
            })
        }));
        assert_eq!(text(&*own.unwrap_err()), "the closure's");
    });
}

#[test]
fn cancelling_the_owner_of_a_scope_cancels_its_threads_first() {
    on_1_2_4(|| {
        let (inside, unwound) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        struct Counts<'a>(&'a AtomicUsize);
        impl Drop for Counts<'_> {
            fn drop(&mut self) {
                self.0.fetch_add(1, Ordering::Relaxed);
            }
        }
        let owner = thread::spawn({
            let (inside, unwound) = (Arc::clone(&inside), Arc::clone(&unwound));
            move || {
                thread::scope(|s| {
                    for _ in 0..3 {
                        s.spawn(|| {
                            let _counts = Counts(&unwound);
                            inside.fetch_add(1, Ordering::Relaxed);
                            loop {
                                thread::park();
                            }
                        });
                    }
                });
            }
        });
        until(|| inside.load(Ordering::Relaxed) == 3);
        owner.cancel().unwrap();
        assert!(owner.join().unwrap_err().is::<Cancelled>());
        assert_eq!(unwound.load(Ordering::Relaxed), 3);
    });
}

#[test]
fn a_token_is_kept_until_it_is_taken_and_there_is_one() {
    on_1_2_4(|| {
        let given = Arc::new(AtomicBool::new(false));
        let parks = thread::spawn({
            let given = Arc::clone(&given);
            move || {
                until(|| given.load(Ordering::Relaxed));
                thread::park();
                thread::park();
            }
        });
        parks.thread().unpark();
        parks.thread().unpark();
        given.store(true, Ordering::Relaxed);
        // At the second one; were there two tokens it would end instead.
        until_waits(parks.thread());
        parks.thread().unpark();
        parks.join().unwrap();
        thread::park_until(soon());
        thread::current().unpark();
        thread::park_until(much_later());
    });
}

#[test]
fn two_threads_unpark_each_other() {
    on_1_2_4(|| {
        let turn = Arc::new(AtomicUsize::new(0));
        let play = |me: usize, other: thread::Thread, turn: &AtomicUsize| {
            for round in 0..ROUNDS {
                while turn.load(Ordering::Acquire) != 2 * round + me {
                    thread::park();
                }
                turn.store(2 * round + me + 1, Ordering::Release);
                other.unpark();
            }
        };
        let (main, their_turn) = (thread::current(), Arc::clone(&turn));
        let other = thread::spawn(move || play(1, main, &their_turn));
        play(0, other.thread().clone(), &turn);
        other.join().unwrap();
    });
}

#[test]
fn park_and_deadline_race_without_losing_a_token() {
    on_1_2_4(|| {
        for round in 0..ROUNDS / 10 {
            let parked = thread::spawn(move || {
                thread::park_timeout(Duration::from_micros((round % 20) as u64));
                thread::park();
            });
            // As many tokens as it takes: one that came before the deadline is not there for the second park.
            while !parked.is_finished() {
                parked.thread().unpark();
                thread::yield_now();
            }
            parked.join().unwrap();
        }
    });
}

#[test]
fn sleepers_wake_and_hold_no_core() {
    runtime(1)
        .run(|| {
            let begun = AtomicUsize::new(0);
            thread::scope(|s| {
                for _ in 0..1000 {
                    s.spawn(|| {
                        begun.fetch_add(1, Ordering::Relaxed);
                        thread::sleep(Duration::from_secs(86_400));
                    });
                }
                // On the only core: if the first held it, the second could not begin.
                until(|| begun.load(Ordering::Relaxed) == 1000);
                s.cancel().unwrap();
            });
            let begin = Instant::now();
            thread::scope(|s| (0..1000).for_each(|_| drop(s.spawn(|| thread::sleep(Duration::from_millis(20))))));
            assert!(begin.elapsed() >= Duration::from_millis(20), "it is time that they sleep");
        })
        .unwrap();
    thread::sleep(Duration::ZERO);
    thread::sleep_until(Instant::now());
}

#[test]
fn a_timed_join_of_a_scoped_thread_gives_the_handle_back() {
    on_1_2_4(|| {
        thread::scope(|s| {
            let parked = s.spawn(thread::park);
            let parked = parked.join_timeout(Duration::from_millis(1)).unwrap_err();
            let parked = parked.join_until(soon()).unwrap_err();
            assert!(!parked.is_finished());
            parked.thread().unpark();
            parked.join_until(much_later()).unwrap().unwrap();
            let panicked = s.spawn(|| panic!("its own text"));
            let joined = panicked.join_timeout(Duration::from_secs(600)).unwrap();
            assert_eq!(text(&*joined.unwrap_err()), "its own text");
        });
        let (told, tell) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let owner = thread::spawn({
            let (told, tell) = (Arc::clone(&told), Arc::clone(&tell));
            move || {
                thread::scope(|s| {
                    let inside = s.spawn(|| {
                        told.store(1, Ordering::Relaxed);
                        until(|| tell.load(Ordering::Relaxed) == 1);
                    });
                    let _given_back = inside.join_until(much_later());
                    unreachable!("it was cancelled in its wait");
                });
            }
        });
        until(|| told.load(Ordering::Relaxed) == 1);
        until_waits(owner.thread());
        owner.cancel().unwrap();
        tell.store(1, Ordering::Relaxed);
        assert!(owner.join().unwrap_err().is::<Cancelled>(), "after its thread has ended");
    });
}

#[test]
fn panicking_is_said_of_the_caller_alone() {
    struct OnDrop<F: FnMut()>(F);
    impl<F: FnMut()> Drop for OnDrop<F> {
        fn drop(&mut self) {
            (self.0)();
        }
    }
    on_1_2_4(|| {
        let (said, over) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
        let panics = thread::spawn({
            let (said, over) = (Arc::clone(&said), Arc::clone(&over));
            move || {
                let _unwinds = OnDrop(|| {
                    said.store(1 + usize::from(thread::panicking()), Ordering::Relaxed);
                    until(|| over.load(Ordering::Relaxed));
                });
                panic!("on purpose");
            }
        });
        until(|| said.load(Ordering::Relaxed) > 0);
        assert!(!thread::panicking(), "another one is, maybe on this core");
        over.store(true, Ordering::Relaxed);
        assert!(panics.join().is_err());
        assert_eq!(said.load(Ordering::Relaxed), 2, "who panics is told so");
        let cancelled = Arc::clone(&said);
        cancelled_in_a_wait(move || {
            let _unwinds = OnDrop(|| cancelled.store(3 + usize::from(thread::panicking()), Ordering::Relaxed));
            thread::park();
        });
        assert_eq!(said.load(Ordering::Relaxed), 3, "a cancel is no panic");
    });
}

#[test]
fn sleepers_and_parked_threads_can_be_cancelled() {
    on_1_2_4(|| {
        let sleeps = thread::spawn(|| thread::sleep(Duration::from_secs(6000)));
        let parks = thread::spawn(thread::park);
        let (tell, told) = proto_lang_mutex::channel();
        let joins = thread::spawn(move || {
            let parked = thread::spawn(thread::park);
            tell.send(parked.thread().clone()).unwrap();
            parked.join()
        });
        let joined = told.recv().unwrap();
        for handle in [sleeps, parks] {
            handle.cancel().unwrap();
            assert!(handle.join().unwrap_err().is::<Cancelled>());
        }
        joins.cancel().unwrap();
        assert!(joins.join().unwrap_err().is::<Cancelled>());
        // The one it would have joined goes on by itself.
        joined.unpark();
    });
}

#[test]
fn daemons_end_with_their_process() {
    let dropped = Arc::new(Mutex::new(false));
    struct Tells(Arc<Mutex<bool>>);
    impl Drop for Tells {
        fn drop(&mut self) {
            *self.0.lock().unwrap() = true;
        }
    }
    let tells = Tells(Arc::clone(&dropped));
    runtime(1)
        .run(move || {
            thread::Builder::new()
                .daemon()
                .spawn(move || {
                    let _tells = tells;
                    loop {
                        thread::park();
                    }
                })
                .unwrap();
        })
        .unwrap();
    assert!(*dropped.lock().unwrap());
}
