//! The controller of a core: its loop, switching to VPs and back, and making timelines ready.
//!
//! ```text
//!   inbox, newborn, local ──► assigner.ready      (attention: mail, deadlines)
//!                             assigner.assign ──► resume the VP ──► outcome: waiting | yielded | ended
//!                             nothing ──► idle: search ~20 µs, then sleep
//!   local, if it is all there is, and its assigner says it need not be asked ──► resume
//! ```
//!
//! # Who calls what
//!
//! `run` is a controller's thread. `switch_away`, `yield_now` are called by the VP that runs here. How work comes to a core is in `send`.

use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use proto_arch::fiber::{Fiber, FiberBox};

use super::core::Core;
use super::{idle, mail, send};
use crate::assign::instance::Instance;
use crate::assign::{Cores, Why, Work};
use crate::ctx::{Ctx, Outcome, attention};
use crate::hooks;
use crate::task;
use crate::vp::block::{Block, flag};

/// What a controller has to look at before it runs the next.
const LOOK: u32 = attention::MAIL | attention::TIMER | attention::TICK | attention::HOOKS;

/// The loop of a controller. Returns when its runtime stops and nothing is left to run here.
pub(crate) fn run(core: &'static Core) {
    let mut next = None;
    loop {
        if let Some(work) = next.take().or_else(|| only_work(core)) {
            next = run_work(core, work);
            continue;
        }
        if has_come(core) {
            take_in(core);
        }
        if core.ctx.attention() & (attention::MAIL | attention::TIMER | attention::TICK) != 0 {
            attend(core);
        }
        match pick(core) {
            Some(work) => next = run_work(core, work),
            None => {
                if !idle::idle(core) {
                    break;
                }
            }
        }
    }
}

/// The one timeline that was resumed here, if this core has nothing else to look at or to run and its assigner need not be asked.
#[inline]
fn only_work(core: &'static Core) -> Option<Work> {
    // SAFETY: the controller; the closure only looks.
    let only = unsafe {
        core.owner(|owner| {
            let alone = owner.local.len() == 1 && owner.ready == 0 && owner.orphans.is_empty() && owner.found.is_none();
            if alone { owner.local.front().copied() } else { None }
        })
    };
    let block = only?;
    if core.ctx.attention() & LOOK != 0
        || !core.inbox.is_empty_hint()
        || !core.newborn.is_empty()
        || !instance_of(core, block).only_work_unasked
    {
        return None;
    }
    // SAFETY: the controller; the closure only pops.
    unsafe { core.owner(|owner| owner.local.clear()) };
    set_crowded(core, false);
    Some(Work::new(block))
}

/// Whether anything has come in since the last look.
#[inline(always)]
fn has_come(core: &'static Core) -> bool {
    // SAFETY: the controller; the closure only looks.
    let own = unsafe { core.owner(|owner| !owner.local.is_empty()) };
    own || !knows_instances(core) || !core.inbox.is_empty_hint() || !core.newborn.is_empty()
}

/// Takes note of assigners that have come or gone.
#[inline]
pub(super) fn note_instances(core: &'static Core) {
    if knows_instances(core) {
        return;
    }
    // ORDERING: Acquire pairs with the Release in `Shared::add_instance`.
    let version = core.shared().instances_version.load(Ordering::Acquire);
    refresh_instances(core, version);
}

/// Whether this core knows all assigners that there are.
#[inline(always)]
pub(super) fn knows_instances(core: &'static Core) -> bool {
    // ORDERING: Relaxed: a hint, or ordered by the barrier before it (`idle::sleep`).
    let version = core.shared().instances_version.load(Ordering::Relaxed);
    // SAFETY: the controller; the closure only looks.
    unsafe { core.owner(|owner| owner.instances_version == version) }
}

/// Gives what has become ready to its assigners.
#[inline(never)]
fn take_in(core: &'static Core) {
    note_instances(core);
    while let Some(block) =
        // SAFETY: the controller; the closure only pops.
        unsafe { core.owner(|owner| owner.local.pop_front()) }
    {
        ready(core, block, Why::Resumed);
    }
    if !core.inbox.is_empty_hint() {
        for link in core.inbox.take() {
            let block = send::block_of(link);
            let why = if block.is_started() { Why::Resumed } else { Why::Born };
            ready(core, block, why);
        }
    }
    if !core.newborn.is_empty() {
        take_newborn(core);
    }
}

