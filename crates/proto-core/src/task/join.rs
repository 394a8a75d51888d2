//! `join`: two closures, potentially in parallel, at nearly the price of two calls.

use std::any::Any;
use std::cell::Cell;
use std::cell::UnsafeCell;
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, Location, catch_unwind};
use std::ptr::NonNull;

use super::{JobHead, stand_for};
use crate::ctx::{self, Ctx, attention};
use crate::env::{Info, Kind};
use crate::kernel::done::Done;
use crate::kernel::latent::{Full, Own, Popped, Top};
use crate::runtime::controller;
use crate::runtime::core::Core;
use crate::vp::block::Block;
use crate::vp::{cancel, local};

/// Below this much stack a task is not run inline but gets a stack of its own [design rule 4].
const ROOM: usize = 64 * 1024;

/// [`ROOM`] on a stack of so many bytes: at most three eighths of it, else small ones could not fork at all. (A quarter is too little on the
/// smallest, 32 KiB: one level of a recursion and a yield below it take 8 KiB in a build without optimisation.)
const fn room(bytes: usize) -> usize {
    if ROOM < bytes / 8 * 3 { ROOM } else { bytes / 8 * 3 }
}

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

    /// Runs the closure as a plain call of its owner, as a child of its own.
    ///
    /// # Safety
    ///
    /// - As of `run`; `block`, which runs this, is the job's owner.
    #[inline(always)]
    unsafe fn run_here(&self, block: &'static Block) -> Outcome<T> {
        block.set_inline_job(&raw const self.head);
        // SAFETY: the closure has not run, and the caller has won it.
        let closure = unsafe { self.body.get().cast::<F>().read() };
        let outcome = catch_unwind(AssertUnwindSafe(closure));
        end_here(&self.head, block);
        outcome
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
/// one has, the calling VP waits for it, and its core runs other work meanwhile, as VPs of their own: nothing runs on top of the waiting stack.
/// So the caller may hold a lock over this that such other work wants, which waits until the caller gives it back. Only `a` and `b` must not want
/// it: they would wait for the caller, who waits for them. Apart from that the closures may wait on any construct.
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
    let (mut ctx, mut core) = (ctx, core);
    if ctx.attention() & (WANTED | attention::SLEEPER) != 0 {
        attend(ctx, core, block);
        ctx = ctx::again(ctx);
        core = ctx.core().unwrap_or(core);
    }
    let around = block.inline_job();
    // Nothing in it has to be dropped: a ticket is taken out by `take_back`.
    let job: ManuallyDrop<Job<B, RB>> = ManuallyDrop::new(Job {
        head: JobHead {
            run: Job::<B, RB>::run,
            owner: block,
            around,
            scope: block.open_scope.get(),
            done: Done::new(),
            number: next_child(block, around),
            children: Cell::new(0),
            has_locals: Cell::new(false),
            key: Cell::new(None),
            ticket: Cell::new(None),
        },
        body: UnsafeCell::new(Body { closure: ManuallyDrop::new(b) }),
    });
    // Of the whole job, not of its head alone: whoever wins it reaches the closure by this pointer.
    let whole = NonNull::from(&*job).cast::<JobHead>();
    // SAFETY: this code runs on that core.
    let index = unsafe { core.latent.owner() }.push(whole);
    if index.is_ok() && ctx.attention() & (attention::SLEEPER | attention::STEAL) != 0 {
        offer(ctx, core);
    }
    let first = catch_unwind(AssertUnwindSafe(a));
    // Read again where this may be another core than before.
    let core = if cfg!(feature = "migrate") { ctx::again(ctx).core().unwrap_or(core) } else { core };
    let top = match index {
        // SAFETY: this code runs on that core.
        Ok(index) if core.ctx.attention() & (WANTED | attention::CANCEL | attention::HOOKS) == 0 => unsafe {
            core.latent.owner().take_top(index, whole)
        },
        _ => Top::Other,
    };
    if top == Top::Mine && has_room(block) {
        // The common case, by itself: what is known here need not be remembered.
        // SAFETY: the owner has won its own job, which has not run.
        let second = unsafe { job.run_here(block) };
        return match (first, second) {
            (Ok(first), Ok(second)) => (first, second),
            (Err(payload), _) | (Ok(_), Err(payload)) => crate::resume_unwind(payload),
        };
    }
    take_back(whole, block, index, top, Location::caller());
    // SAFETY: `take_back` returns when the job was run.
    let second = unsafe { job.outcome() };
    match (first, second) {
        (Ok(first), Ok(second)) => {
            cancel::deliver_noted();
            (first, second)
        }
        (Err(payload), _) | (Ok(_), Err(payload)) => crate::resume_unwind(payload),
    }
}

