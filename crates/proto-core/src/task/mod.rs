//! Latent tasks: parallelism that is paid for only when it happens [design rules 4, 5, 6].
//!
//! [`join`] leaves its second closure on the core's latent list and runs the first. If nobody took the second meanwhile, it is run as a
//! plain call. An idle core asks by a flag and takes what the owner then publishes; an owner that neither forks nor joins is robbed the hard way
//! (`kernel::latent`). What a thief takes becomes a VP.
//!
//! # States of a job
//!
//! ```text
//!   on the list ──pop: mine──► run inline by its owner
//!        │  ├────stolen──────► run by another core, and done (`kernel::done`)
//!        │  └────owner leaves its core (suspends, yields): an ordinary task with a ticket
//!        │                        ├── ticket taken back at the join ──► run inline
//!        │                        └── ticket taken by the VP ──► run by that, and done
//! ```
//!
//! The job lies in the frame of its join, which does not return before the job is run. The **dangerous race**: an ordinary task is still in some
//! queue when its join has taken it back and returned. So the queue holds the ticket, on the heap, and whoever wins the ticket may touch
//! the job.
//!
//! A VP that leaves its core detaches all its latent tasks, so the list is empty whenever a controller runs.
//!
//! With hooks, no job is run inline: one that nobody took gets a VP of its own at its join, and so has its birth, end and requests told under its own name.
//!
//! | file | |
//! |---|---|
//! | `join` | a fork that is joined where it was made; it lies in that frame |
//! | `cut` | [`work_wanted`], and what else a loop needs that forks when it is asked to |
//! | `scope` | [`task_scope`]: tasks that are waited for together |
//! | `root` | what its tasks know of such a scope, and its end |
//! | `work` | such a task: its closure, then its result; running it |
//! | `handle` | [`Task`]: the result of one of them, to be touched by anybody |
//! | `crew` | VPs that were made to run such tasks, because they were stolen or left behind |
//! | `arena` | the memory of such tasks |

mod arena;
mod crew;
mod cut;
mod handle;
mod join;
mod root;
mod scope;
mod work;

use std::cell::Cell;
use std::mem::MaybeUninit;
use std::panic::Location;
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering, fence};

pub(crate) use self::arena::{Chunk, free_chunk};
pub(crate) use self::crew::Shift;
pub use self::cut::{Cuts, divisible, join_wanted, work_wanted};
pub use self::handle::Task;
pub use self::join::join;
use self::join::{WANTED, attend, has_room};
pub(crate) use self::join::{next_child, set_floor, settle_fences};
pub use self::scope::{TaskScope, task_scope};
use self::work::TaskHead;

use crate::assign::Work;
use crate::ctx::{Ctx, attention};
use crate::env::{Info, wait};
use crate::kernel::done::{After, Done};
use crate::kernel::latent::{Fate, Steal};
use crate::kernel::wait::Key;
use crate::runtime::core::Core;
use crate::runtime::shared::Shared;
use crate::runtime::{controller, send};
use crate::scope::{Around, ScopeHead};
use crate::sync::{Asymmetric, Barrier};
use crate::vp::VpName;
use crate::vp::block::{Block, flag};
use crate::vp::start::Start;

/// What every latent task has, whatever its closure. Lies in the frame of its join, or is the first part of a [`TaskHead`].
///
/// A fork writes the fields down to `number_and_marks`, and they are laid out so that it does so by few stores.
#[repr(C)]
pub(crate) struct JobHead {
    done: Done,
    /// Children made while this job ran inline.
    pub(crate) children: Cell<u32>,
    /// Runs the closure and keeps its result; does not unwind.
    run: unsafe fn(*const JobHead),
    owner: &'static Block,
    /// The job that its join runs in, if that was run inline itself, else the root of its owner. (Null: of a task of a scope.)
    around: *const JobHead,
    /// The innermost scope that the owner stood in when it forked; null: the one it belongs to itself. Odd: this is the head of a
    /// [`TaskHead`], which belongs to that scope.
    scope: *const ScopeHead,
    /// Which child of its parent it is, and in the upper half its [`marks`]: one store for a fork. The number changes only in a series (`work`), between two
    /// of its tasks.
    number_and_marks: Cell<u64>,
    /// The wait of its owner, or of whoever touches it: there from the moment it waits.
    key: Cell<MaybeUninit<Key>>,
    /// There if [`marks::TICKET`] is set. The owner's.
    ticket: Cell<MaybeUninit<Arc<Ticket>>>,
}

