//! Answer, deadline, cancel and drop race for one wait, and for a select: exactly one wins, and values are neither lost nor made twice.

mod common;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use common::desk::{Coin, Desk, Put, Queue, TakeToken, Token};
use common::{Dice, build, sized, watched};
use proto_core::{Ended, EnvCell, Fifo, Runtime, Select, scope, sleep_until, yield_now};

/// What a round's waiter does.
#[derive(Clone, Copy, Debug)]
enum How {
    Queue,
    Token,
    SelectQueues,
    SelectMixed,
}

fn wait(how: How, a: &EnvCell<Desk>, b: &EnvCell<Desk>, deadline: Option<Instant>) -> Result<Coin, Ended> {
    match how {
        How::Queue => a.request_until(Queue, deadline),
        How::Token => a.request_until(Token, deadline),
        How::SelectQueues => {
            Select::new().on(a, || Queue, |c| c).on(b, || Queue, |c| c).wait(deadline).map(|(_, coin)| coin)
        }
        How::SelectMixed => {
            Select::new().on(a, || Token, |c| c).on(b, || Queue, |c| c).wait(deadline).map(|(_, coin)| coin)
        }
    }
}

/// What became of the coins.
#[derive(Default)]
struct Tally {
    got: Mutex<Vec<usize>>,
    back: Mutex<Vec<usize>>,
    /// How many waits were answered, late, cancelled, abandoned.
    ends: [AtomicUsize; 4],
}

impl Tally {
    fn waited(&self, outcome: Result<Coin, Ended>) -> Result<(), Ended> {
        let index = match &outcome {
            Ok(_) => 0,
            Err(Ended::Deadline) => 1,
            Err(Ended::Cancelled) => 2,
            Err(Ended::Abandoned(_)) => 3,
            Err(other) => panic!("{other}"),
        };
        self.ends[index].fetch_add(1, Ordering::Relaxed);
        self.got.lock().unwrap().push(outcome?.number);
        Ok(())
    }
}

/// Says that the waiter is through, or will never begin: it may be cancelled unstarted.
struct Over(Arc<AtomicBool>);

impl Drop for Over {
    fn drop(&mut self) {
        // ORDERING: Release pairs with the Acquire of the taker in `round`.
        self.0.store(true, Ordering::Release);
    }
}

/// One round: a waiter, and three that want to end its wait.
fn round(runtime: &Runtime, how: How, dice: &mut Dice, number: usize, tally: &Tally, alive: &Arc<AtomicUsize>) {
    let (a, b) = (EnvCell::new(Desk::new()), EnvCell::new(Desk::new()));
    let turns: Vec<u64> = (0..4).map(|_| dice.below(4)).collect();
    let timed = dice.below(3) != 0;
    // A core that is never idle learns of a deadline after a millisecond. So in some rounds all meet at the deadline.
    let meet = timed && dice.below(16) == 0;
    let deadline = Instant::now() + Duration::from_micros(if meet { 50 } else { dice.below(60) });
    let early = dice.below(5_000);
    let pause = |party: usize| {
        let turns = turns[party];
        move || {
            if meet {
                sleep_until(Some(deadline - Duration::from_nanos(early))).unwrap();
            }
            (0..turns).for_each(|_| yield_now());
        }
    };
    let (cancels, drops) = (dice.below(3) == 0, dice.below(4) == 0);
    runtime
        .run(|| {
            scope(|s| {
                let (a, b) = (&a, &b);
                let over = Arc::new(AtomicBool::new(false));
                let of_waiter = Over(over.clone());
                let waiter = s.spawn(move || {
                    let of_waiter = of_waiter;
                    let outcome = wait(how, a, b, timed.then_some(deadline));
                    drop(of_waiter);
                    if let Err(ended) = tally.waited(outcome) {
                        ended.unwind_if_cancelled();
                    }
                });
                let vp = waiter.vp();
                for (branch, desk) in [a, b].into_iter().enumerate() {
                    let pause = pause(branch);
                    s.spawn(move || {
                        pause();
                        desk.release(Put(Coin::new(alive, 2 * number + branch)));
                    });
                }
                let pause_of_taker = pause(2);
                s.spawn(move || {
                    pause_of_taker();
                    // Until the wait is over there may be one more token: a select that looks again makes new ones.
                    loop {
                        // Asked before: a token that comes between a look in vain and this question would be left behind.
                        // ORDERING: Acquire pairs with the Release of `Over`: all tokens were there before that.
                        let last = over.load(Ordering::Acquire);
                        match a.request(TakeToken).unwrap() {
                            Some(token) if drops => drop(token),
                            Some(token) => {
                                if let Err(coin) = token.resume(Coin::new(alive, usize::MAX / 2 + number)) {
                                    tally.back.lock().unwrap().push(coin.number);
                                }
                            }
                            None if last => break,
                            None => yield_now(),
                        }
                    }
                });
                if cancels {
                    let pause = pause(3);
                    s.spawn(move || {
                        pause();
                        vp.cancel().unwrap();
                    });
                }
                // A cancelled waiter is no panic of the scope.
                drop(waiter.join());
            });
        })
        .unwrap();
    for desk in [a, b] {
        let desk = desk.into_inner().expect("no handler panicked");
        tally.back.lock().unwrap().extend(desk.coins.iter().map(|coin| coin.number));
        assert!(desk.tokens.is_empty(), "a token was left behind");
    }
}

