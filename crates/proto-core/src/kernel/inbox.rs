//! What other threads send to one core: woken VPs and work placed there.
//!
//! ```text
//!    producers ──push──▶ top ─▶ c ─▶ b ─▶ a ─▶ null      take: swap(null), then turned round: a, b, c
//! ```
//!
//! A stack that the owner takes whole. The links lie in the control blocks sent, so a push allocates nothing. The
//! owner turns the chain round and has them in the order of arrival, in particular in each producer's own order; two
//! batches cannot overtake one another, for a chain is taken whole before the next one starts.
//!
//! **Who may call what.** Any thread pushes. One thread at a time takes (the core's controller): two takers would get
//! disjoint batches, but then the order means nothing.
//!
//! **Why it is right.** A node is reachable from `top` from its successful exchange until the swap that takes its
//! chain; both act on the same word, so it is in exactly one batch. The exchange is Release and the swap Acquire, and
//! the exchanges in between continue the release sequence: the taker sees the link and contents of *every* node of the
//! chain. The usual danger of a lock-free stack, a pop that finds the same top again after others took and returned
//! it, does not exist: nobody takes a single node, and a push does not care what the top's history is, it only links
//! to it. The dangerous moment is elsewhere: as soon as a node was handed out it may be pushed again (its VP waits
//! again and is woken again), so the batch reads a link before it hands out the node.
//!
//! **Tried.** The queue linked by an atomic swap of its tail (Vyukov): pushes cannot fail, but between the swap and the
//! store of the link the queue is torn, and an owner that meets the tear must stop there with work behind it, and must
//! not go to sleep, though it has nothing to do either. It also writes into the node pushed before, which by then is
//! another core's. Measured on two cores, a push and a take on one thread: 9.7 ns against the queue's 10.6; one to three
//! producers that do nothing else: 15–80 ns a node for both, the difference below the noise.

use core::ptr::NonNull;

use crossbeam_utils::CachePadded;

use crate::sync::{AtomicPtr, Ordering, UnsafeCell, const_fn};

/// What a control block embeds to be sent to a core.
#[derive(Debug)]
pub(crate) struct Link {
    /// The node that was pushed before. Written by the pusher before its exchange, read by the taker after its swap;
    /// nobody else touches it. Outside of an inbox the node's owner may chain a list with it.
    below: UnsafeCell<*mut Link>,
}

impl Link {
    const_fn! {
        /// A link in no inbox.
        pub(crate) fn new() -> Self {
            Self { below: UnsafeCell::new(core::ptr::null_mut()) }
        }
    }

    /// Chains `next` behind this node, for a list of the caller's own.
    ///
    /// # Safety
    ///
    /// - This node is in no inbox, and nobody else uses its link meanwhile.
    #[cfg_attr(loom, expect(dead_code, reason = "for passes, which are not in the models"))]
    #[inline]
    pub(crate) unsafe fn chain(&self, next: NonNull<Link>) {
        self.below.with_mut(|below| {
            // SAFETY: duty of the caller.
            unsafe { *below = next.as_ptr() };
        });
    }

    /// The node that was chained behind this one.
    ///
    /// # Safety
    ///
    /// - [`chain`](Link::chain) was called, and its duties still hold.
    #[cfg_attr(loom, expect(dead_code, reason = "for passes, which are not in the models"))]
    #[inline]
    pub(crate) unsafe fn chained(&self) -> NonNull<Link> {
        self.below.with_mut(|below| {
            // SAFETY: duty of the caller.
            NonNull::new(unsafe { *below }).expect("a node was chained behind this one")
        })
    }
}

/// Whether the push found work in the inbox already.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Pushed {
    /// The inbox was empty: the owner may be asleep, the pusher asks and wakes it.
    First,
    /// It was not: whoever pushed first wakes the owner.
    Behind,
}

/// The inbox. See the head of the file.
#[derive(Debug)]
pub(crate) struct Inbox {
    /// On a line of its own: every core of the machine writes it.
    top: CachePadded<AtomicPtr<Link>>,
}

// SAFETY: `top` is an atomic; the links it leads to are used as told at `Link::below`, and their validity is what
// callers of `push` promise.
unsafe impl Send for Inbox {}
// SAFETY: as above.
unsafe impl Sync for Inbox {}

impl Inbox {
    const_fn! {
        /// An empty inbox.
        pub(crate) fn new() -> Self {
            Self { top: CachePadded::new(AtomicPtr::new(core::ptr::null_mut())) }
        }
    }

    /// Sends `node` to the owner. Lock-free: it repeats only when another push or a take came between.
    ///
    /// Everything the caller did before is seen by the owner when it gets the node.
    ///
    /// # Safety
    ///
    /// - `node` is valid until a batch has handed it out.
    /// - `node` is in no inbox, and nobody else pushes it meanwhile.
    #[inline]
    pub(crate) unsafe fn push(&self, node: NonNull<Link>) -> Pushed {
        // Relaxed: the exchange tells whether it was right, and nothing is read through the pointer.
        let mut top = self.top.load(Ordering::Relaxed);
        loop {
            // SAFETY: `node` is valid and not in any inbox, so its link is the caller's alone until the exchange.
            unsafe { node.as_ref() }.below.with_mut(|below| {
                // SAFETY: as above: nobody else reads or writes this link.
                unsafe { *below = top };
            });
            // Release: pairs with the Acquire swap in `take`.
            match self.top.compare_exchange_weak(top, node.as_ptr(), Ordering::Release, Ordering::Relaxed) {
                Ok(before) if before.is_null() => return Pushed::First,
                Ok(_) => return Pushed::Behind,
                Err(now) => top = now,
            }
        }
    }

