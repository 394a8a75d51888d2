//! Who holds an object, for reports: the one line an owning construct spends on them [design §2].

use std::cell::Cell;
use std::panic::Location;
use std::ptr;
use std::sync::atomic::Ordering;

use crate::ctx::Ctx;
use crate::runtime::core::Core;
use crate::vp::block::Block;

/// The holders of an object, guarded by its environment's lock: the first of them, and how many more there are.
///
/// A holder's block stays its own even if it ends without giving the object back: it is then not used again until the
/// object is (see `vp::end`), so that a report can still name it.
///
/// `more` lies between the other two on purpose: next to each other they are written by one vector store, whose
/// operand then has to be put together in memory from two scalar ones, which stalls (measured: 5 ns of 11).
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Holder {
    block: Cell<*const Block>,
    more: Cell<u32>,
    /// The holder's core ([`Block::home_id`]): here, because its block's lines are written by its core all the time.
    core: Cell<u32>,
    place: Cell<Option<&'static Location<'static>>>,
}

impl Holder {
    pub(crate) const fn new() -> Holder {
        Holder { block: Cell::new(ptr::null()), place: Cell::new(None), more: Cell::new(0), core: Cell::new(0) }
    }

    #[inline(always)]
    pub(crate) fn holds(&self, block: &'static Block, place: Option<&'static Location<'static>>) {
        if self.block.get().is_null() {
            self.holds_alone(block, place);
        } else {
            self.more.set(self.more.get() + 1);
        }
    }

    /// As [`holds`](Self::holds), of an object that nobody else holds.
    #[inline(always)]
    pub(crate) fn holds_alone(&self, block: &'static Block, place: Option<&'static Location<'static>>) {
        debug_assert!(self.block.get().is_null(), "somebody holds it already");
        self.block.set(block);
        self.core.set(block.home_id());
        self.place.set(place);
        count(block, 1);
    }

    #[inline(always)]
    pub(crate) fn released(&self, block: &'static Block) {
        if !self.released_own(block) {
            self.released_by_other();
        }
    }

    /// As [`released`](Self::released), if `block` is the first holder's.
    #[inline(always)]
    pub(crate) fn released_own(&self, block: &'static Block) -> bool {
        let own = ptr::eq(self.block.get(), block);
        if own {
            self.block.set(ptr::null());
            count(block, -1);
        }
        own
    }

    /// Somebody else than the first holder gives back: one of several, or one to whom the object was passed on.
    #[cold]
    #[inline(never)]
    fn released_by_other(&self) {
        if self.more.get() > 0 {
            self.more.set(self.more.get() - 1);
        } else if let Some(holder) = self.first() {
            self.block.set(ptr::null());
            crate::vp::end::passed_on(holder);
        }
    }

    /// The first holder. Under the lock, or when everything stands still.
    pub(crate) fn first(&self) -> Option<&'static Block> {
        // SAFETY: only blocks are stored, and they are never freed.
        unsafe { self.block.get().as_ref() }
    }

    pub(crate) fn place(&self) -> Option<&'static Location<'static>> {
        self.place.get()
    }

    pub(crate) fn more(&self) -> u32 {
        self.more.get()
    }

    /// Whether the holder lives on another core than this one, or is an OS thread: then it may well run. Whether it does is not looked at:
    /// that would take the lines from its core which it writes at each request, and so make it slower still (measured).
    #[inline]
    pub(crate) fn lives_elsewhere(&self, ctx: &Ctx) -> bool {
        let core = self.core.get();
        core == 0 || ctx.core().is_none_or(|here| id_of(here) != core)
    }
}

/// A number for a core that fits beside `more`; 0 is none.
#[inline(always)]
pub(crate) fn id_of(core: *const Core) -> u32 {
    // Cores are at least 64 bytes apart, so neighbours differ.
    (core.addr() >> 6) as u32
}

/// Counts what a timeline holds. A load and a store: only reports read it, and the one rare writer from elsewhere
/// ([`passed_on`](crate::vp::end::passed_on)) may lose its update, which costs a block that is never used again.
#[inline(always)]
fn count(block: &Block, change: i32) {
    // ORDERING: Relaxed: see above.
    block.held.store(block.held.load(Ordering::Relaxed) + change, Ordering::Relaxed);
}
