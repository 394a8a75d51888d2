//! Joining a VP: its value, or why there is none, to whoever waits for it.
//!
//! A language of its own, written with the crate's own means: the packet of a VP is an environment with three requests (*wait*,
//! *end*, *detach*).
//!
//! # Who gets a panic
//!
//! Whoever joins. If nobody can any more (the handle was dropped, before or after the end), the process's result does [design rule 12].
//!
//! # The dangerous race
//!
//! The VP lives on after its farewell to its scope: its VP-locals' destructors run, may wait and open scopes, and its core may sweep for
//! cancelled VPs meanwhile. The scope's frame may be gone by then, so the VP belongs to nothing before it says farewell.

use std::any::Any;
use std::cell::RefCell;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Instant;

use crate::ctx;
use crate::ended::{Cancelled, Ended, payload_text};
use crate::env::{Caller, EnvCell, Hidden, Kind, RequestHandler, Waiters};
use crate::scope::{Around, ScopeHead};
use crate::vp::VpRef;
use crate::vp::block::{Block, flag};
use crate::vp::pair::Pair;

/// Why a joined VP gave no value.
///
/// # Examples
///
/// ```
/// use proto_core::{Ended, JoinError, OrUnwind, VpBuilder, sleep_until};
///
/// fn end(error: JoinError) -> String {
///     match error {
///         JoinError::Panic(payload) => format!("panicked: {:?}", payload.downcast_ref::<&str>()),
///         JoinError::Cancelled => "was cancelled".to_owned(),
///         JoinError::NeverRan(why) => format!("never began: {why}"),
///         other => other.to_string(),
///     }
/// }
/// let runtime = proto_core::Runtime::builder().controllers(1).build()?;
/// let ends = runtime.run(|| {
///     let panics = VpBuilder::new().spawn(|| panic!("on purpose"))?;
///     let sleeps = VpBuilder::new().spawn(|| sleep_until(None).or_unwind())?;
///     sleeps.cancel().expect("panics unwind here");
///     Ok::<_, proto_core::SpawnError>([panics.join().map_err(end), sleeps.join().map_err(end)])
/// })??;
/// assert_eq!(ends, [Err("panicked: Some(\"on purpose\")".to_owned()), Err("was cancelled".to_owned())]);
///
/// let payload = JoinError::Cancelled.into_payload(); // for a language whose joins know payloads only
/// assert!(payload.is::<proto_core::Cancelled>());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub enum JoinError {
    /// It panicked, with this payload.
    Panic(Box<dyn Any + Send + 'static>),
    /// It was cancelled.
    Cancelled,
    /// It never ran, for this reason: there was no stack for it (the text names the limit and what to do), or its runtime ended first.
    NeverRan(Arc<str>),
}

impl JoinError {
    /// The panic's payload, or one made of the reason.
    pub fn into_payload(self) -> Box<dyn Any + Send + 'static> {
        match self {
            JoinError::Panic(payload) => payload,
            JoinError::Cancelled => Box::new(Cancelled { of: None }),
            JoinError::NeverRan(_) => Box::new(self.to_string()),
        }
    }

    /// What a scope fails with if nobody joined the VP.
    pub(crate) fn into_failure(self) -> Option<Box<dyn Any + Send + 'static>> {
        if let JoinError::Cancelled = self { None } else { Some(self.into_payload()) }
    }

    fn never_ran() -> JoinError {
        let why = WHY.with_borrow(Option::clone);
        JoinError::NeverRan(why.unwrap_or_else(|| Arc::from("its runtime ended first")))
    }
}

impl fmt::Debug for JoinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            JoinError::Panic(payload) => f.debug_tuple("Panic").field(&payload_text(&**payload)).finish(),
            JoinError::Cancelled => f.write_str("Cancelled"),
            JoinError::NeverRan(why) => f.debug_tuple("NeverRan").field(why).finish(),
        }
    }
}

impl fmt::Display for JoinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            JoinError::Panic(payload) => write!(f, "the virtual processor panicked: {}", payload_text(&**payload)),
            JoinError::Cancelled => f.write_str("the virtual processor was cancelled"),
            JoinError::NeverRan(why) => write!(f, "the virtual processor never ran: {why}"),
        }
    }
}

impl std::error::Error for JoinError {}

thread_local! {
    /// Why the closures that are being dropped on this OS thread never ran. No VP comes here, so it is nobody else's.
    static WHY: RefCell<Option<Arc<str>>> = const { RefCell::new(None) };
}

