//! `join`: two closures, potentially in parallel, at nearly the price of two calls.

use std::any::Any;
use std::cell::Cell;
use std::cell::UnsafeCell;
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, Location, catch_unwind};
use std::ptr::NonNull;

use super::JobHead;
use crate::ctx::{self, Ctx, attention};
use crate::env::{Info, Kind, wait};
use crate::kernel::done::Done;
use crate::kernel::latent::Popped;
use crate::runtime::controller;
use crate::runtime::core::Core;
use crate::vp::block::Block;
use crate::vp::{cancel, local};

/// Below this much stack a task is not run inline but gets a stack of its own [design rule 4]: on stacks of up to 128 KiB, below
/// a quarter of them, else such stacks could not fork at all.
const ROOM: usize = 64 * 1024;

type Outcome<T> = Result<T, Box<dyn Any + Send>>;

/// A closure that is on the latent list, and then its result. `head` comes first: the list knows only that.
#[repr(C)]
struct Job<F, T> {
    head: JobHead,
    body: UnsafeCell<Body<F, T>>,
}

#[repr(C)]
union Body<F, T> {
    closure: ManuallyDrop<F>,
    outcome: ManuallyDrop<Outcome<T>>,
}

impl<F: FnOnce() -> T, T> Job<F, T> {
    /// # Safety
    ///
    /// - `job` points at the head of a `Job<F, T>` whose closure has not run, and the caller has won it.
    unsafe fn run(job: *const JobHead) {
        let this: *const Self = job.cast();
        // SAFETY: duty of the caller; the body is the winner's alone.
        let body = unsafe { (*this).body.get() };
        // SAFETY: the closure has not run.
        let closure = unsafe { body.cast::<F>().read() };
        let outcome = catch_unwind(AssertUnwindSafe(closure));
        // SAFETY: the closure is gone; its place takes the outcome.
        unsafe { body.cast::<Outcome<T>>().write(outcome) };
    }

    /// # Safety
    ///
    /// - The job is done, or was run by its owner; called once.
    unsafe fn outcome(&self) -> Outcome<T> {
        // SAFETY: duty of the caller.
        unsafe { self.body.get().cast::<Outcome<T>>().read() }
    }
}

const INFO: &Info = &Info { request: || "join", environment: || "latent tasks", kind: Kind::Binding };

/// Runs both closures, potentially in parallel, and gives both results.
///
/// `a` runs at once. `b` is left where an idle core can take it; if none has when `a` is done, it runs as a plain call, on the same stack. If
/// one has, the calling VP waits for it, and its core runs other work meanwhile: nothing runs on top of the waiting stack, so
/// `b` may use every lock that the caller holds... and waits for, without ever deadlocking the cores (what waits, waits as a VP). Closures may wait on any construct.
///
/// Names and [`vp_local!`](crate::vp_local) values are the same whether `b` was taken or not: it counts as a child of its own.
///
/// # Panics
///
/// Both closures are always run to their end. Then, if `a` panicked, its panic goes on; else, if `b` did, that one. A cancel that
/// came meanwhile is delivered last.
///
/// # Examples
///
/// ```
/// fn fib(n: u32) -> u64 {
///     if n < 2 { return n.into() }
///     let (a, b) = proto_core::join(|| fib(n - 1), || fib(n - 2));
///     a + b
/// }
/// let runtime = proto_core::Runtime::builder().controllers(2).build()?;
/// assert_eq!(runtime.run(|| fib(20))?, 6765);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[inline]
#[track_caller]
pub fn join<A, B, RA, RB>(a: A, b: B) -> (RA, RB)
where
    A: FnOnce() -> RA + Send,
    B: FnOnce() -> RB + Send,
    RA: Send,
    RB: Send,
{
    let ctx = ctx::get();
    let (Some(core), Some(block)) = (ctx.core(), ctx.current()) else {
        return join_outside(a, b);
    };
    if ctx.attention() & (attention::TICK | attention::STEAL | attention::SLEEPER | attention::HOOKS) != 0 {
        attend(ctx, core, block);
    }
    let around = block.inline_job();
    let job: Job<B, RB> = Job {
        head: JobHead {
            done: Done::new(),
            number: next_child(block, around),
            run: Job::<B, RB>::run,
            owner: block,
            around,
            key: Cell::new(None),
            ticket: Cell::new(None),
            scope: block.open_scope.get(),
            children: Cell::new(0),
            has_locals: Cell::new(false),
        },
        body: UnsafeCell::new(Body { closure: ManuallyDrop::new(b) }),
    };
    // Of the whole job, not of its head alone: whoever wins it reaches the closure by this pointer.
    let whole = NonNull::from(&job).cast::<JobHead>();
    // SAFETY: this code runs on that core.
    let listed = unsafe { core.latent.owner() }.push(whole).is_ok();
    if listed && ctx.attention() & attention::SLEEPER != 0 {
        super::published(core);
    }
    let first = catch_unwind(AssertUnwindSafe(a));
    take_back(whole, block, listed, Location::caller());
    // SAFETY: `take_back` returns when the job was run.
    let second = unsafe { job.outcome() };
    match (first, second) {
        (Ok(first), Ok(second)) => {
            if block.is_cancelled() {
                cancel::deliver_noted();
            }
            (first, second)
        }
        (Err(payload), _) | (Ok(_), Err(payload)) => crate::resume_unwind(payload),
    }
}

