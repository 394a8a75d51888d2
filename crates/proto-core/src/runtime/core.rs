//! The state of one core.
//!
//! | part | who may touch it |
//! |---|---|
//! | `ctx` | see `ctx` |
//! | `inbox`, `newborn`, `mail`, `latent`, `parker`, hints | anybody, each by its own protocol |
//! | `owner` | only what runs on this core: its controller, or the VP that it runs. See [`Core::owner`] |

use std::cell::{Cell, UnsafeCell};
use std::collections::{BTreeMap, VecDeque};
use std::mem::MaybeUninit;
use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use crossbeam_utils::CachePadded;
use proto_arch::park::Parker;
use proto_arch::topology::CoreId;
use proto_arch::usage::ThreadTime;

use super::mail::Mail;
use super::shared::Shared;
use super::stacks::Fibers;
use crate::assign::instance::Instance;
use crate::assign::{Pool, Work};
use crate::ctx::Ctx;
use crate::kernel::inbox::Inbox;
use crate::kernel::latent::LatentList;
use crate::kernel::sleep::Rest;
use crate::kernel::wait::Key;
use crate::process::ProcessInner;
use crate::task::{Chunk, JobHead};
use crate::vp::block::Block;
use crate::vp::pair::Pieces;

/// See the head of this file.
#[repr(C)]
pub(crate) struct Core {
    /// Latent tasks of the VP that runs here. A part of the core, so that a fork finds it without another load.
    pub(crate) latent: LatentList<JobHead>,
    parts: Parts,
}

/// All of a core but its list, which is larger than a small stack: so the two are made one by one where they stay.
pub(crate) struct Parts {
    pub(crate) ctx: Ctx,
    pub(crate) index: usize,
    pub(crate) place: CoreId,
    /// Timelines of this core that others made ready.
    pub(crate) inbox: CachePadded<Inbox>,
    /// Unstarted work that was born here and has not been given to an assigner yet.
    pub(crate) newborn: CachePadded<Pool>,
    pub(crate) mail: Mutex<Vec<Mail>>,
    pub(crate) parker: Parker,
    /// Other work of this core is ready while a VP runs: the watchdog ticks. Written by the controller.
    pub(crate) crowded: AtomicBool,
    /// How many times the controller switched to a VP: the watchdog sees whether it still does.
    pub(crate) switches: AtomicU64,
    /// The processor time of the controller's OS thread, on which its VPs run. Not there with an OS thread for each VP.
    pub(crate) time: OnceLock<ThreadTime>,
    /// The earliest deadline of this core, in nanoseconds since the runtime's start; `u64::MAX`: none.
    pub(crate) next_deadline: AtomicU64,
    /// The process of which this core is just counting an end; see `process`.
    pub(crate) counting: AtomicPtr<ProcessInner>,
    /// The others, nearest first; empty: in ring order.
    near: Box<[usize]>,
    /// The core that runs what a timeline of this one waits for: the first to be asked for work. What runs on this core writes it.
    pub(crate) first_asked: Cell<Option<usize>>,
    /// Whether what ran last came to its end. The controller's.
    pub(crate) last_ended: Cell<bool>,
    owner: UnsafeCell<Owner>,
    shared: Cell<*const Shared>,
}

// SAFETY: the table in the head: `owner` and the cells of `ctx` belong to what runs on this core, one at a time; `shared` is written
// before any thread starts.
unsafe impl Sync for Core {}
// SAFETY: as above.
unsafe impl Send for Core {}

/// What only this core's own code touches.
#[derive(Debug)]
pub(crate) struct Owner {
    /// Timelines made ready on this core and not yet given to an assigner.
    pub(crate) local: VecDeque<&'static Block>,
    /// Work that an assigner dropped, or of assigners that broke.
    pub(crate) orphans: VecDeque<&'static Block>,
    /// Work that the idle loop found.
    pub(crate) found: Option<Work>,
    pub(crate) fibers: Fibers,
    pub(crate) blocks: Vec<&'static Block>,
    pub(crate) pieces: Pieces,
    /// Empty memory for tasks.
    pub(crate) chunks: Vec<NonNull<Chunk>>,
    pub(crate) timers: BTreeMap<(Instant, u64), (&'static Block, Key)>,
    pub(crate) timer_number: u64,
    /// The assigners of this runtime, as of `instances_version`.
    pub(crate) instances: Vec<Arc<Instance>>,
    pub(crate) instances_version: u64,
    /// Whose turn it is among `instances`; one beyond them are the orphans.
    pub(crate) turn: usize,
    pub(crate) moved: VecDeque<Work>,
    /// What the assigners of this core have ready: at most, for others may have taken some.
    pub(crate) ready: usize,
    pub(crate) rest: Rest,
    /// How long the next search lasts.
    pub(crate) patience: Duration,
    /// What each pool and newborn list had been given when this core began to search.
    pub(crate) aged: Vec<u64>,
}

impl std::fmt::Debug for Core {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Core").field("index", &self.index).field("place", &self.place).finish_non_exhaustive()
    }
}

