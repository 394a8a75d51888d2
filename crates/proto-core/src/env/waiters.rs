//! Queues of suspended timelines.
//!
//! A [`Waiters`] is a handle; the queue lies in the environment's cell (see `node`). The handle is tied to its environment by number
//! when it is first used, and panics in another.

use std::fmt;
use std::marker::PhantomData;
use std::ptr;

use super::hidden::Hidden;
use super::node::Node;
use super::stored::Stored;
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
///
/// # Examples
///
/// Passengers wait for a lift, each with its weight:
///
/// ```
/// use proto_core::{EnvCell, Waiters, scope, yield_now};
///
/// let lift = EnvCell::new(Waiters::<&str, u32>::new());
/// scope(|s| {
///     let passengers = [90, 60, 120].map(|weight| {
///         let before = lift.visit(|waiting, _, hidden| waiting.len(hidden));
///         let lift = &lift;
///         let passenger =
///             s.spawn(move || lift.ask(|waiting, caller, hidden| waiting.push_with(caller, weight, hidden), None));
///         while lift.visit(|waiting, _, hidden| waiting.len(hidden)) == before {
///             yield_now();
///         }
///         passenger
///     });
///     lift.update(|waiting, _, hidden| {
///         let first_is_heavy = waiting.peek(hidden).is_some_and(|&weight| weight > 80);
///         if first_is_heavy {
///             // The first who is light, among the next ten; whether it lives on this core does not matter.
///             let _ = waiting.resume_where(10, |weight, _here| weight.is_some_and(|&weight| weight <= 80), "light", hidden);
///         }
///         // The next as a token: it may be kept.
///         if let Some((token, _weight)) = waiting.take_next(hidden) {
///             let _ = hidden.resume(token, "first");
///         }
///         let _ = waiting.resume_next("last", hidden);
///     });
///     let lifted = passengers.map(|passenger| passenger.join().unwrap());
///     assert_eq!(lifted, [Ok("first"), Ok("light"), Ok("last")]);
/// });
/// assert_eq!(lift.visit(|waiting, _, hidden| waiting.is_empty(hidden)), Some(true));
/// ```
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
    ///
    /// Data that are no larger than the caller's request are kept without an allocation.
    pub fn push_with(&mut self, caller: Caller<'_, T>, data: D, hidden: &mut Hidden<'_>) {
        let slot = self.slot(hidden);
        wait::enqueue(hidden, &caller, slot, |node, to| Stored::<T, D>::put(node, to, data));
    }

    /// As [`push_with`](Waiters::push_with); if the caller gives up, `back` makes its reply of the data and the reason, on its own
    /// stack and outside every lock: how `send_timeout` gives the value back.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Instant;
    ///
    /// use proto_core::{EnvCell, Waiters};
    ///
    /// let desk = EnvCell::new(Waiters::<Result<(), String>, String>::new());
    /// let form = "a form".to_owned();
    /// let lodged = desk.ask(
    ///     |lodged, caller, hidden| lodged.push_returning(caller, form, |form, _why| Err(form), hidden),
    ///     Some(Instant::now()),
    /// );
    /// assert_eq!(lodged, Ok(Err("a form".to_owned())), "nobody took it in time");
    /// ```
    pub fn push_returning(&mut self, caller: Caller<'_, T>, data: D, back: fn(D, Ended) -> T, hidden: &mut Hidden<'_>) {
        let slot = self.slot(hidden);
        wait::enqueue(hidden, &caller, slot, |node, to| Stored::<T, D>::put_with_back(node, to, data, back));
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

    /// Resumes the first timeline that can be with a reply that `make` makes of what it left here: how a queue whose other side is gone
    /// gives every value back. `None` if nobody waits, or all have given up.
    ///
    /// `make` runs when the wait is won and not yet over, so it only moves its argument into the reply: if it panics, the program ends.
    ///
    /// # Examples
    ///
    /// ```
    /// use proto_core::{Caller, EnvCell, Hidden, RequestHandler, Waiters, scope};
    ///
    /// #[derive(Default)]
    /// struct Desk { closed: bool, lodged: Waiters<Result<(), String>, String> }
    /// struct Lodge(String);
    /// struct Close;
    /// impl RequestHandler<Lodge> for Desk {
    ///     type Reply = Result<(), String>;
    ///     fn handle(&mut self, Lodge(what): Lodge, caller: Caller<'_, Self::Reply>, hidden: &mut Hidden<'_>) {
    ///         if self.closed { hidden.answer(caller, Err(what)) } else { self.lodged.push_with(caller, what, hidden) }
    ///     }
    /// }
    /// impl RequestHandler<Close> for Desk {
    ///     type Reply = ();
    ///     fn handle(&mut self, _: Close, caller: Caller<'_, ()>, hidden: &mut Hidden<'_>) {
    ///         self.closed = true;
    ///         while self.lodged.resume_next_with(Err, hidden).is_some() {}
    ///         hidden.answer(caller, ());
    ///     }
    /// }
    /// let desk = EnvCell::new(Desk::default());
    /// scope(|s| {
    ///     let lodges = s.spawn(|| desk.request(Lodge("a form".to_owned())).unwrap());
    ///     desk.request(Close).unwrap();
    ///     assert_eq!(lodges.join().unwrap(), Err("a form".to_owned()));
    /// });
    /// ```
    pub fn resume_next_with(&mut self, make: impl FnOnce(D) -> T, hidden: &mut Hidden<'_>) -> Option<Woken> {
        let mut node = self.first(hidden);
        // SAFETY: linked nodes are alive (invariant of `node`), and the lock is held.
        while let Some(here) = unsafe { node.as_ref() } {
            let next = here.next_linked();
            if let Some(claim) = Self::win(here, hidden) {
                let bomb = Bomb;
                let reply = make(Stored::<T, D>::take(here));
                std::mem::forget(bomb);
                return Some(Self::answer(here, claim, reply, hidden));
            }
            node = next;
        }
        None
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
            if which(Stored::<T, D>::peek(here), wait::lives_here(crate::ctx::get(), here.block())) {
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
        unsafe { self.first(hidden).as_ref() }.and_then(Stored::<T, D>::peek)
    }

    /// Takes the first timeline out of the queue as a token, with its data.
    pub fn take_next(&mut self, hidden: &mut Hidden<'_>) -> Option<(Suspended<T>, D)> {
        let mut node = self.first(hidden);
        // SAFETY: linked nodes are alive (invariant of `node`), and the lock is held.
        while let Some(here) = unsafe { node.as_ref() } {
            let next = here.next_linked();
            if here.block().wait.take_token(here.key()).is_ok() {
                // From here on its home core may end the wait. The timeline then comes for its node under this lock (`Node::leave`), so
                // all is read and unlinked before the frame can go.
                let (block, key, reply) = (here.block(), here.key(), here.reply.get().cast::<T>());
                let data = Stored::<T, D>::take(here);
                hidden.head().heads.unlink(here);
                return Some((Suspended::new(block, key, reply), data));
            }
            node = next;
        }
        None
    }

    #[inline]
    fn deliver(node: &Node, claim: Claim, reply: T, hidden: &mut Hidden<'_>) -> Woken<D> {
        let data = Stored::<T, D>::take(node);
        Self::answer(node, claim, reply, hidden).with(data)
    }

    /// Ends the wait of `node`, whose data were taken.
    #[inline]
    fn answer(node: &Node, claim: Claim, reply: T, hidden: &mut Hidden<'_>) -> Woken {
        let block = node.block();
        // SAFETY: the claim keeps the requester in its frame, where the place of the reply is.
        unsafe { node.reply.get().cast::<T>().write(reply) };
        block.wait.publish(claim);
        hidden.wake(block);
        Woken::new(block, ())
    }
}

/// Ends the program if it is dropped: a claimed wait that nobody publishes never ends.
struct Bomb;

impl Drop for Bomb {
    #[cold]
    fn drop(&mut self) {
        eprintln!("proto-runtime: a reply could not be made of what a timeline had left in its queue");
        std::process::abort();
    }
}

impl<T> Waiters<T> {
    /// Queues the caller: it waits until it is resumed, or its wait ends otherwise.
    pub fn push(&mut self, caller: Caller<'_, T>, hidden: &mut Hidden<'_>) {
        self.push_with(caller, (), hidden);
    }

    /// Lets the caller of an [adaptive](super::EnvCell::ask_adaptive) request have what it wants, if it has `got` it: it
    /// [holds](Hidden::holds) the object from now on. Else it tries again while the holder may be running, or, the `last` time, is queued.
    ///
    /// # Examples
    ///
    /// A lock that spins before it queues:
    ///
    /// ```
    /// use proto_core::{Ended, EnvCell, Grant, Waiters};
    ///
    /// struct LockEnv { free: Option<Grant>, waiting: Waiters<Grant> }
    ///
    /// fn acquire(lock: &EnvCell<LockEnv>) -> Result<Grant, Ended> {
    ///     lock.ask_adaptive(|last, env, caller, hidden| env.waiting.hold_or_push(env.free.take(), last, caller, hidden), None)
    /// }
    ///
    /// let lock = EnvCell::new(LockEnv { free: Some(Grant::new()), waiting: Waiters::new() });
    /// assert!(acquire(&lock).is_ok());
    /// ```
    #[inline]
    pub fn hold_or_push(&mut self, got: Option<T>, last: bool, caller: Caller<'_, T>, hidden: &mut Hidden<'_>) {
        match got {
            Some(got) => {
                hidden.holds(&caller);
                hidden.answer(caller, got);
            }
            None if !last && hidden.holder_runs_elsewhere() => hidden.try_again(caller),
            None => self.push(caller, hidden),
        }
    }
}
