//! The pass of a request through its environment, from the lock to what is left for after the unlock. The head of `cell` says what may be
//! touched when, and what happens if a handler panics.

use std::mem::{ManuallyDrop, MaybeUninit};
use std::panic::{AssertUnwindSafe, Location, catch_unwind};
use std::ptr;
use std::sync::Arc;

use super::cell::EnvCell;
use super::frame::To;
use super::hidden::{Hidden, Origin, Status};
use super::token::Caller;
use super::{Info, InfoOf, Kind, RequestHandler, broken, wait};
use crate::ctx::{self, Ctx, attention};
use crate::ended::{Ended, payload_text};
use crate::hooks;
use crate::kernel::spin::Version;
use crate::kernel::wait::{End, Forward};
use crate::vp::block::Block;

impl<E> EnvCell<E> {
    /// One pass: lock, handler, unlock, and what was left for after the unlock. Gives the lock word's version as well, for who has to
    /// try again.
    ///
    /// # Safety
    ///
    /// - `block` is the timeline that runs on this OS thread; or `origin` is a forwarded one, of a wait of `block` that is claimed and whose
    ///   frame borrows `self`.
    /// - `to` is good for writes of `E::Reply`, and of its room, until the wait of `block` is over.
    /// - `origin` is null or points at an [`Origin`] that nobody else uses until this returns.
    #[inline(always)]
    pub(crate) unsafe fn pass<R>(
        &self,
        ctx: &'static Ctx,
        block: &'static Block,
        to: To<E::Reply>,
        request: R,
        place: &'static Location<'static>,
        origin: *mut Origin,
        seen: u32,
    ) -> Result<(Status, Version), Ended>
    where
        E: RequestHandler<R>,
    {
        let info = InfoOf::<E, R>::INFO;
        if let Some(outer) = ctx.in_handler.get() {
            if ptr::eq(outer, STANDING) && matches!(<E as RequestHandler<R>>::KIND, Kind::Release) {
                // SAFETY: the caller's duties.
                return unsafe { self.pass_standing(ctx, block, to, request, place, seen) };
            }
            wait::misplaced_request(ctx, info)
        }
        let version = self.head.lock();
        if self.head.broken.get() {
            let message = self.head.broken_message();
            self.head.unlock(version);
            return Err(Ended::Broken(message));
        }
        ctx.in_handler.set(Some(info));
        if origin.is_null() {
            block.requests.set(block.requests.get() + 1);
        }
        if seen & attention::HOOKS != 0 {
            hooks::request(&self.head, block, info, place);
        }
        let mut place_of_hidden = MaybeUninit::uninit();
        let hidden = Hidden::begin(&mut place_of_hidden, &self.head, origin);
        let caller = Caller::new(block, to, place);
        let outcome = if const { <E as RequestHandler<R>>::UNWINDS } {
            let unwinding = Unwinding { cell: self, ctx, version, hidden: &raw mut *hidden, requester: block };
            // SAFETY: the spinlock is held and the environment is not broken.
            let value: &mut E = unsafe { &mut *self.value.get() };
            E::handle(value, request, caller, hidden);
            std::mem::forget(unwinding);
            Ok(())
        } else {
            catch_unwind(AssertUnwindSafe(|| {
                // SAFETY: the spinlock is held and the environment is not broken.
                let value: &mut E = unsafe { &mut *self.value.get() };
                E::handle(value, request, caller, hidden);
            }))
        };
        ctx.in_handler.set(None);
        if let Err(payload) = outcome {
            let message = Arc::from(payload_text(&*payload));
            let broken = self.break_down(ctx, version, hidden, block, message);
            let in_select = matches!(hidden.origin(), Some(Origin::Branch(_)));
            match hidden.status {
                // It panicked after it had made its caller wait: who ends that wait makes the caller ready, so it has to stand.
                Status::Queued if !in_select => return Ok((Status::Queued, version)),
                Status::Answered => {
                    // SAFETY: the reply was written, and nobody else will read it.
                    drop_user_value(unsafe { to.reply.read() });
                }
                _ => {}
            }
            return Err(broken);
        }
        // Who has to try again watches for a pass after this one.
        let version = self.head.unlock(version);
        // From here on `self` may be gone, unless the requester is known to wait still.
        let status = hidden.status;
        if hidden.has_after() {
            let stood = ctx.stands.replace(ctx.stands.get() || status == Status::Queued);
            hidden.run_after(ctx);
            ctx::again(ctx).stands.set(stood);
        }
        Ok((status, version))
    }

    /// As [`pass`](EnvCell::pass), for a release in a destructor that runs while the timeline waits already ([`drop_while_standing`]): the
    /// release is one that was posted, which never waits either.
    ///
    /// # Safety
    ///
    /// - As for [`pass`](EnvCell::pass); the origin is null.
    #[cold]
    #[inline(never)]
    unsafe fn pass_standing<R>(
        &self,
        ctx: &'static Ctx,
        block: &'static Block,
        to: To<E::Reply>,
        request: R,
        place: &'static Location<'static>,
        seen: u32,
    ) -> Result<(Status, Version), Ended>
    where
        E: RequestHandler<R>,
    {
        let mut origin = Origin::Posted;
        ctx.in_handler.set(None);
        // SAFETY: the caller's duties; `origin` is this frame's.
        let passed = unsafe { self.pass(ctx, block, to, request, place, &raw mut origin, seen) };
        ctx.in_handler.set(Some(STANDING));
        passed
    }

