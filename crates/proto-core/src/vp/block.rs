//! The control block of a timeline: a virtual processor, or an attached OS thread.
//!
//! Blocks are **type-stable**: they come from [`slab`](super::slab), are used again for other timelines, and are never
//! freed. So a `&'static Block` may be kept by anybody for ever; what it then says is checked by a number:
//! the *birth* number (which timeline is this?) and the generation in the wait word (which wait is this?).
//!
//! # Life of a block
//!
//! ```text
//!   free ──born──► unstarted ──a core takes it──► running ◄──────────────┐
//!    ▲                │ dropped unstarted            │ request not        │ the controller
//!    │                ▼                              │ answered, yield    │ switches to it
//!    └──────────── ended ◄──closure returned─────────┤                    │
//!                                                    └──► waiting ──► ready
//! ```
//!
//! # Who may touch what
//!
//! | fields | rule |
//! |---|---|
//! | `wait` | the protocol of `kernel::wait` |
//! | `link` | whoever ended the timeline's wait, until that made it ready (an OS thread), or its home core took it out of the inbox |
//! | `ready`, `parker` | the OS thread that waits, and whoever ended its wait |
//! | `phase` (closure, then the wait's queue node) | the creator until it hands the work over; then the home core; the node's links belong to the environment it is queued in, under that environment's lock |
//! | cells | the OS thread that runs the timeline or, while it does not run, its home core; for a VP that may migrate, by [`Block::at_home`] |
//! | atomics below `birth` | written by the former; read by reports as hints |
//!
//! The dangerous race is a late reader: a token or a report that meets a block already used for another timeline. Tokens
//! carry the wait's generation and lose; reports compare the birth number before and after.

mod inline;

use std::cell::{Cell, UnsafeCell};
use std::mem::{ManuallyDrop, offset_of};
use std::panic::Location;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU32, AtomicU64, Ordering};

use proto_arch::fiber::Fiber;
use proto_arch::park::Parker;

use crate::assign::instance::Instance;
use crate::env::Info;
use crate::env::node::Node;
use crate::kernel::ends::Of;
use crate::kernel::inbox::Link;
use crate::kernel::wait::WaitWord;
use crate::process::ProcessInner;
use crate::runtime::core::Core;
use crate::scope::{Around, ScopeHead};
use crate::task::JobHead;
use crate::vp::extra::Extra;
use crate::vp::start::Start;

/// Bits of [`Block::flags`].
pub(crate) mod flag {
    /// The timeline is an attached OS thread, not a VP.
    pub(crate) const THREAD: u32 = 1 << 0;
    /// The VP was cancelled before its start: its closure is dropped unrun, on its own stack.
    pub(crate) const UNRUN: u32 = 1 << 1;
    /// The VP runs a closure in which all its waits are binding (`cancel::binding`).
    pub(crate) const BINDING: u32 = 1 << 2;
    /// The VP unwinds because it was cancelled (and not because of a panic).
    pub(crate) const CANCELLING: u32 = 1 << 3;
    /// The process does not wait for this VP.
    pub(crate) const DAEMON: u32 = 1 << 4;
    /// The VP's stack may move between cores (`unsafe` opt-in).
    pub(crate) const MIGRATABLE: u32 = 1 << 5;
    /// The VP's panic hook ran and its unwinding has not been seen to end.
    pub(crate) const PANICKING: u32 = 1 << 7;
    /// A latent task of the VP is, or was, run elsewhere.
    pub(crate) const LENT: u32 = 1 << 6;
    /// The place where the VP runs was asked for (`home`, `near`), so nobody takes it elsewhere unstarted.
    pub(crate) const PLACED: u32 = 1 << 9;
}

/// Bits of [`Block::mode`]: what kind of wait the timeline stands in. Its own, or its home core's.
pub(crate) mod mode {
    /// A cancel ends this wait; otherwise it is binding: a cancel is noted and delivered after it.
    pub(crate) const ABANDONABLE: u8 = 1 << 0;
    /// The wait has a deadline, and an entry among its core's timers.
    pub(crate) const TIMED: u8 = 1 << 1;
}

/// How many path steps a name holds without an allocation.
pub(crate) const INLINE_PATH: usize = 4;

