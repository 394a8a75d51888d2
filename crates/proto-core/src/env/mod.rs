//! Environments: state guarded by one spinlock, and the requests that timelines send to it [design §2].
//!
//! | file | what lives there |
//! |---|---|
//! | `cell` | [`EnvCell`]: an environment, its spinlock, and the ways to send it a request |
//! | `adaptive` | requests that look for a while before they wait |
//! | `ask` | requests that are closures |
//! | `pass` | the pass of a request through it: lock, handler, unlock |
//! | `loan` | [`Loan`], the name of an environment that a requester borrows |
//! | `hidden` | [`Hidden`], what a handler may do besides changing its environment |
//! | `straight` | a shorter pass, for a lock's way in and way out |
//! | `token` | [`Caller`] and [`Suspended`], the tokens of timelines that wait for an answer |
//! | `waiters` | [`Waiters`], queues of suspended timelines |
//! | `node` | the links of those queues, and their heads in the cell |
//! | `frame` | what a requester keeps in its frame for whoever answers it |
//! | `stored` | how what a timeline leaves in a queue lies there |
//! | `wait` | what a timeline does when its request was not answered at once |
//! | `interrupt` | ending a wait by deadline or cancel |
//! | `broken` | what a broken environment leaves to those who waited in it |
//! | `after` | what a pass leaves to be done after the unlock |
//! | `backlog` | [`Backlog`], a queue of values that grows outside of the lock |
//! | `select` | one wait in several environments |
//! | `sleep` | a wait that nothing answers |
//! | `holders` | who holds an object, for reports |

mod adaptive;
pub(crate) mod after;
mod ask;
mod backlog;
pub(crate) mod broken;
pub(crate) mod cell;
pub(crate) mod frame;
pub(crate) mod hidden;
pub(crate) mod holders;
pub(crate) mod interrupt;
pub(crate) mod loan;
pub(crate) mod node;
mod pass;
pub(crate) mod select;
mod sleep;
mod stored;
pub(crate) mod straight;
pub(crate) mod token;
pub(crate) mod wait;
pub(crate) mod waiters;

pub use ask::Ask;
pub use backlog::Backlog;
pub use cell::EnvCell;
pub use hidden::Hidden;
pub use loan::Loan;
pub use select::Select;
pub use sleep::sleep_until;
pub use token::{Caller, Suspended, Timeline, Woken};
pub use waiters::Waiters;

/// What a construct means: how one kind of request is served in the environment `Self`.
///
/// One `impl` a construct; typed request, typed reply, static dispatch, so that the handler is inlined into the
/// wrapper. The handler runs alone in its environment, on the requester's own stack, under the environment's spinlock:
/// it is sequential code, it is short, and it runs no user code [design rules 1 and 2].
///
/// # What a handler must do
///
/// Exactly one of: answer its caller ([`Hidden::answer`]), queue it ([`Waiters::push`]), take its token
/// ([`Hidden::suspend`]), ask it to try again ([`Hidden::try_again`]). A handler that does none of them is a bug of the
/// language: the request panics in debug builds and ends as [`Abandoned`](crate::Ended::Abandoned) in others.
///
/// # Examples
///
/// A gate: whoever passes waits until it is opened.
///
/// ```
/// use proto_core::{Caller, EnvCell, Hidden, RequestHandler, Runtime, Waiters};
///
/// #[derive(Default)]
/// struct GateEnv { open: bool, waiting: Waiters<()> }
/// struct Pass;
/// struct Open;
///
/// impl RequestHandler<Pass> for GateEnv {
///     type Reply = ();
///     fn handle(&mut self, _: Pass, caller: Caller<'_, ()>, hidden: &mut Hidden<'_>) {
///         if self.open { hidden.answer(caller, ()) } else { self.waiting.push(caller, hidden) }
///     }
/// }
/// impl RequestHandler<Open> for GateEnv {
///     type Reply = ();
///     fn handle(&mut self, _: Open, caller: Caller<'_, ()>, hidden: &mut Hidden<'_>) {
///         self.open = true;
///         while self.waiting.resume_next((), hidden).is_ok() {}
///         hidden.answer(caller, ())
///     }
/// }
///
/// let gate = EnvCell::new(GateEnv::default());
/// Runtime::builder().controllers(1).build()?.run(|| {
///     proto_core::scope(|s| {
///         s.spawn(|| gate.request(Pass).unwrap());
///         gate.request(Open).unwrap();
///     });
/// })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// One that cannot panic and is no cancellation point, under a name of its own in reports:
///
/// ```
/// use proto_core::{Caller, EnvCell, Hidden, Kind, RequestHandler};
///
/// struct Till { cents: u64 }
/// struct Total;
/// impl RequestHandler<Total> for Till {
///     type Reply = u64;
///     const KIND: Kind = Kind::Binding;
///     const UNWINDS: bool = true;
///     fn handle(&mut self, _: Total, caller: Caller<'_, u64>, hidden: &mut Hidden<'_>) {
///         hidden.answer(caller, self.cents);
///     }
///     fn name() -> &'static str { "till::total" }
/// }
/// assert_eq!(EnvCell::new(Till { cents: 250 }).request(Total), Ok(250));
/// ```
pub trait RequestHandler<R>: Sized {
    /// What the requester gets.
    type Reply;

