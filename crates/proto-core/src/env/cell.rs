//! An environment and its spinlock, and the pass of a request through it.
//!
//! # The pass
//!
//! ```text
//!   door (attention != 0?) → lock: swap → handler → unlock: store → what was left for after the unlock
//!                                            │
//!             answered: return the reply  ◄──┴──►  not answered: switch to the controller (`wait`)
//! ```
//!
//! Uncontended and answered at once, that is one exchange, a few loads, one store, no call [design rule 3]. The handler runs on the
//! requester's own stack.
//!
//! # The dangerous race
//!
//! After the unlocking store another timeline may pass, find that it was the last to need the object, and free it. So nothing of the
//! cell is touched after that store: what is left to do (`after`) names no cell but those that the waiting requester borrows.
//! The same holds for the frame of a timeline that was answered: it goes on once it has been made ready, so making ready is the
//! last thing that is done with it.
//!
//! # When a handler panics
//!
//! The environment is broken: its value is moved out under the lock and dropped after it, all its waiters and all later requests are
//! answered [`Ended::Broken`] with the first panic's message [design rule 12]. Release requests are served as no-ops.

use std::cell::{Cell, UnsafeCell};
use std::fmt;
use std::marker::PhantomData;
use std::mem::{ManuallyDrop, MaybeUninit};
use std::panic::{AssertUnwindSafe, Location, catch_unwind};
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use super::hidden::{Hidden, Origin, Status};
use super::holders::Holder;
use super::node::Heads;
use super::token::Caller;
use super::{InfoOf, Kind, RequestHandler, wait};
use crate::ctx::{self, Ctx, attention};
use crate::ended::{Ended, payload_text};
use crate::hooks;
use crate::kernel::spin::{SpinWord, Version};
use crate::kernel::wait::{End, Forward};
use crate::runtime::controller;
use crate::vp::block::Block;

/// What every environment has, whatever its type.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct CellHead {
    // 64 bytes that an uncontended request does not touch …
    /// Guarded by `lock`, like all but `id` and `place`.
    pub(crate) heads: Heads,
    /// Drawn when the first queue is made; ties `Waiters` handles to this environment, wherever it is moved.
    id: AtomicU64,
    pub(crate) place: &'static Location<'static>,
    // … and what every request touches, followed by the value: one line for a lock that is aligned to 64 bytes.
    lock: SpinWord,
    broken: Cell<bool>,
    pub(crate) holder: Holder,
    pub(crate) cold: UnsafeCell<Option<Box<ColdPart>>>,
}

/// What few objects have.
#[derive(Debug, Default)]
pub(crate) struct ColdPart {
    pub(crate) message: Option<Arc<str>>,
    /// For people: who requested something here first while hooks were on, and with which of its requests [design rule 9].
    pub(crate) name: Option<(crate::vp::VpName, u64)>,
    /// For the order log: the last request, while hooks are on.
    pub(crate) last: Option<(u64, u64)>,
}

impl CellHead {
    #[inline(always)]
    pub(crate) fn lock(&self) -> Version {
        self.lock.lock()
    }

    #[inline(always)]
    pub(crate) fn unlock(&self, version: Version) -> Version {
        self.lock.unlock(version)
    }

    /// The number that ties queues to this environment. Under the lock.
    pub(crate) fn id(&self) -> u64 {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        // ORDERING: Relaxed: written and read under the environment's lock; atomic only so that the cell is `Sync`.
        match self.id.load(Ordering::Relaxed) {
            0 => {
                // ORDERING: only uniqueness matters.
                let id = NEXT.fetch_add(1, Ordering::Relaxed);
                self.id.store(id, Ordering::Relaxed);
                id
            }
            id => id,
        }
    }

    /// The cold part, made when first asked for.
    ///
    /// # Safety
    ///
    /// - The lock is held, and no other reference to the cold part is alive.
    #[expect(
        clippy::mut_from_ref,
        reason = "the environment's lock makes it exclusive: duty of the caller"
    )]
    pub(crate) unsafe fn cold(&self) -> &mut ColdPart {
        // SAFETY: duty of the caller.
        unsafe { &mut *self.cold.get() }.get_or_insert_default()
    }

    #[cold]
    fn broken_message(&self) -> Arc<str> {
        // SAFETY: called under the lock, for the length of this expression.
        let cold = unsafe { self.cold() };
        cold.message.clone().unwrap_or_else(|| Arc::from("its value is gone"))
    }
}

