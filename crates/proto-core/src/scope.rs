//! Scopes: VPs that borrow from the frame that made them.
//!
//! A scope ends when its closure has returned (or panicked) and every VP in it has ended; the wait for that is binding [design rule 13].
//! Like `join` this is a small language of its own: the scope's environment counts its VPs.
//!
//! The dangerous moment is the last VP's farewell: once it has told the scope, the frame with the scope in it may be gone. It is a
//! release request, after whose unlock nothing of the scope is touched (see `EnvCell`).

mod around;

use std::alloc::{Layout, dealloc};
use std::any::Any;
use std::fmt;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

pub(crate) use self::around::Around;

use crate::JoinError;
use crate::ctx;
use crate::env::{Caller, EnvCell, Hidden, Kind, RequestHandler, Waiters};
use crate::join::{JoinHandle, Packet};
use crate::runtime::activity::Somebody;
use crate::vp::block::{Block, flag};
use crate::vp::{SpawnError, VpBuilder, cancel};

type Payload = Box<dyn Any + Send>;

/// What a scope is to its VPs, and to a cancel.
#[derive(Debug)]
pub(crate) struct ScopeHead {
    cancelled: AtomicBool,
    /// What is around this scope: the one that the owner stood in, else what the owner itself belongs to.
    parent: Around,
    /// The scope that the owner stood in when it opened this one.
    outer: *const ScopeHead,
    /// Whether this is no scope but a mark: a cancel of the owner, or of what is around it, goes no further in than here.
    fence: bool,
    env: EnvCell<ScopeEnv>,
}

// SAFETY: the pointers are to scopes that outlive this one (the owner's own scope, and the ones it stands in), and are only read.
unsafe impl Sync for ScopeHead {}

struct ScopeEnv {
    running: usize,
    panic: Option<Payload>,
    waiting: Waiters<Option<Payload>>,
}

struct Enter;
struct Leave(Option<Payload>);
/// A VP had panicked, or had not run, and then its handle was dropped unused.
struct Unjoined(Payload);
struct Finish;

impl RequestHandler<Enter> for ScopeEnv {
    type Reply = ();
    const KIND: Kind = Kind::Release;
    fn handle(&mut self, _: Enter, caller: Caller<'_, ()>, hidden: &mut Hidden<'_>) {
        self.running += 1;
        hidden.answer(caller, ());
    }
}

impl RequestHandler<Leave> for ScopeEnv {
    type Reply = ();
    const KIND: Kind = Kind::Release;
    fn handle(&mut self, Leave(panic): Leave, caller: Caller<'_, ()>, hidden: &mut Hidden<'_>) {
        self.running -= 1;
        match (&self.panic, panic) {
            (None, Some(first)) => self.panic = Some(first),
            (_, later) => hidden.drop_later(later),
        }
        if self.running == 0 {
            let panic = self.panic.take();
            self.panic = self.waiting.resume_next(panic, hidden).err().flatten();
        }
        hidden.answer(caller, ());
    }
}

impl RequestHandler<Unjoined> for ScopeEnv {
    type Reply = ();
    const KIND: Kind = Kind::Release;
    fn handle(&mut self, Unjoined(panic): Unjoined, caller: Caller<'_, ()>, hidden: &mut Hidden<'_>) {
        match &self.panic {
            None => self.panic = Some(panic),
            Some(_) => hidden.drop_later(panic),
        }
        hidden.answer(caller, ());
    }
}

impl RequestHandler<Finish> for ScopeEnv {
    type Reply = Option<Payload>;
    const KIND: Kind = Kind::Binding;
    fn handle(&mut self, _: Finish, caller: Caller<'_, Self::Reply>, hidden: &mut Hidden<'_>) {
        if self.running == 0 { hidden.answer(caller, self.panic.take()) } else { self.waiting.push(caller, hidden) }
    }
}

impl ScopeHead {
    /// A scope in which the running timeline stands from now on, once [`stand`](ScopeHead::stand) has said so.
    #[track_caller]
    pub(crate) fn open(block: &Block) -> ScopeHead {
        let outer = block.open_scope.get();
        ScopeHead::new(if outer.is_null() { block.around() } else { Around::scope(outer) }, outer, false)
    }

