//! The environment in which the end of a process is waited for.

use crate::env::{Caller, Hidden, Kind, RequestHandler, Waiters};

/// Waiting for a process's end.
pub(crate) struct EndEnv {
    pub(crate) over: bool,
    pub(crate) waiting: Waiters<()>,
}

/// Waits for the end.
pub(crate) struct AwaitEnd;
/// It has come.
pub(crate) struct Over;

impl RequestHandler<AwaitEnd> for EndEnv {
    type Reply = ();
    const KIND: Kind = Kind::Binding;
    fn handle(&mut self, _: AwaitEnd, caller: Caller<'_, ()>, hidden: &mut Hidden<'_>) {
        if self.over { hidden.answer(caller, ()) } else { self.waiting.push(caller, hidden) }
    }
}

impl RequestHandler<Over> for EndEnv {
    type Reply = ();
    const KIND: Kind = Kind::Release;
    fn handle(&mut self, _: Over, caller: Caller<'_, ()>, hidden: &mut Hidden<'_>) {
        self.over = true;
        while self.waiting.resume_next((), hidden).is_ok() {}
        hidden.answer(caller, ());
    }
}
