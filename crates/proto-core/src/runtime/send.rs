//! How work gets to the core that runs it: timelines made ready, new work, orphans.
//!
//! `make_ready`, `deliver`, `wake` are called by anybody; `Recheck` is for who forwards a wait; `bear` by what runs on a core; `orphan` by a `Work` that is dropped,
//! wherever that is.
//!
//! # The dangerous race
//!
//! A timeline is made ready by another core while it is still on its way to its controller. It stays in the inbox until the controller's
//! loop comes by, and that comes by only after the timeline has switched away; so nothing is resumed twice and no stack runs on two
//! cores. A wake-up of a core that is just falling asleep is `kernel::sleep`'s.

use std::mem::offset_of;
use std::ptr::NonNull;

use super::controller::{instance_of, set_crowded};
use super::core::Core;
use super::mail;
use super::shared::{Shared, Visit};
use crate::assign::Work;
use crate::ctx::{self, Ctx, attention};
use crate::hooks;
use crate::kernel::inbox::{Link, Pushed};
use crate::kernel::wait::Interrupt;
use crate::vp::block::{Block, mode};
use crate::vp::extra;

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
    } else if is_of(ctx, home.shared()) {
        deliver(home, block);
    } else {
        let _visit = Visit::new(home.shared());
        if home.shared().hooks.any() && ctx.attention() & attention::HOOKS == 0 && block.is_started() {
            // Not told by whoever ended the wait, who has no hooks of its own.
            hooks::resumed(ctx, block);
        }
        deliver(home, block);
    }
}

/// Puts a timeline into another core's inbox.
#[inline]
pub(crate) fn deliver(home: &'static Core, block: &'static Block) {
    // SAFETY: blocks live for ever, and a timeline is made ready once at a time, so it is in no inbox now.
    if unsafe { home.inbox.push(link_of(block)) } == Pushed::First {
        // The watchdog looks at inboxes itself. (To mark the core as crowded costs a line that its controller writes at each switch.)
        home.shared().watchdog.poke();
        wake(home);
    }
}

/// Wakes a core that sleeps, or is just falling asleep. After the write that it is to see.
#[inline]
pub(crate) fn wake(core: &Core) {
    let shared = core.shared();
    shared.sleep.notify(core.index, shared);
}

/// A deadline or a cancel may be noted while the wait of a VP is on its way to another environment: then its home core looks again. (An
/// OS thread that notes its deadline looks again by itself.)
///
/// Made while the wait is still claimed: from then on it keeps the home's memory, as a [`Visit`] does.
pub(crate) struct Recheck {
    home: &'static Core,
    block: &'static Block,
    birth: u64,
    _visit: Option<Visit<'static>>,
}

impl Recheck {
    /// For who has claimed the wait of `block`. `None`: an OS thread.
    pub(crate) fn new(block: &'static Block) -> Option<Recheck> {
        let home = block.home()?;
        let visits = !ctx::installed().is_some_and(|ctx| is_of(ctx, home.shared()));
        Some(Recheck { home, block, birth: block.birth(), _visit: visits.then(|| Visit::new(home.shared())) })
    }

    #[cold]
    pub(crate) fn ask(self) {
        let (block, birth) = (self.block, self.birth);
        mail::post(self.home, Box::new(move |core| look_again(core, block, birth)));
    }
}

/// Whether `ctx` is a core's of this runtime, which then does not end while code runs there.
#[inline]
fn is_of(ctx: &Ctx, shared: &Shared) -> bool {
    ctx.core().is_some_and(|here| std::ptr::eq(here.shared(), shared))
}

/// Carries out what may have been noted for the wait of `block`. On its home core.
fn look_again(core: &'static Core, block: &'static Block, birth: u64) {
    // One that has moved has run since, and looked whether it is cancelled.
    let Some(_at_home) = block.at_home(core, birth) else { return };
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
