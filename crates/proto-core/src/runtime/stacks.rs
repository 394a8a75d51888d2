//! Fibers and stacks: where a core gets them, and how they are used again.
//!
//! A fiber runs one VP after another. It is started once, its function fetches the core's current VP, runs it to its end, and
//! suspends; resumed again it fetches the next. So a VP costs no making of a coroutine, and its stack's upper pages are warm.
//! A fiber whose VP did not come to its end (process doomed, shutdown) is not used again [design rule 13].
//!
//! Sizes are powers of two; a *class* is the binary logarithm of a size.
//!
//! # At the system's limit
//!
//! When an arena cannot give a stack its class is marked as *short*, with the number of stacks that were out. From then on cores keep no fibers of
//! the class for themselves: what ends goes back to the arena, which so knows whether a VP that is to be created can start, and `spawn` asks it. The mark goes when
//! half of those stacks are back. Without the mark, `spawn` pays one load. What was created before the limit was met, or by several at once
//! close to it, meets it when it is to start (`vp::end::never_started`).

use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use proto_arch::fiber::{Backend, Fiber, FiberBox};
use proto_arch::stack::{StackArena, StackError, StackOptions};

use super::core::Core;
use super::{controller, mail};
use crate::ctx;
use crate::ctx::Outcome;

/// The smallest class: 32 KiB. A panic with a backtrace needs 23 [design rule 15].
const SMALLEST: u8 = 15;
const CLASSES: usize = 17;
/// Fibers of a class that a core keeps.
const KEEP: usize = 256;
/// Fibers of a class that one idle core looks at before it sleeps.
const TRIM_AT_ONCE: usize = 64;
/// What a pooled stack keeps of its memory after a deep excursion.
const KEEP_BYTES: usize = 32 * 1024;

/// The class of the smallest stack that has `size` bytes.
pub(crate) fn class_of(size: usize) -> Option<u8> {
    let class = u8::try_from(size.max(1).checked_next_power_of_two()?.trailing_zeros()).ok()?.max(SMALLEST);
    (usize::from(class - SMALLEST) < CLASSES).then_some(class)
}

/// The arenas of a runtime, one for each class in use.
#[derive(Debug, Default)]
pub(crate) struct Arenas {
    arenas: Mutex<[Option<Arc<StackArena>>; CLASSES]>,
    /// Of each class that is short, how many stacks were out when that was found; else 0.
    short: [AtomicUsize; CLASSES],
}

impl Arenas {
    /// Whether a stack of `class` was refused not long ago.
    #[inline(always)]
    pub(crate) fn is_short(&self, class: u8) -> bool {
        // ORDERING: Relaxed: a hint; the arena has a lock.
        self.short[usize::from(class - SMALLEST)].load(Ordering::Relaxed) != 0
    }

    /// `arena` has refused a stack. `true` if that is news.
    fn set_short(&self, class: u8, arena: &StackArena) -> bool {
        // ORDERING: as above.
        self.short[usize::from(class - SMALLEST)].swap(arena.in_use().max(1), Ordering::Relaxed) == 0
    }

    /// Whether a stack of a class that is short is to be had.
    #[cold]
    pub(crate) fn try_short(&self, class: u8) -> Result<(), StackError> {
        let arena = self.get(class)?;
        let stack = arena.take()?;
        arena.give(stack);
        let short = &self.short[usize::from(class - SMALLEST)];
        // ORDERING: as above.
        if arena.in_use() <= short.load(Ordering::Relaxed) / 2 {
            short.store(0, Ordering::Relaxed);
        }
        Ok(())
    }

    fn get(&self, class: u8) -> Result<Arc<StackArena>, StackError> {
        let mut arenas = self.arenas.lock().unwrap_or_else(PoisonError::into_inner);
        let slot = &mut arenas[usize::from(class - SMALLEST)];
        if let Some(arena) = slot {
            return Ok(Arc::clone(arena));
        }
        let arena = Arc::new(StackArena::new(StackOptions::with_size(1 << class))?);
        *slot = Some(Arc::clone(&arena));
        Ok(arena)
    }
}

/// One core's fibers of a class that wait for a VP, the last used on top.
#[derive(Debug, Default)]
struct Free {
    fibers: Vec<NonNull<Fiber>>,
    /// How many at the bottom have not been used since they were trimmed.
    clean: usize,
}

