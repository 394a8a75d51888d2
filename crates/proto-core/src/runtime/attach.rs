//! OS threads that are no controllers: they start processes, wait for them, and use every construct of every language; when they wait,
//! they park [design §1, `suspended`].
//!
//! An OS thread is attached at its first request, gets a control block of its own (flag `THREAD`, no home), and is detached when it
//! ends. It carries out its own deadlines; nobody cancels it.
//!
//! # The dangerous race
//!
//! The end of a wait is in its word before whoever ended it is done with the timeline: its block may be in the chain of those that a pass wakes
//! after its unlock, and is then read for its home. A thread runs all the time, and must not go on as soon as it sees the end: it would wait elsewhere,
//! and be put into another chain by the same link, or exit, and its block be born again as a VP. So an end by somebody else is none before the
//! thread was *made ready* (`Block::ready`), which is the waker's last access but for the parker, and a token left there for a later thread only has that one look
//! once more. Who ends a thread's wait makes it ready, once, as with a VP; nobody does if the thread ended it itself, by its deadline.

use std::cell::Cell;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use super::activity;
use crate::ctx::{self, Ctx};
use crate::kernel::wait::{Interrupt, Key};
use crate::vp::block::{Block, flag};
use crate::vp::{extra, slab};

/// Detaches the OS thread when it ends.
struct Attached {
    ctx: &'static Ctx,
    block: &'static Block,
    inside: Cell<bool>,
}

thread_local! {
    static ATTACHED: Attached = Attached::new();
}

impl Attached {
    fn new() -> Attached {
        let (ctx, block) = make();
        Attached { ctx, block, inside: Cell::new(true) }
    }
}

/// The context of an OS thread that has ended.
struct Unused(&'static Ctx);

// SAFETY: nobody's own any more: its thread has ended, and whoever takes it out of `UNUSED` is the next.
unsafe impl Send for Unused {}

static UNUSED: Mutex<Vec<Unused>> = Mutex::new(Vec::new());

fn make() -> (&'static Ctx, &'static Block) {
    let block = slab::take_one();
    block.bear();
    crate::vp::prepare_thread(block);
    let unused = UNUSED.lock().unwrap_or_else(PoisonError::into_inner).pop();
    let ctx = unused.map_or_else(|| -> &'static Ctx { Box::leak(Box::new(Ctx::new())) }, |unused| unused.0);
    // ORDERING: Relaxed: bits are hints, and those for the thread that had it before mean nothing.
    ctx.attention.store(0, Ordering::Relaxed);
    ctx.fill_spares();
    ctx.set_current(Some(block));
    activity::begin();
    (ctx, block)
}

impl Drop for Attached {
    fn drop(&mut self) {
        if self.inside.get() {
            activity::end();
        }
        // SAFETY: later requests of this OS thread (in other thread-locals' destructors) attach it anew, and leak that.
        unsafe { ctx::install(std::ptr::null()) };
        // ORDERING: Relaxed: this thread's own writes.
        if self.block.held.load(Ordering::Relaxed) == 0 {
            extra::clear(self.block);
            self.block.bury();
            slab::give(&mut vec![self.block], 0);
        }
        // Else it holds something for ever: its block stays its own, so that reports can name it.
        // The context is not freed: a late waker may still look at the attention word of a thread that is gone. Another thread uses it.
        self.ctx.set_current(None);
        self.ctx.clear_spares();
        UNUSED.lock().unwrap_or_else(PoisonError::into_inner).push(Unused(self.ctx));
    }
}

/// Attaches the calling OS thread.
#[cold]
#[inline(never)]
pub(crate) fn attach() -> &'static Ctx {
    // In a destructor that runs after `ATTACHED`'s the thread is attached once more, for what is left of its life.
    let ctx = ATTACHED.try_with(|attached| attached.ctx).unwrap_or_else(|_| make().0);
    // SAFETY: the context is leaked.
    unsafe { ctx::install(ctx) };
    ctx
}

/// Waits on the calling OS thread until the wait `key` of its block is over, and the thread free to go on.
pub(crate) fn stand(block: &'static Block, key: Key, deadline: Option<Instant>) {
    // ORDERING: Acquire pairs with the Release in `make_ready`: all that the waker did with the block came before.
    while !block.ready.load(Ordering::Acquire) {
        // Once it is over there is nothing to do but wait for the waker.
        match deadline.filter(|_| block.wait.poll(key).is_none()) {
            None => block.parker.park(),
            Some(at) => {
                let left = at.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    if crate::env::interrupt::interrupt_quietly(block, key, Interrupt::Deadline) {
                        return;
                    }
                    // Being forwarded: the next environment queues it, then this succeeds. Or being answered.
                    std::thread::yield_now();
                } else {
                    block.parker.park_timeout(left);
                }
            }
        }
    }
    // ORDERING: Relaxed: whoever makes it ready next has claimed a wait that this thread has armed since.
    block.ready.store(false, Ordering::Relaxed);
}

/// Lets an OS thread go on whose wait the caller has ended.
pub(crate) fn make_ready(block: &'static Block) {
    debug_assert!(block.has(flag::THREAD));
    debug_assert!(!block.ready.load(Ordering::Relaxed), "an OS thread was made ready twice");
    // ORDERING: Release pairs with the Acquire in `stand`. From here on the block may be anybody's.
    block.ready.store(true, Ordering::Release);
    block.parker.unpark();
}

/// The calling OS thread has nothing of its own to do any more: it no longer counts as somebody who could make progress.
pub(crate) fn count_no_more() {
    if ATTACHED.try_with(|attached| attached.inside.replace(false)).unwrap_or(false) {
        activity::end();
    }
}

/// Runs `f`, which waits for a process, with the calling OS thread not counted as somebody who could make progress.
pub(crate) fn standing_in_wait<R>(f: impl FnOnce() -> R) -> R {
    struct Back(bool);
    impl Drop for Back {
        fn drop(&mut self) {
            if self.0 {
                activity::begin();
                let _ = ATTACHED.try_with(|attached| attached.inside.set(true));
            }
        }
    }
    let ctx = ctx::get();
    if ctx.core().is_some() {
        return f();
    }
    let counted = ATTACHED.try_with(|attached| attached.inside.replace(false)).unwrap_or(false);
    let _back = Back(counted);
    if counted {
        activity::end();
    }
    f()
}
