//! One wait in several environments: the first that answers wins.
//!
//! The timeline enters one queue after the other while its wait word says ARMING; a resumer that meets it there takes nothing and
//! leaves a note, upon which the select looks at all branches again. Then the word says FREE and all tokens race by
//! compare-exchange (see `kernel::wait`). When the wait is over the timeline takes its other nodes out of their queues,
//! each under its environment's lock, before its frame goes on [design rule 11].

use std::fmt;
use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, Location, catch_unwind};
use std::ptr::NonNull;
use std::time::Instant;

use super::cell::EnvCell;
use super::frame::{Frame, To};
use super::hidden::{Origin, Status};
use super::node::Node;
use super::{Info, Kind, RequestHandler, wait};
use crate::ctx::{self, Ctx, attention};
use crate::ended::Ended;
use crate::kernel::wait::{End, Key};
use crate::vp::block::Block;

/// What one branch of a select can do, whatever its types.
trait Branch<Out> {
    fn arm(
        &mut self,
        ctx: &'static Ctx,
        block: &'static Block,
        place: &'static Location<'static>,
    ) -> Result<Status, Ended>;
    fn node(&self) -> &Node;
    /// The reply was written: what the select yields.
    fn finish(&mut self) -> Out;
    /// The branch is in no queue any more: gives back, or drops, what it left in one.
    fn lose(&mut self);
}

struct On<'a, E, R, M, F, L>
where
    E: RequestHandler<R>,
{
    cell: &'a EnvCell<E>,
    make: M,
    then: Option<F>,
    lost: L,
    node: Box<Node>,
    frame: Box<MaybeUninit<Frame<E::Reply, R>>>,
    /// Into `frame`, since it was armed last.
    to: Option<To<E::Reply>>,
}

impl<E, R, M, F, L, Out> Branch<Out> for On<'_, E, R, M, F, L>
where
    E: RequestHandler<R>,
    M: FnMut() -> R,
    F: FnOnce(E::Reply) -> Out,
    L: FnMut(E::Reply),
{
    fn arm(
        &mut self,
        ctx: &'static Ctx,
        block: &'static Block,
        place: &'static Location<'static>,
    ) -> Result<Status, Ended> {
        let mut origin = Origin::Branch(NonNull::from(&*self.node));
        let request = (self.make)();
        // That is the user's code, as that of the branches before.
        let ctx = ctx::again(ctx);
        let to = *self.to.insert(Frame::to(&mut self.frame));
        // SAFETY: `block` runs here; the frame lives until the select has unlinked the node; `origin` is this frame's.
        let passed = unsafe { self.cell.pass(ctx, block, to, request, place, &raw mut origin, ctx.attention()) };
        passed.map(|(status, _)| status)
    }

    fn node(&self) -> &Node {
        &self.node
    }

    fn finish(&mut self) -> Out {
        let to = self.to.expect("a branch that won was armed");
        // SAFETY: this branch won, so its reply was written; `then` makes sure that it is read once.
        let reply = unsafe { to.reply.read() };
        let then = self.then.take().expect("a branch finishes once");
        then(reply)
    }

    fn lose(&mut self) {
        let (Some(back), Some(to)) = (self.node.back.take(), self.to) else { return };
        // SAFETY: the data are as they were put there, for a resumer takes `back` out with them; the node is in no queue.
        if unsafe { back(&self.node, &Ended::Abandoned((INFO.request)()), to.reply.cast()) } {
            // SAFETY: `back` has just written it; the branch has not won, so nobody else reads it.
            (self.lost)(unsafe { to.reply.read() });
        }
    }
}

/// Waits for the first of several requests to be answered.
///
/// # Examples
///
/// ```
/// # use proto_core::{Caller, EnvCell, Hidden, RequestHandler, Select};
/// # struct Ready(u32);
/// # struct Get;
/// # impl RequestHandler<Get> for Ready {
/// #     type Reply = u32;
/// #     fn handle(&mut self, _: Get, caller: Caller<'_, u32>, hidden: &mut Hidden<'_>) { hidden.answer(caller, self.0) }
/// # }
/// let (a, b) = (EnvCell::new(Ready(1)), EnvCell::new(Ready(2)));
/// let (index, value) = Select::new().on(&a, || Get, |v| v).on(&b, || Get, |v| v * 10).wait(None).unwrap();
/// assert_eq!((index, value), (0, 1));
/// ```
#[must_use = "a select does nothing until it waits"]
pub struct Select<'a, Out> {
    branches: Vec<Box<dyn Branch<Out> + 'a>>,
    /// Begins with another branch each time.
    fair: bool,
    /// The branch that is tried first.
    first: usize,
}