    /// As [`pass`](EnvCell::pass), for a wait of `block` that is being forwarded here; ends that wait unless it was queued again.
    ///
    /// # Safety
    ///
    /// - The wait of `block` is claimed by `forward`, and its frame borrows `self`.
    /// - `reply` is good for writes of `E::Reply` until that wait is over.
    pub(crate) unsafe fn pass_forwarded<R>(
        &self,
        ctx: &'static Ctx,
        block: &'static Block,
        reply: *mut E::Reply,
        request: R,
        place: &'static Location<'static>,
        forward: Forward,
    ) where
        E: RequestHandler<R>,
    {
        let mut origin = Origin::Forwarded(Some(forward));
        // SAFETY: duties of the caller; `origin` is this frame's.
        let status =
            unsafe { self.pass(ctx, block, To::bare(reply), request, place, &raw mut origin, ctx.attention()) };
        // From here on `self` may be gone, unless `forward` is still there: then the frame that borrows it waits.
        let Origin::Forwarded(forward) = origin else { unreachable!("nobody changes the kind of an origin") };
        let Some(forward) = forward else { return };
        match status {
            Ok((Status::Answered, _)) => {
                let claim = block.wait.claim_forwarded(forward);
                block.wait.publish(claim);
            }
            Err(Ended::Broken(message)) => {
                broken::leave_message(block, &message);
                block.wait.end_forwarded(forward, End::Broken);
            }
            _ => block.wait.end_forwarded(forward, End::Abandoned),
        }
        wait::schedule(ctx::again(ctx), block);
    }

    /// A handler panicked: breaks the environment. Called with the lock held.
    #[cold]
    #[inline(never)]
    fn break_down(
        &self,
        ctx: &'static Ctx,
        version: Version,
        hidden: &mut Hidden<'_>,
        requester: &'static Block,
        message: Arc<str>,
    ) -> Ended {
        self.head.broken.set(true);
        // SAFETY: the lock is held; no other reference to the cold part is alive.
        unsafe { self.head.cold() }.message = Some(Arc::clone(&message));
        // SAFETY: the lock is held, and `broken` keeps everybody from the value from now on.
        let value = unsafe { ptr::read(self.value.get()) };
        let waiters = broken::break_all(&self.head, &message, requester, hidden);
        self.head.unlock(version);
        for block in waiters {
            hidden.wake(block);
        }
        hidden.run_after(ctx);
        // The value is the language's, but may hold what users gave: its drop is user code, and may panic as such.
        drop_user_value(ManuallyDrop::into_inner(value));
        crate::panics::replay_deferred();
        Ended::Broken(message)
    }
}

/// In a pass whose handler [unwinds](RequestHandler::UNWINDS): what happens if it does.
struct Unwinding<'a, 'h, E> {
    cell: &'a EnvCell<E>,
    ctx: &'static Ctx,
    version: Version,
    hidden: *mut Hidden<'h>,
    requester: &'static Block,
}

impl<E> Drop for Unwinding<'_, '_, E> {
    /// Inlined, and hands its fields on by value: so they need no place in memory unless it comes to this.
    #[inline(always)]
    fn drop(&mut self) {
        unwound(self.cell, self.ctx, self.version, self.hidden, self.requester);
    }
}

#[cold]
#[inline(never)]
fn unwound<E>(
    cell: &EnvCell<E>,
    ctx: &'static Ctx,
    version: Version,
    hidden: *mut Hidden<'_>,
    requester: &'static Block,
) {
    ctx.in_handler.set(None);
    // SAFETY: the pass's own, and the handler that had borrowed it is gone.
    let hidden = unsafe { &mut *hidden };
    cell.break_down(ctx, version, hidden, requester, crate::panics::deferred_text());
    if hidden.status == Status::Queued {
        eprintln!("proto-runtime: a handler that unwinds panicked after it had queued its caller");
        std::process::abort();
    }
}

/// What a timeline does that drops a value while it waits already.
const STANDING: &Info = {
    static INFO: Info = Info {
        request: || "the drop of a value",
        environment: || "a timeline that waits already",
        kind: Kind::Binding,
    };
    &INFO
};

/// Drops a value after a pass that left its requester waiting, on the requester's stack. Nothing may unwind here, and the destructor may make no
/// request but a release: it could be a second wait.
#[cold]
pub(super) fn drop_while_standing<T>(ctx: &'static Ctx, value: T) {
    let outer = ctx.in_handler.replace(Some(STANDING));
    drop_user_value(value);
    ctx.in_handler.set(outer);
}

/// Drops a value whose destructor may panic, where nothing may unwind.
fn drop_user_value<T>(value: T) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(|| drop(value))) {
        crate::panics::nobody_catches(payload);
    }
}
