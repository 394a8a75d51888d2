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