/// Somebody wants what was just forked.
#[cold]
#[inline(never)]
fn offer(ctx: &'static Ctx, core: &'static Core) {
    // SAFETY: this code runs on that core.
    if ctx.attention() & attention::STEAL != 0 && unsafe { core.latent.owner() }.publish() {
        ctx.lower(attention::STEAL);
    }
    super::published(core);
}

/// What others may want of a core whose VP forks and joins.
pub(super) const WANTED: u32 = attention::TICK | attention::STEAL | attention::MAIL | attention::TIMER;

/// Which child of its parent a fork is.
#[inline(always)]
pub(crate) fn next_child(block: &Block, around: *const JobHead) -> u32 {
    // SAFETY: the job that runs inline lies in a frame below this one.
    let children = match unsafe { around.as_ref() } {
        Some(around) => &around.children,
        None => &block.children,
    };
    let number = children.get();
    children.set(number.wrapping_add(1));
    number
}

/// Has the job run: by this timeline if nobody took it, else waits for who did. `index`: where it was put on the list, if there was
/// room; `top`: what came of the attempt to take it off.
#[cold]
#[inline(never)]
fn take_back(
    job: NonNull<JobHead>,
    block: &'static Block,
    index: Result<u32, Full>,
    top: Top,
    place: &'static Location<'static>,
) {
    // Read again: with migration compiled in this may be another core than before.
    let ctx = ctx::get();
    let Some(core) = ctx.core() else { unreachable!("a VP has a core") };
    if ctx.attention() & WANTED != 0 && top == Top::Other {
        attend(ctx, core, block);
    }
    if ctx::get().attention() & attention::HOOKS != 0 && top == Top::Other {
        return take_back_told(job, block, index.is_ok(), place);
    }
    let Ok(index) = index else { return run_inline(job, block) };
    // SAFETY: it lies in the caller's frame.
    let head = unsafe { job.as_ref() };
    // SAFETY: the ticket is the owner's cell, and this is the owner.
    if unsafe { &*head.ticket.as_ptr() }.is_some() {
        return take_ticket_back(job, block, place);
    }
    // Again: to attend may have led to another core.
    let Some(core) = ctx::get().core() else { unreachable!("a VP has a core") };
    // SAFETY: this code runs on that core.
    let latent = unsafe { core.latent.owner() };
    let mine = match top {
        Top::Mine => true,
        Top::Shared => matches!(latent.pop_shared(0, index), Popped::Mine(_)),
        Top::Other => pop_own(core, job),
    };
    if mine { run_inline(job, block) } else { await_job(head, block, place) }
}

/// Takes the job off the list of `core`, on which its owner runs, if nobody else has it. The first closure may have left tasks of a scope
/// on top of it.
fn pop_own(core: &'static Core, job: NonNull<JobHead>) -> bool {
    // SAFETY: this code runs on that core.
    let latent = unsafe { core.latent.owner() };
    match latent.pop_own(job) {
        Own::Covered(from) => {
            super::detach_from(core, from);
            latent.pop_own(job) == Own::Mine
        }
        own => own == Own::Mine,
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
        await_job(head, block, place);
    }
}