/// Bits of [`JobHead::number_and_marks`]: the owner's, or those of the timeline that runs the job inline.
mod marks {
    /// VP-locals were made while the job ran inline.
    pub(super) const LOCALS: u64 = 1 << 32;
    /// The owner has left its core, and the job has a ticket.
    pub(super) const TICKET: u64 = 1 << 33;
    /// The list was full: the job is the owner's alone.
    pub(super) const UNLISTED: u64 = 1 << 34;
}

/// The bit of [`JobHead::scope`] that says so.
const OF_TASK: usize = 1;

impl std::fmt::Debug for JobHead {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("JobHead").field("number", &self.number()).finish_non_exhaustive()
    }
}

impl JobHead {
    #[inline(always)]
    fn new(
        run: unsafe fn(*const JobHead),
        owner: &'static Block,
        around: *const JobHead,
        scope: *const ScopeHead,
        number: u32,
        done: Done,
    ) -> JobHead {
        JobHead {
            done,
            children: Cell::new(0),
            run,
            owner,
            around,
            scope,
            number_and_marks: Cell::new(number.into()),
            key: Cell::new(MaybeUninit::uninit()),
            ticket: Cell::new(MaybeUninit::uninit()),
        }
    }

    #[inline(always)]
    fn has(&self, mark: u64) -> bool {
        self.number_and_marks.get() & mark != 0
    }

    fn mark(&self, mark: u64) {
        self.number_and_marks.set(self.number_and_marks.get() | mark);
    }

    /// VP-locals are made while this job runs inline.
    pub(crate) fn note_locals(&self) {
        self.mark(marks::LOCALS);
    }

    /// Leaves the key of the wait for this job.
    fn leave_key(&self, key: Key) {
        self.key.set(MaybeUninit::new(key));
    }

    /// The key of the wait for this job.
    ///
    /// # Safety
    ///
    /// - [`Done::finish`] has said that somebody waits, who has left it before.
    unsafe fn left_key(&self) -> Key {
        // SAFETY: duty of the caller.
        unsafe { self.key.get().assume_init() }
    }

    /// For the owner.
    fn put_ticket(&self, ticket: Arc<Ticket>) {
        debug_assert!(!self.has(marks::TICKET), "a job has one ticket");
        self.ticket.set(MaybeUninit::new(ticket));
        self.mark(marks::TICKET);
    }

    /// For the owner.
    fn take_ticket(&self) -> Option<Arc<Ticket>> {
        if !self.has(marks::TICKET) {
            return None;
        }
        self.number_and_marks.set(self.number_and_marks.get() & !marks::TICKET);
        // SAFETY: the mark says that it is there, and is gone now.
        Some(unsafe { self.ticket.replace(MaybeUninit::uninit()).assume_init() })
    }

    /// The next task of a series begins, which has no marks yet.
    fn go_on_as(&self, number: u32) {
        self.number_and_marks.set(number.into());
        self.children.set(0);
    }

    pub(crate) fn number(&self) -> u32 {
        self.number_and_marks.get() as u32
    }

    /// The job that its join runs in, if that was run inline itself; else null. (Not of a task of a scope.)
    pub(crate) fn outer(&self) -> *const JobHead {
        if ptr::eq(self.around, self.owner.root_job()) { ptr::null() } else { self.around }
    }

    /// The number of the next child of `job`.
    ///
    /// # Safety
    ///
    /// - It is what [`Block::job_or_root`] gives on the timeline that runs here.
    #[inline(always)]
    unsafe fn next_child_of(job: *const JobHead) -> u32 {
        // SAFETY: a job that runs inline lies in a frame below this one, and the root of a block has these children, if nothing else.
        let children = unsafe { &(*job).children };
        let number = children.get();
        children.set(number.wrapping_add(1));
        number
    }

    pub(crate) fn owner(&self) -> &'static Block {
        self.owner
    }

    /// The task of a scope that this is the head of.
    ///
    /// # Safety
    ///
    /// - `job` points to a job that stays as long as the reference is used, and was made of a pointer to the whole of it.
    #[inline]
    pub(crate) unsafe fn task<'a>(job: *const JobHead) -> Option<&'a TaskHead> {
        // SAFETY: duty of the caller.
        if unsafe { (*job).scope }.addr() & OF_TASK == 0 {
            return None;
        }
        // SAFETY: it is marked as the first part of one.
        Some(unsafe { &*job.cast() })
    }

    /// Whether the timeline that waits for this job was cancelled, and so has the job to be.
    pub(crate) fn is_cancelled(&self) -> bool {
        // SAFETY: the owner stands in that scope until it has waited for this job.
        let outside = unsafe { ScopeHead::outside_fences(self.scope()) };
        self.owner.is_cancelled() && ptr::eq(outside, self.scope())
    }

    /// What the job belongs to besides its owner.
    pub(crate) fn around(&self) -> Around {
        let scope = self.scope();
        if scope.is_null() { self.owner.around() } else { Around::scope(scope) }
    }

    fn scope(&self) -> *const ScopeHead {
        self.scope.map_addr(|addr| addr & !OF_TASK)
    }
}