    /// Runs `f` within the scope. For its owner; what runs in the scope has still to be waited for.
    pub(crate) fn stand<T>(&self, block: &Block, f: impl FnOnce() -> T) -> std::thread::Result<T> {
        block.open_scope.set(self);
        let result = catch_unwind(AssertUnwindSafe(f));
        if block.is_cancelled() && !block.has(flag::BINDING) && !crate::panics::unwinding(ctx::get()) {
            // The cancel may have come before this scope was opened; what waits in it would else be waited for in vain.
            self.cancel_now();
        }
        result
    }

    /// Waits until no VP is left in the scope; gives the first panic of one that nobody joined. For its owner.
    #[track_caller]
    pub(crate) fn wait_for_vps(&self) -> Option<Payload> {
        match self.env.request(Finish) {
            Ok(panic) => panic,
            // A binding wait ends by its answer only; and this environment's handlers do not panic.
            Err(ended) => {
                eprintln!("proto-runtime: a scope's end came back without its answer: {ended}");
                std::process::abort()
            }
        }
    }

    /// The scope's owner leaves it.
    pub(crate) fn leave_open(&self, block: &Block) {
        block.open_scope.set(self.outer);
    }

    /// Creates a VP in the scope.
    ///
    /// # Safety
    ///
    /// - Whatever `f` and `T` borrow lives until the scope has ended, and `self` is that scope's.
    pub(crate) unsafe fn spawn<'scope, F, T>(
        &'scope self,
        builder: VpBuilder,
        f: F,
    ) -> Result<ScopedJoinHandle<'scope, T>, SpawnError>
    where
        F: FnOnce() -> T + Send,
        T: Send,
    {
        self.env.release(Enter);
        let (packet, of_vp) = Packet::new();
        // SAFETY: the scope waits until the VP has ended; duty of the caller. If it fails the closure was dropped, which has told the scope.
        let vp = unsafe { builder.spawn_packet(f, of_vp, self) }?;
        Ok(ScopedJoinHandle { handle: JoinHandle::new(packet, vp), scope: self })
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        // ORDERING: Relaxed: told by mail as well (`cancel::sweep_all`), which orders it.
        self.cancelled.load(Ordering::Relaxed)
    }

    /// Marks the scope. `true` if it was not.
    pub(crate) fn cancel(&self) -> bool {
        // ORDERING: as above.
        !self.cancelled.swap(true, Ordering::Relaxed)
    }

    /// Marks the scope and has every core look for its VPs.
    pub(crate) fn cancel_now(&self) {
        // As in `cancel::cancel`: the caller may be an OS thread that nobody knows of.
        let _sender = Somebody::new();
        if self.cancel() {
            cancel::sweep_everywhere();
        }
    }

    pub(crate) fn outer(&self) -> *const ScopeHead {
        self.outer
    }

    #[track_caller]
    fn new(parent: Around, outer: *const ScopeHead, fence: bool) -> Self {
        let env = EnvCell::new(ScopeEnv { running: 0, panic: None, waiting: Waiters::new() });
        ScopeHead { cancelled: AtomicBool::new(false), parent, outer, fence, env }
    }

    /// A mark among the scopes that a timeline stands in, the innermost of which is `outer`. No VP is ever in it.
    pub(crate) fn fence(outer: *const ScopeHead) -> Self {
        Self::new(Around::nothing(), outer, true)
    }

    /// From `scope` outwards: the first scope outside of all fences; null if there is none.
    ///
    /// # Safety
    ///
    /// - `scope` is null or a scope, or fence, that its owner stands in, and that the owner does not leave meanwhile.
    pub(crate) unsafe fn outside_fences(scope: *const ScopeHead) -> *const ScopeHead {
        let (mut outside, mut next) = (scope, scope);
        // SAFETY: the caller's duty; the owner leaves the outer ones later still.
        while let Some(scope) = unsafe { next.as_ref() } {
            next = scope.outer;
            if scope.fence {
                outside = next;
            }
        }
        outside
    }

    /// A VP of this scope has ended. The scope may be gone before this returns, so it is no reference to all of it.
    ///
    /// # Safety
    ///
    /// - `this` is the scope of a VP, which has not left it yet.
    pub(crate) unsafe fn leave(this: *const ScopeHead, panic: Option<Payload>) {
        // SAFETY: the scope waits for that VP, which leaves with this request; an environment may go while its pass returns.
        let env = unsafe { &(*this).env };
        env.release(Leave(panic));
    }
}

/// The memory of a value that lives as long as its scope; see [`Scope::keep`].
struct Kept {
    place: NonNull<u8>,
    layout: Layout,
}

