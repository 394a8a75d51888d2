//! VPs that run tasks of a scope which were stolen, or left behind by a timeline that suspended.
//!
//! Such a VP runs its tasks inline, one after the other: what it was given, and what these spawn. A timeline that leaves its core leaves its tasks behind as
//! a *bundle*: one VP for all of them, which, once a core runs it, puts them on that core's latent list, where they may be stolen again.
//!
//! # Stations
//!
//! A *station* is what one timeline has in a scope: an arena, and the count of the tasks made there. The owner's lies in the scope itself. A VP of the
//! crew gets one when a task on it spawns; it goes to another one when all its tasks are over.
//!
//! ```text
//!   owner's station ◄──lease── VP 1: station ◄──lease── VP 3: station
//!                   ◄──lease── VP 2 (its tasks spawn nothing)
//! ```
//!
//! A VP of the crew has a *lease*: it is counted by the station that its tasks came from until it has ended, and all tasks of its own station have. So
//! a count that reaches zero says that the whole tree below has come to its end, and the scope lives as long as anything in it.
//! (For what was stolen the lease is the task's own count, which is then taken off later; a bundle is counted beside its tasks.)
//!
//! # Who may touch what
//!
//! | | rule |
//! |---|---|
//! | `out`, `low`, `arena` | the timeline whose station it is, see `arena` |
//! | `tally` | the protocol of `kernel::tally` |
//! | `parent` | written when the station is given to a VP, before anything is spawned there |
//! | `thief` | a hint |
//! | `bundled` | set by whoever leaves tasks of the station behind; else the timeline whose station it is |
//! | `Shift` | lies in a frame of the VP; that VP only |

use std::cell::Cell;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::arena::{self, Arena};
use super::root::Root;
use super::work::{self, TaskHead};
use super::{has_room, published, wake};
use crate::assign::Work;
use crate::ctx;
use crate::kernel::latent::{Full, Popped};
use crate::kernel::tally::Tally;
use crate::runtime::controller;
use crate::runtime::core::Core;
use crate::scope::{Around, ScopeHead};
use crate::vp::block::Block;
use crate::vp::start::Start;
use crate::vp::{VpName, adopt, cancel};

/// A timeline whose station has so many chunks, none of them empty, yields before it takes another one: a quarter of a megabyte, which a
/// core's cache holds.
const MANY_CHUNKS: usize = 16;
/// How often at most: an assigner may prefer some thirty VPs that have started to one that has not, the bundle. (If the tasks wait, for what the
/// spawner holds, say, it is in vain, and costs less than they do.)
const YIELDS: usize = 40;

/// See the head of this file.
#[derive(Debug)]
pub(crate) struct Station {
    root: Cell<*const Root>,
    /// Where whoever works here is counted; null: this is the owner's.
    parent: Cell<*const Station>,
    pub(super) arena: Arena,
    /// Tasks made here that this timeline has not run itself.
    pub(super) out: Cell<u64>,
    /// No entry of the timeline's latent list below this index is a task made here.
    pub(super) low: Cell<u32>,
    pub(super) tally: Tally,
    /// Tasks made here were left behind: `tally` counts leases that `out` knows nothing of.
    bundled: AtomicBool,
    /// The core that last took a task away, plus one.
    thief: AtomicUsize,
}

impl Station {
    pub(super) fn new() -> Station {
        Station {
            root: Cell::new(ptr::null()),
            parent: Cell::new(ptr::null()),
            arena: Arena::new(),
            out: Cell::new(0),
            low: Cell::new(u32::MAX),
            tally: Tally::new(),
            bundled: AtomicBool::new(false),
            thief: AtomicUsize::new(0),
        }
    }

    /// Ties the station to its scope, and to where its worker is counted. Before anybody else knows of it.
    pub(super) fn open(&self, root: *const Root, parent: *const Station) {
        self.root.set(root);
        self.parent.set(parent);
        self.out.set(0);
        self.low.set(u32::MAX);
    }

    /// A place for a task that is made here, by `block`, which runs here. May yield.
    #[inline(always)]
    pub(super) fn take(&self, block: &'static Block, bytes: usize, align: usize) -> NonNull<u8> {
        match self.arena.take(bytes, align) {
            Some(place) => place,
            None => self.take_elsewhere(block, bytes, align),
        }
    }