/// Which child of its parent a fork is.
#[inline(always)]
fn next_child(block: &Block, around: *const JobHead) -> u32 {
    // SAFETY: the job that runs inline lies in a frame below this one.
    let children = match unsafe { around.as_ref() } {
        Some(around) => &around.children,
        None => &block.children,
    };
    let number = children.get();
    children.set(number.wrapping_add(1));
    number
}

/// Has the job run: by this timeline if nobody took it, else waits for who did.
#[inline]
fn take_back(job: NonNull<JobHead>, block: &'static Block, listed: bool, place: &'static Location<'static>) {
    // Read again: with migration compiled in this may be another core than before.
    let ctx = ctx::get();
    if ctx.attention() & (attention::TICK | attention::STEAL) != 0 {
        if let Some(core) = ctx.core() {
            attend(ctx, core, block);
        }
    }
    if !listed {
        return run_inline(job, block);
    }
    // SAFETY: it lies in the caller's frame.
    let head = unsafe { job.as_ref() };
    // SAFETY: the ticket is the owner's cell, and this is the owner.
    if unsafe { &*head.ticket.as_ptr() }.is_some() {
        return take_ticket_back(job, block, place);
    }
    let Some(core) = ctx.core() else { unreachable!("a VP has a core") };
    // SAFETY: this code runs on that core.
    match unsafe { core.latent.owner() }.pop(0) {
        Popped::Mine(_) => run_inline(job, block),
        Popped::Stolen(_) | Popped::Empty => await_job(ctx, head, block, place),
    }
}

#[cold]
#[inline(never)]
fn take_ticket_back(job: NonNull<JobHead>, block: &'static Block, place: &'static Location<'static>) {
    // SAFETY: it lies in the caller's frame.
    let head = unsafe { job.as_ref() };
    let ticket = head.ticket.take().expect("just seen");
    if ticket.take() {
        run_inline(job, block);
    } else {
        await_job(ctx::get(), head, block, place);
    }
}

/// Runs the job on this stack, as a child of its own.
#[inline]
fn run_inline(job: NonNull<JobHead>, block: &'static Block) {
    if room_left(block) < ROOM.min(block.stack_bytes() / 4) {
        return run_on_own_stack(job, block);
    }
    // SAFETY: it lies in the caller's frame.
    let head = unsafe { job.as_ref() };
    block.set_inline_job(job.as_ptr());
    // SAFETY: the owner has won its own job, which has not run.
    unsafe { (head.run)(job.as_ptr()) };
    block.set_inline_job(head.around);
    if head.has_locals.get() {
        local::end_inline(block, head);
    }
}

/// The stack left, roughly: from this frame to the guard.
#[inline(always)]
fn room_left(block: &Block) -> usize {
    let here = 0u8;
    (&raw const here).addr().wrapping_sub(block.stack_limit())
}

/// There is little stack left: the job gets a VP of its own, and this one waits.
#[cold]
#[inline(never)]
fn run_on_own_stack(job: NonNull<JobHead>, block: &'static Block) {
    let ctx = ctx::get();
    let Some(core) = ctx.core() else { unreachable!("a VP has a core") };
    super::make_ordinary(core, job.as_ptr());
    // SAFETY: it lies in the caller's frame.
    let head = unsafe { job.as_ref() };
    // Give the ticket up: only the VP takes it.
    drop(head.ticket.take());
    await_job(ctx, head, block, Location::caller());
}

/// Another timeline runs the job: waits for it. Binding.
#[cold]
#[inline(never)]
fn await_job(ctx: &'static Ctx, job: &JobHead, block: &'static Block, place: &'static Location<'static>) {
    if job.done.is_done() {
        return;
    }
    let key = block.wait.arm_free();
    job.key.set(Some(key));
    // SAFETY: it has started.
    unsafe { block.node() }.key.set(key);
    if job.done.awaits() {
        wait::stand(ctx, block, key, INFO, place, None);
        block.wait.retire();
        return;
    }
    // Done meanwhile: nobody else has the key.
    if let Ok(claim) = block.wait.claim(key) {
        block.wait.publish(claim);
    }
    block.wait.retire();
}

/// Somebody wants something of this core: latent tasks, or its time.
#[cold]
#[inline(never)]
fn attend(ctx: &'static Ctx, core: &'static Core, block: &'static Block) {
    if ctx.attention() & attention::STEAL != 0 {
        ctx.lower(attention::STEAL);
        // SAFETY: this code runs on that core.
        if !unsafe { core.latent.owner() }.publish() && core.latent.looks_stealable() {
            ctx.raise(attention::STEAL);
        }
    }
    if ctx.attention() & attention::TICK != 0 && !crate::panics::unwinding(ctx) {
        controller::yield_now(ctx, block);
    }
}

/// The caller is an OS thread: its closures run on the default runtime's cores.
#[cold]
fn join_outside<A, B, RA, RB>(a: A, b: B) -> (RA, RB)
where
    A: FnOnce() -> RA + Send,
    B: FnOnce() -> RB + Send,
    RA: Send,
    RB: Send,
{
    let mut first = None;
    let second = crate::scope(|scope| {
        let other = scope.spawn(b);
        first = Some(a());
        other.join()
    });
    match (first, second) {
        (Some(first), Ok(second)) => (first, second),
        (_, Err(error)) => crate::resume_unwind(error.into_payload()),
        (None, Ok(_)) => unreachable!("a panic of the first closure went on in the scope"),
    }
}