/// Runs `f`, which drops a closure that never ran because of `why`. On an OS thread that is no controller.
pub(crate) fn never_run<R>(why: Arc<str>, f: impl FnOnce() -> R) -> R {
    /// Forgets the reason, also if `f` panics.
    struct Told(Option<Arc<str>>);
    impl Drop for Told {
        fn drop(&mut self) {
            WHY.set(self.0.take());
        }
    }
    let _told = Told(WHY.replace(Some(why)));
    f()
}

pub(crate) type Outcome<T> = Result<T, JoinError>;

/// The environment of one VP's end.
pub(crate) struct PacketEnv<T> {
    state: State<T>,
    waiting: Waiters<Outcome<T>>,
}

enum State<T> {
    Running,
    /// Nobody will join.
    Detached,
    Ended(Outcome<T>),
    Taken,
}

pub(crate) type Packet<T> = PacketCell<T>;

/// The cell of a packet: shared by the VP and its handle.
pub(crate) struct PacketCell<T>(EnvCell<PacketEnv<T>>);

impl<T> PacketCell<T> {
    #[track_caller]
    #[inline(always)]
    pub(crate) fn new() -> (Pair<Self>, Pair<Self>) {
        Pair::new(PacketCell(EnvCell::new(PacketEnv { state: State::Running, waiting: Waiters::new() })))
    }
}

struct Join;
/// A join whose VP borrows from the frame that waits.
struct JoinBinding;
struct End<T>(Outcome<T>);
struct Detach;
struct IsOver;

impl<T> PacketEnv<T> {
    fn join(&mut self, caller: Caller<'_, Outcome<T>>, hidden: &mut Hidden<'_>) {
        match std::mem::replace(&mut self.state, State::Taken) {
            State::Ended(outcome) => hidden.answer(caller, outcome),
            other => {
                self.state = other;
                self.waiting.push(caller, hidden);
            }
        }
    }
}

impl<T> RequestHandler<Join> for PacketEnv<T> {
    type Reply = Outcome<T>;
    fn handle(&mut self, _: Join, caller: Caller<'_, Outcome<T>>, hidden: &mut Hidden<'_>) {
        self.join(caller, hidden);
    }
}

impl<T> RequestHandler<JoinBinding> for PacketEnv<T> {
    type Reply = Outcome<T>;
    const KIND: Kind = Kind::Binding;
    fn handle(&mut self, _: JoinBinding, caller: Caller<'_, Outcome<T>>, hidden: &mut Hidden<'_>) {
        self.join(caller, hidden);
    }
}

impl<T> RequestHandler<End<T>> for PacketEnv<T> {
    type Reply = Option<Outcome<T>>;
    const KIND: Kind = Kind::Binding;
    fn handle(&mut self, End(outcome): End<T>, caller: Caller<'_, Self::Reply>, hidden: &mut Hidden<'_>) {
        if let State::Detached = self.state {
            return hidden.answer(caller, Some(outcome));
        }
        if let Err(outcome) = self.waiting.resume_next(outcome, hidden) {
            self.state = State::Ended(outcome);
        } else {
            self.state = State::Taken;
        }
        hidden.answer(caller, None);
    }
}

impl<T> RequestHandler<Detach> for PacketEnv<T> {
    type Reply = Option<Outcome<T>>;
    const KIND: Kind = Kind::Binding;
    fn handle(&mut self, _: Detach, caller: Caller<'_, Self::Reply>, hidden: &mut Hidden<'_>) {
        let reply = match std::mem::replace(&mut self.state, State::Detached) {
            State::Ended(outcome) => Some(outcome),
            _ => None,
        };
        hidden.answer(caller, reply);
    }
}

impl<T> RequestHandler<IsOver> for PacketEnv<T> {
    type Reply = bool;
    const KIND: Kind = Kind::Binding;
    fn handle(&mut self, _: IsOver, caller: Caller<'_, bool>, hidden: &mut Hidden<'_>) {
        hidden.answer(caller, matches!(self.state, State::Ended(_) | State::Taken));
    }
}

/// What a VP runs: the user's closure, and telling the packet how it ended, also if it is dropped unrun.
#[inline]
pub(crate) fn body<T: Send, F: FnOnce() -> T + Send>(
    f: F,
    packet: Pair<Packet<T>>,
    scope: *const ScopeHead,
) -> impl FnOnce() {
    let body = Body { f: std::mem::ManuallyDrop::new(f), packet: Some(packet), scope: ScopePtr(scope) };
    move || {
        let body = body;
        body.run();
    }
}