impl Parts {
    fn new(index: usize, place: CoreId, fibers: Fibers, near: Box<[usize]>) -> Parts {
        Parts {
            ctx: Ctx::new(),
            index,
            place,
            inbox: CachePadded::new(Inbox::new()),
            newborn: CachePadded::new(Pool::new()),
            mail: Mutex::new(Vec::new()),
            parker: Parker::new(),
            crowded: AtomicBool::new(false),
            switches: AtomicU64::new(0),
            time: OnceLock::new(),
            next_deadline: AtomicU64::new(u64::MAX),
            counting: AtomicPtr::new(std::ptr::null_mut()),
            near,
            first_asked: Cell::new(None),
            last_ended: Cell::new(false),
            owner: UnsafeCell::new(Owner {
                local: VecDeque::new(),
                orphans: VecDeque::new(),
                found: None,
                fibers,
                blocks: Vec::new(),
                pieces: Pieces::default(),
                chunks: Vec::new(),
                timers: BTreeMap::new(),
                timer_number: 0,
                instances: Vec::new(),
                instances_version: 0,
                turn: 0,
                moved: VecDeque::new(),
                ready: 0,
                rest: Rest::new(index),
                patience: Duration::ZERO,
                aged: Vec::new(),
            }),
            shared: Cell::new(std::ptr::null()),
        }
    }
}

impl Deref for Core {
    type Target = Parts;

    #[inline(always)]
    fn deref(&self) -> &Parts {
        &self.parts
    }
}

impl Core {
    /// Makes a core where it is to stay.
    pub(crate) fn init(
        seat: &mut MaybeUninit<Core>,
        index: usize,
        place: CoreId,
        fibers: Fibers,
        near: Box<[usize]>,
    ) -> &mut Core {
        let core = seat.as_mut_ptr();
        // SAFETY: within the seat.
        let latent = unsafe { &raw mut (*core).latent }.cast::<MaybeUninit<_>>();
        // SAFETY: within the seat; a place that may not be initialised.
        LatentList::<JobHead>::init(unsafe { &mut *latent });
        // SAFETY: within the seat.
        let parts = unsafe { &raw mut (*core).parts };
        // SAFETY: as above.
        unsafe { parts.write(Parts::new(index, place, fibers, near)) };
        // SAFETY: both parts are there.
        unsafe { seat.assume_init_mut() }
    }
    /// Ties the core to what it shares. Before its controller starts.
    pub(crate) fn set_shared(&self, shared: *const Shared) {
        self.shared.set(shared);
        self.ctx.set_core(self);
        crate::task::settle_fences(&self.ctx);
    }

    #[inline(always)]
    pub(crate) fn shared(&self) -> &'static Shared {
        // SAFETY: set before the controller started; the controller's thread holds an `Arc` of it, and timelines of this core and
        // their wakers come here only while it runs (see `shared`).
        unsafe { &*self.shared.get() }
    }

    /// The numbers of the others, in the order in which this core asks them for work: before all others the one that runs what a timeline of
    /// this core waits for, so that it is helped rather than somebody else. Owner only.
    #[inline]
    pub(crate) fn others(&self) -> impl Iterator<Item = usize> {
        let count = self.shared().cores.len();
        let ring = if self.near.is_empty() { 1..count } else { 0..0 };
        let first = self.first_asked.get().filter(|&first| first != self.index && first < count);
        let rest = self.near.iter().copied().chain(ring.map(move |step| (self.index + step) % count));
        first.into_iter().chain(rest.filter(move |&other| Some(other) != first))
    }

    /// Runs `f` on what belongs to this core alone.
    ///
    /// # Safety
    ///
    /// - The calling code runs on this core: it is its controller, or the VP that the controller runs.
    /// - `f` does not switch, and does not come here again.
    #[inline(always)]
    pub(crate) unsafe fn owner<R>(&self, f: impl FnOnce(&mut Owner) -> R) -> R {
        // SAFETY: duties of the caller: one thread at a time, and no second reference.
        f(unsafe { &mut *self.owner.get() })
    }

    /// Publishes the earliest deadline for the watchdog. Owner only.
    pub(crate) fn publish_deadline(&self, earliest: Option<Instant>) {
        let at = earliest.map_or(u64::MAX, |at| self.shared().nanoseconds(at));
        // ORDERING: Relaxed: the watchdog looks again every millisecond, and is woken when a core runs.
        self.next_deadline.store(at, Ordering::Relaxed);
    }
}
