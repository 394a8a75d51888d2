//! Requests that look for a while before they wait: how a lock spins.
//!
//! The wait is for the next pass of the environment, watched without writing: by its lock's version (`kernel::spin`). Whether that is worth
//! while the handler says, which knows who holds the object: a holder that lives on this core cannot run meanwhile.

use std::panic::Location;
use std::time::Instant;

use super::cell::EnvCell;
use super::frame::Frame;
use super::hidden::Status;
use super::{InfoOf, RequestHandler, wait};
use crate::ctx::{self, Ctx};
use crate::ended::Ended;
use crate::kernel::spin::{SpinWord, Version};

/// How long, in pauses of the processor, an adaptive request watches before it queues: some microseconds, less than a switch to and fro with
/// a sleep in between, and long enough that two cores that want one lock all the time take turns instead of queueing.
const SPIN_LOOKS: u32 = 1600;
/// The time before the first look, in pauses: a quarter of a microsecond, in which whoever has the lock passes some times more, in its own cache.
/// With one pause two cores that do 30 ns of other work met at every pass (parking_lot's mutex as 1: mean of the curve with 2, 8, 64 timelines 1.23, 1.17,
/// 1.00 with one pause; 1.05, 0.99, 0.84 with 8, 16 or 32; 1.03, 1.01, 0.81 with 128, where a collision by chance costs too much). Growing
/// fourfold or more: worse than doubling. Looking only for a lock that is free, by a bit beside the version: no difference.
const FIRST_PAUSES: u32 = 16;
/// The longest time between two looks, in pauses.
const MOST_PAUSES: u32 = 256;

/// What is left of an adaptive request's patience.
#[derive(Debug)]
struct SpinBudget {
    left: u32,
    pauses: u32,
}

impl SpinBudget {
    fn new() -> Self {
        SpinBudget { left: SPIN_LOOKS, pauses: FIRST_PAUSES }
    }

    /// Waits until somebody has passed since `seen`. `false` if the budget ran out.
    fn spin_until_changed(&mut self, word: &SpinWord, seen: Version) -> bool {
        // Fewer and fewer looks, also from one try to the next: each look and each try takes the line from the one who is waited for, and
        // where the lock is taken all the time it is best left to one core for a while.
        while self.left > 0 {
            for _ in 0..self.pauses {
                std::hint::spin_loop();
            }
            self.left = self.left.saturating_sub(self.pauses);
            self.pauses = (self.pauses * 2).min(MOST_PAUSES);
            if word.changed_since(seen) && !word.is_locked() {
                return true;
            }
        }
        false
    }
}

impl<E> EnvCell<E> {
    /// Sends the request that `make` gives, again and again while the handler [asks for it](super::Hidden::try_again) and the
    /// environment's holder runs on another core, for a bounded time; then `make(true)`, whose handler must not ask again.
    ///
    /// This is how a lock spins before it queues: the wait is for the holder's next pass, watched without writing.
    ///
    /// # Errors
    ///
    /// See [`Ended`].
    ///
    /// # Examples
    ///
    /// A lock that looks for its holder's release a while before it queues:
    ///
    /// ```
    /// use proto_core::{Caller, Ended, EnvCell, Hidden, RequestHandler, Waiters};
    ///
    /// struct LockEnv { free: bool, waiting: Waiters<()> }
    /// struct Acquire { last: bool }
    /// impl RequestHandler<Acquire> for LockEnv {
    ///     type Reply = ();
    ///     fn handle(&mut self, Acquire { last }: Acquire, caller: Caller<'_, ()>, hidden: &mut Hidden<'_>) {
    ///         if std::mem::take(&mut self.free) {
    ///             hidden.holds(&caller);
    ///             hidden.answer(caller, ());
    ///         } else if !last && hidden.holder_runs_elsewhere() {
    ///             hidden.try_again(caller);
    ///         } else {
    ///             self.waiting.push(caller, hidden);
    ///         }
    ///     }
    /// }
    /// let lock = EnvCell::new(LockEnv { free: true, waiting: Waiters::new() });
    /// lock.request_adaptive(|last| Acquire { last }, None)?;
    /// # Ok::<(), Ended>(())
    /// ```
    #[inline(always)]
    #[track_caller]
    pub fn request_adaptive<R>(&self, make: impl Fn(bool) -> R, deadline: Option<Instant>) -> Result<E::Reply, Ended>
    where
        E: RequestHandler<R>,
    {
        let place = Location::caller();
        let mut frame = Frame::<E::Reply, R>::new();
        let to = Frame::to(&mut frame);
        let ctx = ctx::get();
        // SAFETY: `frame` stays here, and is used by its pointer only, until the wait is over.
        match unsafe { self.pass_current(ctx, make(false), to, place) }? {
            // SAFETY: answered: the reply was written, and is read once.
            (Status::Answered, _) => Ok(unsafe { to.reply.read() }),
            (Status::TryAgain, seen) => self.request_adaptive_slow(ctx, seen, make, deadline, place),
            (status, _) => {
                self.wait_out_of_line::<R>(ctx, status, deadline, place, to.reply)?;
                // SAFETY: that says Ok only after the reply was written.
                Ok(unsafe { to.reply.read() })
            }
        }
    }

    /// What [`wait::unanswered`] does, out of the way of a fast path that seldom comes here.
    #[cold]
    #[inline(never)]
    fn wait_out_of_line<R>(
        &self,
        ctx: &'static Ctx,
        status: Status,
        deadline: Option<Instant>,
        place: &'static Location<'static>,
        to: *mut E::Reply,
    ) -> Result<(), Ended>
    where
        E: RequestHandler<R>,
    {
        wait::unanswered(ctx, status, InfoOf::<E, R>::INFO, place, deadline, to.cast())
    }

    /// Goes on with a request that was to be sent again, when it went straight, as [`request_adaptive`](EnvCell::request_adaptive) would.
    #[track_caller]
    pub(crate) fn request_adaptive_again<R>(
        &self,
        seen: Version,
        make: impl Fn(bool) -> R,
        deadline: Option<Instant>,
    ) -> Result<E::Reply, Ended>
    where
        E: RequestHandler<R>,
    {
        self.request_adaptive_slow(ctx::get(), seen, make, deadline, Location::caller())
    }

    #[cold]
    #[inline(never)]
    pub(super) fn request_adaptive_slow<R>(
        &self,
        ctx: &'static Ctx,
        mut seen: Version,
        make: impl Fn(bool) -> R,
        deadline: Option<Instant>,
        place: &'static Location<'static>,
    ) -> Result<E::Reply, Ended>
    where
        E: RequestHandler<R>,
    {
        let mut budget = SpinBudget::new();
        while budget.spin_until_changed(&self.head.lock, seen) {
            let mut frame = Frame::<E::Reply, R>::new();
            let to = Frame::to(&mut frame);
            // SAFETY: as in `request_adaptive`.
            match unsafe { self.pass_current(ctx::again(ctx), make(false), to, place) }? {
                // SAFETY: answered: the reply was written, and is read once.
                (Status::Answered, _) => return Ok(unsafe { to.reply.read() }),
                (Status::TryAgain, now) => seen = now,
                (status, _) => {
                    wait::unanswered(ctx, status, InfoOf::<E, R>::INFO, place, deadline, to.reply.cast())?;
                    // SAFETY: `unanswered` says Ok only after the reply was written.
                    return Ok(unsafe { to.reply.read() });
                }
            }
        }
        self.request_full(make(true), deadline, place)
    }
}