/// Who may run a job that has become an ordinary task: whoever takes it first.
#[derive(Debug)]
struct Ticket {
    taken: AtomicU32,
    job: *const JobHead,
}

// SAFETY: the pointer is used by whoever wins `taken` only, and the job waits for that.
unsafe impl Send for Ticket {}
// SAFETY: as above.
unsafe impl Sync for Ticket {}

impl Ticket {
    fn take(&self) -> bool {
        // ORDERING: AcqRel: Acquire pairs with the making of the ticket (handed over by the queue's own lock as well), and orders the loser's
        // going on after.
        self.taken.swap(1, Ordering::AcqRel) == 0
    }
}

/// The duty to run a job that was won. A job is always run: its owner waits for it. So a VP that was cancelled before its start, or that
/// got no stack, runs it as well, when its closure is dropped; there it meets the cancel at its first abandonable wait.
struct Won(*const JobHead);
// SAFETY: jobs are made to be run by other threads: closures and results are `Send` (`join`).
unsafe impl Send for Won {}

impl Drop for Won {
    fn drop(&mut self) {
        let block = crate::ctx::get().current().filter(|block| !block.is_thread());
        if let Some(block) = block {
            // Only now: a job with a ticket may be gone before it is won.
            block.set_around(Around::job(self.0));
            crate::vp::cancel::inherited(block);
        }
        // SAFETY: the owner does not leave the join before the job is done.
        let head = unsafe { &*self.0 };
        // SAFETY: won, hence run once.
        unsafe { (head.run)(self.0) };
        if let Some(block) = block {
            block.set_around(Around::nothing());
        }
        let owner = head.owner;
        if head.done.finish() == After::Wake {
            // SAFETY: just said. The owner waits, so the job is still there.
            let key = unsafe { head.left_key() };
            wake(owner, key);
        }
    }
}

/// Ends the wait `key` of `waiter` for a job: it knows by now that it will be woken.
fn wake(waiter: &'static Block, key: Key) {
    if let Ok(claim) = waiter.wait.claim(key) {
        waiter.wait.publish(claim);
        wait::schedule_joiner(crate::ctx::get(), waiter);
    }
}

/// Stands still, bindingly, until somebody ends the wait `key` of `block`, which runs here. If it is known that this is something that the
/// core `runner` runs, this core asks that one first for work meanwhile.
fn stand_for(
    block: &'static Block,
    key: Key,
    runner: Option<usize>,
    info: &'static Info,
    place: &'static Location<'static>,
) {
    let asked = crate::ctx::get().core().map(|core| core.first_asked.replace(runner.or(core.first_asked.get())));
    wait::stand(crate::ctx::get(), block, key, info, place, None);
    if let (Some(core), Some(before)) = (crate::ctx::get().core(), asked) {
        core.first_asked.set(before);
    }
}

/// Notes that a job of `owner` is run elsewhere: a cancel of the owner has to look for it (`cancel::look`).
fn lent(owner: &Block) {
    owner.set(flag::LENT);
    // ORDERING: SeqCst, with the one in `cancel::look`: either that sees the flag, or the job's VP the cancel, when it starts.
    fence(Ordering::SeqCst);
}

/// Makes a VP of a job that was stolen.
fn stolen(core: &'static Core, job: *const JobHead) -> Work {
    // SAFETY: the thief has won it, so its owner, or its scope, waits for it.
    let head = unsafe { &*job };
    head.done.runs_on(core.index);
    // SAFETY: as above.
    if unsafe { JobHead::task(job) }.is_some() {
        return crew::stolen(core, NonNull::new(job.cast_mut()).expect("a job that was taken").cast());
    }
    lent(head.owner);
    let won = Won(job);
    // SAFETY: the owner keeps the job until it is done, and all it borrows.
    let start = unsafe { Start::new(move || drop(won)) };
    // SAFETY: as above.
    let path = unsafe { VpName::path_of(job) };
    crate::vp::adopt(core, head.owner, &path, start)
}

/// The running VP leaves its core: its latent tasks become ordinary ones.
#[inline(always)]
pub(crate) fn detach(ctx: &'static Ctx) {
    if let Some(core) = ctx.core() {
        // SAFETY: this code runs on that core.
        if unsafe { core.latent.owner() }.head() != 0 {
            detach_from(core, 0);
        }
    }
}