/// An environment: a value of the language, guarded by one spinlock, to which timelines send requests.
///
/// The value is reached in one way only: by a [request](EnvCell::request) that one of its
/// [handlers](RequestHandler) serves. A cell may be a `static`, lie in a user's object (each mutex has one), or belong to a
/// language in a process. Moving a cell that nobody borrows is fine.
///
/// # Examples
///
/// ```
/// use proto_core::{Caller, EnvCell, Hidden, RequestHandler};
///
/// struct Counter(u64);
/// struct Add(u64);
/// impl RequestHandler<Add> for Counter {
///     type Reply = u64;
///     fn handle(&mut self, Add(n): Add, caller: Caller<'_, u64>, hidden: &mut Hidden<'_>) {
///         self.0 += n;
///         hidden.answer(caller, self.0);
///     }
/// }
///
/// static COUNTER: EnvCell<Counter> = EnvCell::new(Counter(0));
/// assert_eq!(COUNTER.request(Add(2)), Ok(2));
/// assert_eq!(COUNTER.request(Add(3)), Ok(5));
/// ```
#[repr(C)]
pub struct EnvCell<E> {
    head: CellHead,
    value: UnsafeCell<ManuallyDrop<E>>,
}

// SAFETY: the value is touched only under the spinlock, by one thread at a time, which is sending it (`E: Send`) to and
// fro; the head's fields are guarded by the same lock or atomic.
unsafe impl<E: Send> Sync for EnvCell<E> {}
// SAFETY: moving the cell moves the value; the head holds no thread's own things (nodes are linked only while the cell is borrowed).
unsafe impl<E: Send> Send for EnvCell<E> {}

impl<E> std::panic::UnwindSafe for EnvCell<E> {}
impl<E> std::panic::RefUnwindSafe for EnvCell<E> {}

impl<E> EnvCell<E> {
    /// Makes an environment. The place of the call is what reports name the object by.
    #[track_caller]
    pub const fn new(value: E) -> EnvCell<E> {
        EnvCell {
            head: CellHead {
                lock: SpinWord::new(),
                broken: Cell::new(false),
                holder: Holder::new(),
                heads: Heads::new(),
                cold: UnsafeCell::new(None),
                id: AtomicU64::new(0),
                place: Location::caller(),
            },
            value: UnsafeCell::new(ManuallyDrop::new(value)),
        }
    }

    /// The value, without a lock: nobody else has the cell. `None` if a handler's panic broke it.
    pub fn get_mut(&mut self) -> Option<&mut E> {
        if self.head.broken.get() {
            None
        } else {
            Some(self.value.get_mut())
        }
    }

    /// Takes the value out. `None` if a handler's panic broke the environment.
    pub fn into_inner(self) -> Option<E> {
        let mut this = ManuallyDrop::new(self);
        // SAFETY: `this` is never used again, so the cold part is dropped once.
        unsafe { ptr::drop_in_place(&mut this.head.cold) };
        if this.head.broken.get() {
            return None;
        }
        // SAFETY: not broken, so the value is there; `this` is never dropped.
        Some(unsafe { ManuallyDrop::take(this.value.get_mut()) })
    }

    /// Sends `request` and waits for its reply.
    ///
    /// The calling timeline (a VP, or any OS thread, which is attached by this) stands still until it is answered. While a VP waits,
    /// its core runs other work.
    ///
    /// # Errors
    ///
    /// See [`Ended`]. A [`Kind::Abandonable`] request may be cancelled; call [`Ended::unwind_if_cancelled`] if the construct cannot report that.
    ///
    /// # Panics
    ///
    /// If the calling code is itself a handler or an assigner (it would wait for itself), naming both.
    #[inline(always)]
    #[track_caller]
    pub fn request<R>(&self, request: R) -> Result<E::Reply, Ended>
    where
        E: RequestHandler<R>,
    {
        self.request_full(request, None, Location::caller())
    }

    /// As [`request`](EnvCell::request), and gives up at `deadline` with [`Ended::Deadline`]. `None` waits for ever.
    ///
    /// # Errors
    ///
    /// See [`Ended`].
    #[inline]
    #[track_caller]
    pub fn request_until<R>(&self, request: R, deadline: Option<Instant>) -> Result<E::Reply, Ended>
    where
        E: RequestHandler<R>,
    {
        self.request_full(request, deadline, Location::caller())
    }

