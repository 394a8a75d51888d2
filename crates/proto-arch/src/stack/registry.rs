//! Which stack does an address belong to? Asked by a signal handler, so: no lock, no allocation.
//!
//! A list of entries that only grows; an entry is never freed, but a vacant one is used again. Each names one region
//! by its bounds. There are as many as there are regions at a time: some thirty for a million stacks.
//!
//! # The dangerous race
//!
//! A handler finds a region while its owner unmaps it. If the fault is on a live stack this cannot be: the region lives
//! as long as its stacks. A wild pointer may hit anything, though. So handlers count themselves in `READERS` while
//! they look, and [`Entry::withdraw`] makes the entry vacant and then waits until the count is zero. Either the
//! handler's count comes first in the order of the two fences, then `withdraw` waits for it; or the vacancy does, then
//! the handler does not see the region.

use std::ptr::{self, NonNull};
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicPtr, AtomicUsize, fence};

use super::region::Region;

/// First entry of the list. Entries are added at the front, never removed.
static FIRST: AtomicPtr<Node> = AtomicPtr::new(ptr::null_mut());

/// Signal handlers that look at a region at the moment.
static READERS: AtomicUsize = AtomicUsize::new(0);

#[derive(Debug)]
struct Node {
    /// Null: vacant. Written by `publish` (null → region) and `withdraw` (region → null).
    region: AtomicPtr<Region>,
    /// Never changes once the node is in the list.
    next: *mut Node,
}

/// The place of one region in the registry.
#[derive(Debug)]
pub(super) struct Entry(&'static Node);

// SAFETY: `next` is the only field that is not `Sync`; it is written before the node is published and never again.
unsafe impl Sync for Node {}

impl Entry {
    /// Makes the region known. It must stay where it is until [`withdraw`](Self::withdraw).
    pub(super) fn publish(region: NonNull<Region>) -> Self {
        let region = region.as_ptr();
        let vacant = nodes().find(|node| {
            // Release: pairs with the Acquire in `find`: the region's fields come first. A failure reads nothing.
            node.region.compare_exchange(ptr::null_mut(), region, Release, Relaxed).is_ok()
        });
        if let Some(node) = vacant {
            return Self(node);
        }
        let node = Box::leak(Box::new(Node { region: AtomicPtr::new(region), next: ptr::null_mut() }));
        let node: *mut Node = node;
        // Acquire here and in the failure: pairs with the Release below by whoever added that node.
        let mut first = FIRST.load(Acquire);
        loop {
            // SAFETY: the node is not in the list yet, so nobody else knows it.
            unsafe { (*node).next = first };
            // Release: the node's fields come before it can be found (Acquire in `nodes`).
            match FIRST.compare_exchange(first, node, AcqRel, Acquire) {
                Ok(_) => break,
                Err(now) => first = now,
            }
        }
        // SAFETY: nodes are leaked, so the reference is good for ever; nobody writes to a published node but through its
        // atomic.
        Self(unsafe { &*node })
    }

    /// Makes the entry vacant, once, and waits until no signal handler looks at the region any more.
    pub(super) fn withdraw(&self) {
        // Relaxed: the fence orders it before the load of `READERS`.
        self.0.region.store(ptr::null_mut(), Relaxed);
        // SeqCst: pairs with the fence in `find`, store-then-load on both sides, see the head of the file.
        fence(SeqCst);
        // Acquire: pairs with the Release with which the handler counts itself out.
        while READERS.load(Acquire) != 0 {
            std::thread::yield_now();
        }
    }
}

fn nodes() -> impl Iterator<Item = &'static Node> {
    // Acquire: pairs with the Release in `publish`.
    let mut next = FIRST.load(Acquire);
    std::iter::from_fn(move || {
        // SAFETY: null, or a node that was leaked and published whole.
        let node = unsafe { next.as_ref() }?;
        next = node.next;
        Some(node)
    })
}

/// Calls `look` with the region that `address` lies in. Async-signal-safe if `look` is.
pub(crate) fn find<R>(address: usize, look: impl FnOnce(&Region) -> R) -> Option<R> {
    // Relaxed: the fence orders it before the loads of the regions.
    READERS.fetch_add(1, Relaxed);
    // SeqCst: pairs with the fence in `withdraw`.
    fence(SeqCst);
    let found = nodes()
        .filter_map(|node| {
            // Acquire: pairs with the Release in `publish`.
            // SAFETY: null, or a region that `withdraw` keeps until `READERS`, which counts us, is zero.
            unsafe { node.region.load(Acquire).as_ref() }
        })
        .find(|region| (region.start()..region.end()).contains(&address))
        .map(look);
    // Release: pairs with the Acquire in `withdraw`: we are done with the region.
    READERS.fetch_sub(1, Release);
    found
}