    #[cold]
    #[inline(never)]
    fn take_elsewhere(&self, block: &'static Block, bytes: usize, align: usize) -> NonNull<u8> {
        let here = || ctx::get().core().expect("a VP has a core");
        let many = self.arena.chunks() >= MANY_CHUNKS;
        // Others have left nothing empty: time to run some of what is there.
        let yields = if many && !crate::panics::unwinding(ctx::get()) { YIELDS } else { 0 };
        let found = (0..yields).any(|_| {
            if self.arena.go_on(here(), bytes, false) {
                return true;
            }
            controller::yield_now(ctx::get(), block);
            false
        });
        if !found {
            self.arena.go_on(here(), bytes, true);
        }
        self.arena.take(bytes, align).expect("there is room now")
    }

    #[inline]
    pub(super) fn root(&self) -> &Root {
        // SAFETY: set before anybody spawned here; a station is part of its scope.
        unsafe { &*self.root.get() }
    }

    /// Whether all that was made here has ended, as far as this timeline can tell without closing the tally. A bundle may be left of which
    /// every task was touched, and run, on its way: its VP is still to come by, and looks into it, and into this.
    pub(super) fn is_over(&self) -> bool {
        // ORDERING: Relaxed: with none out, whatever was left behind was so first by this timeline itself: what others left had been in a
        // bundle before.
        self.out.get() == 0 && !self.bundled.load(Ordering::Relaxed)
    }

    /// Opens the tally again, after the last end.
    pub(super) fn reopen(&self) {
        // ORDERING: Relaxed: nobody else has anything of this station now; who works here next gets it by this thread, or by the lock of the
        // spare ones.
        self.bundled.store(false, Ordering::Relaxed);
        self.tally.reopen();
    }

    /// The core that last took a task away from here.
    pub(super) fn thief(&self) -> Option<usize> {
        // ORDERING: Relaxed: a hint.
        self.thief.load(Ordering::Relaxed).checked_sub(1)
    }
}

/// What a VP of the crew works for.
#[derive(Debug)]
pub(crate) struct Shift {
    pub(super) root: *const Root,
    lease: *const Station,
    station: Cell<*const Station>,
}

impl Shift {
    /// The scope that its VP belongs to, and is cancelled with.
    pub(crate) fn scope(&self) -> *const ScopeHead {
        // SAFETY: the lease keeps the scope.
        unsafe { &*self.root }.head()
    }

    /// Its station, if it has one already.
    #[inline]
    pub(super) fn station(&self) -> *const Station {
        self.station.get()
    }

    /// Its station.
    #[cold]
    pub(super) fn open_station(&self) -> *const Station {
        // SAFETY: the lease keeps the scope.
        let station = unsafe { &*self.root }.open_station(self.lease);
        self.station.set(station);
        station
    }
}

/// The duty to run tasks that were stolen or left behind: `first`, and the others of its bundle. As for a stolen join it is done also if
/// the VP was cancelled before its start or got no stack.
struct Crew {
    first: NonNull<TaskHead>,
    bundle: bool,
}

// SAFETY: tasks are made to be run by other threads: closures and results are `Send` (`TaskScope::spawn`).
unsafe impl Send for Crew {}

impl Drop for Crew {
    fn drop(&mut self) {
        // SAFETY: the first is not over before this is done with it, or the lease keeps its place.
        let lease = unsafe { self.first.as_ref() }.station;
        // SAFETY: as above: the lease keeps the scope.
        let root: *const Root = unsafe { &*lease }.root();
        match ctx::get().current().filter(|block| !block.is_thread()) {
            Some(block) => self.work(block, root, lease),
            None => {
                for task in self.regained() {
                    // SAFETY: it was regained.
                    let head = unsafe { task.as_ref() };
                    // SAFETY: as above.
                    unsafe { (head.head.run)(task.as_ptr().cast_const().cast()) };
                    // SAFETY: it has run; the lease's own count is taken off below.
                    unsafe { work::over(task, ptr::null(), self.bundle) };
                }
                // SAFETY: the lease.
                unsafe { ended(lease) };
            }
        }
    }
}

