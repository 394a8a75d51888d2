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
//! receiver or with its sender, never with both or neither. A timed sender that gives up gets its value back out of the queue.
//!
//! *The receiver goes* while senders wait: what they left is in the queue, and the reply that ends a wait is given before its
//! value is taken. So the value is put on the shelf `returned`, the reply says where, and the sender fetches it.
//!
//! *A value is dropped under the lock*: that would run user code in a handler. Values that nobody will receive leave through
//! `drop_later`.

use std::collections::VecDeque;
use std::sync::mpsc::RecvError;

use proto_core::{Caller, Ended, EnvCell, Hidden, Kind, RequestHandler, Waiters};

pub(crate) struct Queue<T>(pub(crate) EnvCell<QueueEnv<T>>);

pub(crate) struct QueueEnv<T> {
    buffer: VecDeque<T>,
    /// How many values `buffer` may hold; `None`: any number.
    bound: Option<usize>,
    senders: usize,
    receiver_gone: bool,
    receiving: Waiters<Result<T, RecvError>>,
    sending: Waiters<Sent<T>, T>,
    returned: Vec<Option<T>>,
}

/// What becomes of a value that was sent.
pub(super) enum Sent<T> {
    Done,
    /// There is no receiver any more.
    Refused(T),
    /// There is no receiver any more; the value lies on this place of the shelf.
    Shelved(usize),
    /// There is no room, and the sender was not to wait.
    Full(T),
    /// Its sender's wait ended otherwise.
    GaveUp(T, Ended),
}

/// Send to a queue without a bound: never waits.
pub(super) struct Send<T>(pub(super) T);

/// Send to a queue with a bound.
pub(super) struct SendBounded<T> {
    pub(super) value: T,
    pub(super) patience: Patience,
}

/// What a sender does that finds no room.
#[derive(Clone, Copy)]
pub(super) enum Patience {
    None,
    /// Waits for a time: wants its value back then.
    Timed,
    Endless,
}

/// Fetch a value from the shelf.
pub(super) struct Fetch(pub(super) usize);

/// The next value, waiting for it.
pub(crate) struct Receive;

/// The next value, if there is one: `None` if not.
pub(super) struct TryReceive;

pub(super) struct AddSender;
pub(super) struct DropSender;
pub(super) struct DropReceiver;

impl<T> Queue<T> {
    #[track_caller]
    pub(super) fn new(bound: Option<usize>) -> Self {
        Queue(EnvCell::new(QueueEnv {
            buffer: VecDeque::new(),
            bound,
            senders: 1,
            receiver_gone: false,
            receiving: Waiters::new(),
            sending: Waiters::new(),
            returned: Vec::new(),
        }))
    }
}

impl<T> QueueEnv<T> {
    /// Gives `value` to the receiver if that waits.
    #[inline]
    fn hand_over(&mut self, value: T, hidden: &mut Hidden<'_>) -> Result<(), T> {
        self.receiving.resume_next(Ok(value), hidden).map(drop).map_err(|refused| match refused {
            Ok(value) => value,
            Err(_) => unreachable!("a value was offered"),
        })
    }

    /// Takes the next value; lets the first sender that waits for room have it.
    #[inline]
    fn take(&mut self, hidden: &mut Hidden<'_>) -> Option<T> {
        let first = self.buffer.pop_front();
        if self.bound.is_none() {
            return first;
        }
        let Ok(sender) = self.sending.resume_next(Sent::Done, hidden) else {
            return first;
        };
        let next = sender.into_data();
        if first.is_some() {
            self.buffer.push_back(next);
            first
        } else {
            Some(next)
        }
    }
}

impl<T> RequestHandler<Send<T>> for QueueEnv<T> {
    type Reply = Result<(), T>;
    // Nothing in here panics once the caller is queued.
    const UNWINDS: bool = true;
    #[inline]
    fn handle(&mut self, Send(value): Send<T>, caller: Caller<'_, Self::Reply>, hidden: &mut Hidden<'_>) {
        if self.receiver_gone {
            return hidden.answer(caller, Err(value));
        }
        if let Err(value) = self.hand_over(value, hidden) {
            self.buffer.push_back(value);
        }
        hidden.answer(caller, Ok(()));
    }
}