/// As [`take_back`], with hooks: the job is never run inline.
#[cold]
#[inline(never)]
fn take_back_told(job: NonNull<JobHead>, block: &'static Block, listed: bool, place: &'static Location<'static>) {
    let Some(core) = ctx::get().core() else { unreachable!("a VP has a core") };
    // SAFETY: it lies in the caller's frame.
    let head = unsafe { job.as_ref() };
    // One with a ticket has its VP already, which was told of: that one takes it.
    if head.ticket.take().is_none() {
        if !listed || pop_own(core, job) {
            super::make_ordinary(core, job.as_ptr());
            drop(head.ticket.take());
        }
    }
    await_job(head, block, place);
}

/// Runs the job on this stack, as a child of its own.
fn run_inline(job: NonNull<JobHead>, block: &'static Block) {
    if !has_room(block) {
        return run_on_own_stack(job, block);
    }
    // SAFETY: it lies in the caller's frame.
    let head = unsafe { job.as_ref() };
    block.set_inline_job(job.as_ptr());
    // SAFETY: the owner has won its own job, which has not run.
    unsafe { (head.run)(job.as_ptr()) };
    end_here(head, block);
}

/// A job that ran as a plain call of its owner has ended.
#[inline(always)]
pub(super) fn end_here(head: &JobHead, block: &Block) {
    block.set_inline_job(head.around);
    if head.has_locals.get() {
        local::end_inline(block, head);
    }
}

/// How deep a stack of each class may be when a task is run on it as a call.
static DEEPEST: [usize; usize::BITS as usize] = {
    let mut deepest = [0; usize::BITS as usize];
    let mut class = 0;
    while class < deepest.len() {
        let bytes = 1 << class;
        deepest[class] = bytes - room(bytes);
        class += 1;
    }
    deepest
};

/// Whether there is stack enough to run a task on it.
#[inline(always)]
pub(super) fn has_room(block: &Block) -> bool {
    let here = 0u8;
    let here = (&raw const here).addr();
    // A fiber lies at the top of its stack.
    block.fiber.get().addr().wrapping_sub(here) <= DEEPEST[usize::from(block.stack_class.get() & 63)]
        || has_room_elsewhere(block, here)
}

/// As [`has_room`]: little is left, or the VP has an OS thread with a stack of its own.
#[cold]
#[inline(never)]
fn has_room_elsewhere(block: &Block, here: usize) -> bool {
    here.wrapping_sub(block.stack_limit()) >= room(block.stack_bytes())
}

/// There is little stack left: the job gets a VP of its own, and this one waits.
#[cold]
#[inline(never)]
fn run_on_own_stack(job: NonNull<JobHead>, block: &'static Block) {
    let Some(core) = ctx::get().core() else { unreachable!("a VP has a core") };
    super::make_ordinary(core, job.as_ptr());
    // SAFETY: it lies in the caller's frame.
    let head = unsafe { job.as_ref() };
    // Give the ticket up: only the VP takes it.
    drop(head.ticket.take());
    await_job(head, block, Location::caller());
}

/// Another timeline runs the job: waits for it. Binding.
#[cold]
#[inline(never)]
fn await_job(job: &JobHead, block: &'static Block, place: &'static Location<'static>) {
    if job.done.is_done() {
        return;
    }
    let key = block.wait.arm_free();
    job.key.set(Some(key));
    // SAFETY: it has started.
    unsafe { block.node() }.key.set(key);
    if job.done.awaits() {
        stand_for(block, key, job.done.runner(), INFO, place);
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
pub(super) fn attend(ctx: &'static Ctx, core: &'static Core, block: &'static Block) {
    // SAFETY: this code runs on that core.
    if ctx.attention() & attention::STEAL != 0 && unsafe { core.latent.owner() }.publish() {
        // Who asks in between sees what is public. If there is nothing, the question stays.
        ctx.lower(attention::STEAL);
    }
    if ctx.attention() & (attention::TICK | attention::MAIL | attention::TIMER) != 0 && !crate::panics::unwinding(ctx) {
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
