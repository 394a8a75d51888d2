//! Queues of suspended timelines.
//!
//! A [`Waiters`] is a handle; the queue lies in the environment's cell (see `node`). The handle is tied to its environment by number
//! when it is first used, and panics in another.

use std::fmt;
use std::marker::PhantomData;
use std::ptr;

use super::hidden::Hidden;
use super::node::Node;
use super::token::{Caller, Suspended, Woken};
use super::wait;
use crate::ended::Ended;
use crate::kernel::wait::{Claim, Lost};

/// A queue of timelines that wait for a `T`, each of which may have left a `D`.
///
/// First in, first out, unless the language chooses otherwise ([`resume_where`](Waiters::resume_where)). All methods take the
/// [`Hidden`] of a handler of the environment that the queue belongs to.
///
/// # Panics
///
/// Each method panics if the handle was used in another environment before.
pub struct Waiters<T, D = ()> {
    slot: u16,
    id: u64,
    _marker: PhantomData<(T, D)>,
}

impl<T, D> Default for Waiters<T, D> {
    fn default() -> Self {
        Waiters::new()
    }
}

impl<T, D> fmt::Debug for Waiters<T, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Waiters").finish_non_exhaustive()
    }
}

/// How a `D` lies in a node: by itself if it is small, else in a box; with a way back always in a box.
struct Stored<T, D>(PhantomData<(T, D)>);

type WithBack<T, D> = (D, fn(D, Ended) -> T);

impl<T, D> Stored<T, D> {
    const INLINE: bool = size_of::<D>() <= size_of::<[usize; 2]>() && align_of::<D>() <= align_of::<usize>();

    fn put(node: &Node, data: D) {
        let place = node.data.get().cast::<()>();
        if const { Self::INLINE } {
            // SAFETY: it fits, and the node is the caller's until it is linked.
            unsafe { place.cast::<D>().write(data) };
        } else {
            // SAFETY: a box is a pointer, and fits.
            unsafe { place.cast::<Box<D>>().write(Box::new(data)) };
        }
        node.back.set(if std::mem::needs_drop::<D>() || !const { Self::INLINE } { Some(Self::discard) } else { None });
    }

    fn put_with_back(node: &Node, data: D, back: fn(D, Ended) -> T) {
        let place = node.data.get().cast::<Box<WithBack<T, D>>>();
        // SAFETY: a box is a pointer, and fits.
        unsafe { place.write(Box::new((data, back))) };
        node.back.set(Some(Self::give_back));
    }

    /// Takes the data out of a node that was just unlinked.
    fn take(node: &Node) -> D {
        let place = node.data.get().cast::<()>();
        let back = node.back.take();
        if back.is_some_and(|back| ptr::fn_addr_eq(back, Self::give_back as super::node::GiveBack)) {
            // SAFETY: `put_with_back` wrote it; `back` was taken, so nobody reads it again.
            let boxed = unsafe { place.cast::<Box<WithBack<T, D>>>().read() };
            boxed.0
        } else if const { Self::INLINE } {
            // SAFETY: `put` wrote it, and nobody reads it again.
            unsafe { place.cast::<D>().read() }
        } else {
            // SAFETY: as above.
            *unsafe { place.cast::<Box<D>>().read() }
        }
    }

    unsafe fn discard(node: &Node, _: &Ended, _: *mut ()) -> bool {
        drop(Self::take(node));
        false
    }

    unsafe fn give_back(node: &Node, why: &Ended, reply: *mut ()) -> bool {
        let place = node.data.get().cast::<Box<WithBack<T, D>>>();
        // SAFETY: `put_with_back` wrote it; the caller took `back` out, so nobody reads it again.
        let boxed = unsafe { place.read() };
        let (data, back) = *boxed;
        if reply.is_null() {
            return false;
        }
        let value = back(data, why.clone());
        // SAFETY: the place of the reply takes a `T`, and is in the frame of the timeline that runs this.
        unsafe { reply.cast::<T>().write(value) };
        true
    }
}

impl<T, D> Waiters<T, D> {
    /// An empty queue.
    pub const fn new() -> Self {
        Waiters { slot: 0, id: 0, _marker: PhantomData }
    }

    /// Ties the handle to the environment of `hidden` if it is not yet, and gives the queue's number.
    #[inline]
    fn slot(&mut self, hidden: &Hidden<'_>) -> u16 {
        if self.slot == 0 {
            self.slot = hidden.head().heads.assign();
            self.id = hidden.head().id();
        } else {
            self.check(hidden);
        }
        self.slot
    }

    #[inline]
    #[track_caller]
    fn check(&self, hidden: &Hidden<'_>) {
        assert!(self.id == hidden.head().id(), "a Waiters queue was used in another environment than its own");
    }

    /// The first node, if the queue has any.
    #[inline(always)]
    fn first(&self, hidden: &Hidden<'_>) -> *const Node {
        if self.slot == 0 {
            return ptr::null();
        }
        self.check(hidden);
        hidden.head().heads.first(self.slot)
    }

    /// Whether nobody waits here.
    #[inline]
    pub fn is_empty(&self, hidden: &Hidden<'_>) -> bool {
        self.first(hidden).is_null()
    }

    /// How many wait here. Walks the queue.
    pub fn len(&self, hidden: &Hidden<'_>) -> usize {
        if self.slot == 0 {
            return 0;
        }
        self.check(hidden);
        hidden.head().heads.len(self.slot)
    }