    /// Takes all that has arrived, oldest first. For the owner.
    #[inline]
    pub(crate) fn take(&self) -> Batch {
        // The common answer of an idle controller's loop, without writing the line.
        if self.is_empty_hint() {
            return Batch { first: core::ptr::null_mut() };
        }
        // Acquire: pairs with the Release exchanges of all the pushes of this chain (one release sequence).
        let mut newest_first = self.top.swap(core::ptr::null_mut(), Ordering::Acquire);
        let mut first = core::ptr::null_mut();
        while let Some(node) = NonNull::new(newest_first) {
            // SAFETY: the node came out of the chain; by the duties of `push` it is valid until a batch hands it out,
            // and none has it yet.
            newest_first = unsafe { node.as_ref() }.below.with_mut(|below| {
                // SAFETY: after the swap the links of the chain are the taker's alone.
                unsafe { core::mem::replace(&mut *below, first) }
            });
            first = node.as_ptr();
        }
        Batch { first }
    }

    /// Whether nothing has arrived, as far as this thread can see now.
    ///
    /// A hint: before the owner parks on it, the protocol of `sleep` puts a barrier in front.
    #[inline]
    pub(crate) fn is_empty_hint(&self) -> bool {
        // Relaxed: `take` acquires; when it decides about parking, the barrier of `sleep` orders it.
        self.top.load(Ordering::Relaxed).is_null()
    }
}

/// What one [`Inbox::take`] found, oldest first. Dropping it early loses the rest.
#[derive(Debug)]
#[must_use = "the nodes of a batch are in no inbox any more: what is not taken from it is lost"]
pub(crate) struct Batch {
    first: *mut Link,
}

impl Batch {
    /// Whether nothing is left.
    #[inline]
    #[cfg_attr(not(any(test, loom)), expect(dead_code, reason = "for tests"))]
    pub(crate) fn is_empty(&self) -> bool {
        self.first.is_null()
    }
}

impl Iterator for Batch {
    type Item = NonNull<Link>;

    #[inline]
    fn next(&mut self) -> Option<NonNull<Link>> {
        let node = NonNull::new(self.first)?;
        // Read before the node is handed out: the receiver may push it again at once.
        // SAFETY: by the duties of `push` the node is valid until the line after this hands it out.
        self.first = unsafe { node.as_ref() }.below.with(|below| {
            // SAFETY: the links of a taken chain are the batch's alone.
            unsafe { *below }
        });
        Some(node)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[repr(C)]
    struct Node {
        link: Link,
        number: usize,
    }

    fn node(number: usize) -> NonNull<Link> {
        NonNull::from(Box::leak(Box::new(Node { link: Link::new(), number }))).cast()
    }

    fn open(link: NonNull<Link>) -> usize {
        // SAFETY: every link of these tests is the first field of a leaked, `repr(C)` `Node`, freed here only.
        unsafe { Box::from_raw(link.cast::<Node>().as_ptr()) }.number
    }

    #[test]
    fn hands_out_in_order_of_arrival() {
        let inbox = Inbox::new();
        assert!(inbox.take().is_empty());
        for number in 0..3 {
            // SAFETY: a fresh node, freed after it was handed out.
            let pushed = unsafe { inbox.push(node(number)) };
            assert_eq!(pushed == Pushed::First, number == 0, "only the first push has to wake the owner");
        }
        assert!(!inbox.is_empty_hint());
        assert_eq!(inbox.take().map(open).collect::<Vec<_>>(), [0, 1, 2]);
        assert!(inbox.is_empty_hint());
    }

    #[test]
    fn a_node_may_return_while_its_batch_is_open() {
        let inbox = Inbox::new();
        let (first, second) = (node(1), node(2));
        for each in [first, second] {
            // SAFETY: a fresh node, freed after it was handed out for the last time.
            unsafe { inbox.push(each) };
        }
        let mut batch = inbox.take();
        let early = batch.next().expect("two were pushed");
        // SAFETY: it was just handed out.
        unsafe { inbox.push(early) };
        assert_eq!(batch.map(open).collect::<Vec<_>>(), [2], "the pushed node must not shorten its old batch");
        assert_eq!(inbox.take().map(open).collect::<Vec<_>>(), [1]);
    }

    #[test]
    fn keeps_each_producers_order_and_loses_nothing() {
        let (producers, each) = (3, if cfg!(miri) { 30 } else { 30_000 });
        let inbox = Inbox::new();
        std::thread::scope(|scope| {
            for producer in 0..producers {
                let inbox = &inbox;
                scope.spawn(move || {
                    for number in 0..each {
                        // SAFETY: a fresh node, freed after it was handed out.
                        unsafe { inbox.push(node(producer * each + number)) };
                    }
                });
            }
            let mut next: Vec<usize> = (0..producers).map(|producer| producer * each).collect();
            let mut seen = 0;
            while seen < producers * each {
                for number in inbox.take().map(open) {
                    assert_eq!(next[number / each], number, "a producer's nodes arrived out of order");
                    next[number / each] += 1;
                    seen += 1;
                }
                std::thread::yield_now();
            }
        });
    }
}
