//! What happens around a pass that does not answer at once: the door before it, the wait after it, and making ready.
//!
//! # A wait, from both sides
//!
//! ```text
//!   requester: handler queues it (under the lock) ─► unlock ─► switch to the controller ………………… made ready ─► retire
//!   resumer:                 pop ─► claim ─► write the reply ─► publish ─► unlock ─► schedule ──┘
//!   home core: deadline or cancel ─► lock the environment it is queued in ─► interrupt ─► unlink ─► unlock ─► schedule
//! ```
//!
//! Whoever wins the wait (see `kernel::wait`) makes the timeline ready, once; the timeline always switches away and comes back by that:
//! it never looks for an answer by itself, so one end is one making-ready. Its home core cannot take it up before it
//! has switched away, because that core is busy running it. An OS thread parks instead, and looks whether it was made ready
//! (`runtime::attach`); its own deadline it carries out itself, and is made ready by nobody then.
//!
//! **The dangerous race** is the frame: reply, data and node of a branch lie in it or in the block, and the requester goes on as soon
//! as it was made ready. So every end unlinks first (under the lock of the queue) or leaves unlinking to the requester itself, and
//! making ready is the last step.

use std::panic::Location;
use std::ptr::NonNull;
use std::time::{Duration, Instant};

use super::cell::EnvCell;
use super::frame::To;
use super::hidden::{Hidden, Origin, Status};
use super::loan::Loan;
use super::node::Node;
use super::token::{Caller, Forwarded, Suspended};
use super::{Info, Kind, RequestHandler};
use crate::ctx::{Ctx, attention};
use crate::ended::Ended;
use crate::hooks::{self, Cause};
use crate::kernel::wait::{End, Interrupt, Key, Place};
use crate::runtime::{controller, send};
use crate::vp::block::{Block, flag, mode};

/// How long a timeline that unwinds holds its core before it suspends in a wait [design rule 13].
const UNWINDING_HOLD: Duration = Duration::from_millis(1);

/// A request from where none may be made: a handler, an assigner, a hook.
#[cold]
#[inline(never)]
#[track_caller]
pub(crate) fn misplaced_request(ctx: &Ctx, info: &Info) -> ! {
    match ctx.in_handler.get() {
        Some(outer) => panic!(
            "request {} made inside the handler of {} of {}: handlers make no requests; note it with `forward` or `post`",
            (info.request)(),
            (outer.request)(),
            (outer.environment)()
        ),
        None => panic!(
            "request {} made on a controller's own stack (by an assigner or a hook): only VPs and OS threads make requests",
            (info.request)()
        ),
    }
}

/// Something is out of the ordinary: looked at before the environment is locked.
#[cold]
#[inline(never)]
pub(crate) fn door(
    ctx: &'static Ctx,
    seen: u32,
    info: &'static Info,
    place: &'static Location<'static>,
) -> Result<(), Ended> {
    let mut ctx = ctx;
    let Some(block) = ctx.current() else { return Ok(()) };
    if info.kind == Kind::Release || block.is_thread() || ctx.in_handler.get().is_some() {
        return Ok(());
    }
    if seen & (attention::TICK | attention::MAIL | attention::TIMER) != 0 && !crate::panics::unwinding(ctx) {
        block.set_reason(info, place);
        controller::yield_now(ctx, block);
        ctx = crate::ctx::again(ctx);
    }
    let abandonable = info.kind == Kind::Abandonable && !block.has(flag::BINDING);
    if abandonable && block.is_cancelled() && !crate::panics::unwinding(ctx) {
        return Err(Ended::Cancelled);
    }
    if !block.is_cancelled() {
        ctx.lower(attention::CANCEL);
    }
    Ok(())
}