    /// Sends a [`Kind::Release`] request: never fails, never waits.
    #[inline(always)]
    #[track_caller]
    pub fn release<R>(&self, request: R)
    where
        E: RequestHandler<R, Reply = ()>,
    {
        const {
            assert!(
                matches!(<E as RequestHandler<R>>::KIND, Kind::Release),
                "`release` takes Kind::Release requests"
            )
        };
        let _ = self.release_asking(request);
    }

    /// As [`release`](EnvCell::release), where the reply says something. `None` if the environment is broken.
    ///
    /// # Examples
    ///
    /// ```
    /// use proto_core::{Caller, EnvCell, Hidden, Kind, RequestHandler};
    ///
    /// struct Seats(u32);
    /// struct Leave;
    /// impl RequestHandler<Leave> for Seats {
    ///     type Reply = u32;
    ///     const KIND: Kind = Kind::Release;
    ///     fn handle(&mut self, _: Leave, caller: Caller<'_, u32>, hidden: &mut Hidden<'_>) {
    ///         self.0 += 1;
    ///         hidden.answer(caller, self.0);
    ///     }
    /// }
    /// assert_eq!(EnvCell::new(Seats(1)).release_asking(Leave), Some(2));
    /// ```
    #[inline(always)]
    #[track_caller]
    pub fn release_asking<R>(&self, request: R) -> Option<E::Reply>
    where
        E: RequestHandler<R>,
    {
        const {
            assert!(
                matches!(<E as RequestHandler<R>>::KIND, Kind::Release),
                "`release` takes Kind::Release requests"
            )
        };
        let mut reply = MaybeUninit::<E::Reply>::uninit();
        // SAFETY: the reply stays in this frame, and a release is answered before its pass ends, or not at all.
        match unsafe { self.pass_current(ctx::get(), request, reply.as_mut_ptr(), Location::caller()) } {
            // SAFETY: answered: the reply was written, and is read once.
            Ok((Status::Answered, _)) => Some(unsafe { reply.assume_init() }),
            _ => None,
        }
    }

    /// Sends the request that `make` gives, again and again while the handler [asks for it](Hidden::try_again) and the
    /// environment's holder runs on another core, for a bounded time; then `make(true)`, whose handler must not ask again.
    ///
    /// This is how a lock spins before it queues: the wait is for the holder's next pass, watched without writing.
    ///
    /// # Errors
    ///
    /// See [`Ended`].
    #[inline(always)]
    #[track_caller]
    pub fn request_adaptive<R>(&self, make: impl Fn(bool) -> R, deadline: Option<Instant>) -> Result<E::Reply, Ended>
    where
        E: RequestHandler<R>,
    {
        let place = Location::caller();
        let mut reply = MaybeUninit::<E::Reply>::uninit();
        // One pointer for handler, resumer and the way back: another borrow of `reply` in between would end theirs.
        let to = reply.as_mut_ptr();
        let ctx = ctx::get();
        // SAFETY: `reply` stays in this frame, and is used by its pointer only, until the wait is over.
        match unsafe { self.pass_current(ctx, make(false), to, place) }? {
            // SAFETY: answered: the reply was written, and is read once.
            (Status::Answered, _) => Ok(unsafe { reply.assume_init() }),
            (Status::TryAgain, seen) => self.request_adaptive_slow(ctx, seen, make, deadline, place),
            (status, _) => {
                self.wait_out_of_line::<R>(ctx, status, deadline, place, to)?;
                // SAFETY: that says Ok only after the reply was written.
                Ok(unsafe { reply.assume_init() })
            }
        }
    }

    /// What [`wait::unanswered`] does, out of the way of a fast path that seldom comes here.
    #[cold]
    #[inline(never)]
    fn wait_out_of_line<R>(
        &self,
        ctx: &'static Ctx,
        status: Status,
        deadline: Option<Instant>,
        place: &'static Location<'static>,
        to: *mut E::Reply,
    ) -> Result<(), Ended>
    where
        E: RequestHandler<R>,
    {
        wait::unanswered(ctx, status, InfoOf::<E, R>::INFO, place, deadline, to.cast())
    }

