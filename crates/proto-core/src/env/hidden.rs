//! What a handler may do besides changing its environment: the *hidden* side of a request.
//!
//! Everything here is a note: wake-ups, requests to other environments and drops of user values are written down under the
//! lock and carried out after it [design rules 1 and 2], in this order: wake-ups, then posts and forwards in the order they were
//! given, then drops.

use std::fmt;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::panic::Location;
use std::ptr::NonNull;

use super::RequestHandler;
use super::after::After;
use super::cell::CellHead;
use super::loan::Loan;
use super::node::Node;
use super::pass::drop_while_standing;
use super::token::{Caller, Suspended, Timeline, Woken};
use super::wait;
use crate::ctx::{self, Ctx};
use crate::kernel::wait::{End, Forward, Place};
use crate::runtime::send::Recheck;
use crate::vp::block::Block;

/// What has become of the request that is being handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    /// Nothing yet. A handler that returns so has lost its caller.
    Pending,
    /// The reply is in its place.
    Answered,
    /// The caller waits: in a queue, or as a token.
    Queued,
    /// The handler asked the caller to come again once somebody has passed.
    TryAgain,
}

/// A request that was not simply sent by the timeline that runs here.
#[derive(Debug)]
pub(crate) enum Origin {
    /// The requester is not here: its wait was claimed to be forwarded. Used up (`None`) when it is queued again.
    Forwarded(Option<Forward>),
    /// The request is one branch of a select; this is its node.
    Branch(NonNull<Node>),
    /// Sent after a pass of the timeline that runs here, on its behalf. It has no number of its own: by then another core may look at the
    /// number of the request that posted it (`Loan::fits`).
    Posted,
}

/// Given to a handler: answers, resumes, forwards; see the methods.
///
/// Few fields, made after the lock was taken: each store before the exchange delays it.
///
/// # Examples
///
/// Two meet, and each gets what the other brought:
///
/// ```
/// use proto_core::{Ended, EnvCell, Suspended};
///
/// /// Who came first, with what it brought.
/// type Place<T> = EnvCell<Option<(Suspended<T>, T)>>;
///
/// fn swap<T>(place: &Place<T>, mine: T) -> Result<T, Ended> {
///     place.ask(
///         |first, caller, hidden| match first.take() {
///             None => *first = Some((hidden.suspend(caller), mine)),
///             Some((other, theirs)) => match hidden.resume(other, mine) {
///                 Ok(_) => hidden.answer(caller, theirs),
///                 Err(mine) => {
///                     // The other one gave up. What it brought may have a destructor, which is user code.
///                     hidden.drop_later(theirs);
///                     *first = Some((hidden.suspend(caller), mine));
///                 }
///             },
///         },
///         None,
///     )
/// }
///
/// let place = Place::new(None);
/// std::thread::scope(|s| {
///     let apple = s.spawn(|| swap(&place, "apple"));
///     assert_eq!(swap(&place, "pear"), Ok("apple"));
///     assert_eq!(apple.join().unwrap(), Ok("pear"));
/// });
/// ```
pub struct Hidden<'h> {
    pub(crate) head: *const CellHead,
    pub(crate) origin: *mut Origin,
    pub(crate) status: Status,
    after: After,
    _pass: PhantomData<&'h mut ()>,
}

impl fmt::Debug for Hidden<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hidden").field("status", &self.status).finish_non_exhaustive()
    }
}