/// Queues the requester of the pass in queue `slot` of its environment. Under the lock.
#[inline]
pub(crate) fn enqueue<T>(hidden: &mut Hidden<'_>, caller: &Caller<'_, T>, slot: u16, put: impl FnOnce(&Node, &To<T>)) {
    check_may_wait();
    let block = caller.block;
    // SAFETY: the cell is locked by the pass that `hidden` belongs to, hence alive.
    let head = unsafe { &*hidden.head };
    // SAFETY: the requester runs, or waits: it has started.
    let mut node = unsafe { block.node() };
    match hidden.origin() {
        None | Some(Origin::Posted) => {
            node.key.set(block.wait.arm_queued());
        }
        Some(Origin::Branch(branch)) => {
            // SAFETY: the select's frame holds its nodes until its wait is over and they are unlinked.
            node = unsafe { branch.as_ref() };
        }
        Some(Origin::Forwarded(forward)) => {
            let forward = forward.take().expect("a forwarded request is queued once");
            node.key.set(forward.key());
            hidden.finish_forward(block, forward, Place::Queued);
        }
    }
    node.reply.set(caller.to.reply.cast());
    put(node, &caller.to);
    head.heads.link(head, slot, node, block);
    hidden.status = Status::Queued;
}

/// Panics if the request that is being handled is a release. In the handler, before anything is linked: its requester will not wait.
#[inline]
fn check_may_wait() {
    if let Some(info) = crate::ctx::get().in_handler.get() {
        assert!(
            info.kind != Kind::Release,
            "the handler of the release request {} of {} made its caller wait",
            (info.request)(),
            (info.environment)()
        );
    }
}

/// Takes the requester's token. Under the lock.
pub(crate) fn arm_token<T>(hidden: &mut Hidden<'_>, caller: &Caller<'_, T>) -> Suspended<T> {
    check_may_wait();
    let block = caller.block;
    // SAFETY: the requester runs, or waits: it has started.
    let node = unsafe { block.node() };
    let key = match hidden.origin() {
        None | Some(Origin::Posted) => block.wait.arm_free(),
        // SAFETY: as in `enqueue`.
        Some(Origin::Branch(branch)) => unsafe { branch.as_ref() }.key(),
        Some(Origin::Forwarded(forward)) => {
            let forward = forward.take().expect("a forwarded request is suspended once");
            let key = forward.key();
            hidden.finish_forward(block, forward, Place::Free);
            key
        }
    };
    if !matches!(hidden.origin(), Some(Origin::Branch(_))) {
        node.key.set(key);
    }
    Suspended::new(block, key, caller.to.reply)
}

/// What a requester does that was not answered at once. `Ok` after its reply was written.
///
/// Inlined down to the switch, with calls before and after it: a VP that comes back returns from no function on its way to the user's
/// code, each of which the processor would mispredict (its return stack holds the controller's calls; 4 ns each). The calls
/// are not marked cold: else the switch would not be inlined.
#[inline(always)]
pub(crate) fn unanswered(
    ctx: &'static Ctx,
    status: Status,
    info: &'static Info,
    place: &'static Location<'static>,
    deadline: Option<Instant>,
    reply: *mut (),
) -> Result<(), Ended> {
    // The pass may have led through the door, or have dropped a value of the user's that waited.
    let ctx = crate::ctx::again(ctx);
    let Some(block) = ctx.current() else { misplaced_request(ctx, info) };
    match begin(ctx, block, status, info, place, deadline) {
        How::Vp => controller::switch_away(ctx, block),
        How::Lost => return Err(Ended::Abandoned((info.request)())),
        how => stand_otherwise(ctx, block, how, deadline),
    }
    match conclude(block, info, reply) {
        None => Ok(()),
        Some(why) => Err(*why),
    }
}

/// How a requester stands still.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    /// It switches away.
    Vp,
    /// It switches away while it unwinds.
    Unwinding,
    /// It parks.
    Thread,
    /// Not at all: its handler forgot it.
    Lost,
}

/// Checks that the requester waits, and prepares its wait.
#[inline(never)]
fn begin(
    ctx: &'static Ctx,
    block: &'static Block,
    status: Status,
    info: &'static Info,
    place: &'static Location<'static>,
    deadline: Option<Instant>,
) -> How {
    if status != Status::Queued {
        not_queued(status, info);
        return How::Lost;
    }
    // SAFETY: the requester runs: it has started.
    let key = unsafe { block.node() }.key();
    prepare(ctx, block, key, info, place, deadline)
}