    #[cold]
    #[inline(never)]
    fn request_adaptive_slow<R>(
        &self,
        ctx: &'static Ctx,
        mut seen: Version,
        make: impl Fn(bool) -> R,
        deadline: Option<Instant>,
        place: &'static Location<'static>,
    ) -> Result<E::Reply, Ended>
    where
        E: RequestHandler<R>,
    {
        let mut budget = wait::SpinBudget::new();
        while budget.spin_until_changed(&self.head.lock, seen) {
            let mut reply = MaybeUninit::<E::Reply>::uninit();
            let to = reply.as_mut_ptr();
            // SAFETY: as in `request_adaptive`.
            match unsafe { self.pass_current(ctx, make(false), to, place) }? {
                // SAFETY: answered: the reply was written, and is read once.
                (Status::Answered, _) => return Ok(unsafe { reply.assume_init() }),
                (Status::TryAgain, now) => seen = now,
                (status, _) => {
                    wait::unanswered(ctx, status, InfoOf::<E, R>::INFO, place, deadline, to.cast())?;
                    // SAFETY: `unanswered` says Ok only after the reply was written.
                    return Ok(unsafe { reply.assume_init() });
                }
            }
        }
        self.request_full(make(true), deadline, place)
    }

    #[inline(always)]
    fn request_full<R>(
        &self,
        request: R,
        deadline: Option<Instant>,
        place: &'static Location<'static>,
    ) -> Result<E::Reply, Ended>
    where
        E: RequestHandler<R>,
    {
        let mut reply = MaybeUninit::<E::Reply>::uninit();
        let to = reply.as_mut_ptr();
        let ctx = ctx::get();
        // SAFETY: as in `request_adaptive`.
        let (status, _) = unsafe { self.pass_current(ctx, request, to, place) }?;
        if let Status::Answered = status {
            // SAFETY: answered: the reply was written, and is read once.
            return Ok(unsafe { reply.assume_init() });
        }
        wait::unanswered(ctx, status, InfoOf::<E, R>::INFO, place, deadline, to.cast())?;
        // SAFETY: `unanswered` says Ok only after the reply was written.
        Ok(unsafe { reply.assume_init() })
    }

    /// One pass on behalf of the timeline that runs here.
    ///
    /// # Safety
    ///
    /// - `reply` is good for writes of `E::Reply` until the wait of that timeline is over.
    #[inline(always)]
    unsafe fn pass_current<R>(
        &self,
        ctx: &'static Ctx,
        request: R,
        reply: *mut E::Reply,
        place: &'static Location<'static>,
    ) -> Result<(Status, Version), Ended>
    where
        E: RequestHandler<R>,
    {
        let info = InfoOf::<E, R>::INFO;
        let seen = ctx.attention();
        if seen & attention::DOOR != 0 {
            wait::door(ctx, seen, info, place)?;
        }
        let Some(block) = ctx.current() else {
            wait::misplaced_request(ctx, info)
        };
        // SAFETY: `block` runs here; the rest is the caller's duty.
        unsafe { self.pass(ctx, block, reply, request, place, ptr::null_mut(), seen) }
    }