    /// Whether a cancel may end the wait, or the request is a release. Abandonable unless said otherwise.
    const KIND: Kind = Kind::Abandonable;

    /// Whether a panic of this handler unwinds the requester's stack. `false`: it is caught, and the request yields
    /// [`Ended::Broken`](crate::Ended::Broken). Either way the environment is broken and everybody else is told so.
    ///
    /// For handlers that have nothing that can panic: to catch costs a good nanosecond a request. Such a handler may not panic after it has queued
    /// its caller: that ends the program.
    const UNWINDS: bool = false;

    /// Serves `request`. Runs alone in the environment; see the trait's documentation for its duties.
    fn handle(&mut self, request: R, caller: Caller<'_, Self::Reply>, hidden: &mut Hidden<'_>);

    /// What reports and traces call the construct: the name of the request's type unless said otherwise. Only its last part is
    /// shown to people.
    fn name() -> &'static str {
        std::any::type_name::<R>()
    }
}

/// What may end a request's wait, besides its answer [design rule 13].
///
/// # Examples
///
/// ```
/// use proto_core::{Caller, EnvCell, Hidden, Kind, RequestHandler, Waiters};
///
/// /// Lends tools, and closes when all have come back.
/// #[derive(Default)]
/// struct Shed { lent: u32, closing: Waiters<()> }
/// struct Lend;
/// struct TakeBack;
/// struct Close;
///
/// impl RequestHandler<Lend> for Shed {
///     type Reply = u32;
///     const KIND: Kind = Kind::Abandonable; // as it is by default
///     fn handle(&mut self, _: Lend, caller: Caller<'_, u32>, hidden: &mut Hidden<'_>) {
///         self.lent += 1;
///         hidden.answer(caller, self.lent);
///     }
/// }
/// impl RequestHandler<TakeBack> for Shed {
///     type Reply = ();
///     const KIND: Kind = Kind::Release; // from a destructor, perhaps of a timeline that unwinds
///     fn handle(&mut self, _: TakeBack, caller: Caller<'_, ()>, hidden: &mut Hidden<'_>) {
///         self.lent -= 1;
///         while self.lent == 0 && self.closing.resume_next((), hidden).is_ok() {}
///         hidden.answer(caller, ());
///     }
/// }
/// impl RequestHandler<Close> for Shed {
///     type Reply = ();
///     const KIND: Kind = Kind::Binding; // what was lent is borrowed: nobody may leave before it is back
///     fn handle(&mut self, _: Close, caller: Caller<'_, ()>, hidden: &mut Hidden<'_>) {
///         if self.lent == 0 { hidden.answer(caller, ()) } else { self.closing.push(caller, hidden) }
///     }
/// }
///
/// let shed = EnvCell::new(Shed::default());
/// assert_eq!(shed.request(Lend)?, 1);
/// std::thread::scope(|s| {
///     s.spawn(|| shed.release(TakeBack));
///     shed.request(Close)
/// })?;
/// # Ok::<(), proto_core::Ended>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A lock, a receive, a sleep: a cancel ends it with [`Ended::Cancelled`](crate::Ended::Cancelled).
    Abandonable,
    /// The end of a scope, a join of borrowed work: a cancel is noted and delivered after the wait.
    Binding,
    /// Gives something back: never waits, never fails, is served even while the timeline unwinds. Reply `()`.
    Release,
}

/// What reports and hooks know of one kind of request. One constant for each `impl RequestHandler`.
#[derive(Debug)]
pub(crate) struct Info {
    pub(crate) request: fn() -> &'static str,
    pub(crate) environment: fn() -> &'static str,
    pub(crate) kind: Kind,
}

/// Holder of the constant [`Info`] of a request.
pub(crate) struct InfoOf<E, R>(std::marker::PhantomData<(E, R)>);

impl<E: RequestHandler<R>, R> InfoOf<E, R> {
    pub(crate) const INFO: &'static Info =
        &Info { request: <E as RequestHandler<R>>::name, environment: std::any::type_name::<E>, kind: E::KIND };
}
