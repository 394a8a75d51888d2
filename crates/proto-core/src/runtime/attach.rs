//! OS threads that are no controllers: they start processes, wait for them, and use every construct of every language; when they wait,
//! they park [design §1, `suspended`].
//!
//! An OS thread is attached at its first request, gets a control block of its own (flag `THREAD`, no home), and is detached when it
//! ends. It carries out its own deadlines; nobody cancels it.

use std::cell::Cell;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use super::activity;
use crate::ctx::{self, Ctx};
use crate::kernel::wait::{End, Interrupt, Key};
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

/// Waits on the calling OS thread until the wait `key` of its block is over.
pub(crate) fn stand(block: &'static Block, key: Key, deadline: Option<Instant>) -> End {
    loop {
        if let Some(end) = block.wait.poll(key) {
            return end;
        }
        match deadline {
            None => block.parker.park(),
            Some(at) => {
                let left = at.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    crate::env::interrupt::interrupt_quietly(block, key, Interrupt::Deadline);
                    // Being forwarded or armed: the next environment queues it, then this succeeds.
                    std::thread::yield_now();
                } else {
                    block.parker.park_timeout(left);
                }
            }
        }
    }
}

/// Wakes an OS thread whose wait was just ended.
pub(crate) fn unpark(block: &'static Block) {
    debug_assert!(block.has(flag::THREAD));
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