fn take_newborn(core: &'static Core) {
    // SAFETY: the controller; `take_all` neither switches nor comes back here.
    let mut moved = unsafe {
        core.owner(|owner| {
            core.newborn.take_all(&mut owner.moved);
            std::mem::take(&mut owner.moved)
        })
    };
    for work in moved.drain(..) {
        let block = work.into_block();
        match place(core, block) {
            None => ready(core, block, Why::Born),
            Some(home) => {
                block.set_home(home);
                block.set(flag::PLACED);
                send::deliver(home, block);
            }
        }
    }
    // SAFETY: as above. Keeps the buffer.
    unsafe { core.owner(|owner| owner.moved = moved) };
    // It lay nowhere for a moment, and a core that fell asleep just then has not seen it.
    task::published(core);
}

/// Another core that the assigner wants new work to start on.
#[inline]
fn place(core: &'static Core, block: &'static Block) -> Option<&'static Core> {
    let instance = instance_of(core, block);
    let place = instance.place(&view(core, instance, None))?;
    core.shared().core_at(place).filter(|home| !std::ptr::eq(*home, core))
}

#[cold]
fn refresh_instances(core: &'static Core, version: u64) {
    let fresh: Vec<Arc<Instance>> =
        core.shared().instances.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone();
    // SAFETY: the controller; the closure only swaps.
    let old = unsafe {
        core.owner(|owner| {
            owner.instances_version = version;
            owner.turn = 0;
            std::mem::replace(&mut owner.instances, fresh)
        })
    };
    drop(old);
}

/// The view of the cores that is given to an assigner.
#[inline]
pub(crate) fn view<'a>(core: &'a Core, instance: &'a Instance, aged: Option<&'a [u64]>) -> Cores<'a> {
    Cores { core, instance, aged }
}

/// Gives `block` to its assigner.
#[inline]
pub(super) fn ready(core: &'static Core, block: &'static Block, why: Why) {
    let instance = instance_of(core, block);
    if core.ctx.attention() & attention::HOOKS != 0 {
        hooks::ready(core, block, why);
    }
    instance.ready(&view(core, instance, None), Work::new(block), why);
    // SAFETY: the controller; the closure only counts.
    unsafe { core.owner(|owner| owner.ready += 1) };
}

#[inline]
pub(crate) fn instance_of(core: &'static Core, block: &'static Block) -> &'static Instance {
    // SAFETY: a block's instance outlives it: it is the runtime's, or its process's.
    match unsafe { block.instance.get().as_ref() } {
        Some(instance) => instance,
        None => &core.shared().default_instance,
    }
}

/// Asks the languages in turn for work: each that has some is served at least once in as many assignments as there are
/// languages.
#[inline]
fn pick(core: &'static Core) -> Option<Work> {
    // SAFETY: the controller; the closure only looks. The pointer stays good because only the controller changes `instances`, and not
    // while it asks.
    let (found, only) = unsafe {
        core.owner(|owner| {
            let only = match &*owner.instances {
                [only] if owner.orphans.is_empty() => Arc::as_ptr(only),
                _ => std::ptr::null(),
            };
            (owner.found.take(), only)
        })
    };
    if found.is_some() {
        return found;
    }
    // SAFETY: as just said.
    let work = match unsafe { only.as_ref() } {
        Some(only) => only.assign(&view(core, only, None)),
        None => pick_among(core),
    };
    // SAFETY: the controller; the closure only counts.
    let more = unsafe {
        core.owner(|owner| {
            owner.ready = if work.is_some() { owner.ready.saturating_sub(1) } else { 0 };
            owner.ready > 0
        })
    };
    set_crowded(core, more);
    work
}

/// As [`pick`], where there are several languages with assigners of their own, or orphans.
#[inline(never)]
fn pick_among(core: &'static Core) -> Option<Work> {
    // SAFETY: the controller; the closure only looks.
    let (turn, count) = unsafe { core.owner(|owner| (owner.turn, owner.instances.len())) };
    for step in 0..=count {
        let index = (turn + step) % (count + 1);
        // SAFETY: the controller, in its loop; `assign` runs an assigner, which cannot come to `note_instances`.
        let work = match unsafe { instance_at(core, index) } {
            Some(instance) => instance.assign(&view(core, instance, None)),
            // SAFETY: the controller; the closure only pops.
            None => unsafe { core.owner(|owner| owner.orphans.pop_front()) }.map(Work::new),
        };
        if work.is_some() {
            // SAFETY: the controller; the closure only writes.
            unsafe { core.owner(|owner| owner.turn = if index >= count { 0 } else { index + 1 }) };
            return work;
        }
    }
    None
}

