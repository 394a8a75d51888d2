//! `task_scope`: tasks that borrow from the frame that waits for them, spawned at nearly the price of calls.
//!
//! A spawn puts the closure into the scope's arena and an entry on the core's latent list, like the fork of a join; the scope's owner, or the VP of
//! the crew on which the spawning task runs, takes the newest off again when it comes to wait, or has nothing else to do. What that costs if nobody steals: no
//! read-modify-write, no allocation, no fence.
//!
//! # Whose a spawn is
//!
//! | who spawns | where the task goes |
//! |---|---|
//! | the owner's timeline, in whatever it runs inline | the owner's station |
//! | a VP of the scope's crew: a task that was stolen or left behind | that VP's station |
//! | any other: a VP spawned in the scope, a stolen fork, an OS thread | a VP of its own, by way of the scope's environment |
//! | anybody, with hooks | the same |
//!
//! # Memory
//!
//! When the latent list is full, all that is on it becomes a bundle (`crew`). When a station has many chunks that are not empty, its timeline yields
//! before it takes another one, so that its core runs bundles: a producer without end goes round in a quarter of a megabyte, unless its tasks wait.
//!
//! # The end
//!
//! The owner runs what it finds on its list, closes its station's tally, and waits for the last task; then for the VPs of the scope's environment. Then nobody has
//! a pointer into the scope, but for entries of the owner's list that were stolen, which are not looked into.

use std::any::Any;
use std::cell::Cell;
use std::fmt;
use std::marker::PhantomData;
use std::mem::offset_of;
use std::panic::{AssertUnwindSafe, Location, catch_unwind};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

use super::arena::MAX_ALIGN;
use super::crew::{self, Station};
use super::handle::Task;
use super::work::{self, Place, TaskHead, TaskJob};
use super::{JobHead, OF_TASK, WANTED, attend_if_asked, has_room, next_child, published, stand_for};
use crate::ctx::{self, attention};
use crate::ended::Cancelled;
use crate::env::{Info, Kind};
use crate::kernel::done::Done;
use crate::kernel::latent::Newest;
use crate::kernel::wait::Key;
use crate::runtime::core::Core;
use crate::scope::ScopeHead;
use crate::vp::block::Block;
use crate::vp::{VpBuilder, cancel};

type Payload = Box<dyn Any + Send>;

const INFO: &Info = &Info { request: || "sync", environment: || "latent tasks", kind: Kind::Binding };

/// Closures of more bytes are given to VPs. (So offsets and sizes of tasks are small numbers.)
const MAX_SIZE: usize = 1 << 24;

/// What a scope's tasks know of it.
///
/// | | who may touch it |
/// |---|---|
/// | `owner`, `around` | constant |
/// | `station` | the owner's timeline, see `crew` |
/// | `key` | the owner, before it closes the tally; then whoever ends the last task |
/// | the rest | anybody |
#[derive(Debug)]
pub(crate) struct Root {
    head: ScopeHead,
    owner: &'static Block,
    /// The latent task that ran inline on the owner when it opened the scope.
    around: *const JobHead,
    station: Station,
    key: Cell<Option<Key>>,
    /// The first panic that was noticed of a task that nobody touched.
    panic: Mutex<Option<Payload>>,
    stations: Mutex<Stations>,
    /// VPs were made in the scope.
    vps: AtomicBool,
}

/// The stations of the crew.
#[derive(Debug, Default)]
struct Stations {
    all: Vec<NonNull<Station>>,
    spare: Vec<NonNull<Station>>,
}

// SAFETY: the table at the type; the pointers of `stations` are used under its lock.
unsafe impl Sync for Root {}
// SAFETY: as above.
unsafe impl Send for Root {}