    /// Queues the caller, with what it leaves here. The data come back to the resumer; if the caller gives up they are dropped.
    pub fn push_with(&mut self, caller: Caller<'_, T>, data: D, hidden: &mut Hidden<'_>) {
        let slot = self.slot(hidden);
        wait::enqueue(hidden, &caller, slot, |node| Stored::<T, D>::put(node, data));
    }

    /// As [`push_with`](Waiters::push_with); if the caller gives up, `back` makes its reply of the data and the reason, on its own
    /// stack and outside every lock: how `send_timeout` gives the value back.
    pub fn push_returning(&mut self, caller: Caller<'_, T>, data: D, back: fn(D, Ended) -> T, hidden: &mut Hidden<'_>) {
        let slot = self.slot(hidden);
        wait::enqueue(hidden, &caller, slot, |node| Stored::<T, D>::put_with_back(node, data, back));
    }

    /// Wins the wait of `node` and unlinks it. A node whose wait is over is unlinked as well; one whose timeline is
    /// just looking at all its branches stays: it will come here again.
    #[inline]
    fn win(node: &Node, hidden: &Hidden<'_>) -> Option<Claim> {
        match node.block().wait.claim(node.key()) {
            Ok(claim) => {
                hidden.head().heads.unlink(node);
                Some(claim)
            }
            Err(Lost::Gone | Lost::Missed) => None,
        }
    }

    /// Resumes the first timeline that can be with `reply`.
    ///
    /// # Errors
    ///
    /// Gives the reply back if nobody waits, or all have given up: then nothing is lost.
    #[inline]
    pub fn resume_next(&mut self, reply: T, hidden: &mut Hidden<'_>) -> Result<Woken<D>, T> {
        let mut node = self.first(hidden);
        // SAFETY: linked nodes are alive (invariant of `node`), and the lock is held.
        while let Some(here) = unsafe { node.as_ref() } {
            let next = here.next_linked();
            if let Some(claim) = Self::win(here, hidden) {
                return Ok(Self::deliver(here, claim, reply, hidden));
            }
            node = next;
        }
        Err(reply)
    }

    /// Resumes the first timeline whose data `which` accepts, among the first `limit` of the queue.
    ///
    /// `which` gets the data (unless the timeline was queued with a way back: then `None`) and whether the timeline lives on this
    /// core: resuming it then needs no word to another core.
    ///
    /// # Errors
    ///
    /// Gives the reply back if nobody fits.
    pub fn resume_where(
        &mut self,
        limit: usize,
        mut which: impl FnMut(Option<&D>, bool) -> bool,
        reply: T,
        hidden: &mut Hidden<'_>,
    ) -> Result<Woken<D>, T> {
        let mut node = self.first(hidden);
        for _ in 0..limit {
            // SAFETY: linked nodes are alive (invariant of `node`), and the lock is held.
            let Some(here) = (unsafe { node.as_ref() }) else { break };
            let next = here.next_linked();
            if which(Self::data_of(here), wait::lives_here(crate::ctx::get(), here.block())) {
                if let Some(claim) = Self::win(here, hidden) {
                    return Ok(Self::deliver(here, claim, reply, hidden));
                }
            }
            node = next;
        }
        Err(reply)
    }

    /// What the first timeline of the queue left, if it was queued with [`push_with`](Waiters::push_with).
    pub fn peek<'a>(&'a self, hidden: &'a Hidden<'_>) -> Option<&'a D> {
        // SAFETY: linked nodes are alive (invariant of `node`), and stay linked while the lock is held and `self` is borrowed.
        unsafe { self.first(hidden).as_ref() }.and_then(Self::data_of)
    }

    fn data_of(node: &Node) -> Option<&D> {
        let place = node.data.get().cast::<()>();
        if node.back.get().is_some_and(|back| ptr::fn_addr_eq(back, Stored::<T, D>::give_back as super::node::GiveBack))
        {
            return None;
        }
        if const { Stored::<T, D>::INLINE } {
            // SAFETY: `Stored::put` wrote a `D`, which stays while the node is linked.
            Some(unsafe { &*place.cast::<D>() })
        } else {
            // SAFETY: as above, a box.
            Some(unsafe { &*place.cast::<Box<D>>() })
        }
    }

    /// Takes the first timeline out of the queue as a token, with its data.
    pub fn take_next(&mut self, hidden: &mut Hidden<'_>) -> Option<(Suspended<T>, D)> {
        let mut node = self.first(hidden);
        // SAFETY: linked nodes are alive (invariant of `node`), and the lock is held.
        while let Some(here) = unsafe { node.as_ref() } {
            let next = here.next_linked();
            if here.block().wait.take_token(here.key()).is_ok() {
                hidden.head().heads.unlink(here);
                let data = Stored::<T, D>::take(here);
                let reply = here.reply.get().cast::<T>();
                return Some((Suspended::new(here.block(), here.key(), reply), data));
            }
            node = next;
        }
        None
    }

    #[inline]
    fn deliver(node: &Node, claim: Claim, reply: T, hidden: &mut Hidden<'_>) -> Woken<D> {
        let data = Stored::<T, D>::take(node);
        let block = node.block();
        // SAFETY: the claim keeps the requester in its frame, where the place of the reply is.
        unsafe { node.reply.get().cast::<T>().write(reply) };
        block.wait.publish(claim);
        hidden.wake(block);
        Woken::new(block, data)
    }
}

impl<T> Waiters<T> {
    /// Queues the caller: it waits until it is resumed, or its wait ends otherwise.
    pub fn push(&mut self, caller: Caller<'_, T>, hidden: &mut Hidden<'_>) {
        self.push_with(caller, (), hidden);
    }
}
