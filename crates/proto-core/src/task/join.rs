//! `join`: two closures, potentially in parallel, at nearly the price of two calls.
//!
//! ```text
//!   fork: job into the frame ─► on the list ─► FORKED? ─► a() ─► JOINED? ─► still the newest, and private? ─► room? ─► b(), a call
//!                                                │                 └───────────────┴───────────────────────────┴─► `take_back`
//!                                                └─► publish, wake
//! ```
//!
//! # What it costs
//!
//! 75 instructions a fork, in a recursion that does nothing else (fib without a cut-off, counted with callgrind; lace-ws has 53, chili with a job for
//! every join 75). In time, in the full bench: ×1.23 of lace-ws and ×1.19 of chili on one core, ×1.31 and ×1.17 on two. (chili has two speeds, by where its
//! code happens to lie: ×0.73 in other builds.) How it came to be so few:
//!
//! | | then |
//! |---|---|
//! | before | 134 |
//! | A panic of `a` goes a way of its own, which does not return: nothing is remembered beside the result. One look at the attention word at the fork, after the push; where the light barrier is not free, that is a mark in this word. Whether the job is the newest is asked of the list: its index need not be kept over `a`. Key and ticket are not written before they are there. | 100 |
//! | The same for a panic of `b`; one comparison tells whether there is stack enough. | 92 |
//! | No job around is a job as well (`Block::root_job`), as far as its children are counted: no branch, and fewer registers to save. | 86 |
//! | The core is a thread-local of its own: one test less, and the list is reached from it. Number and marks are one store. Whoever attends the core at a join has a call of its own. | 79 |
//! | The list a part of the core, its slots a part of the list, made where they stay; the owner's look at its slot is a plain load. | 75 |
//!
//! It is never inlined: then what the caller does before it forks (the look at a leaf) saves no registers for the fork, and is itself inlined into the
//! closures: ×0.8 for the sum over a tree, no difference for fib.
//!
//! What is left over lace's: the child's number and the job around it, which give names, locals and replay (9); the scope and the owner, for
//! cancels (3); stack enough for `b` (3); locals to be ended (2); whether this is a core and a VP at all (4).
//!
//! **Tried.** No look at the attention word at the join (3): a thief that asks while the joins of a long spine are done would wait for its fallback. The index
//! kept, and the slot not compared: after a detachment another entry may lie there. The index kept and stored again at the join, so that the next fork's
//! load of it waits for no other load: no difference. The core asked for again after `a` instead of kept: slower, whatever the count says. Yielding for a tick at the fork: the task just
//! made then becomes an ordinary one.

use std::any::Any;
use std::cell::UnsafeCell;
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, Location, catch_unwind};
use std::ptr::NonNull;
use std::sync::atomic::{Ordering, compiler_fence};

use super::{JobHead, marks, stand_for};
use crate::ctx::{self, Ctx, attention};
use crate::env::{Info, Kind};
use crate::kernel::done::Done;
use crate::kernel::latent::{Own, Top};
use crate::runtime::controller;
use crate::runtime::core::Core;
use crate::sync::{Asymmetric, Barrier};
use crate::vp::block::Block;
use crate::vp::{cancel, local};

/// Below this much stack a task is not run inline but gets a stack of its own [design rule 4].
const ROOM: usize = 64 * 1024;

/// [`ROOM`] on a stack of so many bytes: at most three eighths of it, else small ones could not fork at all. (A quarter is too little on the
/// smallest, 32 KiB: one level of a recursion and a yield below it take 8 KiB in a build without optimisation.)
const fn room(bytes: usize) -> usize {
    if ROOM < bytes / 8 * 3 { ROOM } else { bytes / 8 * 3 }
}