/// Takes the latent tasks from `base` on off the list of `core`, which runs this: they become ordinary ones.
#[cold]
#[inline(never)]
fn detach_from(core: &'static Core, base: u32) {
    let mut jobs: Vec<*const JobHead> = Vec::new();
    // SAFETY: this code runs on that core; the closure does not use the list.
    unsafe { core.latent.owner() }.detach_from(base, |job, fate| {
        if fate == Fate::Untaken {
            jobs.push(job.as_ptr());
        }
    });
    let mut left: Vec<NonNull<TaskHead>> = Vec::new();
    for &job in &jobs {
        // SAFETY: off the list untaken, so it is this timeline's own.
        match unsafe { JobHead::task(job) } {
            None => make_ordinary(core, job),
            // The pointer of the list, which reaches the whole task.
            Some(_) => left.extend(NonNull::new(job.cast_mut().cast::<TaskHead>())),
        }
    }
    crew::leave_behind(core, &left);
    published(core);
}

/// As [`Won`], of a job that has a ticket, which its owner may have taken.
struct MaybeWon(Arc<Ticket>);

impl Drop for MaybeWon {
    fn drop(&mut self) {
        if self.0.take() {
            if let Some(core) = crate::ctx::get().core() {
                // SAFETY: the ticket was won: the owner waits for the job.
                unsafe { &*self.0.job }.done.runs_on(core.index);
            }
            drop(Won(self.0.job));
        }
    }
}

/// Puts a job that is on no list into the core's newborn work, with a ticket.
fn make_ordinary(core: &'static Core, job: *const JobHead) {
    // SAFETY: the owner, which runs here, has it in its frame.
    let head = unsafe { &*job };
    let ticket = Arc::new(Ticket { taken: AtomicU32::new(0), job });
    head.put_ticket(Arc::clone(&ticket));
    lent(head.owner);
    let maybe = MaybeWon(ticket);
    // SAFETY: the closure touches the job only if it wins the ticket; then the owner waits for it.
    let start = unsafe { Start::new(move || drop(maybe)) };
    // SAFETY: as above: the job is the owner's until the ticket is on its way.
    let path = unsafe { VpName::path_of(job) };
    let work = crate::vp::adopt(core, head.owner, &path, start);
    let _ = core.newborn.push(work);
    controller::set_crowded(core, true);
}

/// New work that others may take lies on `core`, which runs this: wakes a sleeper if there is one.
#[inline]
pub(crate) fn published(core: &'static Core) {
    Asymmetric::light();
    if core.ctx.attention() & attention::SLEEPER != 0 {
        let shared = core.shared();
        shared.sleep.wake_one(Some(core.index), shared);
    }
}

/// New work that others may take was left at `core` by somebody who runs on none: wakes that core, or, if it is busy, another one.
pub(crate) fn published_from_outside(core: &Core) {
    let shared = core.shared();
    Asymmetric::light();
    let asleep = shared.sleep.is_asleep_hint(core.index);
    send::wake(core);
    if !asleep {
        shared.sleep.wake_one(None, shared);
    }
}

/// Asks every core that has latent tasks to publish some, and every other one to cut something off what it does, if it can (`cut`).
pub(crate) fn ask_for_latent(core: &'static Core) {
    for other in &core.shared().cores {
        if !ptr::eq(other, core) {
            other.ctx.raise(if other.latent.looks_stealable() { attention::STEAL } else { attention::HUNGRY });
        }
    }
}

/// Takes a latent task that its owner has published.
pub(crate) fn take_published(core: &'static Core) -> Option<Work> {
    let shared = core.shared();
    core.others().find_map(|other| {
        let other = &shared.cores[other];
        if other.latent.looks_public() {
            if let Steal::Taken(job) = other.latent.steal() {
                return Some(stolen(core, job.as_ptr()));
            }
        } else if other.latent.looks_stealable() {
            other.ctx.raise(attention::STEAL);
        }
        None
    })
}

/// Takes a latent task from an owner that has not reacted.
pub(crate) fn take_hard(core: &'static Core) -> Option<Work> {
    let shared = core.shared();
    core.others().find_map(|other| {
        let other = &shared.cores[other];
        if !other.latent.looks_stealable() {
            return None;
        }
        match other.latent.steal_hard() {
            Steal::Taken(job) => Some(stolen(core, job.as_ptr())),
            Steal::Empty => None,
        }
    })
}

/// Whether any core has latent tasks.
pub(crate) fn any_latent(shared: &Shared) -> bool {
    shared.cores.iter().any(|core| core.latent.looks_stealable())
}

/// As [`attend`], if anybody does.
#[inline(always)]
fn attend_if_asked(ctx: &'static Ctx, core: &'static Core, block: &'static Block) {
    if ctx.attention() & WANTED != 0 {
        attend(ctx, core, block);
    }
}