/// One piece of memory: before the start it holds the closure, afterwards the queue node of the waits.
pub(crate) union Phase {
    start: ManuallyDrop<Start>,
    node: ManuallyDrop<Node>,
}

/// See the head of this file.
#[repr(C, align(64))]
pub(crate) struct Block {
    // The first line: what birth, start, switch and end of every VP touch …
    home: AtomicPtr<Core>,
    fiber: AtomicPtr<Fiber>,
    process: AtomicPtr<ProcessInner>,
    pub(crate) instance: Cell<*const Instance>,
    pub(crate) flags: AtomicU32,
    pub(crate) priority: Cell<u8>,
    pub(crate) depth: Cell<u8>,
    pub(crate) stack_class: Cell<u8>,
    /// Bits of [`mode`] for the current wait.
    pub(crate) mode: Cell<u8>,
    /// Requests made so far: "the n-th request of this timeline".
    pub(crate) requests: Cell<u64>,
    /// Odd while the block is a timeline, even while it is free; never goes back.
    pub(crate) birth: AtomicU64,
    /// Name given by the user, long path, VP-locals, timer key, environments: what most timelines do not have.
    pub(crate) extra: AtomicPtr<Extra>,

    // … the second, and a part of the third: the closure before the start, the node of a wait afterwards …
    phase: UnsafeCell<Phase>,

    /// (parent, n-th child): the last steps of the path; all of it unless the name is long (see `extra`).
    pub(crate) path: [AtomicU32; INLINE_PATH],
    /// The number of its process, for names: whoever reads one may come when the process is gone. (Its lower half: nobody tells four
    /// thousand million processes apart.)
    process_number: AtomicU32,
    pub(crate) children: Cell<u32>,
    /// What this timeline belongs to ([`Around`]).
    scope: AtomicPtr<()>,
    /// The birth number of the life that is to end; see `cancel`.
    pub(crate) cancel_for: AtomicU64,
    /// Objects this timeline holds (acquired minus released), for reports about those it leaves locked.
    pub(crate) held: AtomicI32,
    /// The lower half of the lowest address of a frame in which a task may be run as a call. Set when it starts.
    floor: Cell<u32>,

    // … the last: what only timelines touch that wait, fork or open scopes.
    pub(crate) wait: WaitWord,
    pub(crate) link: Link,
    /// Where, and in which construct, the timeline last waited.
    place: AtomicPtr<Location<'static>>,
    info: AtomicPtr<Info>,
    /// The latent task that runs inline on this timeline; else, and at its end, [`root_job`](Block::root_job).
    inline_job: Cell<*const JobHead>,
    /// The innermost scope it stands in; null at its end.
    pub(crate) open_scope: Cell<*const ScopeHead>,
    pub(crate) extra_lock: AtomicBool,
    /// Held while the VP is taken to another core, and by the controller of its home while that looks at it ([`at_home`](Block::at_home)).
    moving: AtomicBool,
    /// Whoever ended the wait of this attached OS thread is done with it: it may go on. See `runtime::attach`.
    pub(crate) ready: AtomicBool,
    /// Coarse clock, milliseconds: when the current wait began.
    pub(crate) since: AtomicU32,
    /// Fair selects begun so far.
    selects: Cell<u32>,
    /// What an attached OS thread sleeps on.
    pub(crate) parker: Parker,
}

const _: () = assert!(size_of::<Block>() == 256, "a control block is four cache lines");
const _: () = assert!(offset_of!(Block, phase) == 64, "the first line holds what every switch touches");
const _: () = assert!(offset_of!(Block, wait) == 192, "a life without a wait touches three lines");

// SAFETY: the table in the head says who may touch each field; the cells are touched by one OS thread at a time, handed
// over with the timeline itself (inbox, assigner, baton), which orders the accesses.
unsafe impl Sync for Block {}
// SAFETY: as above.
unsafe impl Send for Block {}

impl std::fmt::Debug for Block {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Block").field("birth", &self.birth).field("flags", &self.flags).finish_non_exhaustive()
    }
}