impl<T> RequestHandler<SendBounded<T>> for QueueEnv<T> {
    type Reply = Sent<T>;
    // Nothing in here panics once the caller is queued.
    const UNWINDS: bool = true;
    #[inline]
    fn handle(&mut self, send: SendBounded<T>, caller: Caller<'_, Sent<T>>, hidden: &mut Hidden<'_>) {
        if self.receiver_gone {
            return hidden.answer(caller, Sent::Refused(send.value));
        }
        let value = match self.hand_over(send.value, hidden) {
            Ok(()) => return hidden.answer(caller, Sent::Done),
            Err(value) => value,
        };
        if self.bound.is_none_or(|bound| self.buffer.len() < bound) {
            self.buffer.push_back(value);
            return hidden.answer(caller, Sent::Done);
        }
        match send.patience {
            Patience::None => hidden.answer(caller, Sent::Full(value)),
            Patience::Timed => self.sending.push_returning(caller, value, Sent::GaveUp, hidden),
            Patience::Endless => self.sending.push_with(caller, value, hidden),
        }
    }
}

impl<T> RequestHandler<Fetch> for QueueEnv<T> {
    type Reply = Option<T>;
    const KIND: Kind = Kind::Binding;
    fn handle(&mut self, Fetch(place): Fetch, caller: Caller<'_, Option<T>>, hidden: &mut Hidden<'_>) {
        let value = self.returned.get_mut(place).and_then(Option::take);
        hidden.answer(caller, value);
    }
}

impl<T> RequestHandler<Receive> for QueueEnv<T> {
    type Reply = Result<T, RecvError>;
    // Nothing in here panics once the caller is queued.
    const UNWINDS: bool = true;
    #[inline]
    fn handle(&mut self, _: Receive, caller: Caller<'_, Self::Reply>, hidden: &mut Hidden<'_>) {
        match self.take(hidden) {
            Some(value) => hidden.answer(caller, Ok(value)),
            None if self.senders == 0 => hidden.answer(caller, Err(RecvError)),
            None => self.receiving.push(caller, hidden),
        }
    }
}

impl<T> RequestHandler<TryReceive> for QueueEnv<T> {
    type Reply = Result<Option<T>, RecvError>;
    fn handle(&mut self, _: TryReceive, caller: Caller<'_, Self::Reply>, hidden: &mut Hidden<'_>) {
        let reply = match self.take(hidden) {
            None if self.senders == 0 => Err(RecvError),
            value => Ok(value),
        };
        hidden.answer(caller, reply);
    }
}

impl<T> RequestHandler<AddSender> for QueueEnv<T> {
    type Reply = ();
    const KIND: Kind = Kind::Release;
    fn handle(&mut self, _: AddSender, caller: Caller<'_, ()>, hidden: &mut Hidden<'_>) {
        self.senders += 1;
        hidden.answer(caller, ());
    }
}

impl<T> RequestHandler<DropSender> for QueueEnv<T> {
    type Reply = ();
    const KIND: Kind = Kind::Release;
    fn handle(&mut self, _: DropSender, caller: Caller<'_, ()>, hidden: &mut Hidden<'_>) {
        self.senders -= 1;
        if self.senders == 0 {
            // If the receiver waits, there is nothing to receive.
            let _ = self.receiving.resume_next(Err(RecvError), hidden);
        }
        hidden.answer(caller, ());
    }
}

impl<T> RequestHandler<DropReceiver> for QueueEnv<T> {
    type Reply = ();
    const KIND: Kind = Kind::Release;
    fn handle(&mut self, _: DropReceiver, caller: Caller<'_, ()>, hidden: &mut Hidden<'_>) {
        self.receiver_gone = true;
        while let Ok(sender) = self.sending.resume_next(Sent::Shelved(self.returned.len()), hidden) {
            self.returned.push(Some(sender.into_data()));
        }
        hidden.drop_later(std::mem::take(&mut self.buffer));
        hidden.answer(caller, ());
    }
}