#[cold]
fn not_queued(status: Status, info: &Info) {
    let names = format!("{} of {}", (info.request)(), (info.environment)());
    assert!(
        status != Status::TryAgain,
        "the handler of {names} asks its caller to try again, which this request cannot"
    );
    debug_assert!(false, "the handler of {names} returned with its caller neither answered, queued nor suspended");
}

/// After the wait: what the request yields, if not its reply.
#[inline(never)]
fn conclude(block: &'static Block, info: &'static Info, reply: *mut ()) -> Option<Box<Ended>> {
    // SAFETY: the requester runs: it has started.
    let node = unsafe { block.node() };
    let end = over(block, node.key());
    if let End::Answered(_) = end {
        block.wait.retire();
        return None;
    }
    // Its token may have been taken just now, by a pass that still reads the node.
    // SAFETY: this frame borrows the cell it made its request to, and those that it lent.
    unsafe { node.leave() };
    let back = node.back.take();
    let why = finish(block, info, end).err()?;
    match back {
        // SAFETY: the node's data are as they were put there: nobody took them, and `back` was taken out.
        Some(back) if unsafe { back(node, &why, reply) } => None,
        _ => Some(Box::new(why)),
    }
}

/// Notes everything about the wait `key` of `block`, which runs here.
#[inline]
fn prepare(
    ctx: &'static Ctx,
    block: &'static Block,
    key: Key,
    info: &'static Info,
    place: &'static Location<'static>,
    deadline: Option<Instant>,
) -> How {
    block.set_reason(info, place);
    ctx.spare_heads.refill();
    if block.is_thread() {
        return How::Thread;
    }
    let unwinding = crate::panics::unwinding(ctx);
    let abandonable = info.kind == Kind::Abandonable && !unwinding && !block.has(flag::BINDING);
    block.mode.set(if abandonable { mode::ABANDONABLE } else { 0 });
    if unwinding {
        hold_core(block, key);
    }
    if abandonable && block.is_cancelled() {
        // The cancel came before the wait: carry it out here. The controller makes the VP ready like any other.
        super::interrupt::interrupt(ctx, block, key, Interrupt::Cancel);
    }
    if let Some(deadline) = deadline {
        crate::runtime::timers::arm_deadline(ctx, block, deadline);
    }
    if unwinding { How::Unwinding } else { How::Vp }
}

#[cold]
#[inline(never)]
fn stand_otherwise(ctx: &'static Ctx, block: &'static Block, how: How, deadline: Option<Instant>) {
    if how == How::Thread {
        // SAFETY: a thread has a node from the start.
        let key = unsafe { block.node() }.key();
        crate::runtime::attach::stand(block, key, deadline);
    } else {
        crate::panics::switch_while_unwinding(ctx, || controller::switch_away(ctx, block));
    }
}

/// The wait is over: how it ended.
#[inline]
fn over(block: &'static Block, key: Key) -> End {
    let end = block.wait.poll(key).expect("a timeline that was made ready has an end to its wait");
    let bits = block.mode.replace(0);
    if bits & mode::TIMED != 0 {
        block.mode.set(bits);
        crate::runtime::timers::disarm_deadline(crate::ctx::get(), block);
        block.mode.set(0);
    }
    end
}

/// Stands still until the wait `key` of `block`, which runs here, is over.
#[inline(never)]
pub(crate) fn stand(
    ctx: &'static Ctx,
    block: &'static Block,
    key: Key,
    info: &'static Info,
    place: &'static Location<'static>,
    deadline: Option<Instant>,
) -> End {
    // The node is where the others find the key; a select's plain node is not otherwise in use.
    // SAFETY: the requester runs: it has started.
    unsafe { block.node() }.key.set(key);
    match prepare(ctx, block, key, info, place, deadline) {
        How::Vp => controller::switch_away(ctx, block),
        how => stand_otherwise(ctx, block, how, deadline),
    }
    over(block, key)
}

