//! What runs on a VP's stack, from its start to its end.
//!
//! ```text
//!   closure taken out of the block ─► run (or dropped, if cancelled before) ─► VP-locals dropped ─► counted in its process ─► controller
//! ```
//!
//! The closure is the creator's: it catches panics and reports to whoever joins (`join`, `scope`). A panic that comes through here all the
//! same was in a destructor, and goes to the process.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::block::{Block, flag};
use super::{cancel, extra, local};
use crate::ctx;
use crate::hooks;
use crate::join::never_run;
use crate::process::ProcessInner;
use crate::report::pace::Pace;
use crate::runtime::activity::Somebody;
use crate::runtime::core::Core;

/// Lives the life of `block`, which runs here for the first time.
pub(crate) fn live(block: &'static Block) {
    crate::task::set_floor(block);
    // SAFETY: the VP runs on this core and has not started; its creator put a closure into it.
    let start = unsafe { block.take_start() };
    let cancelled = cancel::inherited(block);
    if cancelled {
        block.set(flag::UNRUN);
    }
    let outcome = catch_unwind(AssertUnwindSafe(|| if cancelled { drop(start) } else { start.run() }));
    if let Err(payload) = outcome {
        leave(block, payload);
    }
    if let Err(payload) = catch_unwind(AssertUnwindSafe(|| local::run_destructors(block))) {
        leave(block, payload);
    }
    end(block);
}

/// Something unwound to the base of the VP's stack.
#[cold]
fn leave(block: &'static Block, payload: Box<dyn std::any::Any + Send>) {
    if payload.is::<crate::Cancelled>() {
        return;
    }
    if let Some(process) = block.process() {
        process.note_panic(payload);
    }
}

/// The VP has nothing left to do but to be counted.
fn end(block: &'static Block) {
    let ctx = ctx::get();
    if ctx.attention() & ctx::attention::HOOKS != 0 {
        // While it still has its whole name.
        hooks::ended(block);
    }
    // ORDERING: Relaxed: see `holders::count`.
    if block.held.load(Ordering::Relaxed) == 0 {
        extra::clear(block);
    } else if let Some(process) = block.process() {
        // It holds something for ever, and its block stays its own, so that reports can name it: name and process stay as well.
        std::mem::forget(process.handle());
    }
    // What was cleared may have held values of the user's, which waited.
    if let (Some(process), Some(core)) = (block.process(), ctx::again(ctx).core()) {
        // The last that is done with the process: it may be gone after this.
        let of = block.counted();
        // SAFETY: this is the end of a VP of it.
        unsafe { ProcessInner::count_end(process, core, of) };
    }
}

/// There was no stack for `block`, because of `error`. On the controller of `core`.
///
/// Dropping its closure tells its joiner, which is a request: not on the controller's stack. The watchdog has it done.
pub(crate) fn never_started(core: &'static Core, block: &'static Block, error: String) {
    // SAFETY: the controller has the unstarted VP in hand.
    let start = unsafe { block.take_start() };
    let process = block.process();
    let of = block.counted();
    let failure = format!("{} did not get a stack: {error}", super::VpName::of(block));
    let why = Arc::from(error);
    // Nobody asks that process how it went.
    let unheard = process.is_none_or(ProcessInner::is_ambient);
    if let Some(process) = process.filter(|_| !unheard) {
        process.note_failure(failure.clone());
    }
    extra::clear(block);
    /// Thousands may meet the limit at once.
    static SAID: Pace = Pace::new();
    let start = SendStart(start);
    let process = process.map(|process| process.handle());
    let open = Somebody::new();
    core.shared().watchdog.leave(Box::new(move || {
        let start = start;
        // User's code: values of the closure are dropped, and whoever joins is told.
        let dropped = never_run(why, || catch_unwind(AssertUnwindSafe(|| drop(start.0))));
        if unheard && SAID.once_in_a_while() {
            eprintln!("proto-runtime: {failure}");
        }
        if let Some(process) = process {
            if let Err(payload) = dropped {
                process.note_panic(payload);
            }
            process.count_end_outside(of);
        }
        drop(open);
    }));
}

/// A start that goes to another thread: starts are made of closures that may be sent.
struct SendStart(super::start::Start);
// SAFETY: a VP's closure is `Send` (`VpBuilder`), it has not run.
unsafe impl Send for SendStart {}

/// An object that `holder` had taken was given back by somebody else. Its block counted one too many.
#[cold]
pub(crate) fn passed_on(holder: &'static Block) {
    // ORDERING: Relaxed: see `holders::count`.
    holder.held.store(holder.held.load(Ordering::Relaxed) - 1, Ordering::Relaxed);
}