// SAFETY: it is memory that nobody uses any more when this is dropped, and has no thread.
unsafe impl Send for Kept {}

impl Drop for Kept {
    fn drop(&mut self) {
        if self.layout.size() > 0 {
            // SAFETY: `place` came from a box of this layout, and nothing refers to it: its scope has ended.
            unsafe { dealloc(self.place.as_ptr(), self.layout) }
        }
    }
}

/// A place to create VPs that borrow from outside of it. See [`scope`].
///
/// ```
/// use proto_core::{OrUnwind, Scope, ScopedJoinHandle, VpBuilder, scope, sleep_until};
///
/// fn idler<'scope>(s: &'scope Scope<'scope, '_>) -> ScopedJoinHandle<'scope, ()> {
///     s.spawn_with(VpBuilder::new().name("idler"), || sleep_until(None).or_unwind()).expect("there is room")
/// }
/// let words = vec!["a", "b"];
/// scope(|s| {
///     let idler = idler(s);
///     assert_eq!(s.spawn(|| words.len()).join().ok(), Some(2));
///     let idler = idler.join_until(Some(std::time::Instant::now())).expect_err("it sleeps");
///     assert!(!idler.is_finished() && !idler.vp().has_ended());
///     s.cancel().expect("panics unwind here"); // all of the scope that still run
/// });
/// ```
pub struct Scope<'scope, 'env: 'scope> {
    head: ScopeHead,
    /// Freed with the scope, when its VPs have ended.
    kept: Mutex<Vec<Kept>>,
    _scope: PhantomData<&'scope mut &'scope ()>,
    _env: PhantomData<&'env mut &'env ()>,
}

impl fmt::Debug for Scope<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scope").field("cancelled", &self.head.is_cancelled()).finish_non_exhaustive()
    }
}

/// Runs `f` with a scope; returns when `f` has returned and every VP made in the scope has ended.
///
/// # Panics
///
/// If `f` panics, with its payload, after all VPs have ended. Else if a VP panicked whose handle was not joined, with the first
/// such payload; or never ran for want of a stack, with a text that says so. Unwinds if the calling VP was cancelled meanwhile: its VPs were cancelled with it.
///
/// # Examples
///
/// ```
/// let mut numbers = [1, 2, 3];
/// proto_core::scope(|s| {
///     for n in &mut numbers {
///         s.spawn(|| *n *= 10);
///     }
/// });
/// assert_eq!(numbers, [10, 20, 30]);
/// ```
///
/// What is borrowed cannot escape:
///
/// ```compile_fail,E0597
/// proto_core::scope(|s| {
///     let local = 1;
///     let borrowed = &local; // `local` does not live long enough
///     s.spawn(move || println!("{borrowed}"));
/// });
/// ```
#[track_caller]
pub fn scope<'env, F, T>(f: F) -> T
where
    F: for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> T,
{
    match scope_caught(f) {
        (Ok(value), None) => value,
        (Err(payload), _) | (Ok(_), Some(payload)) => crate::resume_unwind(payload),
    }
}

/// As [`scope`], for languages that tell in their own words who panicked: gives what `f` returned or panicked with, and the payload of the first
/// VP that panicked, or never ran, and was not joined.
///
/// # Panics
///
/// Unwinds if the calling VP was cancelled meanwhile and nobody panicked.
///
/// # Examples
///
/// ```
/// let (returned, panicked) = proto_core::scope_caught(|s| {
///     s.spawn(|| panic!("in a VP"));
///     5
/// });
/// assert_eq!(returned.unwrap(), 5);
/// assert!(panicked.unwrap().is::<&str>());
/// ```
#[track_caller]
pub fn scope_caught<'env, F, T>(f: F) -> (std::thread::Result<T>, Option<Payload>)
where
    F: for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> T,
{
    let ctx = ctx::get();
    let block = ctx.current().expect("an assigner or a hook opens no scope");
    let scope =
        Scope { head: ScopeHead::open(block), kept: Mutex::new(Vec::new()), _scope: PhantomData, _env: PhantomData };
    let result = scope.head.stand(block, || f(&scope));
    let panic = scope.head.wait_for_vps();
    scope.head.leave_open(block);
    if result.is_ok() && panic.is_none() {
        cancel::deliver_noted();
    }
    (result, panic)
}

/// Joins a VP of a scope; see [`Scope`], which has an example.
#[derive(Debug)]
pub struct ScopedJoinHandle<'scope, T> {
    handle: JoinHandle<T>,
    scope: &'scope ScopeHead,
}

