//! The links of an environment's queues, and their heads.
//!
//! A [`Node`] is one place of one timeline in one queue. A plain wait uses the node in the timeline's control block; a
//! `select` has one for each branch. Heads lie in the environment's cell, not in the [`Waiters`](super::Waiters) handle:
//! safe language code may swap, move or forget handles, and a timeline that gives up must still find its neighbours.
//!
//! **Invariant.** `next`, `prev`, `slot`, `reply`, `data`, `back` of a linked node, and all heads, are touched only under the spinlock
//! of the cell that `cell` points at. `cell` itself is written under that lock; others read it to know which lock to
//! take, take it, and look again. The cell a linked node points at is alive: the waiting timeline's frame borrows it, and that
//! frame goes on only after the node was unlinked.

use std::cell::{Cell, UnsafeCell};
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use super::cell::CellHead;
use crate::ended::Ended;
use crate::kernel::wait::{Key, KeyCell};
use crate::vp::block::Block;

/// Disposes of the data of a timeline that gives up; says whether it turned them into the reply (never if `reply` is null).
pub(crate) type GiveBack = unsafe fn(node: &Node, why: &Ended, reply: *mut ()) -> bool;

/// See the head of this file.
#[derive(Debug)]
pub(crate) struct Node {
    prev: Cell<*const Node>,
    next: Cell<*const Node>,
    cell: AtomicPtr<CellHead>,
    block: Cell<*const Block>,
    /// Where the reply goes: a place in the requester's frame, good until the wait is over.
    pub(crate) reply: Cell<*mut ()>,
    /// What the requester gave to the queue with itself: the value, or where it lies (see `stored`).
    pub(crate) data: UnsafeCell<[MaybeUninit<usize>; 2]>,
    pub(crate) back: Cell<Option<GiveBack>>,
    /// Which wait of the timeline this is, and which branch of it.
    pub(crate) key: KeyCell,
    slot: Cell<u16>,
}

impl Node {
    pub(crate) const fn new() -> Node {
        Node {
            prev: Cell::new(ptr::null()),
            next: Cell::new(ptr::null()),
            cell: AtomicPtr::new(ptr::null_mut()),
            block: Cell::new(ptr::null()),
            reply: Cell::new(ptr::null_mut()),
            data: UnsafeCell::new([MaybeUninit::uninit(); 2]),
            back: Cell::new(None),
            key: KeyCell::new(),
            slot: Cell::new(0),
        }
    }

    /// The key of the wait that this node, which is linked, stands for.
    #[inline(always)]
    pub(crate) fn key(&self) -> Key {
        self.key.get().expect("a linked node has a key")
    }

    pub(crate) fn block(&self) -> &'static Block {
        // SAFETY: set before the node is linked, and blocks are never freed.
        unsafe { &*self.block.get() }
    }

    /// The next node of the queue. Under the lock of the cell.
    #[inline]
    pub(crate) fn next_linked(&self) -> *const Node {
        self.next.get()
    }

    /// The cell in one of whose queues this node is, if any. A hint unless that cell's lock is held.
    pub(crate) fn cell(&self) -> Option<*const CellHead> {
        // ORDERING: Acquire pairs with the Release in `link`: the cell is initialised.
        let cell = self.cell.load(Ordering::Acquire);
        (!cell.is_null()).then_some(cell.cast_const())
    }

    /// Takes the node out of the queue it is in, if it is in one. For the timeline whose node it is, when its wait is over but not by the
    /// pass that queued it: while that queue's lock is held, its holder may still read the node.
    ///
    /// # Safety
    ///
    /// - The caller borrows the cells in whose queues this node may be.
    pub(crate) unsafe fn leave(&self) {
        let Some(cell) = self.cell() else { return };
        // SAFETY: duty of the caller.
        let head = unsafe { &*cell };
        let version = head.lock();
        if self.cell() == Some(cell) {
            head.heads.unlink(self);
        }
        head.unlock(version);
    }
}

/// One queue.
#[derive(Debug)]
struct Head {
    first: Cell<*const Node>,
    last: Cell<*const Node>,
}

impl Head {
    const fn new() -> Head {
        Head { first: Cell::new(ptr::null()), last: Cell::new(ptr::null()) }
    }
}

/// Queues a cell has room for in itself.
const INLINE: usize = 2;
/// Queues in each of the chunks that follow.
const CHUNK: usize = 6;

/// Heads beyond the inline ones.
#[derive(Debug)]
struct Chunk {
    heads: [Head; CHUNK],
    next: UnsafeCell<Option<Box<Chunk>>>,
}

impl Chunk {
    fn new() -> Box<Chunk> {
        Box::new(Chunk { heads: [const { Head::new() }; CHUNK], next: UnsafeCell::new(None) })
    }
}

/// A chunk that each core keeps for the next environment which makes a third queue: handles are made by `const` constructors and tied
/// under the environment's lock, where nothing is allocated [design rule 2].
pub(crate) struct Spare {
    chunk: Cell<Option<Box<Chunk>>>,
    taken: Cell<bool>,
}

impl std::fmt::Debug for Spare {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Spare").field("taken", &self.taken).finish_non_exhaustive()
    }
}

impl Spare {
    pub(crate) const fn empty() -> Spare {
        Spare { chunk: Cell::new(None), taken: Cell::new(true) }
    }

    /// Makes a chunk if none is there. Outside every lock.
    #[inline(always)]
    pub(crate) fn refill(&self) {
        if self.taken.get() {
            self.fill();
        }
    }

