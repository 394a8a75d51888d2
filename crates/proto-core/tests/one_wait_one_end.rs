//! Answer, deadline, cancel and drop race for one wait, and for a select: exactly one wins, and values are neither lost nor made twice.

mod common;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use common::lang::Gate;
use common::{Dice, runtime, sized, watched};
use proto_core::{
    Caller, Ended, EnvCell, Hidden, Kind, RequestHandler, Runtime, Select, Suspended, VpBuilder, Waiters, scope,
    yield_now,
};

/// A value that is counted as long as it lives.
struct Coin {
    alive: Arc<AtomicUsize>,
    number: usize,
}

impl Coin {
    fn new(alive: &Arc<AtomicUsize>, number: usize) -> Coin {
        alive.fetch_add(1, Ordering::Relaxed);
        Coin {
            alive: alive.clone(),
            number,
        }
    }
}

impl Drop for Coin {
    fn drop(&mut self) {
        self.alive.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Timelines wait in a queue, or give their token to whoever takes it.
struct Desk {
    coins: Vec<Coin>,
    waiting: Waiters<Coin>,
    tokens: Vec<Suspended<Coin>>,
}

impl Desk {
    const fn new() -> Desk {
        Desk {
            coins: Vec::new(),
            waiting: Waiters::new(),
            tokens: Vec::new(),
        }
    }
}

struct Queue;
struct Token;
struct Put(Coin);
struct TakeToken;

impl RequestHandler<Queue> for Desk {
    type Reply = Coin;
    fn handle(&mut self, _: Queue, caller: Caller<'_, Coin>, hidden: &mut Hidden<'_>) {
        match self.coins.pop() {
            Some(coin) => hidden.answer(caller, coin),
            None => self.waiting.push(caller, hidden),
        }
    }
}

impl RequestHandler<Token> for Desk {
    type Reply = Coin;
    fn handle(&mut self, _: Token, caller: Caller<'_, Coin>, hidden: &mut Hidden<'_>) {
        let token = hidden.suspend(caller);
        self.tokens.push(token);
    }
}

impl RequestHandler<Put> for Desk {
    type Reply = ();
    const KIND: Kind = Kind::Release;
    fn handle(&mut self, Put(coin): Put, caller: Caller<'_, ()>, hidden: &mut Hidden<'_>) {
        if let Err(coin) = self.waiting.resume_next(coin, hidden) {
            self.coins.push(coin);
        }
        hidden.answer(caller, ());
    }
}

impl RequestHandler<TakeToken> for Desk {
    type Reply = Option<Suspended<Coin>>;
    const KIND: Kind = Kind::Binding;
    fn handle(&mut self, _: TakeToken, caller: Caller<'_, Self::Reply>, hidden: &mut Hidden<'_>) {
        let token = self.tokens.pop();
        hidden.answer(caller, token);
    }
}

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
        How::SelectQueues => Select::new()
            .on(a, || Queue, |c| c)
            .on(b, || Queue, |c| c)
            .wait(deadline)
            .map(|(_, coin)| coin),
        How::SelectMixed => Select::new()
            .on(a, || Token, |c| c)
            .on(b, || Queue, |c| c)
            .wait(deadline)
            .map(|(_, coin)| coin),
    }
}

/// What became of the coins.
#[derive(Default)]
struct Tally {
    got: Mutex<Vec<usize>>,
    back: Mutex<Vec<usize>>,
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
        self.0.store(true, Ordering::Relaxed);
    }
}