impl Crew {
    /// The tasks, but for those that were touched while they lay in the bundle.
    fn regained(&self) -> impl Iterator<Item = NonNull<TaskHead>> {
        let bundle = self.bundle;
        let mut next = Some(self.first);
        std::iter::from_fn(move || {
            loop {
                let task = next?;
                // SAFETY: what was stolen is the thief's; a place in a bundle is not freed before it is regained (`leave_behind`).
                let head = unsafe { task.as_ref() };
                next = if bundle { head.next.get() } else { None };
                if !bundle || !head.kept {
                    return Some(task);
                }
                let mine = head.head.done.regain();
                // SAFETY: it was lent to the bundle. If it is this VP's it is not free yet.
                unsafe { arena::free_away(task.cast()) };
                if mine {
                    return Some(task);
                }
            }
        })
    }

    /// Runs the tasks on `block`, which was made for them and runs here.
    fn work(&self, block: &'static Block, root: *const Root, lease: *const Station) {
        let shift = Shift { root, lease, station: Cell::new(ptr::null()) };
        block.set_around(Around::shift(&raw const shift));
        cancel::inherited(block);
        let mut tasks = self.regained();
        let first = tasks.next();
        self.put_on_list(tasks);
        if let Some(first) = first {
            // SAFETY: it was stolen, or regained. What was stolen is not counted: that is the lease.
            unsafe { run(first, block, self.bundle) };
        }
        while let Some(next) = next(block) {
            cancel::forget_own(block);
            // SAFETY: just taken off the list.
            unsafe { run(next, block, true) };
        }
        block.set_around(Around::nothing());
        // SAFETY: the shift is over: nothing is spawned at its station any more.
        unsafe { end(&shift) };
    }

    /// Puts the others where this VP finds them, and thieves do.
    fn put_on_list(&self, others: impl Iterator<Item = NonNull<TaskHead>>) {
        if !self.bundle {
            return;
        }
        let core = ctx::get().core().expect("a VP has a core");
        for task in others {
            // SAFETY: this code runs on that core.
            push(core, task).expect("a bundle has room on an empty list");
        }
        published(core);
    }
}

/// Puts a task that the caller has in hand on the list of `core`, on which it runs. Gives its index.
#[inline(always)]
pub(super) fn push(core: &'static Core, task: NonNull<TaskHead>) -> Result<u32, Full> {
    // SAFETY: this code runs on that core.
    let list = unsafe { core.latent.owner() };
    // Before the push: then a thief may have it, and be done with it.
    // SAFETY: the caller has it in hand.
    let head = unsafe { task.as_ref() };
    // ORDERING: Relaxed: a hint.
    head.index.store(list.head(), Ordering::Relaxed);
    list.push(task.cast())
}

/// The next task of the VP that runs here, which has nothing else on its list.
fn next(block: &'static Block) -> Option<NonNull<TaskHead>> {
    loop {
        let ctx = ctx::get();
        let core = ctx.core().expect("a VP has a core");
        super::attend_if_asked(ctx, core, block);
        let core = ctx::get().core().expect("a VP has a core");
        // SAFETY: this code runs on that core.
        match unsafe { core.latent.owner() }.pop(0) {
            Popped::Mine(job) => return Some(job.cast()),
            Popped::Stolen(_) => {}
            Popped::Empty => return None,
        }
    }
}

/// Runs a task on `block`, which runs here; on a VP of its own if there is little stack left.
///
/// # Safety
///
/// - The caller has it in hand, and everything around it of its scope is still there.
pub(super) unsafe fn run(task: NonNull<TaskHead>, block: &'static Block, counts: bool) {
    if counts && !has_room(block) {
        let core = ctx::get().core().expect("a VP has a core");
        leave_behind(core, &[task]);
        return published(core);
    }
    // SAFETY: duty of the caller.
    let root: *const Root = unsafe { task.as_ref() }.scope();
    // SAFETY: duty of the caller.
    unsafe { work::run_on(task, block) };
    // SAFETY: the task is not over, so the scope is there.
    let mine = unsafe { &*root }.station_if_any(block);
    // SAFETY: it has run.
    unsafe { work::over(task, mine, counts) };
}

