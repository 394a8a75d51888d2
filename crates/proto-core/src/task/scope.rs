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
use super::root::{Root, Stations};
use super::work::{self, Place, TaskHead, TaskJob};
use super::{JobHead, WANTED, attend_if_asked, next_child, published};
use crate::ctx::{self, attention};
use crate::kernel::done::Done;
use crate::runtime::core::Core;
use crate::scope::ScopeHead;
use crate::vp::{VpBuilder, cancel};

/// Closures of more bytes are given to VPs. (So offsets and sizes of tasks are small numbers.)
const MAX_SIZE: usize = 1 << 24;

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
            step: next_child(block, block.inline_job()),
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
    /// If the task has to become a VP at once (the caller is an OS thread, or hooks are installed) and cannot: there is no runtime, or it is
    /// shutting down.
    #[inline]
    #[track_caller]
    pub fn spawn<F>(&'scope self, f: F)
    where
        F: FnOnce() + Send + 'scope,
    {
        // SAFETY: these belong together; nobody has a handle.
        let made = unsafe {
            self.make::<F, ()>(f, TaskJob::<F, ()>::run_quiet, work::no_result, Done::of_nobody(), false, None)
        };
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
        let made = unsafe {
            self.make::<F, T>(f, TaskJob::<F, T>::run_kept, TaskJob::<F, T>::drop_kept, Done::new(), true, None)
        };
        match made {
            // SAFETY: just made, with a handle, this one.
            Ok(task) => unsafe { Task::latent(task) },
            Err(f) => Task::vp(self.spawn_vp(f)),
        }
    }

    /// Spawns tasks that are run one after the other, by whoever takes the first: `f` is called, and again for each number that it gives.
    ///
    /// For languages that find out in the end of one task what may run next. Each is a task of its own, in what concerns
    /// [`vp_local!`](crate::vp_local) and names: its name is the number, as a child of the scope, whoever spawns it, and wherever it runs; so numbers
    /// should differ. A series is always run to its end, but for a panic: also if its scope is cancelled, or there is no stack for it.
    ///
    /// # Panics
    ///
    /// As [`spawn`](TaskScope::spawn).
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::Mutex;
    ///
    /// use proto_core::{Runtime, current_name, task_scope};
    ///
    /// let names = Mutex::new(Vec::new());
    /// let names_of = |mut numbers: std::ops::Range<u32>| {
    ///     let names = &names;
    ///     move || {
    ///         names.lock().unwrap().push(current_name().path().last().copied());
    ///         numbers.next()
    ///     }
    /// };
    /// Runtime::builder().controllers(1).build()?.run(|| task_scope(|s| s.spawn_series(5, names_of(6..9))))?;
    /// assert_eq!(names.into_inner()?, [Some(5), Some(6), Some(7), Some(8)]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline]
    #[track_caller]
    pub fn spawn_series<F>(&'scope self, first: u32, f: F)
    where
        F: FnMut() -> Option<u32> + Send + 'scope,
    {
        let run = TaskJob::<F, ()>::run_series;
        // SAFETY: these belong together; nobody has a handle.
        let made = unsafe { self.make::<F, ()>(f, run, work::no_result, Done::of_nobody(), false, Some(first)) };
        if let Err(f) = made {
            self.spawn_vps(f);
        }
    }

    /// A series of VPs, each made by the one before it.
    #[cold]
    #[track_caller]
    fn spawn_vps<F>(&'scope self, f: F)
    where
        F: FnMut() -> Option<u32> + Send + 'scope,
    {
        let mut series = Series { f: Some(f), root: &self.root };
        drop(self.spawn_vp(move || {
            if let Some(mut f) = series.f.take() {
                if f().is_some() {
                    self.spawn_vps(f);
                }
            }
        }));
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
    /// - `run` and `drop_result` are those of `TaskJob<F, T>`; `done` and `kept` say whether a handle is made of it, `series` under which number it
    ///   begins if it is one.
    #[inline(always)]
    unsafe fn make<F, T>(
        &'scope self,
        f: F,
        run: unsafe fn(*const JobHead),
        drop_result: unsafe fn(*const JobHead),
        done: Done,
        kept: bool,
        series: Option<u32>,
    ) -> Result<NonNull<TaskHead>, F> {
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
        let number = series.unwrap_or_else(|| next_child(block, around));
        let align = const { if align_of::<TaskJob<F, T>>() > 16 { align_of::<TaskJob<F, T>>() } else { 16 } };
        let size = const { size_of::<TaskJob<F, T>>().next_multiple_of(16) };
        let place = if series.is_some() {
            Place { at: station.take(block, size, align), bytes: size, path: &raw const root.step, steps: 1 }
        } else if ptr::eq(around, root.around) {
            Place { at: station.take(block, size, align), bytes: size, path: NonNull::dangling().as_ptr(), steps: 0 }
        } else {
            work::place_in_task(root, station, block, size, align)
        };
        let task: NonNull<TaskHead> = place.at.cast();
        let head = TaskHead {
            head: JobHead::new(run, root.owner, ptr::null(), root.mark(), number, done),
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

/// What is left of a series whose next task got a VP. If that never starts, it is run where it is dropped.
struct Series<'scope, F: FnMut() -> Option<u32>> {
    f: Option<F>,
    root: &'scope Root,
}

impl<F: FnMut() -> Option<u32>> Drop for Series<'_, F> {
    fn drop(&mut self) {
        let Some(mut f) = self.f.take() else { return };
        if let Err(payload) = catch_unwind(AssertUnwindSafe(move || while f().is_some() {})) {
            self.root.note_panic(payload);
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
