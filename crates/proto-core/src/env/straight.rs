//! The straight way through an environment: a pass without the general one's provisions, for a lock's way in and way out.
//!
//! An uncontended lock is two exchanges, and a locked exchange waits until every store before it is in the cache: what such a pair costs is
//! its exchanges and its *stores*. A [general pass](super::pass) stores what only handlers in general need: which of them runs (for the message when it
//! makes a request), the number of the request (for loans), the reply in the frame (a resumer may write it), registers that its cold ways need kept. A
//! *straight* handler calls no user code, never waits, lends nothing, wakes nobody and cannot panic, so none of that has a reader.
//!
//! Its cold ways are not in its frame either. Whatever is out of the ordinary (a door to go through, hooks, no timeline here, somebody inside, a broken
//! environment) is found before anything was changed: the pass is then declined, and the caller sends the request the general way, by a call at the
//! end, for which nothing has to be kept.
//!
//! Only for handlers of this crate: a request in one of them would wait for itself, where the general pass names the mistake.
//!
//! # Measured
//!
//! Lock, add one, unlock, against parking_lot's in the same run: ×1.55 the general way; ×1.22 in a loop and ×1.25 in a function of its own straight.
//! Half of that came from what is around the pass. A guard's drop is compiled twice in each function that may unwind, so it is inlined only if it
//! is small: with the whole pass in it it was not, and guard and registers went through memory (×2.2 in a function of its own). So way in and
//! way out are a call each, with two words in registers. Where the compiler did inline everything, it was ×1.15.
//!
//! **Tried.** Reading what is stored later before the exchange; storing the place only if it is another one; the stores in other orders:
//! no difference. Each of these stores left out saves a cycle or two of 42, but is the content of a report: who holds the object (a store
//! on either side), since which line, and the count by which the name of a holder that has ended is kept.

use std::panic::Location;

use super::RequestHandler;
use super::cell::EnvCell;
use super::hidden::Hidden;
use super::holders::Holder;
use super::token::Caller;
use crate::ctx::{self, attention};
use crate::kernel::spin::Version;
use crate::vp::block::Block;

/// A request whose handler is straight: see the head of the file for what it must not do.
pub(crate) trait Straight<R>: RequestHandler<R> {
    /// Serves `request`.
    fn serve(&mut self, request: R, sender: Sender<'_>) -> Answer<Self::Reply, R>;
}

/// What a straight handler answers.
#[derive(Debug)]
pub(crate) enum Answer<T, R> {
    /// The reply.
    Reply(T),
    /// As [`Hidden::try_again`].
    Again,
    /// Something is out of the ordinary, and nothing was changed.
    Decline(R),
}

/// Who sends a request on the straight way, and what its handler may do besides changing the environment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sender<'h> {
    block: &'static Block,
    place: &'static Location<'static>,
    holder: &'h Holder,
}

impl<'h> Sender<'h> {
    /// The sender of a request that went the general way.
    pub(crate) fn of<T>(caller: &Caller<'_, T>, hidden: &'h Hidden<'_>) -> Self {
        Sender { block: caller.block, place: caller.place, holder: &hidden.head().holder }
    }

    /// As [`Hidden::holds`], of the sender and an object that nobody holds.
    #[inline(always)]
    pub(crate) fn holds(self) {
        self.holder.holds_alone(self.block, Some(self.place));
    }

    /// As [`Hidden::released`], of the sender. `false`: somebody else took the object, or several have it; nothing was noted.
    #[inline(always)]
    pub(crate) fn released_own(self) -> bool {
        self.holder.released_own(self.block)
    }

    /// As [`Hidden::holder_runs_elsewhere`].
    #[inline(always)]
    pub(crate) fn holder_runs_elsewhere(self) -> bool {
        ctx::installed().is_some_and(|ctx| self.holder.lives_elsewhere(ctx))
    }
}

/// What has become of a request sent straight.
#[derive(Debug)]
pub(crate) enum Sent<T, R> {
    /// The reply.
    Reply(T),
    /// To be sent again once somebody has passed since.
    Again(Version),
    /// Nothing has happened: this has to go the general way.
    Declined(R),
}

impl<E> EnvCell<E> {
    /// Sends `request` straight.
    #[inline(always)]
    pub(crate) fn send_straight<R>(&self, request: R, place: &'static Location<'static>) -> Sent<E::Reply, R>
    where
        E: Straight<R>,
    {
        let Some(ctx) = ctx::installed() else { return Sent::Declined(request) };
        if ctx.attention() & attention::DOOR != 0 || ctx.in_handler.get().is_some() {
            return Sent::Declined(request);
        }
        let Some(block) = ctx.current() else { return Sent::Declined(request) };
        let Some(version) = self.head.lock_at_once() else { return Sent::Declined(request) };
        if self.head.broken.get() {
            self.head.unlock(version);
            return Sent::Declined(request);
        }
        // SAFETY: the spinlock is held and the environment is not broken; nothing in `serve` unwinds.
        let value: &mut E = unsafe { &mut *self.value.get() };
        let answer = value.serve(request, Sender { block, place, holder: &self.head.holder });
        let version = self.head.unlock(version);
        match answer {
            Answer::Reply(reply) => Sent::Reply(reply),
            Answer::Again => Sent::Again(version),
            Answer::Decline(request) => Sent::Declined(request),
        }
    }

    /// Returns when nobody is inside: before the general way, where the straight one was declined.
    pub(crate) fn await_free(&self) {
        self.head.wait_until_free();
    }
}