impl Root {
    pub(crate) fn owner(&self) -> &'static Block {
        self.owner
    }

    pub(crate) fn around(&self) -> *const JobHead {
        self.around
    }

    pub(super) fn head(&self) -> *const ScopeHead {
        &raw const self.head
    }

    pub(super) fn key(&self) -> &Cell<Option<Key>> {
        &self.key
    }

    /// The station of `block`, which runs here; null: it has none.
    #[inline(always)]
    pub(super) fn station_if_any(&self, block: &Block) -> *const Station {
        if ptr::eq(self.owner, block) {
            return &raw const self.station;
        }
        // SAFETY: a shift lies in a frame of the VP that runs here.
        match unsafe { block.around().as_shift().as_ref() } {
            Some(shift) if ptr::eq(shift.root, self) => shift.station(),
            _ => ptr::null(),
        }
    }

    /// The station of `block`, which runs here, if it may have one.
    #[inline(always)]
    fn station(&self, block: &Block) -> Option<&Station> {
        if ptr::eq(self.owner, block) {
            return Some(&self.station);
        }
        // SAFETY: as above.
        let shift = unsafe { block.around().as_shift().as_ref() }.filter(|shift| ptr::eq(shift.root, self))?;
        let station = if shift.station().is_null() { shift.open_station() } else { shift.station() };
        // SAFETY: a station of this scope.
        unsafe { station.as_ref() }
    }

    /// A station for a VP of the crew that is counted by `lease`.
    pub(super) fn open_station(&self, lease: *const Station) -> *const Station {
        let mut stations = self.stations.lock().unwrap_or_else(PoisonError::into_inner);
        let station = stations.spare.pop().unwrap_or_else(|| {
            let fresh = NonNull::from(Box::leak(Box::new(Station::new())));
            stations.all.push(fresh);
            fresh
        });
        // SAFETY: it is freed with the scope, and nobody else has it.
        unsafe { station.as_ref() }.open(self, lease);
        station.as_ptr()
    }

    /// All that was made at a station of the crew is over.
    pub(super) fn close_station(&self, station: &Station) {
        station.tally.reopen();
        let mut stations = self.stations.lock().unwrap_or_else(PoisonError::into_inner);
        stations.spare.push(NonNull::from(station));
    }

    /// A task has panicked whose result nobody touches. A cancel is not a panic.
    pub(super) fn note_panic(&self, payload: Payload) {
        if payload.is::<Cancelled>() {
            return drop(payload);
        }
        let mut panic = self.panic.lock().unwrap_or_else(PoisonError::into_inner);
        let later = if panic.is_none() { panic.replace(payload) } else { Some(payload) };
        drop(panic);
        if let Err(payload) = catch_unwind(AssertUnwindSafe(|| drop(later))) {
            crate::panics::nobody_catches(payload);
        }
    }

    /// Whether the task of this entry, which the caller has in hand, is one of this scope.
    fn owns(&self, job: NonNull<JobHead>) -> bool {
        // SAFETY: the caller has it in hand.
        unsafe { job.as_ref() }.scope == self.mark()
    }

    /// The scope, with the mark of a task.
    #[inline(always)]
    fn mark(&self) -> *const ScopeHead {
        (&raw const self.head).map_addr(|addr| addr | OF_TASK)
    }

    /// Whether tasks may run inline on `block`, which runs here: there they would not meet the cancel of the scope, if that alone was cancelled.
    #[inline(always)]
    pub(super) fn may_run_on(&self, block: &Block) -> bool {
        has_room(block) && (!self.head.is_cancelled() || block.is_cancelled())
    }

    /// Runs the tasks of this scope that the owner, whose timeline this is, finds on its list.
    fn run_own(&self, block: &'static Block) {
        while let Some(core) = ctx::get().core() {
            attend_if_asked(&core.ctx, core, block);
            let core = ctx::get().core().expect("a VP has a core");
            // SAFETY: this code runs on that core.
            let list = unsafe { core.latent.owner() };
            match list.pop_if(|job| self.owns(job)) {
                Newest::Mine(job) if self.may_run_on(block) => {
                    // SAFETY: just taken off the list; the owner is here, so the scope is.
                    unsafe { crew::run(job.cast(), block, true) };
                }
                Newest::Mine(job) => {
                    crew::leave_behind(core, &[job.cast()]);
                    published(core);
                }
                Newest::Empty => break,
                Newest::Other => match list.find(self.station.low.get(), |job| self.owns(job)) {
                    Some(index) => super::detach_from(core, index + 1),
                    None => {
                        published(core);
                        break;
                    }
                },
            }
        }
        self.station.low.set(u32::MAX);
    }

    /// Waits until all that was spawned is over. For the owner.
    fn settle(&self, place: &'static Location<'static>) {
        let block = self.owner;
        self.run_own(block);
        let station = &self.station;
        if station.out.get() != 0 {
            let key = block.wait.arm_free();
            self.key.set(Some(key));
            // SAFETY: it has started.
            unsafe { block.node() }.key.set(key);
            if !station.tally.close(station.out.replace(0)) {
                stand_for(block, key, station.thief(), INFO, place);
            } else if let Ok(claim) = block.wait.claim(key) {
                // Nobody else has the key.
                block.wait.publish(claim);
            }
            block.wait.retire();
            station.tally.reopen();
        }
        // ORDERING: Relaxed: set by this timeline, or by one that this one has waited for.
        if self.vps.swap(false, Ordering::Relaxed) {
            if let Some(payload) = self.head.wait_for_vps() {
                self.note_panic(payload);
            }
        }
    }

    /// Gives back the memory. After the last wait.
    fn give_back(&self) {
        let core = ctx::get().core();
        // SAFETY: all tasks are over, and handles do not leave the scope.
        unsafe { self.station.arena.give_back(core) };
        let stations = std::mem::take(&mut *self.stations.lock().unwrap_or_else(PoisonError::into_inner));
        for station in stations.all {
            // SAFETY: leaked by `open_station`; the crew's last word was that it was closed.
            let station = unsafe { Box::from_raw(station.as_ptr()) };
            // SAFETY: as above.
            unsafe { station.arena.give_back(core) };
        }
    }
}