impl<Out> fmt::Debug for Select<'_, Out> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Select").field("branches", &self.branches.len()).finish()
    }
}

impl<Out> Default for Select<'_, Out> {
    fn default() -> Self {
        Select::new()
    }
}

/// What reports say of a select.
const INFO: &Info = &Info { request: || "select", environment: || "several environments", kind: Kind::Abandonable };

impl<'a, Out> Select<'a, Out> {
    /// A select without branches.
    pub fn new() -> Self {
        Select { branches: Vec::new(), fair: false, first: 0 }
    }

    /// Has this begin with another branch than the timeline's fair select before. The others follow in their order.
    ///
    /// So where selects are made again and again, a branch that is always ready does not keep the others from their turn: each of `n` comes
    /// first at least once in any `2n` selects in a row; and about as often in each of several selects that are made in turn.
    ///
    /// # Examples
    ///
    /// ```
    /// use proto_core::{Channel, Select};
    ///
    /// let (a, b) = (Channel::new(9), Channel::new(9));
    /// for n in 0..9 {
    ///     a.send(n, None).unwrap();
    ///     b.send(n, None).unwrap();
    /// }
    /// let firsts: Vec<_> = (0..8)
    ///     .map(|_| Select::new().receive(&a, drop).receive(&b, drop).fairly().wait(None).map(|(branch, ())| branch))
    ///     .collect();
    /// assert!(firsts.contains(&Ok(0)) && firsts.contains(&Ok(1)));
    /// ```
    pub fn fairly(mut self) -> Self {
        self.fair = true;
        self
    }

