//! Where timelines wait for a coin, in a queue or with their token at large.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use proto_core::{Caller, Hidden, Kind, RequestHandler, Suspended, Waiters};

/// A value that is counted as long as it lives.
pub struct Coin {
    pub alive: Arc<AtomicUsize>,
    pub number: usize,
}

impl Coin {
    pub fn new(alive: &Arc<AtomicUsize>, number: usize) -> Coin {
        alive.fetch_add(1, Ordering::Relaxed);
        Coin { alive: alive.clone(), number }
    }
}

impl Drop for Coin {
    fn drop(&mut self) {
        self.alive.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Timelines wait in a queue, or give their token to whoever takes it.
pub struct Desk {
    pub coins: Vec<Coin>,
    pub waiting: Waiters<Coin>,
    pub tokens: Vec<Suspended<Coin>>,
}

impl Desk {
    pub const fn new() -> Desk {
        Desk { coins: Vec::new(), waiting: Waiters::new(), tokens: Vec::new() }
    }
}

pub struct Queue;
pub struct Token;
pub struct Put(pub Coin);
pub struct TakeToken;

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

/// Where timelines wait for a number, and no cancel ends the wait.
#[derive(Default)]
pub struct Pit {
    waiting: Waiters<u32>,
}

/// Waits in a [`Pit`].
pub struct Fall;
/// Gives a number to one that waits in a [`Pit`]; says whether there was one.
pub struct Pull(pub u32);

impl RequestHandler<Fall> for Pit {
    type Reply = u32;
    const KIND: Kind = Kind::Binding;
    fn handle(&mut self, _: Fall, caller: Caller<'_, u32>, hidden: &mut Hidden<'_>) {
        self.waiting.push(caller, hidden);
    }
}

impl RequestHandler<Pull> for Pit {
    type Reply = bool;
    const KIND: Kind = Kind::Binding;
    fn handle(&mut self, Pull(number): Pull, caller: Caller<'_, bool>, hidden: &mut Hidden<'_>) {
        let pulled = self.waiting.resume_next(number, hidden).is_ok();
        hidden.answer(caller, pulled);
    }
}