/// A timeline that unwinds keeps its core for a while, in the hope of an answer from another core.
#[cold]
fn hold_core(block: &Block, key: Key) {
    let until = Instant::now() + UNWINDING_HOLD;
    while block.wait.poll(key).is_none() && Instant::now() < until {
        std::hint::spin_loop();
    }
}

/// Turns an end into what the request yields, and the block ready for its next wait.
pub(crate) fn finish(block: &'static Block, info: &'static Info, end: End) -> Result<(), Ended> {
    block.wait.retire();
    match end {
        End::Answered(_) => Ok(()),
        End::Deadline => Err(Ended::Deadline),
        End::Cancelled => Err(Ended::Cancelled),
        End::Abandoned => Err(Ended::Abandoned((info.request)())),
        End::Broken => Err(Ended::Broken(super::broken::take_message(block))),
    }
}

/// Makes a timeline ready whose wait was just won.
#[inline]
pub(crate) fn schedule(ctx: &'static Ctx, block: &'static Block) {
    if ctx.attention() & attention::HOOKS != 0 {
        hooks::resumed(ctx, block);
    }
    go_on(ctx, block);
}

/// As [`schedule`], of a timeline that waited for a latent task.
pub(crate) fn schedule_joiner(ctx: &'static Ctx, block: &'static Block) {
    if ctx.attention() & attention::HOOKS != 0 {
        hooks::resumed_for(ctx, block, Cause::Task);
    }
    go_on(ctx, block);
}

#[inline]
fn go_on(ctx: &'static Ctx, block: &'static Block) {
    match block.home() {
        Some(home) => send::make_ready(ctx, home, block),
        None => crate::runtime::attach::make_ready(block),
    }
}

/// Whether a timeline's home is the core that this code runs on.
#[inline]
pub(crate) fn lives_here(ctx: &Ctx, block: &Block) -> bool {
    match (ctx.core(), block.home()) {
        (Some(here), Some(home)) => std::ptr::eq(here, home),
        _ => false,
    }
}

/// Carries a forwarded wait on to the environment of `loan`. After the unlock of the forwarding pass.
pub(crate) fn carry_on<L, R>(
    ctx: &'static Ctx,
    claimed: Forwarded<L::Reply>,
    loan: Loan<L>,
    request: R,
    place: &'static Location<'static>,
) where
    L: RequestHandler<R>,
{
    let Forwarded { block, reply, forward } = claimed;
    // SAFETY: the lender waits, and its wait is claimed by `forward`: the cell it lent is alive until that wait ends.
    let cell: &EnvCell<L> = unsafe { loan.cell.as_ref() };
    // SAFETY: the wait of `block` is claimed for forwarding, and it lent `cell`; its frame keeps the place of the reply.
    unsafe { cell.pass_forwarded(ctx, block, reply, request, place, forward) };
}

/// Sends a posted request. After the unlock, before its poster suspends.
pub(crate) fn posted<L, R>(
    ctx: &'static Ctx,
    cell: NonNull<EnvCell<L>>,
    block: &'static Block,
    request: R,
    place: &'static Location<'static>,
) where
    L: RequestHandler<R, Reply = ()>,
{
    let mut reply = std::mem::MaybeUninit::<()>::uninit();
    // SAFETY: the lender is the requester of the pass that posted, which has not gone on yet.
    let cell = unsafe { cell.as_ref() };
    let mut origin = Origin::Posted;
    // SAFETY: `block` runs here; the reply's place outlives the pass, whose request is a release and is never queued.
    let status = unsafe {
        cell.pass(ctx, block, To::bare(reply.as_mut_ptr()), request, place, &raw mut origin, ctx.attention())
    };
    debug_assert!(!matches!(status, Ok((Status::Queued, _))), "a release request is never queued (`check_may_wait`)");
}