/// One core's fibers that wait for a VP.
#[derive(Debug, Default)]
pub(crate) struct Fibers {
    free: [Free; CLASSES],
    arenas: [Option<Arc<StackArena>>; CLASSES],
}

impl Fibers {
    /// A fiber of `class` that will run on `core`.
    #[inline]
    pub(crate) fn take(&mut self, class: u8, core: &'static Core) -> Result<NonNull<Fiber>, String> {
        let free = &mut self.free[usize::from(class - SMALLEST)];
        if let Some(fiber) = free.fibers.pop() {
            free.clean = free.clean.min(free.fibers.len());
            return Ok(fiber);
        }
        self.make(class, core)
    }

    #[cold]
    fn make(&mut self, class: u8, core: &'static Core) -> Result<NonNull<Fiber>, String> {
        let slot = &mut self.arenas[usize::from(class - SMALLEST)];
        let arena = match slot {
            Some(arena) => arena,
            None => slot.insert(core.shared().arenas.get(class).map_err(|error| error.to_string())?),
        };
        let stack = arena.take().map_err(|error| {
            if core.shared().arenas.set_short(class, arena) {
                for other in &core.shared().cores {
                    mail::post(other, Box::new(controller::give_fibers_back));
                }
            }
            error.to_string()
        })?;
        let arg = std::ptr::from_ref(core).cast_mut().cast();
        // SAFETY: `fiber_main` does not unwind (VPs' panics are caught) and takes a core, which outlives its fibers.
        let fiber =
            unsafe { Fiber::new(core.shared().backend, stack, fiber_main, arg) }.map_err(|error| error.to_string())?;
        Ok(FiberBox::into_raw(fiber))
    }

    /// Takes a fiber back whose VP has come to its end; gives it back if the core has enough, or all cores together have too few.
    #[inline]
    pub(crate) fn give(&mut self, class: u8, fiber: NonNull<Fiber>, arenas: &Arenas) -> Option<NonNull<Fiber>> {
        let free = &mut self.free[usize::from(class - SMALLEST)].fibers;
        if free.len() < KEEP && !arenas.is_short(class) {
            free.push(fiber);
            None
        } else {
            Some(fiber)
        }
    }

    /// The arena that a fiber's stack goes back to.
    pub(crate) fn arena(&self, class: u8) -> Option<&Arc<StackArena>> {
        self.arenas[usize::from(class - SMALLEST)].as_ref()
    }

    /// Gives memory of deep excursions back to the system: fibers used since the last time, some at a time. When the core has nothing better
    /// to do.
    pub(crate) fn trim(&mut self) {
        for free in &mut self.free {
            let until = free.fibers.len().min(free.clean + TRIM_AT_ONCE);
            for fiber in &free.fibers[free.clean.min(until)..until] {
                // SAFETY: a pooled fiber is suspended in `fiber_main`, whose frames are far smaller than `KEEP_BYTES`.
                unsafe { Fiber::trim(fiber.as_ptr(), KEEP_BYTES) };
            }
            free.clean = until;
        }
    }

    /// All fibers of all classes.
    pub(crate) fn drain(&mut self) -> Vec<(u8, NonNull<Fiber>)> {
        let mut all = Vec::new();
        for (class, free) in (SMALLEST..).zip(&mut self.free) {
            all.extend(free.fibers.drain(..).map(|fiber| (class, fiber)));
            free.clean = 0;
        }
        all
    }
}

/// What every fiber runs: VP after VP.
///
/// # Safety
///
/// - `arg` is the core on which the fiber is resumed first, and it outlives the fiber.
unsafe fn fiber_main(arg: *mut ()) {
    let core: *const Core = arg.cast_const().cast();
    // SAFETY: duty of the caller.
    let first: &'static Core = unsafe { &*core };
    if first.shared().backend == Backend::Thread {
        // SAFETY: this OS thread is the fiber's alone, and runs only while the core lets it.
        unsafe { ctx::install(&raw const first.ctx) };
    }
    while let Some(block) = ctx::get().current() {
        crate::vp::end::live(block);
        // Read again: with migration compiled in, this may be another core than before.
        ctx::get().outcome.set(Outcome::Ended);
        // SAFETY: this is the fiber of the VP that has just ended, and it runs.
        unsafe { Fiber::suspend(block.fiber()) };
    }
}