type Payload = Box<dyn Any + Send>;
type Outcome<T> = Result<T, Payload>;

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

    /// Runs the closure as a plain call of its owner, as a child of its own. Its panic goes on.
    ///
    /// # Safety
    ///
    /// - As of `run`; `block`, which runs this, is the job's owner.
    #[inline(always)]
    unsafe fn run_here(&self, block: &'static Block) -> T {
        block.set_job_or_root(&raw const self.head);
        // SAFETY: the closure has not run, and the caller has won it.
        let closure = unsafe { self.body.get().cast::<F>().read() };
        match catch_unwind(AssertUnwindSafe(closure)) {
            Ok(value) => {
                end_here(&self.head, block);
                value
            }
            Err(payload) => end_in_panic(&self.head, block, payload),
        }
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
#[inline(never)]
#[track_caller]
pub fn join<A, B, RA, RB>(a: A, b: B) -> (RA, RB)
where
    A: FnOnce() -> RA + Send,
    B: FnOnce() -> RB + Send,
    RA: Send,
    RB: Send,
{
    let Some(core) = ctx::core() else { return join_outside(a, b) };
    let Some(block) = core.ctx.current() else { return join_outside(a, b) };
    let around = block.job_or_root();
    // SAFETY: just asked for.
    let number = unsafe { JobHead::next_child_of(around) };
    // Nothing in it has to be dropped: a ticket is taken out by `take_back`.
    let job: ManuallyDrop<Job<B, RB>> = ManuallyDrop::new(Job {
        head: JobHead::new(Job::<B, RB>::run, block, around, block.open_scope.get(), number, Done::new()),
        body: UnsafeCell::new(Body { closure: ManuallyDrop::new(b) }),
    });
    // Of the whole job, not of its head alone: whoever wins it reaches the closure by this pointer.
    let whole = NonNull::from(&*job).cast::<JobHead>();
    // SAFETY: this code runs on that core.
    if unsafe { core.latent.owner() }.push_quietly(whole).is_err() {
        unlisted(&job.head);
    }
    light();
    if core.ctx.attention() & FORKED != 0 {
        forked(core);
    }
    // What comes of a panic is by itself, so that nothing need be remembered of it here.
    let first = match catch_unwind(AssertUnwindSafe(a)) {
        Ok(first) => first,
        Err(payload) => after_panic(&job, whole, block, payload),
    };
    // Read again where this may be another core than before.
    let core = if cfg!(feature = "migrate") { ctx::core().unwrap_or(core) } else { core };
    if core.ctx.attention() & JOINED != 0 {
        return (first, join_attentively(&job, whole, block));
    }
    // SAFETY: this code runs on that core.
    let top = unsafe { core.latent.owner() }.take_newest(whole, light);
    if top == Top::Mine && has_room_at(block, whole.addr().get()) {
        // SAFETY: the owner has won its own job, which has not run.
        return (first, unsafe { job.run_here(block) });
    }
    (first, join_slowly(&job, whole, block, top))
}

/// The light barrier of a fork or join whose attention word says nothing of `FENCED`.
#[inline(always)]
fn light() {
    if cfg!(miri) {
        Asymmetric::light();
    } else {
        compiler_fence(Ordering::SeqCst);
    }
}

/// The list was full.
#[cold]
#[inline(never)]
fn unlisted(job: &JobHead) {
    job.mark(marks::UNLISTED);
}

/// Somebody wants something of this core.
#[cold]
#[inline(never)]
#[track_caller]
fn join_attentively<B, RB>(job: &Job<B, RB>, whole: NonNull<JobHead>, block: &'static Block) -> RB
where
    B: FnOnce() -> RB,
{
    join_slowly(job, whole, block, Top::Other)
}

/// Not the common case: somebody has the second closure, or wants something.
#[cold]
#[inline(never)]
#[track_caller]
fn join_slowly<B, RB>(job: &Job<B, RB>, whole: NonNull<JobHead>, block: &'static Block, top: Top) -> RB
where
    B: FnOnce() -> RB,
{
    take_back(whole, block, top, Location::caller());
    // SAFETY: `take_back` returns when the job was run.
    match unsafe { job.outcome() } {
        Ok(second) => {
            cancel::deliver_noted();
            second
        }
        Err(payload) => crate::resume_unwind(payload),
    }
}

/// The first closure has panicked: the second is run all the same, and then the panic goes on.
#[cold]
#[inline(never)]
#[track_caller]
fn after_panic<B, RB>(job: &Job<B, RB>, whole: NonNull<JobHead>, block: &'static Block, payload: Payload) -> !
where
    B: FnOnce() -> RB,
{
    take_back(whole, block, Top::Other, Location::caller());
    // SAFETY: `take_back` returns when the job was run.
    let _second = unsafe { job.outcome() };
    crate::resume_unwind(payload)
}

/// Somebody wants what was just forked. (Who wants the core's time waits for the join: then this task need not become an ordinary one.)
#[cold]
#[inline(never)]
fn forked(core: &'static Core) {
    // The barrier of the push, where it is not free; the attention below is read after it.
    Asymmetric::light();
    publish(&core.ctx, core);
    super::published(core);
}

/// Makes some of the latent tasks of `core`, on which this runs, public, if somebody has asked for that.
fn publish(ctx: &'static Ctx, core: &'static Core) {
    if ctx.lower(attention::STEAL) != 0 {
        // SAFETY: this code runs on that core.
        if !unsafe { core.latent.owner() }.publish() && core.latent.looks_stealable() {
            ctx.raise(attention::STEAL);
        }
    }
}

/// What others may want of a core whose VP forks and joins.
pub(super) const WANTED: u32 = attention::TICK | attention::STEAL | attention::MAIL | attention::TIMER;

/// What a fork looks at, …
const FORKED: u32 = attention::STEAL | attention::SLEEPER | attention::FENCED;

/// … and a join.
const JOINED: u32 = WANTED | attention::CANCEL | attention::HOOKS | attention::FENCED;

/// Decides how forks on the core of this context are to fence. Before its controller starts.
pub(crate) fn settle_fences(ctx: &Ctx) {
    if !cfg!(miri) && !Asymmetric::is_light_free() {
        ctx.raise(attention::FENCED);
    }
}

/// Which child of its parent a task is that is made by `job`, which runs inline on `block`, if that is not null.
#[inline(always)]
pub(crate) fn next_child(block: &Block, job: *const JobHead) -> u32 {
    let job = if job.is_null() { block.root_job() } else { job };
    // SAFETY: it runs inline there, or is the root.
    unsafe { JobHead::next_child_of(job) }
}

/// Has the job run: by this timeline if nobody took it, else waits for who did. `top`: what came of the attempt to take it off the list.
#[cold]
#[inline(never)]
fn take_back(job: NonNull<JobHead>, block: &'static Block, top: Top, place: &'static Location<'static>) {
    // Read again: with migration compiled in this may be another core than before.
    let ctx = ctx::get();
    let Some(core) = ctx.core() else { unreachable!("a VP has a core") };
    if ctx.attention() & WANTED != 0 && top == Top::Other {
        attend(ctx, core, block);
    }
    if ctx::get().attention() & attention::HOOKS != 0 && top == Top::Other {
        return take_back_told(job, block, place);
    }
    // SAFETY: it lies in the caller's frame.
    let head = unsafe { job.as_ref() };
    if head.has(marks::UNLISTED) {
        return run_inline(job, block);
    }
    if let Some(ticket) = head.take_ticket() {
        return if ticket.take() { run_inline(job, block) } else { await_job(head, block, place) };
    }
    // Again: to attend may have led to another core.
    let Some(core) = ctx::get().core() else { unreachable!("a VP has a core") };
    // SAFETY: this code runs on that core.
    let latent = unsafe { core.latent.owner() };
    let mine = match top {
        Top::Mine => true,
        Top::Shared => latent.take_shared() == Own::Mine,
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

/// As [`take_back`], with hooks: the job is never run inline.
#[cold]
#[inline(never)]
fn take_back_told(job: NonNull<JobHead>, block: &'static Block, place: &'static Location<'static>) {
    let Some(core) = ctx::get().core() else { unreachable!("a VP has a core") };
    // SAFETY: it lies in the caller's frame.
    let head = unsafe { job.as_ref() };
    // One with a ticket has its VP already, which was told of: that one takes it.
    if head.take_ticket().is_none() {
        if head.has(marks::UNLISTED) || pop_own(core, job) {
            super::make_ordinary(core, job.as_ptr());
            drop(head.take_ticket());
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
    block.set_job_or_root(job.as_ptr());
    // SAFETY: the owner has won its own job, which has not run.
    unsafe { (head.run)(job.as_ptr()) };
    end_here(head, block);
}

/// A job that ran as a plain call of its owner has ended.
#[inline(always)]
pub(super) fn end_here(head: &JobHead, block: &Block) {
    block.set_job_or_root(head.around);
    if head.has(marks::LOCALS) {
        local::end_inline(block, head);
    }
}

/// As [`end_here`], of a job that has panicked.
#[cold]
#[inline(never)]
fn end_in_panic(head: &JobHead, block: &Block, payload: Payload) -> ! {
    end_here(head, block);
    crate::resume_unwind(payload)
}

/// Whether there is stack enough to run a task on it.
#[inline(always)]
pub(super) fn has_room(block: &Block) -> bool {
    let here = 0u8;
    has_room_at(block, (&raw const here).addr())
}

/// As [`has_room`], for a frame with something at the address `here`.
#[inline(always)]
fn has_room_at(block: &Block, here: usize) -> bool {
    block.is_above_floor(here)
}

/// Sets the floor of the stack of `block`, which begins to run on it here.
#[inline]
pub(crate) fn set_floor(block: &Block) {
    block.set_floor(block.stack_limit() + room(block.stack_bytes()));
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
    drop(head.take_ticket());
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
    job.leave_key(key);
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
    publish(ctx, core);
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
