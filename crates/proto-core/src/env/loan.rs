//! Loans: how a request names an environment that its requester borrows.

use std::fmt;
use std::marker::PhantomData;
use std::panic::Location;
use std::ptr::NonNull;
use std::time::Instant;

use super::cell::EnvCell;
use super::{InfoOf, RequestHandler, wait};
use crate::ctx;
use crate::ended::Ended;
use crate::vp::block::Block;

/// The name of an environment that a requester borrows, carried by its request.
///
/// How a condition variable names its mutex: the wait's request carries a loan of the mutex's environment, so that the
/// condition variable's handlers may [post](super::Hidden::post) its release and [forward](super::Hidden::forward) the waiter to it.
/// A loan is usable only together with the token of the timeline that lent it, and only while that timeline waits: that
/// is what keeps the borrowed environment alive.
///
/// # Examples
///
/// A bell to wait for with a lock, which one has again when the bell has rung:
///
/// ```
/// use proto_core::{Caller, EnvCell, Hidden, Kind, Loan, RequestHandler, Waiters};
///
/// struct Lock { held: bool, waiting: Waiters<()> }
/// struct Acquire;
/// struct Release;
/// impl RequestHandler<Acquire> for Lock {
///     type Reply = ();
///     fn handle(&mut self, _: Acquire, caller: Caller<'_, ()>, hidden: &mut Hidden<'_>) {
///         match std::mem::replace(&mut self.held, true) {
///             true => self.waiting.push(caller, hidden),
///             false => hidden.answer(caller, ()),
///         }
///     }
/// }
/// impl RequestHandler<Release> for Lock {
///     type Reply = ();
///     const KIND: Kind = Kind::Release;
///     fn handle(&mut self, _: Release, caller: Caller<'_, ()>, hidden: &mut Hidden<'_>) {
///         self.held = self.waiting.resume_next((), hidden).is_ok();
///         hidden.answer(caller, ());
///     }
/// }
///
/// struct Bell { waiting: Waiters<(), Loan<Lock>> }
/// struct Wait(Loan<Lock>);
/// struct Ring;
/// impl RequestHandler<Wait> for Bell {
///     type Reply = ();
///     fn handle(&mut self, Wait(lock): Wait, caller: Caller<'_, ()>, hidden: &mut Hidden<'_>) {
///         hidden.post(&caller, &lock, Release);
///         self.waiting.push_with(caller, lock, hidden);
///     }
/// }
/// impl RequestHandler<Ring> for Bell {
///     type Reply = ();
///     const KIND: Kind = Kind::Release;
///     fn handle(&mut self, _: Ring, caller: Caller<'_, ()>, hidden: &mut Hidden<'_>) {
///         while let Some((listener, lock)) = self.waiting.take_next(hidden) {
///             // The lock will answer it. Nothing to do for one whose wait has just ended otherwise.
///             let _ = hidden.forward(listener, lock, Acquire);
///         }
///         hidden.answer(caller, ());
///     }
/// }
///
/// static LOCK: EnvCell<Lock> = EnvCell::new(Lock { held: false, waiting: Waiters::new() });
/// static BELL: EnvCell<Bell> = EnvCell::new(Bell { waiting: Waiters::new() });
/// std::thread::scope(|s| {
///     LOCK.request(Acquire)?;
///     s.spawn(|| {
///         LOCK.request(Acquire)?; // only once the other waits
///         BELL.release(Ring);
///         LOCK.release(Release);
///         Ok::<(), proto_core::Ended>(())
///     });
///     BELL.request_lending(&LOCK, Wait, None)?;
///     LOCK.release(Release); // had it again
///     Ok::<(), proto_core::Ended>(())
/// })?;
/// # Ok::<(), proto_core::Ended>(())
/// ```
pub struct Loan<E> {
    pub(crate) cell: NonNull<EnvCell<E>>,
    pub(crate) block: &'static Block,
    /// Which request of the lender this loan goes with, and which timeline the lender is.
    pub(crate) request: u64,
    pub(crate) birth: u64,
    _marker: PhantomData<fn(E)>,
}

// SAFETY: a loan is an address and two numbers; using it goes through the cell's lock, and the cell is `Sync` for Send environments.
unsafe impl<E: Send> Send for Loan<E> {}

impl<E> fmt::Debug for Loan<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Loan").finish_non_exhaustive()
    }
}

impl<E> EnvCell<E> {
    /// Sends to `self` a request that carries a loan of `lent`, and waits for the reply.
    ///
    /// # Errors
    ///
    /// See [`Ended`].
    #[inline]
    #[track_caller]
    pub fn request_lending<L, R>(
        &self,
        lent: &EnvCell<L>,
        make: impl FnOnce(Loan<L>) -> R,
        deadline: Option<Instant>,
    ) -> Result<E::Reply, Ended>
    where
        E: RequestHandler<R>,
    {
        let place = Location::caller();
        let ctx = ctx::get();
        let info = InfoOf::<E, R>::INFO;
        let Some(block) = ctx.current() else { wait::misplaced_request(ctx, info) };
        let loan = Loan {
            cell: NonNull::from(lent),
            block,
            request: block.requests.get() + 1,
            birth: block.birth(),
            _marker: PhantomData,
        };
        self.request_full(make(loan), deadline, place)
    }
}
