//! One wait in several environments: the first ready branch in their order, deadlines, and answers that come while it is still entering.

mod common;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use common::desk::{Coin, Desk, Put, Queue, TakeToken, Token};
use common::lang::Gate;
use common::{runtime, sized, watched};
use proto_core::{Ask, Ended, EnvCell, Select, scope, yield_now};

#[test]
fn a_select_answers_from_its_first_ready_branch_and_its_deadline_is_kept() {
    watched("select", || {
        let runtime = runtime(2);
        runtime
            .run(|| {
                let alive = Arc::new(AtomicUsize::new(0));
                let (a, b) = (EnvCell::new(Desk::new()), EnvCell::new(Desk::new()));
                a.release(Put(Coin::new(&alive, 1)));
                b.release(Put(Coin::new(&alive, 2)));
                let (index, number) =
                    Select::new().on(&a, || Queue, |c| c.number).on(&b, || Queue, |c| c.number).wait(None).unwrap();
                assert_eq!((index, number), (0, 1), "branches are tried in their order");
                let both = Select::new().on(&a, || Queue, |c| c.number).on(&b, || Queue, |c| c.number).wait(None);
                assert_eq!(both, Ok((1, 2)));
                let began = Instant::now();
                let until = began + Duration::from_millis(5);
                let late =
                    Select::new().on(&a, || Queue, |c| c.number).on(&a, || Token, |c| c.number).wait(Some(until));
                assert_eq!(late, Err(Ended::Deadline));
                assert!(Instant::now() >= until, "a deadline came too early");
                // The token is of a wait that is over.
                let token = a.request(TakeToken).unwrap().unwrap();
                assert!(token.resume(Coin::new(&alive, 3)).is_err());
                // Several branches in the same queue: one coin, one of them gets it.
                scope(|s| {
                    let one = s.spawn(|| {
                        Select::new().on(&a, || Queue, |c| c.number).on(&a, || Queue, |c| c.number + 10).wait(None)
                    });
                    let gate = Gate::new();
                    gate.open();
                    gate.pass();
                    a.release(Put(Coin::new(&alive, 4)));
                    assert_eq!(one.join().unwrap(), Ok((0, 4)));
                });
                let empty: Select<'_, ()> = Select::new();
                assert_eq!(empty.wait(Some(Instant::now() + Duration::from_millis(1))), Err(Ended::Deadline));
                assert_eq!(alive.load(Ordering::Relaxed), 0);
            })
            .unwrap();
    });
}

#[test]
fn selects_and_resumers_that_meet_while_arming_lose_nothing() {
    watched("missed", || {
        for controllers in [2, 4] {
            let runtime = runtime(controllers);
            let alive = Arc::new(AtomicUsize::new(0));
            let desks: Vec<_> = (0..4).map(|_| EnvCell::new(Desk::new())).collect();
            let coins = sized(8000, 20);
            let got = Mutex::new(Vec::new());
            runtime
                .run(|| {
                    scope(|s| {
                        for part in 0..2 {
                            let (desks, alive) = (&desks, &alive);
                            s.spawn(move || {
                                for n in (part..coins).step_by(2) {
                                    desks[n % 4].release(Put(Coin::new(alive, n)));
                                    if n % 64 < 2 {
                                        yield_now();
                                    }
                                }
                            });
                        }
                        for part in 0..2 {
                            let (desks, got) = (&desks, &got);
                            s.spawn(move || {
                                for _ in (part..coins).step_by(2) {
                                    let mut select = Select::new();
                                    for desk in desks {
                                        select = select.on(desk, || Queue, |coin| coin.number);
                                    }
                                    let (_, number) = select.wait(None).unwrap();
                                    got.lock().unwrap().push(number);
                                }
                            });
                        }
                    });
                })
                .unwrap();
            let mut got = got.into_inner().unwrap();
            got.sort_unstable();
            assert_eq!(got, (0..coins).collect::<Vec<_>>());
            assert_eq!(alive.load(Ordering::Relaxed), 0);
        }
    });
}

#[test]
fn fair_selects_serve_every_branch_that_is_ready() {
    let always_ready = EnvCell::new(());
    let look = |branches: usize| {
        let ready = || Ask::new(|(): &mut (), caller, hidden| hidden.answer(caller, ()));
        let select = (0..branches).fold(Select::new(), |select, _| select.on(&always_ready, ready, drop));
        select.fairly().wait(None).unwrap().0
    };
    watched("fair", || {
        for branches in 1..=sized(40, 5) {
            let mut last = vec![0; branches];
            for round in 1..=10 * branches {
                last[look(branches)] = round;
                let longest = last.iter().map(|last| round - last).max().unwrap();
                assert!(longest <= 2 * branches, "of {branches} one waits for {longest} selects");
            }
        }
        // Several selects in turn: of one of them every second, third … comes.
        for others in 1..5 {
            let mut served = [0; 3];
            for _ in 0..60 {
                served[look(3)] += 1;
                (0..others).for_each(|_| _ = look(2));
            }
            assert!(served.iter().all(|times| *times >= 10), "{others} others: {served:?}");
        }
    });
}