/// One round: a waiter, and three that want to end its wait.
fn round(runtime: &Runtime, how: How, dice: &mut Dice, number: usize, tally: &Tally, alive: &Arc<AtomicUsize>) {
    let (a, b) = (EnvCell::new(Desk::new()), EnvCell::new(Desk::new()));
    let spins: Vec<u64> = (0..5).map(|_| dice.below(4)).collect();
    let micros = dice.below(60);
    let timed = dice.below(3) != 0;
    let (cancels, drops) = (dice.below(3) == 0, dice.below(4) == 0);
    runtime
        .run(|| {
            scope(|s| {
                let (a, b) = (&a, &b);
                let over = Arc::new(AtomicBool::new(false));
                let of_waiter = Over(over.clone());
                let waiter = s.spawn(move || {
                    let of_waiter = of_waiter;
                    let deadline = timed.then(|| Instant::now() + Duration::from_micros(micros));
                    let outcome = wait(how, a, b, deadline);
                    drop(of_waiter);
                    if let Err(ended) = tally.waited(outcome) {
                        ended.unwind_if_cancelled();
                    }
                });
                let vp = waiter.vp();
                for (branch, desk) in [a, b].into_iter().enumerate() {
                    let yields = spins[branch];
                    s.spawn(move || {
                        for _ in 0..yields {
                            yield_now();
                        }
                        desk.release(Put(Coin::new(alive, 2 * number + branch)));
                    });
                }
                let yields = spins[2];
                s.spawn(move || {
                    for _ in 0..yields {
                        yield_now();
                    }
                    // Until the wait is over there may be one more token: a select that looks again makes new ones.
                    loop {
                        match a.request(TakeToken).unwrap() {
                            Some(token) if drops => drop(token),
                            Some(token) => {
                                if let Err(coin) = token.resume(Coin::new(alive, usize::MAX / 2 + number)) {
                                    tally.back.lock().unwrap().push(coin.number);
                                }
                            }
                            None if over.load(Ordering::Relaxed) => break,
                            None => yield_now(),
                        }
                    }
                });
                if cancels {
                    let yields = spins[3];
                    s.spawn(move || {
                        for _ in 0..yields {
                            yield_now();
                        }
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
        tally
            .back
            .lock()
            .unwrap()
            .extend(desk.coins.iter().map(|coin| coin.number));
        assert!(desk.tokens.is_empty(), "a token was left behind");
    }
}

fn race(name: &'static str, how: How) {
    watched(name, || {
        for controllers in [1, 2, 3] {
            let runtime = runtime(controllers);
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
            let ends: usize = tally.ends.iter().map(|end| end.load(Ordering::Relaxed)).sum();
            // Waiters that were cancelled before they started had no wait.
            assert!(ends <= rounds, "{how:?}: a wait ended twice");
            assert!(ends * 2 > rounds, "{how:?}: waits did not come back");
        }
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
                left -= [a, b]
                    .into_iter()
                    .map(|desk| desk.into_inner().unwrap().coins.len())
                    .sum::<usize>();
            }
            assert_eq!(got, left, "{how:?}: what was given is what came");
            assert_eq!(alive.load(Ordering::Relaxed), 0, "{how:?}");
        }
    });
}

#[test]
fn a_dropped_token_says_so_and_names_the_request() {
    watched("dropped token", || {
        let runtime = runtime(2);
        for on_thread in [false, true] {
            let desk = EnvCell::new(Desk::new());
            runtime
                .run(|| {
                    scope(|s| {
                        let waiter = s.spawn(|| desk.request(Token).map(|coin| coin.number));
                        let token = loop {
                            if let Some(token) = desk.request(TakeToken).unwrap() {
                                break token;
                            }
                            yield_now();
                        };
                        if on_thread {
                            std::thread::spawn(|| drop(token)).join().unwrap()
                        } else {
                            drop(token)
                        }
                        match waiter.join().unwrap() {
                            Err(Ended::Abandoned(name)) => assert!(name.ends_with("Token"), "{name}"),
                            other => panic!("{other:?}"),
                        }
                    });
                })
                .unwrap();
        }
    });
}

#[test]
fn a_leaked_token_is_still_listed_with_its_construct_and_place() {
    watched("leaked token", || {
        let runtime = runtime(2);
        let desk = Arc::new(EnvCell::new(Desk::new()));
        let of_vp = desk.clone();
        let process = runtime
            .start(move || {
                let vp = VpBuilder::new()
                    .name("leaked")
                    .spawn(move || drop(of_vp.request(Token)))
                    .unwrap();
                drop(vp.join());
            })
            .unwrap();
        loop {
            if let Some(token) = desk.request(TakeToken).unwrap() {
                std::mem::forget(token);
                break;
            }
            std::thread::yield_now();
        }
        // The VP may just be on its way to its controller: then the next listing has it.
        let wait = loop {
            if let Some(wait) = runtime
                .waits()
                .into_iter()
                .find(|wait| wait.vp.user() == Some("leaked"))
            {
                break wait;
            }
        };
        assert!(wait.request.ends_with("Token"), "{wait}");
        assert!(wait.sent_from.file().ends_with("one_wait_one_end.rs"), "{wait}");
        assert!(!wait.binding && !wait.timed);
        process.cancel().unwrap();
        assert!(process.wait().is_err());
        assert!(runtime.waits().is_empty());
    });
}

#[test]
fn a_token_resumed_from_an_os_thread_or_too_late() {
    watched("token on an OS thread", || {
        let runtime = runtime(2);
        let alive = Arc::new(AtomicUsize::new(0));
        let desk = Arc::new(EnvCell::new(Desk::new()));
        let (of_vp, of_thread, coins) = (desk.clone(), desk.clone(), alive.clone());
        let process = runtime.start(move || {
            let first = of_vp.request(Token).unwrap().number;
            let late = of_vp.request_until(Token, Some(Instant::now())).map(|coin| coin.number);
            (first, late)
        });
        std::thread::spawn(move || {
            let take = || loop {
                match of_thread.request(TakeToken).unwrap() {
                    Some(token) => break token,
                    None => std::thread::yield_now(),
                }
            };
            assert!(take().resume(Coin::new(&coins, 1)).is_ok());
            let second = take();
            let mut coin = Coin::new(&coins, 2);
            // The deadline is past; either way it comes back or arrives, never both.
            match second.resume(coin) {
                Ok(()) => {}
                Err(back) => {
                    coin = back;
                    assert_eq!(coin.number, 2);
                }
            }
        })
        .join()
        .unwrap();
        let (first, late) = process.unwrap().wait().unwrap();
        assert_eq!(first, 1);
        assert!(matches!(late, Ok(2) | Err(Ended::Deadline)), "{late:?}");
        assert_eq!(alive.load(Ordering::Relaxed), 0);
    });
}

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
                let (index, number) = Select::new()
                    .on(&a, || Queue, |c| c.number)
                    .on(&b, || Queue, |c| c.number)
                    .wait(None)
                    .unwrap();
                assert_eq!((index, number), (0, 1), "branches are tried in their order");
                let both = Select::new()
                    .on(&a, || Queue, |c| c.number)
                    .on(&b, || Queue, |c| c.number)
                    .wait(None);
                assert_eq!(both, Ok((1, 2)));
                let began = Instant::now();
                let until = began + Duration::from_millis(5);
                let late = Select::new()
                    .on(&a, || Queue, |c| c.number)
                    .on(&a, || Token, |c| c.number)
                    .wait(Some(until));
                assert_eq!(late, Err(Ended::Deadline));
                assert!(Instant::now() >= until, "a deadline came too early");
                // The token is of a wait that is over.
                let token = a.request(TakeToken).unwrap().unwrap();
                assert!(token.resume(Coin::new(&alive, 3)).is_err());
                // Several branches in the same queue: one coin, one of them gets it.
                scope(|s| {
                    let one = s.spawn(|| {
                        Select::new()
                            .on(&a, || Queue, |c| c.number)
                            .on(&a, || Queue, |c| c.number + 10)
                            .wait(None)
                    });
                    let gate = Gate::new();
                    gate.open();
                    gate.pass();
                    a.release(Put(Coin::new(&alive, 4)));
                    assert_eq!(one.join().unwrap(), Ok((0, 4)));
                });
                let empty: Select<'_, ()> = Select::new();
                assert_eq!(
                    empty.wait(Some(Instant::now() + Duration::from_millis(1))),
                    Err(Ended::Deadline)
                );
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
