//! Who runs on this OS thread: the one thread-local of the runtime.
//!
//! Every OS thread that runs timelines has a [`Ctx`]: a controller's lies in its [`Core`], an attached OS thread's in a
//! leaked box of its own. The thread-local holds a pointer to it. A request reads this pointer, then from the `Ctx`
//! the *attention* word (is anything out of the ordinary?) and the current timeline.
//!
//! # Who may touch what
//!
//! | field | written by | read by |
//! |---|---|---|
//! | `current` | the OS thread that runs the timeline | anybody (reports: a hint, checked by the block's birth number) |
//! | `attention` | anybody sets bits; the owner clears | the owner, relaxed: each bit is a hint to take the cold path |
//! | `in_handler`, `stands`, `outcome`, the spares | the OS thread that runs the timeline | the same |
//!
//! With the one-OS-thread-per-VP back end the timelines of a core run on several OS threads, one at a time; each of them
//! has the controller's `Ctx` installed while it runs, and the baton that passes between them orders their accesses.
//!
//! # Thread-locals and migration
//!
//! A started VP stays on its OS thread [design rule 7], so the compiler may keep the address of the thread-local across
//! a switch. With the feature `migrate` that is not so: the accessor is a call that is never inlined, and who has switched asks for the context [`again`]
//! (`ci/thread_locals.sh` looks at the assembly).

use std::cell::Cell;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use crate::env::{after, node};
use crate::runtime::core::Core;
use crate::vp::block::Block;

/// Bits of [`Ctx::attention`].
pub(crate) mod attention {
    /// The watchdog asks the running VP to go through the controller: other work of this core is ready.
    pub(crate) const TICK: u32 = 1 << 0;
    /// There is mail for the controller (cancels, listings, rechecks): take it at the next pass.
    pub(crate) const MAIL: u32 = 1 << 1;
    /// A deadline of this core has come.
    pub(crate) const TIMER: u32 = 1 << 2;
    /// Hooks are installed: take the door's slow side.
    pub(crate) const HOOKS: u32 = 1 << 3;
    /// Another core sleeps and would take new work.
    pub(crate) const SLEEPER: u32 = 1 << 4;
    /// Another core asks for latent tasks.
    pub(crate) const STEAL: u32 = 1 << 5;
    /// The current VP has been asked to end: look at its flags.
    pub(crate) const CANCEL: u32 = 1 << 6;

    /// Another core asks whether there is something to be cut; see `task::cut`.
    pub(crate) const HUNGRY: u32 = 1 << 7;
    /// Set for good where the light barrier is a fence: then forks and joins go the slow way, which has it. (So the fast way need not ask.)
    pub(crate) const FENCED: u32 = 1 << 8;

    /// What a request has to look at before it locks its environment.
    pub(crate) const DOOR: u32 = TICK | MAIL | TIMER | HOOKS | CANCEL;
}

/// What a timeline that switched to its controller wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It waits: whoever ends its wait makes it ready.
    Waiting,
    /// It gave the core up and is ready.
    Yielded,
    /// Its closure returned, its stack is at its base.
    Ended,
}

/// What an OS thread that runs timelines knows about itself.
#[derive(Debug)]
pub(crate) struct Ctx {
    /// The timeline that runs on this OS thread; null while the controller itself runs.
    current: AtomicPtr<Block>,
    pub(crate) attention: AtomicU32,
    /// The request that is being handled on this OS thread, if one is.
    pub(crate) in_handler: Cell<Option<&'static crate::env::Info>>,
    /// The timeline that runs has a wait armed already, and does what a pass left to be done: it must make no requests that could wait.
    pub(crate) stands: Cell<bool>,
    /// Set by a timeline just before it switches to its controller.
    pub(crate) outcome: Cell<Outcome>,
    /// The core this is part of; null for an attached OS thread.
    core: Cell<*const Core>,
    /// Room that a pass takes where its own frame has none, so that nothing is allocated under a lock [design rule 2].
    pub(crate) spare_notes: after::Spare,
    pub(crate) spare_heads: node::Spare,
}

impl Ctx {
    pub(crate) const fn new() -> Ctx {
        Ctx {
            current: AtomicPtr::new(ptr::null_mut()),
            attention: AtomicU32::new(0),
            in_handler: Cell::new(None),
            stands: Cell::new(false),
            outcome: Cell::new(Outcome::Waiting),
            core: Cell::new(ptr::null()),
            spare_notes: after::Spare::empty(),
            spare_heads: node::Spare::empty(),
        }
    }