fn race(name: &'static str, how: How) {
    watched(name, || {
        let mut ends = [0; 4];
        for controllers in [1, 2, 3] {
            // The parties take turns, so that each may come first: by default a core goes on with what it has started.
            let runtime = build(Runtime::builder().controllers(controllers).assigner(Fifo));
            let (tally, alive) = (Tally::default(), Arc::new(AtomicUsize::new(0)));
            let mut dice = Dice::new(controllers as u64);
            let rounds = sized(1500, 5);
            for number in 0..rounds {
                round(&runtime, how, &mut dice, number, &tally, &alive);
            }
            let mut seen = tally.got.into_inner().unwrap();
            seen.extend(tally.back.into_inner().unwrap());
            let put: Vec<usize> = (0..2 * rounds).collect();
            let mut of_queues: Vec<usize> = seen.iter().copied().filter(|&n| n < usize::MAX / 2).collect();
            of_queues.sort_unstable();
            assert_eq!(of_queues, put, "{how:?}: each coin that was put is somewhere, once");
            assert_eq!(alive.load(Ordering::Relaxed), 0, "{how:?}: a coin was leaked");
            for (sum, end) in ends.iter_mut().zip(tally.ends) {
                *sum += end.into_inner();
            }
        }
        // A race that one of them always wins is none. Only a token can be dropped.
        let tokens = matches!(how, How::Token | How::SelectMixed);
        let [answered, late, cancelled, abandoned] = ends.map(|count| count > 0);
        assert!(
            cfg!(miri) || answered && late && cancelled && abandoned == tokens,
            "{how:?}: how waits ended: {ends:?}"
        );
    });
}

#[test]
fn in_a_queue() {
    race("race in a queue", How::Queue);
}

#[test]
fn with_a_token() {
    race("race with a token", How::Token);
}

#[test]
fn in_a_select_over_queues() {
    race("race in a select", How::SelectQueues);
}

#[test]
fn in_a_select_over_a_token_and_a_queue() {
    race("race in a mixed select", How::SelectMixed);
}

#[test]
fn os_threads_race_the_same_way() {
    watched("race on OS threads", || {
        for how in [How::Queue, How::Token, How::SelectQueues, How::SelectMixed] {
            let alive = Arc::new(AtomicUsize::new(0));
            let (mut got, mut left) = (0, 0);
            let rounds = sized(200, 3);
            for number in 0..rounds {
                let (a, b) = (EnvCell::new(Desk::new()), EnvCell::new(Desk::new()));
                let over = AtomicBool::new(false);
                std::thread::scope(|s| {
                    let taker = s.spawn(|| {
                        let mut gave = 0;
                        while !over.load(Ordering::Relaxed) {
                            if let Some(token) = a.request(TakeToken).unwrap() {
                                gave += usize::from(token.resume(Coin::new(&alive, number)).is_ok());
                            }
                            std::thread::yield_now();
                        }
                        drop(a.request(TakeToken));
                        gave
                    });
                    let putter = s.spawn(|| {
                        a.release(Put(Coin::new(&alive, number)));
                        b.release(Put(Coin::new(&alive, number)));
                    });
                    let deadline = Instant::now() + Duration::from_micros(200);
                    let outcome = wait(how, &a, &b, Some(deadline));
                    over.store(true, Ordering::Relaxed);
                    putter.join().unwrap();
                    let gave = taker.join().unwrap();
                    match outcome {
                        Ok(_) => got += 1,
                        Err(Ended::Deadline) => {}
                        Err(other) => panic!("{other}"),
                    }
                    left += gave;
                });
                left += 2;
                left -= [a, b].into_iter().map(|desk| desk.into_inner().unwrap().coins.len()).sum::<usize>();
            }
            assert_eq!(got, left, "{how:?}: what was given is what came");
            assert_eq!(alive.load(Ordering::Relaxed), 0, "{how:?}");
        }
    });
}
