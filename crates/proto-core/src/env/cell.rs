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
use std::mem::{ManuallyDrop, MaybeUninit};
use std::panic::Location;
use std::ptr::{self};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use super::frame::{Frame, To};
use super::hidden::Status;
use super::holders::Holder;
use super::node::Heads;
use super::{InfoOf, Kind, RequestHandler, wait};
use crate::ctx::{self, Ctx, attention};
use crate::ended::Ended;
use crate::kernel::spin::{SpinWord, Version};

/// What every environment has, whatever its type.
///
/// Every byte lies in a cell or is atomic: whoever a pass lets go on may free the environment before the pass has returned, whose `&self` would claim
/// else that what can't change stays there for so long.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct CellHead {
    // 64 bytes that an uncontended request does not touch …
    /// Guarded by `lock`, like all but `id` and `place`.
    pub(crate) heads: Heads,
    /// Drawn when the first queue is made; ties `Waiters` handles to this environment, wherever it is moved.
    id: AtomicU64,
    /// Where it was made: never changes.
    pub(crate) place: Cell<&'static Location<'static>>,
    // … and what every request touches, followed by the value: one line for a lock that is aligned to 64 bytes.
    pub(super) lock: SpinWord,
    pub(super) broken: Cell<bool>,
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
    pub(crate) last: Option<(crate::vp::VpName, u64)>,
}

impl CellHead {
    #[inline(always)]
    pub(crate) fn lock(&self) -> Version {
        self.lock.lock()
    }

    /// As [`lock`](Self::lock), if nobody is inside.
    #[inline(always)]
    pub(super) fn lock_at_once(&self) -> Option<Version> {
        self.lock.lock_at_once()
    }

    /// Returns when nobody is inside: before a second try to [lock](Self::lock), which takes the line from who is.
    pub(super) fn wait_until_free(&self) {
        self.lock.wait_until_free();
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
    #[expect(clippy::mut_from_ref, reason = "the environment's lock makes it exclusive: duty of the caller")]
    pub(crate) unsafe fn cold(&self) -> &mut ColdPart {
        // SAFETY: duty of the caller.
        unsafe { &mut *self.cold.get() }.get_or_insert_default()
    }

    #[cold]
    pub(super) fn broken_message(&self) -> Arc<str> {
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
///
/// To wait not for ever, to give back, and to have the value to oneself:
///
/// ```
/// use std::time::Instant;
///
/// use proto_core::{Caller, Ended, EnvCell, Hidden, Kind, RequestHandler, Waiters};
///
/// struct Seats { free: u32, waiting: Waiters<()> }
/// struct Sit;
/// struct Rise;
/// impl RequestHandler<Sit> for Seats {
///     type Reply = ();
///     fn handle(&mut self, _: Sit, caller: Caller<'_, ()>, hidden: &mut Hidden<'_>) {
///         match self.free.checked_sub(1) {
///             Some(left) => {
///                 self.free = left;
///                 hidden.answer(caller, ());
///             }
///             None => self.waiting.push(caller, hidden),
///         }
///     }
/// }
/// impl RequestHandler<Rise> for Seats {
///     type Reply = ();
///     const KIND: Kind = Kind::Release;
///     fn handle(&mut self, _: Rise, caller: Caller<'_, ()>, hidden: &mut Hidden<'_>) {
///         if self.waiting.resume_next((), hidden).is_err() {
///             self.free += 1;
///         }
///         hidden.answer(caller, ());
///     }
/// }
///
/// let mut seats = EnvCell::new(Seats { free: 1, waiting: Waiters::new() });
/// seats.request(Sit)?;
/// assert_eq!(seats.request_until(Sit, Some(Instant::now())), Err(Ended::Deadline));
/// seats.release(Rise);
/// seats.get_mut().expect("no handler panicked").free += 4;
/// assert_eq!(seats.into_inner().map(|seats| seats.free), Some(5));
/// # Ok::<(), Ended>(())
/// ```
#[repr(C)]
pub struct EnvCell<E> {
    pub(super) head: CellHead,
    pub(super) value: UnsafeCell<ManuallyDrop<E>>,
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
                place: Cell::new(Location::caller()),
            },
            value: UnsafeCell::new(ManuallyDrop::new(value)),
        }
    }

    /// The value, without a lock: nobody else has the cell. `None` if a handler's panic broke it.
    pub fn get_mut(&mut self) -> Option<&mut E> {
        if self.head.broken.get() { None } else { Some(self.value.get_mut()) }
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
        const { assert!(matches!(<E as RequestHandler<R>>::KIND, Kind::Release), "`release` takes Kind::Release requests") };
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
        const { assert!(matches!(<E as RequestHandler<R>>::KIND, Kind::Release), "`release` takes Kind::Release requests") };
        let mut reply = MaybeUninit::<E::Reply>::uninit();
        let to = To::bare(reply.as_mut_ptr());
        // SAFETY: the reply stays in this frame, and a release is answered before its pass ends, or not at all.
        match unsafe { self.pass_current(ctx::get(), request, to, Location::caller()) } {
            // SAFETY: answered: the reply was written, and is read once.
            Ok((Status::Answered, _)) => Some(unsafe { to.reply.read() }),
            _ => None,
        }
    }

    #[inline(always)]
    pub(super) fn request_full<R>(
        &self,
        request: R,
        deadline: Option<Instant>,
        place: &'static Location<'static>,
    ) -> Result<E::Reply, Ended>
    where
        E: RequestHandler<R>,
    {
        let mut frame = Frame::<E::Reply, R>::new();
        let to = Frame::to(&mut frame);
        let ctx = ctx::get();
        // SAFETY: as in `request_adaptive`.
        let (status, _) = unsafe { self.pass_current(ctx, request, to, place) }?;
        if let Status::Answered = status {
            // SAFETY: answered: the reply was written, and is read once.
            return Ok(unsafe { to.reply.read() });
        }
        wait::unanswered(ctx, status, InfoOf::<E, R>::INFO, place, deadline, to.reply.cast())?;
        // SAFETY: `unanswered` says Ok only after the reply was written.
        Ok(unsafe { to.reply.read() })
    }

    /// One pass on behalf of the timeline that runs here.
    ///
    /// # Safety
    ///
    /// - `to` is good for writes of `E::Reply`, and of its room, until the wait of that timeline is over.
    #[inline(always)]
    pub(super) unsafe fn pass_current<R>(
        &self,
        ctx: &'static Ctx,
        request: R,
        to: To<E::Reply>,
        place: &'static Location<'static>,
    ) -> Result<(Status, Version), Ended>
    where
        E: RequestHandler<R>,
    {
        let info = InfoOf::<E, R>::INFO;
        let mut ctx = ctx;
        let seen = ctx.attention();
        if seen & attention::DOOR != 0 {
            wait::door(ctx, seen, info, place)?;
            ctx = ctx::again(ctx);
        }
        let Some(block) = ctx.current() else { wait::misplaced_request(ctx, info) };
        // SAFETY: `block` runs here; the rest is the caller's duty.
        unsafe { self.pass(ctx, block, to, request, place, ptr::null_mut(), seen) }
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
        f.debug_struct("EnvCell").field("made_at", &self.head.place.get()).finish_non_exhaustive()
    }
}