    /// One pass: lock, handler, unlock, and what was left for after the unlock. Gives the lock word's version as well, for who has to
    /// try again.
    ///
    /// # Safety
    ///
    /// - `block` is the timeline that runs on this OS thread; or `origin` is a forwarded one, of a wait of `block` that is claimed and whose
    ///   frame borrows `self`.
    /// - `reply` is good for writes of `E::Reply` until the wait of `block` is over.
    /// - `origin` is null or points at an [`Origin`] that nobody else uses until this returns.
    #[inline(always)]
    pub(crate) unsafe fn pass<R>(
        &self,
        ctx: &'static Ctx,
        block: &'static Block,
        reply: *mut E::Reply,
        request: R,
        place: &'static Location<'static>,
        origin: *mut Origin,
        seen: u32,
    ) -> Result<(Status, Version), Ended>
    where
        E: RequestHandler<R>,
    {
        let info = InfoOf::<E, R>::INFO;
        if ctx.in_handler.get().is_some() {
            wait::misplaced_request(ctx, info)
        }
        let version = self.head.lock();
        if self.head.broken.get() {
            let message = self.head.broken_message();
            self.head.unlock(version);
            return Err(Ended::Broken(message));
        }
        ctx.in_handler.set(Some(info));
        if origin.is_null() {
            block.requests.set(block.requests.get() + 1);
        }
        if seen & attention::HOOKS != 0 {
            hooks::request(&self.head, block, info, place);
        }
        let mut place_of_hidden = MaybeUninit::uninit();
        let hidden = Hidden::begin(&mut place_of_hidden, &self.head, origin);
        let caller = Caller::new(block, reply, place);
        let outcome = if const { <E as RequestHandler<R>>::UNWINDS } {
            let unwinding = Unwinding {
                cell: self,
                ctx,
                version,
                hidden: &raw mut *hidden,
                requester: block,
            };
            // SAFETY: the spinlock is held and the environment is not broken.
            let value = unsafe { &mut *self.value.get() };
            value.handle(request, caller, hidden);
            std::mem::forget(unwinding);
            Ok(())
        } else {
            catch_unwind(AssertUnwindSafe(|| {
                // SAFETY: the spinlock is held and the environment is not broken.
                let value = unsafe { &mut *self.value.get() };
                value.handle(request, caller, hidden);
            }))
        };
        ctx.in_handler.set(None);
        if let Err(payload) = outcome {
            let message = Arc::from(payload_text(&*payload));
            let broken = self.break_down(ctx, version, hidden, block, message);
            let in_select = matches!(hidden.origin(), Some(Origin::Branch(_)));
            match hidden.status {
                // It panicked after it had made its caller wait: who ends that wait makes the caller ready, so it has to stand.
                Status::Queued if !in_select => return Ok((Status::Queued, version)),
                Status::Answered => {
                    // SAFETY: the reply was written, and nobody else will read it.
                    drop_user_value(unsafe { reply.read() });
                }
                _ => {}
            }
            return Err(broken);
        }
        // Who has to try again watches for a pass after this one.
        let version = self.head.unlock(version);
        // From here on `self` may be gone, unless the requester is known to wait still.
        let status = hidden.status;
        if hidden.has_after() {
            hidden.run_after(ctx);
        }
        Ok((status, version))
    }

    /// As [`pass`](EnvCell::pass), for a wait of `block` that is being forwarded here; ends that wait unless it was queued again.
    ///
    /// # Safety
    ///
    /// - The wait of `block` is claimed by `forward`, and its frame borrows `self`.
    /// - `reply` is good for writes of `E::Reply` until that wait is over.
    pub(crate) unsafe fn pass_forwarded<R>(
        &self,
        ctx: &'static Ctx,
        block: &'static Block,
        reply: *mut E::Reply,
        request: R,
        place: &'static Location<'static>,
        forward: Forward,
    ) where
        E: RequestHandler<R>,
    {
        let mut origin = Origin::Forwarded {
            forward: Some(forward),
            recheck: false,
        };
        // SAFETY: duties of the caller; `origin` is this frame's.
        let status = unsafe { self.pass(ctx, block, reply, request, place, &raw mut origin, ctx.attention()) };
        // From here on `self` may be gone, unless `forward` is still there: then the frame that borrows it waits.
        let Origin::Forwarded { forward, recheck } = origin else {
            unreachable!("nobody changes the kind of an origin")
        };
        let Some(forward) = forward else {
            if recheck {
                controller::recheck(ctx, block);
            }
            return;
        };
        match status {
            Ok((Status::Answered, _)) => {
                let claim = block.wait.claim_forwarded(forward);
                block.wait.publish(claim);
            }
            Err(Ended::Broken(message)) => {
                wait::leave_message(block, &message);
                block.wait.end_forwarded(forward, End::Broken);
            }
            _ => block.wait.end_forwarded(forward, End::Abandoned),
        }
        wait::schedule(ctx, block);
    }

    /// A handler panicked: breaks the environment. Called with the lock held.
    #[cold]
    #[inline(never)]
    fn break_down(
        &self,
        ctx: &'static Ctx,
        version: Version,
        hidden: &mut Hidden<'_>,
        requester: &'static Block,
        message: Arc<str>,
    ) -> Ended {
        self.head.broken.set(true);
        // SAFETY: the lock is held; no other reference to the cold part is alive.
        unsafe { self.head.cold() }.message = Some(Arc::clone(&message));
        // SAFETY: the lock is held, and `broken` keeps everybody from the value from now on.
        let value = unsafe { ptr::read(self.value.get()) };
        let waiters = wait::break_all(&self.head, &message, requester, hidden);
        self.head.unlock(version);
        for block in waiters {
            hidden.wake(block);
        }
        hidden.run_after(ctx);
        // The value is the language's, but may hold what users gave: its drop is user code, and may panic as such.
        drop_user_value(ManuallyDrop::into_inner(value));
        crate::panics::replay_deferred(&message);
        Ended::Broken(message)
    }
}

