//! What a loop needs of the core: does anybody want a part of it, and is it one child, however many parts there were?
//!
//! A fork costs next to nothing, but a loop of a thousand million steps cannot fork at each of them. So it runs a block of them, asks
//! [`work_wanted`], and forks a part of what is left if the answer is yes.
//!
//! | who wants | how the loop knows |
//! |---|---|
//! | a core that searches | it raises HUNGRY in the attention of every core without latent tasks, when it begins |
//! | a core that sleeps | it raised SLEEPER |
//!
//! Nobody wants another part while there is one on the list: who asks takes that first. HUNGRY stays until a part was forked ([`join_wanted`]): a
//! loop that ends before it has given anything leaves the question to the next one. Other forks do not look at it: who asked may long have found
//! something, and what is public is dearer to take back.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;

use super::join::{WANTED, attend, end_here, join};
use super::{JobHead, published};
use crate::ctx::{self, Ctx, attention};
use crate::kernel::done::Done;

/// Where a loop is cut. See [`divisible`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cuts {
    /// Where [`work_wanted`] says so.
    AsWanted,
    /// At the same places in every run: what is forked has a name, and somebody watches. [`work_wanted`] never says so.
    Fixed,
}

/// Whether another core wants work, and the caller has left none on its list that it could take: then a fork ([`join_wanted`]) will be taken at once.
///
/// Costs a few instructions if nobody does. To be asked every few microseconds by work that could be cut; what else is wanted of the core
/// meanwhile is done here, as at a fork: the caller may yield. On an OS thread, and with hooks, `false`.
///
/// # Examples
///
/// A sum that is cut only while somebody wants a part:
///
/// ```
/// use proto_core::{join_wanted, work_wanted};
///
/// fn sum(mut numbers: &[u64]) -> u64 {
///     let mut total = 0;
///     while !numbers.is_empty() {
///         if numbers.len() > 1000 && work_wanted() {
///             let (left, right) = numbers.split_at(numbers.len() / 2);
///             let (a, b) = join_wanted(|| sum(left), || sum(right));
///             return total + a + b;
///         }
///         let (block, rest) = numbers.split_at(numbers.len().min(1000));
///         total += block.iter().sum::<u64>();
///         numbers = rest;
///     }
///     total
/// }
/// let numbers: Vec<u64> = (0..100_000).collect();
/// let runtime = proto_core::Runtime::builder().controllers(2).build()?;
/// assert_eq!(runtime.run(|| sum(&numbers))?, 4_999_950_000);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[inline]
pub fn work_wanted() -> bool {
    match ctx::installed() {
        Some(ctx) if ctx.attention() & (WANTED | attention::SLEEPER | attention::HUNGRY) != 0 => somebody_asks(ctx),
        _ => false,
    }
}

#[cold]
#[inline(never)]
fn somebody_asks(ctx: &'static Ctx) -> bool {
    let (Some(core), Some(block)) = (ctx.core(), ctx.current()) else { return false };
    let asked = ctx.attention();
    if asked & WANTED != 0 {
        attend(ctx, core, block);
    }
    // Again: with migration compiled in this may be another core than before.
    let ctx = ctx::again(ctx);
    let Some(core) = ctx.core() else { return false };
    if core.latent.looks_stealable() {
        published(core);
        return false;
    }
    asked & (attention::STEAL | attention::SLEEPER | attention::HUNGRY) != 0 && asked & attention::HOOKS == 0
}

/// [`join`](crate::join()) after [`work_wanted`] has said so: whoever asked is told of `b` at once.
///
/// # Panics
///
/// As [`join`](crate::join()).
///
/// # Examples
///
/// ```
/// use proto_core::{join_wanted, work_wanted};
///
/// let both = || if work_wanted() { join_wanted(|| 1, || 2) } else { (1, 2) };
/// let runtime = proto_core::Runtime::builder().controllers(2).build()?;
/// assert_eq!(runtime.run(both)?, (1, 2));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[inline]
#[track_caller]
pub fn join_wanted<A, B, RA, RB>(a: A, b: B) -> (RA, RB)
where
    A: FnOnce() -> RA + Send,
    B: FnOnce() -> RB + Send,
    RA: Send,
    RB: Send,
{
    if let Some(ctx) = ctx::installed() {
        ctx.lower(attention::HUNGRY);
        // As if the one who asked had seen it on the list already.
        ctx.raise(attention::STEAL);
    }
    join(a, b)
}

/// Runs `f`, which forks as often as it is asked to, as one child of the caller: its forks are its own, so the names of what the caller makes
/// afterwards do not depend on how many there were. From an OS thread, `f` runs on a core of the default runtime.
///
/// # Panics
///
/// If `f` does.
///
/// # Examples
///
/// ```
/// use proto_core::{current_name, divisible, join};
///
/// let runtime = proto_core::Runtime::builder().controllers(2).build()?;
/// let name_after = |forks: usize| {
///     runtime.run(|| {
///         divisible(|_cuts| (0..forks).for_each(|_| drop(join(|| (), || ()))));
///         join(|| (), || current_name().to_string().split_once('.').map(|name| name.1.to_owned())).1
///     })
/// };
/// assert_eq!(name_after(1)?, name_after(5)?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[inline]
#[track_caller]
pub fn divisible<F, R>(f: F) -> R
where
    F: FnOnce(Cuts) -> R + Send,
    R: Send,
{
    let ctx = ctx::get();
    let (Some(_), Some(block)) = (ctx.core(), ctx.current()) else {
        return join(|| (), || f(Cuts::AsWanted)).1;
    };
    if ctx.attention() & attention::HOOKS != 0 {
        return join(|| (), || f(Cuts::Fixed)).1;
    }
    let around = block.job_or_root();
    // SAFETY: just asked for.
    let number = unsafe { JobHead::next_child_of(around) };
    let head = JobHead::new(never_run, block, around, block.open_scope.get(), number, Done::new());
    block.set_job_or_root(ptr::from_ref(&head));
    let outcome = catch_unwind(AssertUnwindSafe(|| f(Cuts::AsWanted)));
    end_here(&head, block);
    match outcome {
        Ok(value) => value,
        Err(payload) => crate::resume_unwind(payload),
    }
}

/// It is on no list.
unsafe fn never_run(_: *const JobHead) {
    unreachable!("a part of its owner's stack, which nobody else knows of");
}