/// A place to spawn tasks that borrow from outside of it. See [`task_scope`].
pub struct TaskScope<'scope, 'env: 'scope> {
    root: Root,
    _scope: PhantomData<&'scope mut &'scope ()>,
    _env: PhantomData<&'env mut &'env ()>,
}

impl fmt::Debug for TaskScope<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskScope").field("cancelled", &self.root.head.is_cancelled()).finish_non_exhaustive()
    }
}

/// Runs `f` with a scope for tasks; returns when `f` has returned and every task spawned in the scope has ended.
///
/// A task is a closure that any core may run: cheaper than a VP by far if none does. It is started later, not by its spawn: by an idle core,
/// else by the scope's owner when it waits ([`sync`](TaskScope::sync), [`touch`](Task::touch), the scope's end), the newest first. A task that blocks is a
/// VP from then on, so it may wait for whatever it likes; the tasks that wait for their start on the stack of one that blocks are run by others.
/// No order of execution is promised.
///
/// Names and [`vp_local!`](crate::vp_local) values are the same wherever a task runs: it counts as a child, of its own, of what spawned it.
///
/// # Panics
///
/// If `f` panics, with its payload, after all tasks have ended: they are all run. Else if a task panicked that was not touched,
/// with the payload of the first that was noticed: tasks on several cores panic in no order. Unwinds if the calling VP was cancelled meanwhile.
///
/// # Examples
///
/// ```
/// use proto_core::TaskScope;
///
/// /// Adds one to each number, with tasks that spawn tasks.
/// fn increment<'scope>(s: &'scope TaskScope<'scope, '_>, numbers: &'scope mut [u32]) {
///     match numbers {
///         [] => {}
///         [number] => *number += 1,
///         _ => {
///             let (left, right) = numbers.split_at_mut(numbers.len() / 2);
///             s.spawn(move || increment(s, left));
///             s.spawn(move || increment(s, right));
///         }
///     }
/// }
///
/// let runtime = proto_core::Runtime::builder().controllers(2).build()?;
/// let mut numbers = vec![1; 1000];
/// runtime.run(|| proto_core::task_scope(|s| increment(s, &mut numbers)))?;
/// assert_eq!(numbers, vec![2; 1000]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// What is borrowed cannot escape:
///
/// ```compile_fail,E0597
/// proto_core::task_scope(|s| {
///     let local = 1;
///     let borrowed = &local; // `local` does not live long enough
///     s.spawn(move || println!("{borrowed}"));
/// });
/// ```
#[track_caller]
pub fn task_scope<'env, F, T>(f: F) -> T
where
    F: for<'scope> FnOnce(&'scope TaskScope<'scope, 'env>) -> T,
{
    let block = ctx::get().current().expect("an assigner or a hook opens no scope");
    let scope = TaskScope {
        root: Root {
            head: ScopeHead::open(block),
            owner: block,
            around: block.inline_job(),
            station: Station::new(),
            key: Cell::new(None),
            panic: Mutex::new(None),
            stations: Mutex::new(Stations::default()),
            vps: AtomicBool::new(false),
        },
        _scope: PhantomData,
        _env: PhantomData,
    };
    let root = &scope.root;
    root.station.open(root, ptr::null());
    let result = root.head.stand(block, || f(&scope));
    root.settle(Location::caller());
    root.head.leave_open(block);
    root.give_back();
    let panic = root.panic.lock().unwrap_or_else(PoisonError::into_inner).take();
    match (result, panic) {
        (Ok(value), None) => {
            cancel::deliver_noted();
            value
        }
        (Err(payload), _) | (Ok(_), Some(payload)) => crate::resume_unwind(payload),
    }
}

