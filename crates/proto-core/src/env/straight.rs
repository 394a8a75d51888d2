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
//! Measured: lock and unlock of a mutex FIGURES.

use std::panic::Location;
use std::time::Instant;

use super::cell::EnvCell;
use super::holders::Holder;
use super::RequestHandler;
use crate::ctx::{self, attention};
use crate::ended::Ended;
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
    place: Option<&'static Location<'static>>,
    holder: &'h Holder,
}

impl Sender<'_> {
    /// As [`Hidden::holds`], of the sender and an object that nobody holds.
    #[inline(always)]
    pub(crate) fn holds(self) {
        self.holder.holds_alone(self.block, self.place);
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
        let answer = value.serve(request, Sender { block, place: Some(place), holder: &self.head.holder });
        let version = self.head.unlock(version);
        match answer {
            Answer::Reply(reply) => Sent::Reply(reply),
            Answer::Again => Sent::Again(version),
            Answer::Decline(request) => Sent::Declined(request),
        }
    }

    /// Goes on with a request that was to be sent [again](Sent::Again), as [`request_adaptive`](EnvCell::request_adaptive) would.
    #[track_caller]
    pub(crate) fn request_adaptive_again<R>(
        &self,
        seen: Version,
        make: impl Fn(bool) -> R,
        deadline: Option<Instant>,
    ) -> Result<E::Reply, Ended>
    where
        E: Straight<R>,
    {
        self.request_adaptive_slow(ctx::get(), seen, make, deadline, Location::caller())
    }

    /// Returns when nobody is inside: before the general way, where the straight one was declined.
    pub(crate) fn await_free(&self) {
        self.head.wait_until_free();
    }
}