impl Block {
    pub(crate) fn free() -> Block {
        Block {
            home: AtomicPtr::new(ptr::null_mut()),
            fiber: AtomicPtr::new(ptr::null_mut()),
            process: AtomicPtr::new(ptr::null_mut()),
            instance: Cell::new(ptr::null()),
            flags: AtomicU32::new(0),
            priority: Cell::new(0),
            depth: Cell::new(0),
            stack_class: Cell::new(0),
            mode: Cell::new(0),
            requests: Cell::new(0),
            birth: AtomicU64::new(0),
            extra: AtomicPtr::new(ptr::null_mut()),
            phase: UnsafeCell::new(Phase { node: ManuallyDrop::new(Node::new()) }),
            path: [const { AtomicU32::new(0) }; INLINE_PATH],
            process_number: AtomicU32::new(0),
            children: Cell::new(0),
            scope: AtomicPtr::new(ptr::null_mut()),
            cancel_for: AtomicU64::new(0),
            held: AtomicI32::new(0),
            floor: Cell::new(0),
            wait: WaitWord::new(),
            link: Link::new(),
            place: AtomicPtr::new(ptr::null_mut()),
            info: AtomicPtr::new(ptr::null_mut()),
            inline_job: Cell::new(ptr::null()),
            open_scope: Cell::new(ptr::null()),
            extra_lock: AtomicBool::new(false),
            moving: AtomicBool::new(false),
            ready: AtomicBool::new(false),
            since: AtomicU32::new(0),
            selects: Cell::new(0),
            parker: Parker::new(),
        }
    }

    /// The queue node of this timeline's plain waits.
    ///
    /// # Safety
    ///
    /// - The timeline has started, or is an attached OS thread: the phase holds a node.
    #[inline(always)]
    pub(crate) unsafe fn node(&self) -> &Node {
        // SAFETY: the caller says that the node is there; all of it is interior-mutable.
        unsafe { &*self.phase.get().cast::<Node>() }
    }

    /// Puts the closure of a VP that is being born into the block.
    ///
    /// # Safety
    ///
    /// - The caller owns the unstarted block, and no closure is in it.
    pub(crate) unsafe fn put_start(&self, start: Start) {
        let phase = Phase { start: ManuallyDrop::new(start) };
        // SAFETY: the caller owns the block; a node needs no drop.
        unsafe { self.phase.get().write(phase) };
    }

    /// Puts a fresh node into the block of an OS thread.
    ///
    /// # Safety
    ///
    /// - The caller owns the block, and no closure is in it.
    pub(crate) unsafe fn put_node(&self) {
        // SAFETY: the caller owns the block; a node needs no drop.
        unsafe { self.phase.get().write(Phase { node: ManuallyDrop::new(Node::new()) }) };
    }

    /// Takes the closure out and leaves a fresh node.
    ///
    /// # Safety
    ///
    /// - The caller owns the block, and `put_start` was called since the last `take_start`.
    #[inline]
    pub(crate) unsafe fn take_start(&self) -> Start {
        // SAFETY: the caller owns the block.
        let phase = unsafe { self.phase.get().read() };
        // SAFETY: as above; the closure has been moved out.
        unsafe { self.phase.get().write(Phase { node: ManuallyDrop::new(Node::new()) }) };
        // SAFETY: the caller says that a closure was there.
        ManuallyDrop::into_inner(unsafe { phase.start })
    }

    /// Whether the VP's closure has started: from then on it stays on its core.
    #[inline(always)]
    pub(crate) fn is_started(&self) -> bool {
        !self.fiber().is_null()
    }

    /// The fiber that the VP runs on; null before it starts, and after its end.
    #[inline(always)]
    pub(crate) fn fiber(&self) -> *const Fiber {
        // ORDERING: Relaxed: whoever has the VP in hand reads what was written in that hand. Reports, which have not, only ask whether it is null.
        self.fiber.load(Ordering::Relaxed)
    }

    /// Whoever has the VP in hand.
    #[inline(always)]
    pub(crate) fn set_fiber(&self, fiber: *const Fiber) {
        // ORDERING: as above.
        self.fiber.store(fiber.cast_mut(), Ordering::Relaxed);
    }

    /// Whether the started VP may go to another core. Not while its wait has an entry among its core's timers, which only that core removes.
    /// For whoever has the ready VP in hand.
    pub(crate) fn may_migrate(&self) -> bool {
        self.has(flag::MIGRATABLE) && self.mode.get() & mode::TIMED == 0
    }

