//! An OS thread whose wait was ended goes on when whoever ended it is done with it, not as soon as the end can be seen.

mod common;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use common::{sized, watched};
use proto_core::{Caller, Ended, EnvCell, Hidden, Kind, RequestHandler, Select, Suspended, Waiters};

/// Threads wait here.
#[derive(Default)]
struct Room {
    waiting: Waiters<u32>,
    tokens: Vec<Suspended<u32>>,
}

struct Queue;
struct Token;
/// Answers everybody, and stays in the room for some time, or until `gone_on` changes.
struct Answer<'a> {
    gone_on: &'a AtomicUsize,
    looks: usize,
}

impl RequestHandler<Queue> for Room {
    type Reply = u32;
    fn handle(&mut self, _: Queue, caller: Caller<'_, u32>, hidden: &mut Hidden<'_>) {
        self.waiting.push(caller, hidden);
    }
}

impl RequestHandler<Token> for Room {
    type Reply = u32;
    fn handle(&mut self, _: Token, caller: Caller<'_, u32>, hidden: &mut Hidden<'_>) {
        let token = hidden.suspend(caller);
        self.tokens.push(token);
    }
}

impl RequestHandler<Answer<'_>> for Room {
    /// Whether somebody went on meanwhile; `None` if nobody was answered.
    type Reply = Option<bool>;
    const KIND: Kind = Kind::Binding;
    fn handle(
        &mut self,
        Answer { gone_on, looks }: Answer<'_>,
        caller: Caller<'_, Option<bool>>,
        hidden: &mut Hidden<'_>,
    ) {
        let before = gone_on.load(Ordering::Relaxed);
        let mut any = false;
        while self.waiting.resume_next(7, hidden).is_ok() {
            any = true;
        }
        for token in self.tokens.drain(..) {
            any |= hidden.resume(token, 7).is_ok();
        }
        if !any {
            return hidden.answer(caller, None);
        }
        let early = (0..looks).any(|_| {
            std::thread::yield_now();
            gone_on.load(Ordering::Relaxed) != before
        });
        hidden.answer(caller, Some(early));
    }
}

/// How a thread waits.
#[derive(Clone, Copy, Debug)]
enum How {
    Queue,
    Token,
    Select,
}

impl How {
    const ALL: [How; 3] = [How::Queue, How::Token, How::Select];

    fn wait(self, room: &EnvCell<Room>, deadline: Option<Instant>) -> Result<u32, Ended> {
        match self {
            How::Queue => room.request_until(Queue, deadline),
            How::Token => room.request_until(Token, deadline),
            How::Select => {
                let select = Select::new().on(room, || Queue, |n| n).on(room, || Token, |n| n);
                select.wait(deadline).map(|(_, n)| n)
            }
        }
    }
}

#[test]
fn one_that_is_answered_waits_for_the_end_of_the_pass() {
    watched("answered before the end of the pass", || {
        for how in How::ALL {
            // None; one that does not come; one that comes before the answer, while its giver is busy, or after that.
            for deadline in [None, Some(Duration::from_secs(3600)), Some(Duration::from_millis(2))] {
                let room = EnvCell::new(Room::default());
                let gone_on = AtomicUsize::new(0);
                std::thread::scope(|s| {
                    let waiter = s.spawn(|| {
                        let outcome = how.wait(&room, deadline.map(|time| Instant::now() + time));
                        gone_on.fetch_add(1, Ordering::Relaxed);
                        outcome
                    });
                    let early = loop {
                        match room.request(Answer { gone_on: &gone_on, looks: sized(1000, 50) }).unwrap() {
                            None if !waiter.is_finished() => std::thread::yield_now(),
                            early => break early,
                        }
                    };
                    match waiter.join().unwrap() {
                        Ok(7) => assert_eq!(
                            early,
                            Some(false),
                            "{how:?}, {deadline:?}: it went on while its waker still had it"
                        ),
                        Err(Ended::Deadline) => assert_eq!(deadline, Some(Duration::from_millis(2))),
                        other => panic!("{other:?}"),
                    }
                });
            }
        }
    });
}
