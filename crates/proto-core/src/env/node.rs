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
use crate::kernel::wait::Key;
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
    /// What the requester gave to the queue with itself: the value, or a box with it (see `waiters`).
    pub(crate) data: UnsafeCell<[MaybeUninit<usize>; 2]>,
    pub(crate) back: Cell<Option<GiveBack>>,
    /// Which wait of the timeline this is, and which branch of it.
    pub(crate) key: Cell<Option<Key>>,
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
            key: Cell::new(None),
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

/// Queues a cell has room for without an allocation.
const INLINE: usize = 2;

/// The heads of a cell's queues, guarded by its spinlock.
#[derive(Debug)]
pub(crate) struct Heads {
    inline: [Head; INLINE],
    #[expect(clippy::box_collection, reason = "eight bytes in every object instead of 24 for what few objects have")]
    more: UnsafeCell<Option<Box<Vec<Head>>>>,
    used: Cell<u16>,
}

impl Heads {
    pub(crate) const fn new() -> Heads {
        Heads { inline: [const { Head::new() }; INLINE], more: UnsafeCell::new(None), used: Cell::new(0) }
    }

    /// A new queue's number, from 1. Beyond the inline ones this allocates under the lock, once in the cell's life for
    /// each queue: the price of handles that are made by `const` constructors.
    pub(crate) fn assign(&self) -> u16 {
        let slot = self.used.get() + 1;
        self.used.set(slot);
        if usize::from(slot) > INLINE {
            // SAFETY: the cell's lock is held (invariant), and no reference into the vector is alive.
            unsafe { &mut *self.more.get() }.get_or_insert_default().push(Head::new());
        }
        slot
    }

    fn head(&self, slot: u16) -> &Head {
        let index = usize::from(slot) - 1;
        match self.inline.get(index) {
            Some(head) => head,
            // SAFETY: the cell's lock is held, and the vector grows only in `assign`.
            None => &unsafe { &*self.more.get() }.as_ref().expect("queue numbers come from `assign`")[index - INLINE],
        }
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
        // ORDERING: Relaxed: readers that care take the lock and look again.
        node.cell.store(ptr::null_mut(), Ordering::Relaxed);
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