/// A shift is over. The scope may be gone afterwards.
///
/// # Safety
///
/// - It is this timeline's, and nothing is spawned in it any more.
unsafe fn end(shift: &Shift) {
    let lease = shift.lease;
    // SAFETY: the lease keeps the scope, and with it the station.
    let Some(station) = (unsafe { shift.station.get().as_ref() }) else {
        // SAFETY: the lease was this VP's.
        return unsafe { ended(lease) };
    };
    if station.tally.close(station.out.get()) {
        station.root().close_station(station);
        // SAFETY: as above.
        unsafe { ended(lease) };
    }
}

/// Something that `station` counts is over. The scope may be gone afterwards.
///
/// # Safety
///
/// - Once for each.
pub(super) unsafe fn ended(mut station: *const Station) {
    loop {
        // SAFETY: it counts what is just over, so it is there until `end` has said so.
        let this = unsafe { &*station };
        let parent = this.parent.get();
        let root: *const Root = this.root();
        if !this.tally.end() {
            return;
        }
        // SAFETY: the last of all in this station has ended: its owner waits for that, or its parent counts it.
        let root = unsafe { &*root };
        if parent.is_null() {
            let key = root.key().get().expect("who waits has left its key");
            return wake(root.owner(), key);
        }
        // SAFETY: as above.
        root.close_station(unsafe { &*station });
        station = parent;
    }
}

/// Makes a VP of a task that `core`, which runs this, has stolen.
pub(super) fn stolen(core: &'static Core, task: NonNull<TaskHead>) -> Work {
    // SAFETY: the thief has it in hand.
    let station = unsafe { task.as_ref() }.station;
    // SAFETY: the task is not over, so its station is there.
    let station = unsafe { &*station };
    // ORDERING: Relaxed: a hint.
    station.thief.store(core.index + 1, Ordering::Relaxed);
    make(core, task, false)
}

fn make(core: &'static Core, first: NonNull<TaskHead>, bundle: bool) -> Work {
    // SAFETY: the caller has it in hand.
    let head = unsafe { first.as_ref() };
    // SAFETY: as above.
    let path = unsafe { VpName::path_of(first.as_ptr().cast_const().cast()) };
    let owner = head.scope().owner();
    let crew = Crew { first, bundle };
    // SAFETY: the scope keeps its tasks, and all that they borrow, until they are over, and waits for the lease.
    let start = unsafe { Start::new(move || drop(crew)) };
    adopt(core, owner, &path, start)
}

/// Leaves tasks that are on no list, oldest first, to other timelines: one bundle for all of a scope that come one behind the other.
///
/// The caller, which runs on `core`, has them in hand.
pub(super) fn leave_behind(core: &'static Core, tasks: &[NonNull<TaskHead>]) {
    // SAFETY: the caller has them in hand.
    let scope_of = |task: &NonNull<TaskHead>| -> *const Root { unsafe { task.as_ref() }.scope() };
    for bundle in tasks.chunk_by(|one, other| ptr::eq(scope_of(one), scope_of(other))) {
        let first = bundle[0];
        for (place, task) in bundle.iter().enumerate() {
            // SAFETY: as above.
            let head = unsafe { task.as_ref() };
            head.next.set(bundle.get(place + 1).copied());
            if head.kept {
                // SAFETY: it has not run, so it is not free. Now the bundle has to free it, too.
                unsafe { arena::lend(task.cast()) };
            }
        }
        // SAFETY: the first has not run, so its station is there.
        let station = unsafe { first.as_ref() }.station;
        // SAFETY: as above.
        let station = unsafe { &*station };
        // ORDERING: Relaxed: see `Station::is_over`.
        station.bundled.store(true, Ordering::Relaxed);
        // The lease.
        station.tally.more();
        let work = make(core, first, true);
        // Only now: whoever touches one may run it at once.
        for task in bundle {
            // SAFETY: a place with a handle was lent to the bundle; and who has no handle is not touched.
            let head = unsafe { task.as_ref() };
            if head.kept {
                head.head.done.loosen();
            }
        }
        let _ = core.newborn.push(work);
        controller::set_crowded(core, true);
    }
}