    /// Makes the room that passes take. Outside every lock; for the owner.
    pub(crate) fn fill_spares(&self) {
        self.spare_notes.fill();
        self.spare_heads.refill();
    }

    /// Gives that room back: for a context that outlives its OS thread.
    pub(crate) fn clear_spares(&self) {
        self.spare_notes.clear();
        self.spare_heads.clear();
    }

    /// The current timeline, or `None` on a controller's own stack.
    #[inline(always)]
    pub(crate) fn current(&self) -> Option<&'static Block> {
        // ORDERING: the owner reads its own write; other readers only want a hint.
        let block = self.current.load(Ordering::Relaxed);
        // SAFETY: blocks are never freed, and only pointers to blocks are stored here.
        unsafe { block.as_ref() }
    }

    #[inline(always)]
    pub(crate) fn set_current(&self, block: Option<&'static Block>) {
        let block = block.map_or(ptr::null_mut(), |block| ptr::from_ref(block).cast_mut());
        // ORDERING: as above.
        self.current.store(block, Ordering::Relaxed);
    }

    /// The core whose controller this is, or `None` for an attached OS thread.
    #[inline(always)]
    pub(crate) fn core(&self) -> Option<&'static Core> {
        // SAFETY: a core sets this to itself before its controller starts; the controller and all that runs on it end
        // before the core is freed, and nobody else calls this.
        unsafe { self.core.get().as_ref() }
    }

    pub(crate) fn set_core(&self, core: *const Core) {
        self.core.set(core);
    }

    #[inline(always)]
    pub(crate) fn attention(&self) -> u32 {
        // ORDERING: bits are hints; what they point at is synchronised by itself.
        self.attention.load(Ordering::Relaxed)
    }

    pub(crate) fn raise(&self, bits: u32) {
        // ORDERING: as above.
        if self.attention.load(Ordering::Relaxed) & bits != bits {
            self.attention.fetch_or(bits, Ordering::Relaxed);
        }
    }

    /// Clears `bits` and says which of them were set. Owner only.
    pub(crate) fn lower(&self, bits: u32) -> u32 {
        // ORDERING: Acquire pairs with nothing of its own: the mail and timers behind the bits have their own locks.
        if self.attention.load(Ordering::Relaxed) & bits == 0 {
            return 0;
        }
        self.attention.fetch_and(!bits, Ordering::Relaxed) & bits
    }
}

thread_local! {
    static CTX: Cell<*const Ctx> = const { Cell::new(ptr::null()) };
    /// The core of that context, if it has one: what a fork asks for.
    static CORE: Cell<*const Core> = const { Cell::new(ptr::null()) };
}

/// This OS thread's context, if it has one.
#[cfg_attr(not(feature = "migrate"), inline(always))]
#[cfg_attr(feature = "migrate", inline(never))]
pub(crate) fn installed() -> Option<&'static Ctx> {
    let ctx = CTX.with(Cell::get);
    // SAFETY: `install` was given a context that outlives every use on this OS thread.
    unsafe { ctx.as_ref() }
}

/// This OS thread's context; attaches the OS thread if it has none.
#[inline(always)]
pub(crate) fn get() -> &'static Ctx {
    match installed() {
        Some(ctx) => ctx,
        None => crate::runtime::attach::attach(),
    }
}

/// As `get().core()`, but attaches nobody.
#[cfg_attr(not(feature = "migrate"), inline(always))]
#[cfg_attr(feature = "migrate", inline(never))]
pub(crate) fn core() -> Option<&'static Core> {
    let core = CORE.with(Cell::get);
    // SAFETY: as in `Ctx::core`.
    unsafe { core.as_ref() }
}

/// The context, for code that has `ctx` from before something that may have switched: with migration compiled in it may run on another core by now.
#[inline(always)]
pub(crate) fn again(ctx: &'static Ctx) -> &'static Ctx {
    if cfg!(feature = "migrate") { get() } else { ctx }
}

/// Makes `ctx` this OS thread's context.
///
/// # Safety
///
/// - `ctx` is null or outlives every later call of this module's functions on this OS thread, until the next `install`.
#[inline(never)]
pub(crate) unsafe fn install(ctx: *const Ctx) {
    // SAFETY: duty of the caller.
    let core = unsafe { ctx.as_ref() }.map_or(ptr::null(), |ctx| ctx.core.get());
    CTX.with(|slot| slot.set(ctx));
    CORE.with(|slot| slot.set(core));
}
