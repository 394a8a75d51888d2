//! The controller of a core: its loop, switching to VPs and back, and making timelines ready.
//!
//! ```text
//!   inbox, newborn, local ──► assigner.ready      (attention: mail, deadlines)
//!                             assigner.assign ──► resume the VP ──► outcome: waiting | yielded | ended
//!                             nothing ──► idle: search ~20 µs, then sleep
//! ```
//!
//! # Who calls what
//!
//! `run` is a controller's thread. `switch_away`, `yield_now`, `arm_deadline`, `disarm_deadline` are called by the VP that runs here.
//! `make_ready`, `wake`, `recheck` by anybody. `orphan` by a `Work` that is dropped, wherever that is.
//!
//! # The dangerous race
//!
//! A timeline is made ready by another core while it is still on its way to its controller. It stays in the inbox until this
//! loop comes by, and this loop comes by only after the timeline has switched away; so nothing is resumed twice and no stack runs on two
//! cores. A wake-up of a core that is just falling asleep is `kernel::sleep`'s.

use std::mem::offset_of;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use proto_arch::fiber::{Fiber, FiberBox};

use super::core::Core;
use super::shared::Visit;
use super::{idle, mail};
use crate::assign::instance::Instance;
use crate::assign::{Cores, Why, Work};
use crate::ctx::{self, Ctx, Outcome, attention};
use crate::hooks;
use crate::kernel::inbox::{Link, Pushed};
use crate::kernel::wait::Interrupt;
use crate::task;
use crate::vp::block::{Block, flag, mode};
use crate::vp::extra;

/// The loop of a controller. Returns when its runtime stops and nothing is left to run here.
pub(crate) fn run(core: &'static Core) {
    loop {
        take_in(core);
        if core.ctx.attention() & (attention::MAIL | attention::TIMER | attention::TICK) != 0 {
            attend(core);
        }
        match pick(core) {
            Some(work) => run_work(core, work),
            None => {
                if !idle::idle(core) {
                    break;
                }
            }
        }
    }
}

/// Gives what has become ready to its assigners.
#[inline]
fn take_in(core: &'static Core) {
    // ORDERING: Acquire pairs with the Release in `Shared::add_instance`.
    let version = core.shared().instances_version.load(Ordering::Acquire);
    // SAFETY: the controller; the closure only looks.
    if unsafe { core.owner(|owner| owner.instances_version != version) } {
        refresh_instances(core, version);
    }
    while let Some(block) =
        // SAFETY: the controller; the closure only pops.
        unsafe { core.owner(|owner| owner.local.pop_front()) }
    {
        ready(core, block, Why::Resumed);
    }
    if !core.inbox.is_empty_hint() {
        for link in core.inbox.take() {
            let block = block_of(link);
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
                deliver(home, block);
            }
        }
    }
    // SAFETY: as above. Keeps the buffer.
    unsafe { core.owner(|owner| owner.moved = moved) };
}

/// Leaves new work that may move with the core on which this code runs: in the pool of its assigner if that wants nothing else done with it, else
/// where the controller takes it in.
#[inline]
pub(crate) fn bear(core: &'static Core, block: &'static Block, hooks: bool) {
    let instance = instance_of(core, block);
    if instance.new_work_in_pool && !hooks {
        // May move, so it is taken in, as below.
        let _ = instance.pools[core.index].push(Work::new(block));
        // SAFETY: this code runs on that core; the closure only counts.
        unsafe { core.owner(|owner| owner.ready += 1) };
    } else {
        let _ = core.newborn.push(Work::new(block));
    }
    set_crowded(core, true);
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
fn ready(core: &'static Core, block: &'static Block, why: Why) {
    let instance = instance_of(core, block);
    if core.ctx.attention() & attention::HOOKS != 0 {
        hooks::ready(core, block, why);
    }
    instance.ready(&view(core, instance, None), Work::new(block), why);
    // SAFETY: the controller; the closure only counts.
    unsafe { core.owner(|owner| owner.ready += 1) };
}

#[inline]
fn instance_of(core: &'static Core, block: &'static Block) -> &'static Instance {
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
        let work = if index == count {
            // SAFETY: the controller; the closure only pops.
            unsafe { core.owner(|owner| owner.orphans.pop_front()) }.map(Work::new)
        } else {
            // SAFETY: the controller; the pointer stays good as in `pick`.
            let instance: *const Instance = unsafe { core.owner(|owner| Arc::as_ptr(&owner.instances[index])) };
            // SAFETY: as just said.
            let instance = unsafe { &*instance };
            instance.assign(&view(core, instance, None))
        };
        if work.is_some() {
            // SAFETY: the controller; the closure only writes.
            unsafe { core.owner(|owner| owner.turn = if index >= count { 0 } else { index + 1 }) };
            return work;
        }
    }
    None
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