/// The assigner with that number among those that this core knows. It is looked up anew for each: assigners' code is run outside of
/// [`Core::owner`], and a list of their own would cost two updates of a counter that all cores share, for each, before every sleep.
///
/// # Safety
///
/// - The caller is the core's controller, or what the controller calls, and is not inside of [`Core::owner`].
/// - It does not use what it got after the next [`note_instances`] or [`idle::wind_up`] of this core. Nothing else changes the list, and
///   only the controller's loop calls these two, and the search before it looks at any assigner.
#[inline]
pub(super) unsafe fn instance_at(core: &Core, index: usize) -> Option<&Instance> {
    // SAFETY: the controller (duty of the caller); the closure only looks.
    let instance = unsafe { core.owner(|owner| owner.instances.get(index).map(Arc::as_ptr)) }?;
    // SAFETY: the list holds the `Arc`, and is not changed as long as this is used (duty of the caller).
    Some(unsafe { &*instance })
}

/// Notes for the watchdog whether other work of this core is ready while a VP runs.
#[inline]
pub(crate) fn set_crowded(core: &Core, crowded: bool) {
    // ORDERING: Relaxed: a hint; the watchdog that falls asleep pays for the missing fence (`kernel::sleep`).
    if core.crowded.load(Ordering::Relaxed) != crowded {
        core.crowded.store(crowded, Ordering::Relaxed);
        if crowded {
            core.shared().watchdog.poke();
        }
    }
}