struct ScopePtr(*const ScopeHead);

struct Body<T, F> {
    f: std::mem::ManuallyDrop<F>,
    packet: Option<Pair<Packet<T>>>,
    scope: ScopePtr,
}

impl<T, F: FnOnce() -> T> Body<T, F> {
    #[inline]
    fn run(mut self) {
        // SAFETY: `packet` is taken below, which tells `drop` that the closure is gone.
        let f = unsafe { std::mem::ManuallyDrop::take(&mut self.f) };
        let packet = self.packet.take().expect("a body runs once");
        let outcome = catch_unwind(AssertUnwindSafe(f)).map_err(|payload| {
            if payload.is::<Cancelled>() { JoinError::Cancelled } else { JoinError::Panic(payload) }
        });
        report(packet, outcome, self.scope.0, ctx::installed().and_then(ctx::Ctx::current));
    }
}

impl<T, F> Drop for Body<T, F> {
    fn drop(&mut self) {
        // Dropped unrun: cancelled before it started, or there was no stack, or no birth (then the timeline that runs here is another).
        if let Some(packet) = self.packet.take() {
            // What it owned is the user's: a panic of its drop must not keep the packet and the scope from hearing of the end.
            let dropped = catch_unwind(AssertUnwindSafe(|| {
                // SAFETY: `run` takes the packet first, so the closure is still there.
                unsafe { std::mem::ManuallyDrop::drop(&mut self.f) };
            }));
            let own = ctx::installed().and_then(ctx::Ctx::current).filter(|block| block.has(flag::UNRUN));
            let error = match dropped {
                Err(payload) if !payload.is::<Cancelled>() => JoinError::Panic(payload),
                _ if own.is_some() => JoinError::Cancelled,
                _ => JoinError::never_ran(),
            };
            report(packet, Err(error), self.scope.0, own);
        }
    }
}

/// Tells packet and scope how a VP ended: `own`, if that is the timeline that runs here. The scope's frame, and all that the VP borrowed, may be
/// gone afterwards.
fn report<T>(packet: Pair<Packet<T>>, outcome: Outcome<T>, scope: *const ScopeHead, own: Option<&'static Block>) {
    let unclaimed = packet.0.request(End(outcome)).ok().flatten();
    // Values that nobody wants may borrow, in the packet too: they go before the scope is told. Their drops are the user's code: a panic there
    // is the VP's, and must not keep the scope from hearing of its end.
    let (value, error) = match unclaimed {
        Some(Ok(value)) => (Some(value), None),
        Some(Err(error)) => (None, Some(error)),
        None => (None, None),
    };
    let dropped = catch_unwind(AssertUnwindSafe(|| drop((value, packet))));
    let dropped = dropped.err().filter(|payload| !payload.is::<Cancelled>()).map(JoinError::Panic);
    let failure = error.or(dropped);
    if scope.is_null() {
        return unjoined(failure);
    }
    if let Some(own) = own {
        // Read by this timeline and its home core's controller only, and the latter not while it runs.
        own.set_around(Around::nothing());
    }
    // SAFETY: a scope waits for the VPs in it, and this one has not told it yet that it ended.
    unsafe { ScopeHead::leave(scope, failure.and_then(JoinError::into_failure)) }
}

/// Nobody joins: a panic goes to the process.
fn unjoined(failure: Option<JoinError>) {
    let Some(JoinError::Panic(payload)) = failure else { return };
    match ctx::installed().and_then(ctx::Ctx::current).and_then(Block::process) {
        Some(process) => process.note_panic(payload),
        None => crate::process::note_ambient_panic(payload),
    }
}

/// Joins a VP: waits for its end and gives its value. Dropped, the VP runs on by itself.
///
/// # Examples
///
/// ```
/// use std::time::Instant;
///
/// use proto_core::{JoinHandle, SetOnce, VpBuilder};
///
/// static GATE: SetOnce<()> = SetOnce::new();
/// let runtime = proto_core::Runtime::builder().controllers(1).build()?;
/// let joined = runtime.run(|| {
///     let guest: JoinHandle<u32> = VpBuilder::new()
///         .name("guest")
///         .spawn(|| {
///             GATE.wait(false, None);
///             5
///         })
///         .unwrap();
///     assert_eq!((guest.name().user(), guest.vp().has_ended()), (Some("guest"), false));
///     let guest = guest.join_until(Some(Instant::now())).expect_err("the gate is closed");
///     assert!(!guest.is_finished());
///     GATE.get_or_make(|| ());
///     guest.join()
/// })?;
/// assert_eq!(joined.ok(), Some(5));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct JoinHandle<T> {
    packet: Option<Pair<Packet<T>>>,
    vp: VpRef,
}