    /// The core this timeline lives on; `None` for OS threads and for VPs that nobody has placed yet.
    #[inline(always)]
    pub(crate) fn home(&self) -> Option<&'static Core> {
        // ORDERING: Relaxed: set before the timeline can wait or be found; migration re-homes only between two waits.
        let core = self.home.load(Ordering::Relaxed);
        // SAFETY: a core outlives its timelines, and only they and their wakers come here.
        unsafe { core.as_ref() }
    }

    /// As [`home`](Block::home), for who does not know whether the timeline, and with it the core, is still there.
    #[inline(always)]
    pub(crate) fn home_hint(&self) -> *const Core {
        // ORDERING: as above.
        self.home.load(Ordering::Relaxed)
    }

    /// Keeps the VP of that birth where it is, if it has started and lives on `core`: what belongs to it may be looked at until the guard is dropped.
    /// On the controller of `core`, so it does not run there. One that may migrate could be ready, and another core take it just then.
    pub(crate) fn at_home(&'static self, core: &Core, birth: u64) -> Option<AtHome> {
        let lives = || self.birth() == birth && ptr::eq(self.home_hint(), core);
        if !lives() {
            return None;
        }
        let held = self.has(flag::MIGRATABLE).then(|| self.hold());
        // With the block in hand, for it may have gone meanwhile.
        (lives() && self.is_started()).then_some(AtHome(held))
    }

    /// The started VP, which the caller has in hand, lives on `core` from now on.
    pub(crate) fn rehome(&'static self, core: &Core) {
        let _held = self.hold();
        self.set_home(core);
    }

    fn hold(&'static self) -> Held {
        // ORDERING: Acquire pairs with the Release in `Held::drop`.
        while self.moving.swap(true, Ordering::Acquire) {
            std::thread::yield_now();
        }
        Held(self)
    }

    /// The number of the core this timeline lives on, 0 for none: see `env::holders`.
    #[inline(always)]
    pub(crate) fn home_id(&self) -> u32 {
        // ORDERING: as in `home`.
        crate::env::holders::id_of(self.home.load(Ordering::Relaxed))
    }

    #[inline(always)]
    pub(crate) fn set_home(&self, core: *const Core) {
        // ORDERING: as in `home`.
        self.home.store(core.cast_mut(), Ordering::Relaxed);
    }

    #[inline(always)]
    pub(crate) fn process(&self) -> Option<&'static ProcessInner> {
        // ORDERING: Relaxed: written at birth, handed over with the timeline.
        let process = self.process.load(Ordering::Relaxed);
        // SAFETY: a process outlives the timelines it counts; readers of reports hold the registry's lock.
        unsafe { process.as_ref() }
    }

    /// Where its process is, or was: to compare with.
    pub(crate) fn process_hint(&self) -> *const ProcessInner {
        // ORDERING: as above.
        self.process.load(Ordering::Relaxed)
    }

    /// The number of its process, for names, while it lives.
    pub(crate) fn process_id(&self) -> Option<u64> {
        if self.has(flag::THREAD) || self.birth().is_multiple_of(2) {
            return None;
        }
        // ORDERING: as in `process`.
        Some(u64::from(self.process_number.load(Ordering::Relaxed)))
    }

    pub(crate) fn set_process(&self, process: Option<&ProcessInner>) {
        // ORDERING: as in `process`.
        self.process
            .store(process.map_or(ptr::null_mut(), |process| ptr::from_ref(process).cast_mut()), Ordering::Relaxed);
        if let Some(process) = process {
            // The lower half: see the field.
            self.process_number.store(process.id() as u32, Ordering::Relaxed);
        }
    }

    /// Which of `branches` the next fair select of this timeline begins with.
    ///
    /// Multiples of the golden section: evenly spread, also over every second or third of them. So a loop that makes several selects in turn is
    /// as fair to each one's branches as a loop around one.
    pub(crate) fn next_first(&self, branches: usize) -> usize {
        self.selects.set(self.selects.get().wrapping_add(1));
        let spread = u64::from(self.selects.get().wrapping_mul(0x9E37_79B9));
        ((spread * branches as u64) >> u32::BITS) as usize
    }

    /// What this timeline belongs to.
    #[inline(always)]
    pub(crate) fn around(&self) -> Around {
        // ORDERING: Relaxed: as `process`.
        Around(self.scope.load(Ordering::Relaxed))
    }

    pub(crate) fn set_around(&self, around: Around) {
        // ORDERING: as above.
        self.scope.store(around.0, Ordering::Relaxed);
    }

    #[inline(always)]
    pub(crate) fn has(&self, flags: u32) -> bool {
        // ORDERING: flags are set by the home core or by the timeline itself; others read hints.
        self.flags.load(Ordering::Relaxed) & flags != 0
    }

    /// Among whom its process counts it.
    #[inline(always)]
    pub(crate) fn counted(&self) -> Of {
        if self.has(flag::DAEMON) { Of::Daemons } else { Of::Waited }
    }

    /// Sets flags. Home core or the timeline itself (so load and store would do; births start from a plain store).
    pub(crate) fn set(&self, flags: u32) {
        // ORDERING: as in `has`.
        self.flags.fetch_or(flags, Ordering::Relaxed);
    }

    pub(crate) fn clear(&self, flags: u32) {
        // ORDERING: as in `has`.
        self.flags.fetch_and(!flags, Ordering::Relaxed);
    }

    #[inline(always)]
    pub(crate) fn is_thread(&self) -> bool {
        self.has(flag::THREAD)
    }

    /// Notes what the timeline is about to wait for.
    #[inline(always)]
    pub(crate) fn set_reason(&self, info: &'static Info, place: &'static Location<'static>) {
        // ORDERING: hints for reports, which read them only of a timeline that stands still, or check its birth.
        self.info.store(ptr::from_ref(info).cast_mut(), Ordering::Relaxed);
        self.place.store(ptr::from_ref(place).cast_mut(), Ordering::Relaxed);
        self.since.store(crate::runtime::watchdog::coarse_ms(), Ordering::Relaxed);
    }

    pub(crate) fn reason(&self) -> Option<(&'static Info, &'static Location<'static>)> {
        // ORDERING: as in `set_reason`.
        let info = self.info.load(Ordering::Relaxed);
        let place = self.place.load(Ordering::Relaxed);
        // SAFETY: only pointers to statics are stored.
        let info = unsafe { info.as_ref() }?;
        // SAFETY: as above.
        let place = unsafe { place.as_ref() }?;
        Some((info, place))
    }

    /// Forgets the timeline before. What a birth always sets is not in here, nor what an end leaves empty.
    #[inline]
    pub(crate) fn reset(&self) {
        self.set_fiber(ptr::null());
        self.mode.set(0);
        self.requests.set(0);
        self.children.set(0);
        self.set_home(ptr::null());
    }

    /// The birth number: odd for a living timeline.
    #[inline(always)]
    pub(crate) fn birth(&self) -> u64 {
        // ORDERING: Acquire pairs with the Release in `bear` and `bury`: what is read after belongs to this life or a
        // later one, and the second read of the number tells.
        self.birth.load(Ordering::Acquire)
    }

    /// The block becomes a timeline. Returns the birth number.
    pub(crate) fn bear(&self) -> u64 {
        let birth = self.birth.load(Ordering::Relaxed) + 1;
        debug_assert!(birth % 2 == 1, "a block is born twice");
        // ORDERING: Release pairs with `birth`.
        self.birth.store(birth, Ordering::Release);
        birth
    }

    /// The timeline has ended: every reference by birth number is stale from now on.
    pub(crate) fn bury(&self) {
        let birth = self.birth.load(Ordering::Relaxed) + 1;
        debug_assert!(birth.is_multiple_of(2), "a block is buried twice");
        debug_assert!(self.open_scope.get().is_null(), "a timeline ended within a scope");
        debug_assert!(self.inline_job().is_null(), "a timeline ended within a latent task");
        debug_assert!(self.around().as_shift().is_null(), "a timeline ended within its shift");
        // ORDERING: Release pairs with `birth`.
        self.birth.store(birth, Ordering::Release);
    }
}

/// See [`Block::at_home`].
pub(crate) struct AtHome(#[expect(dead_code, reason = "its drop lets the VP go")] Option<Held>);

/// A block's `moving`.
struct Held(&'static Block);

impl Drop for Held {
    fn drop(&mut self) {
        // ORDERING: Release pairs with the Acquire in `Block::hold`: the next one sees the home, and what was looked at is not looked at any more.
        self.0.moving.store(false, Ordering::Release);
    }
}