/// Runs `work` until it waits, yields or ends. What comes next, if that is known already.
#[inline]
fn run_work(core: &'static Core, work: Work) -> Option<Work> {
    let block = work.into_block();
    if block.is_started() {
        if !block.home().is_some_and(|home| std::ptr::eq(home, core)) {
            if !block.may_migrate() {
                send_home(core, block);
                return None;
            }
            block.rehome(core);
            crate::vp::cancel::moved(core, block);
        }
    } else if !start(core, block) {
        return None;
    }
    if core.ctx.attention() & attention::HOOKS != 0 {
        hooks::assigned(core, block);
    }
    if block.is_cancelled() {
        core.ctx.raise(attention::CANCEL);
    }
    core.ctx.set_current(Some(block));
    // ORDERING: Relaxed: a counter of this core's own, read by the watchdog as a hint.
    core.switches.store(core.switches.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    // SAFETY: the VP's fiber is suspended (or new) and belongs to this core.
    unsafe { Fiber::resume(block.fiber()) };
    core.ctx.set_current(None);
    crate::panics::settle(block);
    let outcome = core.ctx.outcome.replace(Outcome::Waiting);
    core.last_ended.set(outcome == Outcome::Ended);
    match outcome {
        Outcome::Waiting => {}
        Outcome::Yielded => return yielded(core, block),
        Outcome::Ended => recycle(core, block),
    }
    None
}

/// A VP has yielded. If nothing else has come meanwhile, its assigner gets it and is asked for the next in one call.
#[inline]
fn yielded(core: &'static Core, block: &'static Block) -> Option<Work> {
    let instance = instance_of(core, block);
    // SAFETY: the controller; the closure only looks.
    let alone = unsafe {
        core.owner(|owner| {
            matches!(&*owner.instances, [only] if std::ptr::eq(&raw const **only, instance)) && owner.orphans.is_empty()
        })
    };
    if !alone || has_come(core) || core.ctx.attention() & LOOK != 0 {
        ready(core, block, Why::Yielded);
        return None;
    }
    let next = instance.yielded(&view(core, instance, None), Work::new(block));
    if next.is_none() {
        // The assigner keeps it for later: the loop asks again.
        // SAFETY: the controller; the closure only counts.
        unsafe { core.owner(|owner| owner.ready += 1) };
    }
    next
}

/// An assigner gave a started VP to the wrong core.
#[cold]
fn send_home(core: &'static Core, block: &'static Block) {
    let home = block.home().expect("a started VP has a home");
    send::make_ready(&core.ctx, home, block);
}

/// Gives an unstarted VP a stack. `false` if it cannot run here.
#[inline]
fn start(core: &'static Core, block: &'static Block) -> bool {
    if block.has(flag::PLACED) {
        if let Some(home) = block.home() {
            if !std::ptr::eq(home, core) {
                send::make_ready(&core.ctx, home, block);
                return false;
            }
        }
    }
    block.set_home(core);
    // SAFETY: the controller; `take` neither switches nor comes back here.
    match unsafe { core.owner(|owner| owner.fibers.take(block.stack_class.get(), core)) } {
        Ok(fiber) => {
            // SAFETY: a fiber out of the pool is this core's own.
            unsafe { fiber.as_ref() }.stack().set_owner(std::ptr::from_ref(block).cast());
            block.set_fiber(fiber.as_ptr());
            true
        }
        Err(error) => {
            no_stack(core, block, error);
            false
        }
    }
}

/// No stack is to be had: the VP ends with the error.
#[cold]
fn no_stack(core: &'static Core, block: &'static Block, error: String) {
    crate::vp::end::never_started(core, block, error);
    recycle_block(core, block);
}

/// The VP has ended: its fiber and its block are free.
#[inline]
fn recycle(core: &'static Core, block: &'static Block) {
    let raw = block.fiber();
    block.set_fiber(std::ptr::null());
    let fiber = NonNull::new(raw.cast_mut()).expect("a VP that has ended had a fiber");
    let class = block.stack_class.get();
    // SAFETY: the controller; `give` neither switches nor comes back here.
    if let Some(surplus) = unsafe { core.owner(|owner| owner.fibers.give(class, fiber, &core.shared().arenas)) } {
        end_fiber(core, class, surplus);
    }
    recycle_block(core, block);
}

fn recycle_block(core: &'static Core, block: &'static Block) {
    // ORDERING: Relaxed: this core's own writes; see `holders::count` for the rare other writer.
    if block.held.load(Ordering::Relaxed) != 0 {
        // It holds something for ever: its block stays its own, so that reports can name it.
        return;
    }
    block.bury();
    // SAFETY: the controller; `give` takes a lock, but neither switches nor comes back here.
    unsafe {
        core.owner(|owner| {
            owner.blocks.push(block);
            if owner.blocks.len() > 4 * crate::vp::slab::BATCH {
                crate::vp::slab::give(&mut owner.blocks, crate::vp::slab::BATCH);
            }
        });
    }
}

/// Has a fiber's function return, and gives its stack back.
#[cold]
pub(crate) fn end_fiber(core: &'static Core, class: u8, fiber: NonNull<Fiber>) {
    debug_assert!(core.ctx.current().is_none(), "a fiber is ended by the controller");
    // SAFETY: the fiber is suspended between two VPs; with no current VP its function returns.
    unsafe { Fiber::resume(fiber.as_ptr()) };
    // SAFETY: `Fibers::make` let go of it, and nobody else has it.
    let fiber = unsafe { FiberBox::from_raw(fiber) };
    let stack = fiber.into_stack();
    // SAFETY: the controller; the closure only clones an `Arc`.
    if let Some(arena) = unsafe { core.owner(|owner| owner.fibers.arena(class).cloned()) } {
        arena.give(stack);
    }
}

/// Stacks are short: those that wait here for a VP go back to where every core gets its own.
pub(super) fn give_fibers_back(core: &'static Core) {
    // SAFETY: the controller; the closure only takes out.
    let fibers = unsafe { core.owner(|owner| owner.fibers.drain()) };
    for (class, fiber) in fibers {
        end_fiber(core, class, fiber);
    }
}

/// The running VP leaves the core until it is made ready.
#[inline(always)]
pub(crate) fn switch_away(ctx: &'static Ctx, block: &'static Block) {
    task::detach(ctx);
    ctx.outcome.set(Outcome::Waiting);
    // SAFETY: `block` runs here, on its fiber.
    unsafe { Fiber::suspend(block.fiber()) };
}

/// The running VP goes through controller and assigner.
#[inline(always)]
pub(crate) fn yield_now(ctx: &'static Ctx, block: &'static Block) {
    task::detach(ctx);
    ctx.outcome.set(Outcome::Yielded);
    // SAFETY: `block` runs here, on its fiber.
    unsafe { Fiber::suspend(block.fiber()) };
}

/// Work came from another core: for hooks.
pub(crate) fn note_stolen(core: &'static Core, block: &'static Block, why: Why) {
    if core.ctx.attention() & attention::HOOKS != 0 {
        hooks::ready(core, block, why);
    }
}

#[cold]
fn attend(core: &'static Core) {
    core.ctx.lower(attention::TICK);
    if core.ctx.attention() & attention::MAIL != 0 {
        mail::serve(core);
    }
    if core.ctx.attention() & attention::TIMER != 0 {
        super::timers::expire(core);
    }
    take_in(core);
}
