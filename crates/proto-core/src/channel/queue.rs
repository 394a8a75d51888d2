//! The environment of a channel.
//!
//! # Where a value is
//!
//! With its sender (in the request, or left in the queue of senders that wait for room), in `buffer`, or handed to a receiver that waits.
//! Values wait in `buffer` only while no receiver does, and senders wait only while `buffer` is full: so a send to a waiting
//! receiver is one tie-point, without a copy in between, and order is kept: `buffer`, then the senders, in the order they came.
//!
//! # The dangerous races
//!
//! *A sender that gives up* while its value is taken: whoever claims the wait first decides, and only then takes the value, so it is with the
//! receiver or with its sender, never with both or neither.
//!
//! *A value is dropped under the lock*: that would run user code in a handler. Values that nobody will receive leave through
//! `drop_later`.
//!
//! *`buffer` grows*: not under the lock. A sender that finds no memory is told so, makes some, lends it in a request of its own, and
//! comes again; the values move a few at a time (`Backlog`). A value that was not sent comes back each time, so another sender may be
//! first: values of one sender keep their order.

use std::sync::mpsc::TryRecvError;

use crate::ended::Ended;
use crate::env::{Backlog, Caller, Hidden, RequestHandler, Waiters};

pub(super) struct Queue<T> {
    buffer: Backlog<T>,
    /// How many values `buffer` may hold; the largest number: any.
    bound: usize,
    senders: usize,
    receiver_gone: bool,
    receiving: Waiters<Result<T, TryRecvError>>,
    sending: Waiters<Sent<T>, T>,
}

/// What comes of a value that is to be sent: if it is not, it comes back with the reason.
pub(super) type Sent<T> = Result<(), (T, Unsent)>;

pub(super) enum Unsent {
    /// There is no receiver any more.
    Refused,
    /// There is no room, and the sender was not to wait.
    Full,
    /// There is no memory for it: it takes this much.
    NoMemory(usize),
    /// Its sender's wait ended otherwise.
    GaveUp(Ended),
}

/// Send a value; waits for room, or not.
pub(super) struct Send<T> {
    pub(super) value: T,
    pub(super) waits: bool,
}

/// The next value; waits for it, or not.
pub(super) struct Receive {
    pub(super) waits: bool,
}

impl<T> Queue<T> {
    pub(super) const fn new(bound: usize) -> Self {
        let (receiving, sending) = (Waiters::new(), Waiters::new());
        Queue { buffer: Backlog::new(), bound, senders: 1, receiver_gone: false, receiving, sending }
    }

    /// Takes the next value; lets the first sender that waits for room have it.
    #[inline]
    fn take(&mut self, hidden: &mut Hidden<'_>) -> Option<T> {
        let first = self.buffer.pop();
        if self.bound == usize::MAX {
            return first;
        }
        let Ok(sender) = self.sending.resume_next(Ok(()), hidden) else { return first };
        let next = sender.into_data();
        if first.is_none() {
            return Some(next);
        }
        assert!(self.buffer.push(next).is_ok(), "there is memory for what was just taken out");
        first
    }

    /// Room for `buffer`. Gives what is not needed.
    pub(super) fn grow(&mut self, room: Backlog<T>) -> Backlog<T> {
        self.buffer.grow(room)
    }

    pub(super) fn add_sender(&mut self) {
        self.senders += 1;
    }

    pub(super) fn drop_sender(&mut self, hidden: &mut Hidden<'_>) {
        self.senders -= 1;
        if self.senders == 0 {
            // If the receiver waits, there is nothing to receive.
            let _ = self.receiving.resume_next(Err(TryRecvError::Disconnected), hidden);
        }
    }

    pub(super) fn drop_receiver(&mut self, hidden: &mut Hidden<'_>) {
        self.receiver_gone = true;
        while self.sending.resume_next_with(|value| Err((value, Unsent::Refused)), hidden).is_some() {}
        hidden.drop_later(std::mem::take(&mut self.buffer));
    }
}

impl<T> RequestHandler<Send<T>> for Queue<T> {
    type Reply = Sent<T>;
    // Nothing in here panics once the caller is queued.
    const UNWINDS: bool = true;
    #[inline]
    fn handle(&mut self, Send { value, waits }: Send<T>, caller: Caller<'_, Sent<T>>, hidden: &mut Hidden<'_>) {
        if self.receiver_gone {
            return hidden.answer(caller, Err((value, Unsent::Refused)));
        }
        let value = match self.receiving.resume_next(Ok(value), hidden) {
            Ok(_) => return hidden.answer(caller, Ok(())),
            Err(refused) => refused.expect("a value was offered"),
        };
        if self.buffer.len() < self.bound {
            let pushed = self.buffer.push(value);
            let pushed = pushed.map_err(|value| (value, Unsent::NoMemory(self.buffer.more())));
            hidden.answer(caller, pushed);
        } else if waits {
            self.sending.push_returning(caller, value, |value, ended| Err((value, Unsent::GaveUp(ended))), hidden);
        } else {
            hidden.answer(caller, Err((value, Unsent::Full)));
        }
    }
}

impl<T> RequestHandler<Receive> for Queue<T> {
    type Reply = Result<T, TryRecvError>;
    // Nothing in here panics once the caller is queued.
    const UNWINDS: bool = true;
    #[inline]
    fn handle(&mut self, Receive { waits }: Receive, caller: Caller<'_, Self::Reply>, hidden: &mut Hidden<'_>) {
        match self.take(hidden) {
            Some(value) => hidden.answer(caller, Ok(value)),
            None if self.senders == 0 => hidden.answer(caller, Err(TryRecvError::Disconnected)),
            None if waits => self.receiving.push(caller, hidden),
            None => hidden.answer(caller, Err(TryRecvError::Empty)),
        }
    }
}