/// Runs `work` until it waits, yields or ends.
#[inline]
fn run_work(core: &'static Core, work: Work) {
    let block = work.into_block();
    if block.is_started() {
        if !block.home().is_some_and(|home| std::ptr::eq(home, core)) {
            if !block.may_migrate() {
                return send_home(core, block);
            }
            block.set_home(core);
        }
    } else if !start(core, block) {
        return;
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
    unsafe { Fiber::resume(block.fiber.get()) };
    core.ctx.set_current(None);
    crate::panics::settle(block);
    match core.ctx.outcome.replace(Outcome::Waiting) {
        Outcome::Waiting => {}
        Outcome::Yielded => ready(core, block, Why::Yielded),
        Outcome::Ended => recycle(core, block),
    }
}

/// An assigner gave a started VP to the wrong core.
#[cold]
fn send_home(core: &'static Core, block: &'static Block) {
    let home = block.home().expect("a started VP has a home");
    make_ready(&core.ctx, home, block);
}

/// Gives an unstarted VP a stack. `false` if it cannot run here.
#[inline]
fn start(core: &'static Core, block: &'static Block) -> bool {
    if block.has(flag::PLACED) {
        if let Some(home) = block.home() {
            if !std::ptr::eq(home, core) {
                make_ready(&core.ctx, home, block);
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
            block.fiber.set(fiber.as_ptr());
            true
        }
        Err(error) => {
            no_stack(core, block, error);
            false
        }
    }
}

/// No stack is to be had. The VP waits until one is given back; if this core has none out that could come back, it ends with the error.
#[cold]
fn no_stack(core: &'static Core, block: &'static Block, error: String) {
    crate::vp::end::never_started(core, block, error);
    recycle_block(core, block);
}

/// The VP has ended: its fiber and its block are free.
#[inline]
fn recycle(core: &'static Core, block: &'static Block) {
    let raw = block.fiber.replace(std::ptr::null());
    let fiber = NonNull::new(raw.cast_mut()).expect("a VP that has ended had a fiber");
    let class = block.stack_class.get();
    // SAFETY: the controller; `give` neither switches nor comes back here.
    if let Some(surplus) = unsafe { core.owner(|owner| owner.fibers.give(class, fiber)) } {
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

/// The running VP leaves the core until it is made ready.
#[inline(always)]
pub(crate) fn switch_away(ctx: &'static Ctx, block: &'static Block) {
    task::detach(ctx);
    ctx.outcome.set(Outcome::Waiting);
    // SAFETY: `block` runs here, on its fiber.
    unsafe { Fiber::suspend(block.fiber.get()) };
}

/// The running VP goes through controller and assigner.
#[inline(always)]
pub(crate) fn yield_now(ctx: &'static Ctx, block: &'static Block) {
    task::detach(ctx);
    ctx.outcome.set(Outcome::Yielded);
    // SAFETY: `block` runs here, on its fiber.
    unsafe { Fiber::suspend(block.fiber.get()) };
}

/// The inbox link of a block, for who goes back from it with [`block_of`]: taken from the block, not from a reference to the link.
#[inline]
pub(crate) fn link_of(block: &'static Block) -> NonNull<Link> {
    let link = std::ptr::from_ref(block).wrapping_byte_add(offset_of!(Block, link)).cast::<Link>().cast_mut();
    NonNull::new(link).expect("a field has an address")
}

/// The block whose inbox link this is.
#[inline]
pub(crate) fn block_of(link: NonNull<Link>) -> &'static Block {
    // SAFETY: every link that is pushed into an inbox is a block's, and blocks are never freed.
    let block = unsafe { link.as_ptr().byte_sub(offset_of!(Block, link)).cast::<Block>() };
    // SAFETY: as above.
    unsafe { &*block }
}

/// Makes a timeline ready whose wait is over, or sends an unstarted VP, on its home core.
#[inline]
pub(crate) fn make_ready(ctx: &'static Ctx, home: &'static Core, block: &'static Block) {
    if std::ptr::eq(ctx, &home.ctx) {
        // SAFETY: this code runs on that core; the closure only pushes.
        unsafe { home.owner(|owner| owner.local.push_back(block)) };
        set_crowded(home, true);
    } else if ctx.core().is_some_and(|here| std::ptr::eq(here.shared(), home.shared())) {
        deliver(home, block);
    } else {
        let _visit = Visit::new(home.shared());
        deliver(home, block);
    }
}

/// Puts a timeline into another core's inbox.
#[inline]
pub(crate) fn deliver(home: &'static Core, block: &'static Block) {
    // SAFETY: blocks live for ever, and a timeline is made ready once at a time, so it is in no inbox now.
    if unsafe { home.inbox.push(link_of(block)) } == Pushed::First {
        // ORDERING: Relaxed: a hint for the watchdog.
        if !home.crowded.load(Ordering::Relaxed) {
            home.crowded.store(true, Ordering::Relaxed);
            home.shared().watchdog.poke();
        }
        wake(home);
    }
}

/// Wakes a core that sleeps, or is just falling asleep. After the write that it is to see.
#[inline]
pub(crate) fn wake(core: &Core) {
    let shared = core.shared();
    shared.sleep.notify(core.index, shared);
}

/// A deadline or a cancel was noted while the wait of `block` was on its way to another environment: its home core looks again.
#[cold]
pub(crate) fn recheck(block: &'static Block) {
    let birth = block.birth();
    match block.home() {
        Some(home) => mail::post(home, Box::new(move |core| look_again(core, block, birth))),
        None => super::attach::unpark(block),
    }
}

/// Carries out what may have been noted for the wait of `block`. On its home core.
fn look_again(core: &'static Core, block: &'static Block, birth: u64) {
    if block.birth() != birth || !block.is_started() {
        return;
    }
    // SAFETY: it has started.
    let Some(key) = unsafe { block.node() }.key.get() else {
        return;
    };
    if block.mode.get() & mode::TIMED != 0 && extra::deadline(block).is_none() {
        crate::env::interrupt::interrupt(&core.ctx, block, key, Interrupt::Deadline);
    }
    if block.is_cancelled() && block.mode.get() & mode::ABANDONABLE != 0 {
        crate::env::interrupt::interrupt(&core.ctx, block, key, Interrupt::Cancel);
    }
}

/// Work that an assigner dropped: this core runs it itself.
#[cold]
pub(crate) fn orphan(block: &'static Block) {
    match ctx::installed().and_then(Ctx::core) {
        // SAFETY: this code runs on that core, in a drop: nothing holds the owner's part across calls of foreign code.
        Some(core) => unsafe { core.owner(|owner| owner.orphans.push_back(block)) },
        None => {
            if let Some(home) = block.home() {
                deliver(home, block);
            }
        }
    }
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
