//! Fibers as OS threads that hand over a baton: for Miri, and for code whose thread-locals must be its own.
//!
//! One word says whose turn it is; each side sleeps on its own [`Parker`] while it is not. Of the fiber's thread and the
//! threads that resume it, exactly one runs at a time, so `!Send` values of the fiber stay on its thread.
//!
//! ```text
//!   CONTROLLER ◄── suspend ──── FIBER ──── entry returns ──► FINISHED
//!        └────────── resume ─────►▲
//!   CONTROLLER ── dropped before the first resume ──► UNWANTED   (the thread ends without running the entry)
//! ```
//!
//! A fiber that is dropped suspended leaves its OS thread asleep for ever.

use std::cell::Cell;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU32, AtomicUsize};
use std::{io, thread};

use super::{Entry, THREAD_NAME};
use crate::park::Parker;

const CONTROLLER: u32 = 0;
const FIBER: u32 = 1;
const FINISHED: u32 = 2;
const UNWANTED: u32 = 3;

/// What the two threads share. Kept alive by both, so that the waker's last step is never on freed memory.
pub(super) struct Baton {
    turn: AtomicU32,
    /// Where the fiber's thread sleeps.
    fiber: Parker,
    /// Where the thread that resumed it sleeps.
    controller: Parker,
    /// Lowest address the fiber's thread may use; 0 until it runs.
    limit: AtomicUsize,
}

impl Baton {
    /// Release: pairs with the Acquire in `wait_while`: the other side sees all we did in our turn.
    fn pass(&self, turn: u32, to: &Parker) {
        self.turn.store(turn, Release);
        to.unpark();
    }

    /// Sleeps on `place` while it is `turn`; returns whose turn it is then.
    fn wait_while(&self, turn: u32, place: &Parker) -> u32 {
        loop {
            // Acquire: pairs with the Release in `pass`.
            let now = self.turn.load(Acquire);
            if now != turn {
                return now;
            }
            place.park();
        }
    }
}

impl Baton {
    /// Hands over to the controller and waits for the next turn. Not a function of [`Switch`]: once the baton is passed,
    /// the controller may drop the fiber, and only what the fiber's thread itself keeps alive is left to wait on.
    ///
    /// # Safety
    ///
    /// - The calling thread is the fiber's, which keeps its baton alive.
    #[cold]
    #[inline(never)]
    pub(super) unsafe fn suspend(this: NonNull<Self>) {
        // SAFETY: the caller's duty.
        let baton = unsafe { this.as_ref() };
        baton.pass(CONTROLLER, &baton.controller);
        baton.wait_while(CONTROLLER, &baton.fiber);
    }
}

/// The part of a fiber that switches.
pub(super) struct Switch {
    baton: Arc<Baton>,
    /// Taken when the fiber is dropped and the thread has ended or will.
    thread: Option<thread::JoinHandle<()>>,
    started: Cell<bool>,
}

impl Switch {
    /// A thread with a stack of `size` bytes, asleep until the first resume.
    pub(super) fn new(size: usize, entry: Entry) -> io::Result<Self> {
        let baton = Arc::new(Baton {
            turn: AtomicU32::new(CONTROLLER),
            fiber: Parker::new(),
            controller: Parker::new(),
            limit: AtomicUsize::new(0),
        });
        let thread = {
            let baton = Arc::clone(&baton);
            thread::Builder::new()
                .name(THREAD_NAME.to_owned())
                .stack_size(size)
                .spawn(move || run(&baton, size, entry))?
        };
        Ok(Self { baton, thread: Some(thread), started: Cell::new(false) })
    }

    #[cold]
    #[inline(never)]
    pub(super) fn resume(&self) {
        self.started.set(true);
        self.baton.pass(FIBER, &self.baton.fiber);
        self.baton.wait_while(FIBER, &self.baton.controller);
    }

    /// For [`Baton::suspend`].
    pub(super) fn baton(&self) -> NonNull<Baton> {
        NonNull::from(&*self.baton)
    }

    pub(super) fn is_finished(&self) -> bool {
        // Acquire: pairs with `pass`, for a controller that is not the one that was waiting.
        self.baton.turn.load(Acquire) == FINISHED
    }

    pub(super) fn is_unused(&self) -> bool {
        !self.started.get() || self.is_finished()
    }

    pub(super) fn stack_limit(&self) -> usize {
        // Relaxed: the baton has been here since it was written.
        self.baton.limit.load(Relaxed)
    }
}

/// The fiber's thread.
fn run(baton: &Baton, size: usize, entry: Entry) {
    if baton.wait_while(CONTROLLER, &baton.fiber) == UNWANTED {
        return;
    }
    // Above this frame are the system's start of a thread and its thread-locals: 16 KiB, rounded up generously.
    let frame = 0_u8;
    let top = (&raw const frame).addr();
    // Relaxed: read by others only after the baton was passed.
    baton.limit.store(top.saturating_sub(size) + 16 * 1024, Relaxed);
    // SAFETY: the duties are those of `Fiber::new`'s caller; a thread calls its function once.
    unsafe { entry.run() };
    baton.pass(FINISHED, &baton.controller);
}

impl Drop for Switch {
    fn drop(&mut self) {
        if !self.is_unused() {
            return; // the thread sleeps for ever, see the head of the file
        }
        if !self.started.get() {
            self.baton.pass(UNWANTED, &self.baton.fiber);
        }
        if let Some(thread) = self.thread.take() {
            // It has nothing left to do but the destructors of its thread-locals; a panic in those was printed.
            let _ = thread.join();
        }
    }
}