    #[cold]
    fn fill(&self) {
        self.chunk.set(Some(Chunk::new()));
        self.taken.set(false);
    }

    fn take(&self) -> Option<Box<Chunk>> {
        self.taken.set(true);
        self.chunk.take()
    }

    /// Gives the chunk back, for good.
    pub(crate) fn clear(&self) {
        self.chunk.set(None);
    }
}

/// The heads of a cell's queues, guarded by its spinlock.
#[derive(Debug)]
pub(crate) struct Heads {
    inline: [Head; INLINE],
    more: UnsafeCell<Option<Box<Chunk>>>,
    used: Cell<u16>,
}

impl Heads {
    pub(crate) const fn new() -> Heads {
        Heads { inline: [const { Head::new() }; INLINE], more: UnsafeCell::new(None), used: Cell::new(0) }
    }

    /// A new queue's number, from 1. Beyond the inline ones it takes the core's [`Spare`] chunk, which the requester, who is about to be
    /// queued, replaces after the unlock (`wait::prepare`). An environment that makes a ninth queue in the pass that made its third
    /// finds none and allocates under its lock.
    pub(crate) fn assign(&self) -> u16 {
        let slot = self.used.get() + 1;
        self.used.set(slot);
        let beyond = usize::from(slot).checked_sub(INLINE + 1);
        if beyond.is_some_and(|index| index.is_multiple_of(CHUNK)) {
            let chunk = crate::ctx::installed().and_then(|ctx| ctx.spare_heads.take()).unwrap_or_else(Chunk::new);
            let mut last = &self.more;
            // SAFETY: the cell's lock is held (invariant), and chunks are only added.
            while let Some(chunk) = unsafe { &*last.get() } {
                last = &chunk.next;
            }
            // SAFETY: as above; nobody refers to an empty end.
            unsafe { *last.get() = Some(chunk) };
        }
        slot
    }

    #[inline]
    fn head(&self, slot: u16) -> &Head {
        let index = usize::from(slot) - 1;
        match self.inline.get(index) {
            Some(head) => head,
            None => self.head_beyond(index - INLINE),
        }
    }

    #[cold]
    fn head_beyond(&self, index: usize) -> &Head {
        let mut chunk = &self.more;
        for _ in 0..index / CHUNK {
            chunk = &self.chunk(chunk).next;
        }
        &self.chunk(chunk).heads[index % CHUNK]
    }

    fn chunk<'a>(&'a self, place: &'a UnsafeCell<Option<Box<Chunk>>>) -> &'a Chunk {
        // SAFETY: the cell's lock is held (invariant), and a chunk that is there stays.
        unsafe { &*place.get() }.as_deref().expect("queue numbers come from `assign`")
    }

    pub(crate) fn first(&self, slot: u16) -> *const Node {
        self.head(slot).first.get()
    }

    /// Calls `f` with every node of every queue.
    pub(crate) fn for_each(&self, mut f: impl FnMut(&Node)) {
        for slot in 1..=self.used.get() {
            let mut node = self.first(slot);
            // SAFETY: linked nodes are alive (invariant).
            while let Some(here) = unsafe { node.as_ref() } {
                f(here);
                node = here.next.get();
            }
        }
    }

    /// Who waits longest in the first queue that is not empty.
    pub(crate) fn oldest(&self) -> Option<&'static Block> {
        (1..=self.used.get()).find_map(|slot| {
            // SAFETY: linked nodes are alive (invariant).
            unsafe { self.first(slot).as_ref() }.map(Node::block)
        })
    }

    /// Links `node` at the end of queue `slot` of `cell`.
    pub(crate) fn link(&self, cell: *const CellHead, slot: u16, node: &Node, block: &'static Block) {
        let head = self.head(slot);
        let last = head.last.get();
        node.prev.set(last);
        node.next.set(ptr::null());
        node.slot.set(slot);
        node.block.set(block);
        // SAFETY: linked nodes are alive (invariant).
        match unsafe { last.as_ref() } {
            Some(last) => last.next.set(node),
            None => head.first.set(node),
        }
        head.last.set(node);
        // ORDERING: Release pairs with the Acquire in `Node::cell`.
        node.cell.store(cell.cast_mut(), Ordering::Release);
    }

    /// Unlinks `node`, which is in one of these queues.
    pub(crate) fn unlink(&self, node: &Node) {
        let head = self.head(node.slot.get());
        let (prev, next) = (node.prev.get(), node.next.get());
        // SAFETY: linked nodes are alive (invariant).
        match unsafe { prev.as_ref() } {
            Some(prev) => prev.next.set(next),
            None => head.first.set(next),
        }
        // SAFETY: as above.
        match unsafe { next.as_ref() } {
            Some(next) => next.prev.set(prev),
            None => head.last.set(prev),
        }
        // ORDERING: Release pairs with the Acquire in `Node::cell`: who sees that its node is in no queue may use it again, and what was
        // read from it here came before.
        node.cell.store(ptr::null_mut(), Ordering::Release);
    }

    /// The number of nodes in queue `slot`.
    pub(crate) fn len(&self, slot: u16) -> usize {
        let mut count = 0;
        let mut node = self.first(slot);
        // SAFETY: linked nodes are alive (invariant).
        while let Some(here) = unsafe { node.as_ref() } {
            count += 1;
            node = here.next.get();
        }
        count
    }
}
