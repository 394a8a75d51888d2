//! Ending a wait from outside of its environment: by deadline or cancel, on the timeline's home core.

use super::wait::schedule;
use crate::ctx::Ctx;
use crate::kernel::wait::{Holding, Interrupt, Interrupted, Key};
use crate::vp::block::Block;

/// Ends the wait `key` of `block` by deadline or cancel, and makes the timeline ready if that won. Home core, or the OS thread
/// that waits (which asks for it by [`interrupt_quietly`]: nobody needs to be made ready, for it runs).
pub(crate) fn interrupt(ctx: &'static Ctx, block: &'static Block, key: Key, why: Interrupt) -> bool {
    let won = interrupt_quietly(block, key, why);
    if won {
        schedule(ctx, block);
    }
    won
}

/// As [`interrupt`], without making ready.
pub(crate) fn interrupt_quietly(block: &'static Block, key: Key, why: Interrupt) -> bool {
    loop {
        match block.wait.interrupt(key, why, Holding::Nothing) {
            Interrupted::Won => return true,
            Interrupted::Lost | Interrupted::Noted => return false,
            Interrupted::LockFirst => {}
        }
        // SAFETY: the timeline waits, so it has started.
        let node = unsafe { block.node() };
        let Some(cell) = node.cell() else {
            std::hint::spin_loop();
            continue;
        };
        // SAFETY: the waiting frame borrows the cell it is queued in, and that frame goes on only through this core (or OS thread).
        // If the node has moved to another queue meanwhile, both cells are borrowed by that frame (rule of `Loan`).
        let head = unsafe { &*cell };
        let version = head.lock();
        let mut won = false;
        if node.cell() == Some(cell) && block.wait.interrupt(key, why, Holding::Queue) == Interrupted::Won {
            head.heads.unlink(node);
            won = true;
        }
        head.unlock(version);
        if won {
            return true;
        }
    }
}