impl<T> Drop for ScopedJoinHandle<'_, T> {
    fn drop(&mut self) {
        // The VP has told the scope that it ended, but left its panic, or why it never ran, to whoever would join it.
        let outcome = self.handle.detach();
        if let Some(payload) = outcome.and_then(Result::err).and_then(JoinError::into_failure) {
            self.scope.env.release(Unjoined(payload));
        }
    }
}

impl<T> ScopedJoinHandle<'_, T> {
    /// Waits for the VP's end. A binding wait: a cancel of the caller comes after it.
    ///
    /// # Errors
    ///
    /// See [`JoinError`].
    #[track_caller]
    pub fn join(self) -> Result<T, JoinError> {
        let outcome = self.join_noting();
        cancel::deliver_noted();
        outcome
    }

    /// As [`join`](ScopedJoinHandle::join), but leaves a cancel of the caller to be delivered.
    #[track_caller]
    pub(crate) fn join_noting(mut self) -> Result<T, JoinError> {
        self.handle.join_binding()
    }

    /// Waits for the VP's end, until `deadline`; a cancel of the caller ends the wait as well: the scope waits for the VP in any case.
    ///
    /// # Errors
    ///
    /// Gives the handle back if the deadline passed first.
    ///
    /// # Panics
    ///
    /// Unwinds if the calling VP is cancelled meanwhile.
    #[track_caller]
    pub fn join_until(mut self, deadline: Option<Instant>) -> Result<Result<T, JoinError>, Self> {
        self.handle.join_by(deadline).ok_or(self)
    }

    /// The VP.
    pub fn vp(&self) -> crate::VpRef {
        self.handle.vp()
    }

    /// Whether its value is there.
    pub fn is_finished(&self) -> bool {
        self.handle.is_finished()
    }
}

impl<'scope> Scope<'scope, '_> {
    /// Creates a VP that may borrow what outlives the scope.
    ///
    /// Only what is `Sync` may be borrowed:
    ///
    /// ```compile_fail,E0277
    /// let counter = std::cell::Cell::new(0);
    /// proto_core::scope(|s| {
    ///     s.spawn(|| counter.set(1));
    /// });
    /// ```
    ///
    /// # Panics
    ///
    /// If it cannot be created; see [`spawn_with`](Scope::spawn_with).
    #[track_caller]
    pub fn spawn<F, T>(&'scope self, f: F) -> ScopedJoinHandle<'scope, T>
    where
        F: FnOnce() -> T + Send + 'scope,
        T: Send + 'scope,
    {
        match self.spawn_with(VpBuilder::new(), f) {
            Ok(handle) => handle,
            Err(error) => panic!("a VP could not be created: {error}"),
        }
    }

    /// As [`spawn`](Scope::spawn), with a name, stack size, priority or place.
    ///
    /// # Errors
    ///
    /// See [`SpawnError`].
    pub fn spawn_with<F, T>(&'scope self, builder: VpBuilder, f: F) -> Result<ScopedJoinHandle<'scope, T>, SpawnError>
    where
        F: FnOnce() -> T + Send + 'scope,
        T: Send + 'scope,
    {
        // SAFETY: what `f` and `T` borrow outlives the scope.
        unsafe { self.head.spawn(builder, f) }
    }

    /// Keeps `value` as long as the scope: how a language's own scope, a wrapper of this one, gets a reference that lives as long.
    ///
    /// `V` must not need dropping; that is checked when the program is compiled.
    ///
    /// ```
    /// let seen = proto_core::scope(|s| *s.keep(5));
    /// assert_eq!(seen, 5);
    /// ```
    pub fn keep<V: 'scope>(&'scope self, value: V) -> &'scope V {
        const { assert!(!std::mem::needs_drop::<V>(), "a scope frees what it keeps, and drops nothing") };
        let place = NonNull::from(Box::leak(Box::new(value)));
        let kept = Kept { place: place.cast(), layout: Layout::new::<V>() };
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).push(kept);
        // SAFETY: it is freed with the scope, which `'scope` does not outlive, and only shared until then.
        unsafe { place.as_ref() }
    }

    /// Cancels every VP of this scope [design rule 13]; the scope's owner goes on.
    ///
    /// # Errors
    ///
    /// In a `panic=abort` build.
    pub fn cancel(&self) -> Result<(), crate::CannotCancel> {
        cancel::check_possible()?;
        self.head.cancel_now();
        Ok(())
    }
}
