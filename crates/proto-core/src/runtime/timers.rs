//! Deadlines of the VPs of one core: an ordered map of the core's own. The core's idle loop sleeps no longer than until the earliest; while it is
//! busy, the watchdog tells it.

use std::time::Instant;

use super::core::{Core, Owner};
use crate::ctx::{Ctx, attention};
use crate::env::interrupt::interrupt;
use crate::kernel::wait::Interrupt;
use crate::vp::block::{Block, mode};
use crate::vp::extra;

/// The running VP's wait shall end at `deadline`.
pub(crate) fn arm_deadline(ctx: &'static Ctx, block: &'static Block, deadline: Instant) {
    let Some(core) = ctx.core() else { return };
    // SAFETY: it has started.
    let Some(key) = unsafe { block.node() }.key.get() else {
        return;
    };
    block.mode.set(block.mode.get() | mode::TIMED);
    // SAFETY: this code runs on `core`; the closure only changes the timers.
    let (entry, first) = unsafe {
        core.owner(|owner| {
            owner.timer_number += 1;
            let entry = (deadline, owner.timer_number);
            owner.timers.insert(entry, (block, key));
            (entry, owner.timers.first_key_value().map(|(at, _)| *at) == Some(entry))
        })
    };
    extra::set_deadline(block, Some(entry));
    if first {
        core.publish_deadline(Some(deadline));
        core.shared().watchdog.poke();
    }
}

/// The timed wait of the running VP is over.
pub(crate) fn disarm_deadline(ctx: &'static Ctx, block: &'static Block) {
    let Some(core) = ctx.core() else { return };
    let Some(entry) = extra::deadline(block) else { return };
    extra::set_deadline(block, None);
    // SAFETY: this code runs on `core`; the closure only changes the timers.
    unsafe { core.owner(|owner| owner.timers.remove(&entry)) };
    timers_changed(core);
}

fn timers_changed(core: &'static Core) {
    // SAFETY: this code runs on `core`; the closure only looks.
    let earliest = unsafe { core.owner(|owner: &mut Owner| owner.timers.first_key_value().map(|((at, _), _)| *at)) };
    core.publish_deadline(earliest);
}

/// Ends the waits whose deadline has passed. On the controller.
pub(crate) fn expire(core: &'static Core) {
    core.ctx.lower(attention::TIMER);
    let now = Instant::now();
    let mut any = false;
    loop {
        // SAFETY: the controller; the closure only changes the timers.
        let due = unsafe {
            core.owner(|owner| {
                let entry = owner.timers.first_entry()?;
                (entry.key().0 <= now).then(|| entry.remove())
            })
        };
        let Some((block, key)) = due else { break };
        any = true;
        extra::set_deadline(block, None);
        interrupt(&core.ctx, block, key, Interrupt::Deadline);
    }
    if any {
        timers_changed(core);
    }
}
