//! A language of the tests' own: a rendezvous mailbox, which knows of no other language.
#![allow(dead_code, unreachable_pub, reason = "every test program is a crate of its own and uses a part of this")]

use std::time::Instant;

use proto_runtime::core::{Caller, Ended, EnvCell, Hidden, OrUnwind, RequestHandler, Waiters};

/// Who waits at the mailbox: senders, each with its message, or receivers.
pub struct Meeting<M> {
    senders: Waiters<(), M>,
    receivers: Waiters<M>,
}

pub struct Send<M>(pub M);
pub struct Receive;

impl<M> RequestHandler<Send<M>> for Meeting<M> {
    type Reply = ();
    fn handle(&mut self, Send(message): Send<M>, caller: Caller<'_, ()>, hidden: &mut Hidden<'_>) {
        match self.receivers.resume_next(message, hidden) {
            Ok(_) => hidden.answer(caller, ()),
            Err(message) => self.senders.push_with(caller, message, hidden),
        }
    }
}

impl<M> RequestHandler<Receive> for Meeting<M> {
    type Reply = M;
    fn handle(&mut self, _: Receive, caller: Caller<'_, M>, hidden: &mut Hidden<'_>) {
        match self.senders.resume_next((), hidden) {
            Ok(sender) => hidden.answer(caller, sender.into_data()),
            Err(()) => self.receivers.push(caller, hidden),
        }
    }
}

pub struct Mailbox<M>(pub EnvCell<Meeting<M>>);

impl<M> Mailbox<M> {
    #[track_caller]
    pub const fn new() -> Self {
        Mailbox(EnvCell::new(Meeting { senders: Waiters::new(), receivers: Waiters::new() }))
    }
    #[track_caller]
    pub fn send(&self, message: M) {
        self.0.request(Send(message)).or_unwind();
    }
    #[track_caller]
    pub fn receive(&self) -> M {
        self.0.request(Receive).or_unwind()
    }
    #[track_caller]
    pub fn receive_until(&self, deadline: Instant) -> Option<M> {
        match self.0.request_until(Receive, Some(deadline)) {
            Err(Ended::Deadline) => None,
            reply => Some(reply.or_unwind()),
        }
    }
}