    /// Adds a branch: the request that `make` gives is sent to `cell` (again, if the select has to look again), and if it is answered
    /// first, `then` turns the reply into what the select yields. Branches are tried in the order they were added, unless said
    /// [otherwise](Self::fairly).
    ///
    /// # Panics
    ///
    /// At the 4096th branch.
    pub fn on<E, R, M, F>(self, cell: &'a EnvCell<E>, make: M, then: F) -> Self
    where
        E: RequestHandler<R> + 'a,
        R: 'a,
        E::Reply: 'a,
        M: FnMut() -> R + 'a,
        F: FnOnce(E::Reply) -> Out + 'a,
    {
        self.on_returning(cell, make, then, drop)
    }

    /// As [`on`](Self::on), for requests that carry a value: if the branch is not the one that wins, and the handler queued it with a
    /// way back ([`Waiters::push_returning`](super::Waiters::push_returning)), `lost` gets the reply that this made. It may come to that several times, each
    /// time before `make` is called again.
    ///
    /// # Panics
    ///
    /// As [`on`](Self::on).
    ///
    /// # Examples
    ///
    /// A letter is left at a desk, or thrown away; it is not lost with the desk's branch:
    ///
    /// ```
    /// use std::cell::Cell;
    ///
    /// use proto_core::{Ask, EnvCell, Select, Waiters};
    ///
    /// type Desk = Waiters<Result<(), String>, String>;
    /// let (desk, bin) = (EnvCell::new(Desk::new()), EnvCell::new(()));
    /// let letter = Cell::new(Some("for you".to_owned()));
    /// let lodge = || {
    ///     let letter = letter.take().expect("it came back");
    ///     Ask::new(|desk: &mut Desk, caller, hidden| desk.push_returning(caller, letter, |letter, _| Err(letter), hidden))
    /// };
    /// let throw = || Ask::new(|_: &mut (), caller, hidden| hidden.answer(caller, ()));
    /// let outcome = Select::new()
    ///     .on_returning(&desk, lodge, |_| "lodged", |lost| letter.set(lost.err()))
    ///     .on(&bin, throw, |()| "thrown away")
    ///     .wait(None)?;
    /// assert_eq!(outcome, (1, "thrown away"));
    /// assert_eq!(letter.take().as_deref(), Some("for you"));
    /// # Ok::<(), proto_core::Ended>(())
    /// ```
    pub fn on_returning<E, R, M, F, L>(mut self, cell: &'a EnvCell<E>, make: M, then: F, lost: L) -> Self
    where
        E: RequestHandler<R> + 'a,
        R: 'a,
        E::Reply: 'a,
        M: FnMut() -> R + 'a,
        F: FnOnce(E::Reply) -> Out + 'a,
        L: FnMut(E::Reply) + 'a,
    {
        assert!(self.branches.len() < usize::from(Key::BRANCHES), "a select has at most {} branches", Key::BRANCHES);
        let node = Box::new(Node::new());
        let frame = Box::new(Frame::new());
        self.branches.push(Box::new(On { cell, make, then: Some(then), lost, node, frame, to: None }));
        self
    }

    /// Waits for the first answer, or until `deadline`. Yields the number of the branch and its value.
    ///
    /// # Errors
    ///
    /// See [`Ended`]. Without branches and without a deadline this waits for ever (until cancelled).
    #[track_caller]
    pub fn wait(mut self, deadline: Option<Instant>) -> Result<(usize, Out), Ended> {
        let place = Location::caller();
        let mut ctx = ctx::get();
        let seen = ctx.attention();
        if seen & attention::DOOR != 0 {
            wait::door(ctx, seen, INFO, place)?;
            ctx = ctx::again(ctx);
        }
        let Some(block) = ctx.current() else { wait::misplaced_request(ctx, INFO) };
        if ctx.in_handler.get().is_some() {
            wait::misplaced_request(ctx, INFO);
        }
        if self.fair {
            self.first = block.next_first(self.branches.len());
        }
        let key = block.wait.begin_arming();
        // SAFETY: the caller runs: it has started.
        unsafe { block.node() }.key.set(key);
        let end = loop {
            // Runs the user's `make`s, which may panic while branches are in their queues.
            let armed = catch_unwind(AssertUnwindSafe(|| self.arm_all(ctx, block, key, place)));
            match armed {
                Ok(Ok(Some(branch))) => {
                    // Own answer: nobody else has won or can.
                    let claim = block.wait.claim_own(key.with_branch(branch));
                    block.wait.publish(claim);
                    break Ok(End::Answered(branch));
                }
                Ok(Ok(None)) => {
                    let notes = block.wait.finish_arming(key);
                    if notes.is_empty() {
                        break Ok(wait::stand(ctx::again(ctx), block, key, INFO, place, deadline));
                    }
                    self.leave_all();
                    if notes.cancel || notes.deadline {
                        let claim = block.wait.claim_own(key);
                        block.wait.publish(claim);
                        break Err(Stopped::Ended(if notes.cancel { Ended::Cancelled } else { Ended::Deadline }));
                    }
                }
                Ok(Err(why)) => {
                    let claim = block.wait.claim_own(key);
                    block.wait.publish(claim);
                    break Err(Stopped::Ended(why));
                }
                Err(payload) => {
                    let claim = block.wait.claim_own(key);
                    block.wait.publish(claim);
                    break Err(Stopped::Panicked(payload));
                }
            }
        };
        self.leave_all();
        match end {
            Err(stopped) => {
                block.wait.retire();
                match stopped {
                    Stopped::Ended(why) => Err(why),
                    Stopped::Panicked(payload) => crate::resume_unwind(payload),
                }
            }
            Ok(end) => {
                wait::finish(block, INFO, end)?;
                let End::Answered(branch) = end else { unreachable!("`finish` passes answers only") };
                let branch = usize::from(branch);
                Ok((branch, self.branches[branch].finish()))
            }
        }
    }

    /// Enters every branch. Gives the one that answered at once, if one did.
    fn arm_all(
        &mut self,
        ctx: &'static Ctx,
        block: &'static Block,
        key: Key,
        place: &'static Location<'static>,
    ) -> Result<Option<u16>, Ended> {
        let (before, first) = self.branches.split_at_mut(self.first);
        let (from, up_to) = (self.first as u16, before.len() as u16);
        for (index, branch) in (from..).zip(first).chain((0..up_to).zip(before)) {
            branch.node().key.set(key.with_branch(index));
            block.requests.set(block.requests.get() + 1);
            match branch.arm(ctx, block, place)? {
                Status::Answered => return Ok(Some(index)),
                Status::Queued => {}
                Status::Pending | Status::TryAgain => {
                    return Err(Ended::Abandoned((INFO.request)()));
                }
            }
        }
        Ok(None)
    }

    /// Takes all nodes that are still in a queue out of it, and then gives back or drops what was left in the queues with them.
    fn leave_all(&mut self) {
        for branch in &self.branches {
            // SAFETY: the select borrows the cells of its branches.
            unsafe { branch.node().leave() };
        }
        for branch in &mut self.branches {
            // User values: their destructors may panic, so they come last.
            branch.lose();
        }
    }
}

/// Why a select came to no answer.
enum Stopped {
    Ended(Ended),
    /// One of its closures panicked.
    Panicked(Box<dyn std::any::Any + Send>),
}

impl<Out> Drop for Select<'_, Out> {
    fn drop(&mut self) {
        debug_assert!(
            self.branches.iter().all(|branch| branch.node().cell().is_none()),
            "a select is dropped in a queue"
        );
    }
}