impl<T> fmt::Debug for JoinHandle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JoinHandle").field("vp", &self.vp).finish()
    }
}

impl<T> JoinHandle<T> {
    pub(crate) fn new(packet: Pair<Packet<T>>, vp: VpRef) -> Self {
        JoinHandle { packet: Some(packet), vp }
    }

    fn packet(&self) -> &Packet<T> {
        self.packet.as_deref().expect("the packet is there until the handle is used up")
    }

    /// The VP.
    pub fn vp(&self) -> VpRef {
        self.vp
    }

    /// The VP's name.
    pub fn name(&self) -> crate::VpName {
        self.vp.name()
    }

    /// Whether its value is there.
    pub fn is_finished(&self) -> bool {
        self.packet().0.request(IsOver).unwrap_or(true)
    }

    /// Cancels the VP; see [`VpRef::cancel`].
    ///
    /// # Errors
    ///
    /// In a `panic=abort` build.
    ///
    /// # Examples
    ///
    /// ```
    /// use proto_core::{JoinError, OrUnwind, VpBuilder, sleep_until};
    ///
    /// let runtime = proto_core::Runtime::builder().controllers(1).build()?;
    /// let joined = runtime.run(|| {
    ///     let sleeper = VpBuilder::new().spawn(|| sleep_until(None).or_unwind()).unwrap();
    ///     sleeper.cancel().unwrap();
    ///     sleeper.join()
    /// })?;
    /// assert!(matches!(joined, Err(JoinError::Cancelled)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn cancel(&self) -> Result<(), crate::CannotCancel> {
        self.vp.cancel()
    }

    /// Waits for the VP's end.
    ///
    /// # Errors
    ///
    /// See [`JoinError`].
    ///
    /// # Panics
    ///
    /// Unwinds if the calling VP is cancelled meanwhile.
    #[track_caller]
    pub fn join(self) -> Result<T, JoinError> {
        match self.join_until(None) {
            Ok(outcome) => outcome,
            Err(_) => unreachable!("a join without a deadline came back without an outcome"),
        }
    }

    /// Waits for the VP's end, until `deadline`.
    ///
    /// # Errors
    ///
    /// Gives the handle back if the deadline passed first.
    ///
    /// # Panics
    ///
    /// As [`join`](JoinHandle::join).
    #[track_caller]
    pub fn join_until(mut self, deadline: Option<Instant>) -> Result<Result<T, JoinError>, Self> {
        self.join_by(deadline).ok_or(self)
    }

    /// As [`join_until`](JoinHandle::join_until). `None` if the deadline passed first; else the handle is used up.
    #[track_caller]
    pub(crate) fn join_by(&mut self, deadline: Option<Instant>) -> Option<Outcome<T>> {
        match self.packet().0.request_until(Join, deadline) {
            Ok(outcome) => {
                self.packet = None;
                Some(outcome)
            }
            Err(Ended::Deadline) => None,
            Err(ended) => {
                ended.unwind_if_cancelled();
                Some(Err(JoinError::never_ran()))
            }
        }
    }

    /// As [`join`](JoinHandle::join), for work that borrows from the waiting frame: not ended by a cancel.
    #[track_caller]
    pub(crate) fn join_binding(&mut self) -> Result<T, JoinError> {
        let outcome = self.packet().0.request(JoinBinding).unwrap_or_else(|_| Err(JoinError::never_ran()));
        self.packet = None;
        outcome
    }
}

impl<T> JoinHandle<T> {
    /// Lets go of the VP. Gives its outcome if it has ended already and nobody had that.
    pub(crate) fn detach(&mut self) -> Option<Outcome<T>> {
        self.packet.take()?.0.request(Detach).ok().flatten()
    }
}

impl<T> Drop for JoinHandle<T> {
    fn drop(&mut self) {
        unjoined(self.detach().and_then(Result::err));
    }
}