impl<'h> Hidden<'h> {
    /// Makes one in `place`; see [`After`] for why not by value.
    #[inline(always)]
    pub(crate) fn begin(place: &'h mut MaybeUninit<Self>, head: *const CellHead, origin: *mut Origin) -> &'h mut Self {
        let raw = place.as_mut_ptr();
        // SAFETY: the place of a field of `raw`; no reference is made.
        let field = unsafe { &raw mut (*raw).head };
        // SAFETY: good for writes.
        unsafe { field.write(head) };
        // SAFETY: as above.
        let field = unsafe { &raw mut (*raw).origin };
        // SAFETY: good for writes.
        unsafe { field.write(origin) };
        // SAFETY: as above.
        let field = unsafe { &raw mut (*raw).status };
        // SAFETY: good for writes.
        unsafe { field.write(Status::Pending) };
        // SAFETY: the place of a field of `raw`; no reference is made.
        let after = unsafe { &raw mut (*raw).after };
        // SAFETY: as above.
        unsafe { After::begin(after) };
        // SAFETY: what has to be initialised is.
        unsafe { place.assume_init_mut() }
    }

    #[inline(always)]
    pub(crate) fn head(&self) -> &CellHead {
        // SAFETY: the cell is locked by the pass this belongs to, hence alive.
        unsafe { &*self.head }
    }

    /// Where the request comes from, if not simply from the timeline that runs here.
    #[inline(always)]
    pub(crate) fn origin(&mut self) -> Option<&mut Origin> {
        // SAFETY: null, or a variable of the frame that runs this pass and lent it.
        unsafe { self.origin.as_mut() }
    }

    #[inline(always)]
    pub(crate) fn has_after(&self) -> bool {
        !self.after.is_empty()
    }

    /// Carries out what was noted. After the unlock.
    #[inline]
    pub(crate) fn run_after(&mut self, ctx: &'static Ctx) {
        self.after.run(ctx);
    }

    /// Ends the forwarding of the wait of `block`: it goes to `place`. Notes, if a deadline or cancel came meanwhile, that its home core
    /// looks again after the unlock. Under the lock.
    pub(super) fn finish_forward(&mut self, block: &'static Block, forward: Forward, place: Place) {
        // Before the wait is open to others, who may end it, and with it the runtime that it keeps alive.
        let recheck = Recheck::new(block);
        if block.wait.finish_forward(forward, place).is_empty() {
            return;
        }
        if let Some(recheck) = recheck {
            // SAFETY: it borrows nothing.
            unsafe { self.after.op(move |_| recheck.ask()) };
        }
    }

    /// Notes that `timeline`, whose wait was just won and whose reply is written, is to be made ready.
    #[inline]
    pub(crate) fn wake(&mut self, timeline: &'static Block) {
        self.after.wake(timeline);
    }

    /// Answers the timeline whose request is being handled: it goes on with `reply`, without a switch.
    #[inline(always)]
    pub fn answer<T>(&mut self, caller: Caller<'_, T>, reply: T) {
        // SAFETY: a `Caller` exists once for each pass, and cannot leave its handler: its requester still has the place of the reply.
        unsafe { caller.to.reply.write(reply) };
        self.status = Status::Answered;
    }

    /// Asks the caller to send its request again once somebody has passed this environment.
    ///
    /// Only for requests sent with [`EnvCell::request_adaptive`](super::EnvCell::request_adaptive) and not yet said to be the last one.
    #[inline(always)]
    pub fn try_again<T>(&mut self, caller: Caller<'_, T>) {
        let _ = caller;
        self.status = Status::TryAgain;
    }

    /// Whether the holder noted by [`holds`](Hidden::holds) lives on another core, or is an OS thread: then it may be running, and a
    /// short wait be cheaper than a switch. One that lives on this core does not run now. A hint.
    #[inline]
    pub fn holder_runs_elsewhere(&self) -> bool {
        // `get` may attach the thread, hence unwind: the pass of a lock's fast path then had to keep `Hidden` in memory for that.
        ctx::installed().is_some_and(|ctx| self.head().holder.lives_elsewhere(ctx))
    }

    /// Takes the caller's token: it waits until the token is [resumed](Hidden::resume), dropped, or its wait ends otherwise.
    ///
    /// # Panics
    ///
    /// If the request is a [`Kind::Release`](super::Kind::Release) one.
    pub fn suspend<T>(&mut self, caller: Caller<'_, T>) -> Suspended<T> {
        let token = wait::arm_token(self, &caller);
        self.status = Status::Queued;
        token
    }

    /// Resumes a suspended timeline with `reply`, after the unlock.
    ///
    /// # Errors
    ///
    /// Gives the value back if the wait has ended otherwise (deadline, cancel, another branch of a select).
    pub fn resume<T>(&mut self, suspended: Suspended<T>, reply: T) -> Result<Woken, T> {
        let block = suspended.answer(reply)?;
        self.wake(block);
        Ok(Woken::new(block, ()))
    }

    /// Sends the waiting timeline on: after the unlock its request becomes `request` to the environment that `loan` names, which
    /// will answer it.
    ///
    /// The wait is claimed first: deadline and cancel wait until the other environment has queued it. If the wait has already
    /// ended, nothing is sent and `Err` gives the request back.
    ///
    /// # Errors
    ///
    /// The request, if the wait has ended otherwise.
    ///
    /// # Panics
    ///
    /// If the loan was not lent with the request that `token` waits for.
    #[track_caller]
    pub fn forward<L, R>(&mut self, token: Suspended<L::Reply>, loan: Loan<L>, request: R) -> Result<Woken, R>
    where
        L: RequestHandler<R>,
    {
        // Claimed before the loan is looked at: a token that was taken out of its queue may be that of a timeline which has given up and makes its
        // next request, and counts it, just now. A claimed wait keeps its timeline where it is.
        let Some(claimed) = token.begin_forward() else {
            return Err(request);
        };
        let block = claimed.block;
        if !loan.fits(block) {
            block.wait.end_forwarded(claimed.forward, End::Abandoned);
            self.wake(block);
            loan.misfits();
        }
        let place = block.reason().map_or(Location::caller(), |(_, place)| place);
        // SAFETY: what the closure captures may be shorter-lived than 'static, but it runs before this pass returns; the loan's
        // cell lives as long as its lender waits, and the lender's wait is claimed for this closure.
        unsafe { self.after.op(move |ctx| wait::carry_on(ctx, claimed, loan, request, place)) };
        Ok(Woken::new(block, ()))
    }

    /// Sends `request`, whose reply nobody awaits, to the environment that `loan` names: after the unlock, and before the
    /// caller, which lent it, suspends.
    ///
    /// # Panics
    ///
    /// If the loan was not lent with the request that is being handled.
    pub fn post<T, L, R>(&mut self, caller: &Caller<'_, T>, loan: &Loan<L>, request: R)
    where
        L: RequestHandler<R, Reply = ()>,
    {
        const {
            assert!(
                matches!(<L as RequestHandler<R>>::KIND, super::Kind::Release),
                "only a Kind::Release request may be posted: nobody awaits it"
            )
        };
        assert!(self.origin.is_null(), "a request that was forwarded, or is a branch of a select, cannot post");
        if !loan.fits(caller.block) {
            loan.misfits();
        }
        let (cell, block, place) = (loan.cell, caller.block, caller.place);
        // SAFETY: as in `forward`; the lender is the caller, which goes on only after this pass.
        unsafe { self.after.op(move |ctx| wait::posted::<L, R>(ctx, cell, block, request, place)) };
    }

    /// Drops `value` after the unlock. User values have destructors, and those are user code.
    ///
    /// If the handler makes its caller wait, the destructor may release (a guard, say, or the last sender of a channel), but make no other request: the
    /// caller's timeline, on which it runs, cannot wait for two things. Such a request panics, and the panic goes to the process.
    #[inline]
    pub fn drop_later<T>(&mut self, value: T) {
        if std::mem::needs_drop::<T>() {
            // SAFETY: as in `forward`: it runs before the pass returns, so `value` outlives its use.
            unsafe {
                self.after
                    .last(move |ctx| if ctx.stands.get() { drop_while_standing(ctx, value) } else { drop(value) });
            };
        }
    }

    /// Notes, for reports, that `timeline` holds this environment's object from now on.
    ///
    /// For objects that only their holders can free. Not for one where anybody may let a waiter go (a semaphore): reports take the first holder
    /// for the one that is waited for, and a cycle of such waits ends the processes concerned.
    #[inline(always)]
    pub fn holds(&mut self, timeline: &impl Timeline) {
        let who = timeline.who();
        self.head().holder.holds(who.block, who.place);
    }

    /// Notes, for reports, that `timeline` gives this environment's object back.
    #[inline(always)]
    pub fn released(&mut self, timeline: &impl Timeline) {
        self.head().holder.released(timeline.who().block);
    }

    /// Whether the timeline whose request is handled unwinds because of a panic of its own (and not because it was
    /// cancelled): the question that poisoning asks. Costs a load unless somebody panics.
    ///
    /// # Examples
    ///
    /// A lock that notes whether what it guards may be half changed:
    ///
    /// ```
    /// use proto_core::EnvCell;
    ///
    /// #[derive(Default)]
    /// struct Flag { poisoned: bool }
    /// struct Guard<'a>(&'a EnvCell<Flag>);
    /// impl Drop for Guard<'_> {
    ///     fn drop(&mut self) {
    ///         self.0.update(|flag, _, hidden| flag.poisoned |= hidden.caller_panics());
    ///     }
    /// }
    /// let flag = EnvCell::new(Flag::default());
    /// let outcome = std::panic::catch_unwind(|| {
    ///     let _guard = Guard(&flag);
    ///     panic!("with the guard");
    /// });
    /// assert!(outcome.is_err());
    /// assert_eq!(flag.visit(|flag, _, _| flag.poisoned), Some(true));
    /// ```
    #[inline(always)]
    pub fn caller_panics(&self) -> bool {
        std::thread::panicking() && crate::panics::own_panic(ctx::get())
    }
}