impl<'scope> TaskScope<'scope, '_> {
    /// Spawns a task without a result.
    ///
    /// Only what is `Sync` may be borrowed:
    ///
    /// ```compile_fail,E0277
    /// let counter = std::cell::Cell::new(0);
    /// proto_core::task_scope(|s| s.spawn(|| counter.set(1)));
    /// ```
    ///
    /// # Panics
    ///
    /// If the caller is an OS thread and there is no runtime for the task.
    #[inline]
    #[track_caller]
    pub fn spawn<F>(&'scope self, f: F)
    where
        F: FnOnce() + Send + 'scope,
    {
        // SAFETY: these belong together; nobody has a handle.
        let made =
            unsafe { self.make::<F, ()>(f, TaskJob::<F, ()>::run_quiet, work::no_result, Done::of_nobody(), false) };
        if let Err(f) = made {
            drop(self.spawn_vp(f));
        }
    }

    /// Spawns a task with a result, which whoever has the handle may [`touch`](Task::touch): also a task of this scope, on any core.
    ///
    /// # Panics
    ///
    /// As [`spawn`](TaskScope::spawn).
    ///
    /// # Examples
    ///
    /// ```
    /// let text = String::from("a scoped future");
    /// let words = proto_core::task_scope(|s| {
    ///     let words = s.task(|| text.split(' ').count());
    ///     // … something else meanwhile …
    ///     words.touch()
    /// });
    /// assert_eq!(words, 3);
    /// ```
    #[inline]
    #[track_caller]
    pub fn task<F, T>(&'scope self, f: F) -> Task<'scope, T>
    where
        F: FnOnce() -> T + Send + 'scope,
        T: Send + 'scope,
    {
        // SAFETY: these belong together; the handle follows.
        let made =
            unsafe { self.make::<F, T>(f, TaskJob::<F, T>::run_kept, TaskJob::<F, T>::drop_kept, Done::new(), true) };
        match made {
            // SAFETY: just made, with a handle, this one.
            Ok(task) => unsafe { Task::latent(task) },
            Err(f) => Task::vp(self.spawn_vp(f)),
        }
    }

    /// Waits for all tasks spawned so far: runs those that nobody has started, the newest first, and waits for the others. A binding wait.
    ///
    /// Their panics are kept for the scope's end.
    ///
    /// # Panics
    ///
    /// If the caller is not the scope's own closure: a task of the scope would wait for itself. Unwinds if the calling VP was cancelled
    /// meanwhile.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::atomic::{AtomicU32, Ordering};
    ///
    /// let done = AtomicU32::new(0);
    /// proto_core::task_scope(|s| {
    ///     for _ in 0..10 {
    ///         s.spawn(|| { done.fetch_add(1, Ordering::Relaxed); });
    ///     }
    ///     s.sync();
    ///     assert_eq!(done.load(Ordering::Relaxed), 10);
    /// });
    /// ```
    #[track_caller]
    pub fn sync(&self) {
        let block = ctx::get().current().expect("an assigner or a hook syncs no scope");
        assert!(
            ptr::eq(block, self.root.owner) && ptr::eq(block.inline_job(), self.root.around),
            "a task scope is synced by its own closure: a task of it would wait for itself"
        );
        self.root.settle(Location::caller());
        cancel::deliver_noted();
    }

    /// Cancels the tasks of this scope; its owner goes on.
    ///
    /// A task is always run: one that has not started yet meets the cancel at its first abandonable wait. Not reached is a task that already runs on
    /// the stack of the owner, in [`sync`](TaskScope::sync), or of a VP that touched it: that is cancelled with the timeline it runs on.
    ///
    /// # Errors
    ///
    /// In a `panic=abort` build.
    pub fn cancel(&self) -> Result<(), crate::CannotCancel> {
        cancel::check_possible()?;
        self.root.head.cancel_now();
        Ok(())
    }

    /// Leaves `f` as a latent task, if the caller may; else gives it back.
    ///
    /// # Safety
    ///
    /// - `run` and `drop_result` are those of `TaskJob<F, T>`; `done` and `kept` say whether a handle is made of it.
    #[inline(always)]
    unsafe fn make<F, T>(
        &'scope self,
        f: F,
        run: unsafe fn(*const JobHead),
        drop_result: unsafe fn(*const JobHead),
        done: Done,
        kept: bool,
    ) -> Result<NonNull<TaskHead>, F>
    where
        F: FnOnce() -> T,
    {
        if const { align_of::<TaskJob<F, T>>() > MAX_ALIGN || size_of::<TaskJob<F, T>>() > MAX_SIZE } {
            return Err(f);
        }
        let ctx = ctx::get();
        let (Some(core), Some(block)) = (ctx.core(), ctx.current()) else { return Err(f) };
        if ctx.attention() & (WANTED | attention::HOOKS) != 0 {
            attend_if_asked(ctx, core, block);
            if ctx.attention() & attention::HOOKS != 0 {
                // Whatever passes no door is left out: a VP tells of its birth, its end and all between.
                return Err(f);
            }
        }
        let root = &self.root;
        let Some(station) = root.station(block) else { return Err(f) };
        let around = block.inline_job();
        let number = next_child(block, around);
        let align = const { if align_of::<TaskJob<F, T>>() > 16 { align_of::<TaskJob<F, T>>() } else { 16 } };
        let size = const { size_of::<TaskJob<F, T>>().next_multiple_of(16) };
        let place = if ptr::eq(around, root.around) {
            Place { at: station.take(block, size, align), bytes: size, path: NonNull::dangling().as_ptr(), steps: 0 }
        } else {
            work::place_in_task(root, station, block, size, align)
        };
        let task: NonNull<TaskHead> = place.at.cast();
        let head = TaskHead {
            head: JobHead {
                done,
                number,
                run,
                owner: root.owner,
                around: ptr::null(),
                key: Cell::new(None),
                ticket: Cell::new(None),
                scope: root.mark(),
                children: Cell::new(0),
                has_locals: Cell::new(false),
            },
            station,
            next: Cell::new(None),
            waiter: Cell::new(None),
            drop_result,
            index: AtomicU32::new(0),
            bytes: place.bytes as u32,
            path: place.path,
            steps: place.steps,
            result_at: const { offset_of!(TaskJob<F, T>, body) as u16 },
            kept,
        };
        // SAFETY: the place is this timeline's, large enough for a `TaskJob<F, T>`, which begins with it.
        unsafe { task.write(head) };
        // SAFETY: within the place.
        let body = unsafe { place.at.add(const { offset_of!(TaskJob<F, T>, body) }) };
        // SAFETY: as above.
        unsafe { body.cast::<F>().write(f) };
        station.out.set(station.out.get() + 1);
        // Read again: with migration compiled in this may be another core than before.
        let ctx = ctx::get();
        let Some(core) = ctx.core() else { unreachable!("a VP has a core") };
        let index = crew::push(core, task).unwrap_or_else(|_| push_behind_bundle(core, task));
        if index < station.low.get() {
            station.low.set(index);
        }
        if ctx.attention() & attention::SLEEPER != 0 {
            published(core);
        }
        Ok(task)
    }

    /// Makes a VP of it, for who has no latent list here.
    #[cold]
    #[inline(never)]
    #[track_caller]
    fn spawn_vp<F, T>(&'scope self, f: F) -> crate::ScopedJoinHandle<'scope, T>
    where
        F: FnOnce() -> T + Send + 'scope,
        T: Send + 'scope,
    {
        // ORDERING: Relaxed: see `Root::settle`.
        self.root.vps.store(true, Ordering::Relaxed);
        // SAFETY: what `f` and `T` borrow outlives the scope, whose head this is.
        match unsafe { self.root.head.spawn(VpBuilder::new(), f) } {
            Ok(handle) => handle,
            Err(error) => panic!("a task could not be spawned: {error}"),
        }
    }
}

/// The list is full: all that is on it becomes ordinary, then there is room.
#[cold]
#[inline(never)]
fn push_behind_bundle(core: &'static Core, task: NonNull<TaskHead>) -> u32 {
    super::detach_from(core, 0);
    crew::push(core, task).expect("the list is empty")
}