/// In a pass whose handler [unwinds](RequestHandler::UNWINDS): what happens if it does.
struct Unwinding<'a, 'h, E> {
    cell: &'a EnvCell<E>,
    ctx: &'static Ctx,
    version: Version,
    hidden: *mut Hidden<'h>,
    requester: &'static Block,
}

impl<E> Drop for Unwinding<'_, '_, E> {
    /// Inlined, and hands its fields on by value: so they need no place in memory unless it comes to this.
    #[inline(always)]
    fn drop(&mut self) {
        unwound(self.cell, self.ctx, self.version, self.hidden, self.requester);
    }
}

#[cold]
#[inline(never)]
fn unwound<E>(
    cell: &EnvCell<E>,
    ctx: &'static Ctx,
    version: Version,
    hidden: *mut Hidden<'_>,
    requester: &'static Block,
) {
    ctx.in_handler.set(None);
    // SAFETY: the pass's own, and the handler that had borrowed it is gone.
    let hidden = unsafe { &mut *hidden };
    cell.break_down(ctx, version, hidden, requester, crate::panics::deferred_text());
    if hidden.status == Status::Queued {
        eprintln!("proto-runtime: a handler that unwinds panicked after it had queued its caller");
        std::process::abort();
    }
}

/// Drops a value whose destructor may panic, where nothing may unwind.
fn drop_user_value<T>(value: T) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(|| drop(value))) {
        crate::panics::nobody_catches(payload);
    }
}

impl<E> Drop for EnvCell<E> {
    fn drop(&mut self) {
        if !self.head.broken.get() {
            // SAFETY: not broken, so the value is there, and nobody else has the cell.
            unsafe { ManuallyDrop::drop(self.value.get_mut()) }
        }
    }
}

impl<E> fmt::Debug for EnvCell<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EnvCell")
            .field("made_at", &self.head.place)
            .finish_non_exhaustive()
    }
}

/// The name of an environment that a requester borrows, carried by its request.
///
/// How a condition variable names its mutex: the wait's request carries a loan of the mutex's environment, so that the
/// condition variable's handlers may [post](Hidden::post) its release and [forward](Hidden::forward) the waiter to it.
/// A loan is usable only together with the token of the timeline that lent it, and only while that timeline waits: that
/// is what keeps the borrowed environment alive.
pub struct Loan<E> {
    pub(crate) cell: NonNull<EnvCell<E>>,
    pub(crate) block: &'static Block,
    /// Which request of the lender this loan goes with, and which timeline the lender is.
    pub(crate) request: u64,
    pub(crate) birth: u64,
    _marker: PhantomData<fn(E)>,
}

// SAFETY: a loan is an address and two numbers; using it goes through the cell's lock, and the cell is `Sync` for Send environments.
unsafe impl<E: Send> Send for Loan<E> {}

impl<E> fmt::Debug for Loan<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Loan").finish_non_exhaustive()
    }
}

impl<E> EnvCell<E> {
    /// Sends to `self` a request that carries a loan of `lent`, and waits for the reply.
    ///
    /// # Errors
    ///
    /// See [`Ended`].
    #[inline]
    #[track_caller]
    pub fn request_lending<L, R>(
        &self,
        lent: &EnvCell<L>,
        make: impl FnOnce(Loan<L>) -> R,
        deadline: Option<Instant>,
    ) -> Result<E::Reply, Ended>
    where
        E: RequestHandler<R>,
    {
        let place = Location::caller();
        let ctx = ctx::get();
        let info = InfoOf::<E, R>::INFO;
        let Some(block) = ctx.current() else {
            wait::misplaced_request(ctx, info)
        };
        let loan = Loan {
            cell: NonNull::from(lent),
            block,
            request: block.requests.get() + 1,
            birth: block.birth(),
            _marker: PhantomData,
        };
        self.request_full(make(loan), deadline, place)
    }
}
