//! The handle of one task: its result, to whoever touches it.
//!
//! Who touches a task that nobody has started runs it on its own stack: it takes it off its latent list, or out of the bundle in which the task's
//! timeline left it. Else it waits, bindingly, for who runs it; a task on another core's list is not reached from here, but the core that
//! the toucher leaves steals it from there before long.

use std::fmt;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::panic::Location;
use std::ptr::{self, NonNull};
use std::sync::atomic::Ordering;

use super::crew::{self, Station};
use super::work::{self, Outcome, TaskHead};
use super::{attend_if_asked, stand_for};
use crate::ctx::{self, Ctx};
use crate::env::{Info, Kind};
use crate::kernel::latent::{Fate, Own};
use crate::runtime::core::Core;
use crate::scope::ScopedJoinHandle;
use crate::vp::block::Block;
use crate::vp::cancel;
use crate::{Cancelled, JoinError};

const INFO: &Info = &Info { request: || "touch", environment: || "latent tasks", kind: Kind::Binding };

/// The result of a task that was spawned with [`TaskScope::task`](super::TaskScope::task).
///
/// Dropped, the task is run all the same, and its result dropped; if it panicked, the scope says so.
pub struct Task<'scope, T>(Kept<'scope, T>);

enum Kept<'scope, T> {
    Latent(Latent<'scope, T>),
    /// It was made where there is no latent list.
    Vp(ScopedJoinHandle<'scope, T>),
}

/// **Invariant**: the task has a handle, this one; so its place is not free, and its result is a `T`'s.
struct Latent<'scope, T> {
    task: NonNull<TaskHead>,
    result: PhantomData<T>,
    scope: PhantomData<&'scope ()>,
}

// SAFETY: a task may be touched by anybody who may have a `T`; see the protocol of `Done`.
unsafe impl<T: Send> Send for Latent<'_, T> {}
// SAFETY: a shared handle only tells whether the task is done.
unsafe impl<T: Send> Sync for Latent<'_, T> {}

impl<T> fmt::Debug for Task<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Task").field("done", &self.is_done()).finish()
    }
}

impl<'scope, T> Task<'scope, T> {
    /// # Safety
    ///
    /// - `task` was just made, with a result of type `T` and marked as having a handle; this is the only one.
    #[inline(always)]
    pub(super) unsafe fn latent(task: NonNull<TaskHead>) -> Self {
        Task(Kept::Latent(Latent { task, result: PhantomData, scope: PhantomData }))
    }

    pub(super) fn vp(handle: ScopedJoinHandle<'scope, T>) -> Self {
        Task(Kept::Vp(handle))
    }

    /// Whether it has been run: if so, [`touch`](Task::touch) does not wait.
    pub fn is_done(&self) -> bool {
        match &self.0 {
            Kept::Latent(latent) => latent.head().head.done.is_done(),
            Kept::Vp(handle) => handle.is_finished(),
        }
    }

    /// Its result. If nobody has started it, it runs now, on the caller's stack; else the caller waits for whoever runs it. A binding wait.
    ///
    /// # Panics
    ///
    /// If the task panicked, with its payload. Unwinds if the calling VP was cancelled meanwhile.
    ///
    /// # Examples
    ///
    /// ```
    /// let sum = proto_core::task_scope(|s| {
    ///     let (a, b) = (s.task(|| 1), s.task(|| 2));
    ///     a.touch() + b.touch()
    /// });
    /// assert_eq!(sum, 3);
    /// ```
    #[inline]
    #[track_caller]
    pub fn touch(self) -> T {
        match self.outcome() {
            Ok(value) => {
                deliver_noted();
                value
            }
            Err(payload) => crate::resume_unwind(payload),
        }
    }

    /// As [`touch`](Task::touch), for who wants to know how it ended. A cancel of the caller is delivered first.
    ///
    /// # Errors
    ///
    /// See [`JoinError`].
    #[track_caller]
    pub fn join(self) -> Result<T, JoinError> {
        let outcome = self.outcome();
        deliver_noted();
        outcome
            .map_err(|payload| if payload.is::<Cancelled>() { JoinError::Cancelled } else { JoinError::Panic(payload) })
    }

    #[inline]
    #[track_caller]
    fn outcome(self) -> Outcome<T> {
        match self.0 {
            Kept::Latent(latent) => latent.outcome(Location::caller()),
            Kept::Vp(handle) => handle.join_noting().map_err(JoinError::into_payload),
        }
    }
}

#[inline]
fn deliver_noted() {
    if ctx::installed().and_then(Ctx::current).is_some_and(Block::is_cancelled) {
        cancel::deliver_noted();
    }
}

/// Who has the task that is touched.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Whose {
    /// The toucher, which took it off its list.
    Mine,
    /// The toucher, which took it out of a bundle.
    OutOfBundle,
    /// It has been run.
    Done,
}

impl<T> Latent<'_, T> {
    #[inline(always)]
    fn head(&self) -> &TaskHead {
        // SAFETY: the invariant: the place is not free.
        unsafe { self.task.as_ref() }
    }

    #[inline(always)]
    fn may_run_on(&self, block: &Block) -> bool {
        self.head().scope().may_run_on(block)
    }

    #[inline]
    fn outcome(self, place: &'static Location<'static>) -> Outcome<T> {
        let this = ManuallyDrop::new(self);
        let ctx = ctx::get();
        // Once: with migration compiled in `ctx` may be another core's, and its current timeline another one, once this one has yielded.
        let block = ctx.current();
        if let (Some(core), Some(block)) = (ctx.core(), block) {
            attend_if_asked(ctx, core, block);
            // Read again, for the same reason.
            if let Some(core) = ctx::get().core() {
                // SAFETY: this code runs on that core.
                let list = unsafe { core.latent.owner() };
                let job = this.task.cast();
                let top = list.head().wrapping_sub(1);
                if list.holds(top, job) && this.may_run_on(block) && list.pop_own(job) == Own::Mine {
                    return this.run(block, Whose::Mine);
                }
            }
        }
        this.outcome_slow(block, place)
    }

    #[cold]
    #[inline(never)]
    fn outcome_slow(&self, block: Option<&'static Block>, place: &'static Location<'static>) -> Outcome<T> {
        let block = block.expect("an assigner or a hook touches no task");
        match self.find(ctx::get().core(), block, place) {
            Whose::Done => {
                let mine = self.head().scope().station_if_any(block);
                // SAFETY: it has run, and the handle is used up.
                unsafe { self.take(mine) }
            }
            whose => self.run(block, whose),
        }
    }

    /// Finds out who has it; if that is somebody else, waits until it is done.
    fn find(&self, core: Option<&'static Core>, block: &'static Block, place: &'static Location<'static>) -> Whose {
        let done = &self.head().head.done;
        if done.is_done() {
            return Whose::Done;
        }
        if let Some(core) = core {
            // ORDERING: Relaxed: a hint.
            let index = self.head().index.load(Ordering::Relaxed);
            // SAFETY: this code runs on that core.
            let list = unsafe { core.latent.owner() };
            if list.holds(index, self.task.cast()) && list.touch(index) == Fate::Untaken {
                super::published(core);
                if self.may_run_on(block) {
                    return Whose::Mine;
                }
                crew::leave_behind(core, &[self.task]);
                super::published(core);
            } else if self.may_run_on(block) && done.take() {
                return Whose::OutOfBundle;
            }
        }
        self.wait(block, place);
        Whose::Done
    }

    /// Waits until it is done.
    fn wait(&self, block: &'static Block, place: &'static Location<'static>) {
        let head = self.head();
        let key = block.wait.arm_free();
        head.waiter.set(Some(block));
        head.head.leave_key(key);
        // SAFETY: it has started, or is an attached OS thread.
        unsafe { block.node() }.key.set(key);
        if head.head.done.awaits() {
            stand_for(block, key, head.head.done.runner(), INFO, place);
        } else if let Ok(claim) = block.wait.claim(key) {
            // Done meanwhile: nobody else has the key.
            block.wait.publish(claim);
        }
        block.wait.retire();
    }

    /// Runs the task, which the caller has just taken.
    #[inline]
    fn run(&self, block: &'static Block, whose: Whose) -> Outcome<T> {
        let head = self.head();
        let (station, root) = (head.station, ptr::from_ref(head.scope()));
        // SAFETY: it was just taken.
        unsafe { work::run_on(self.task, block) };
        // SAFETY: the task is not counted as over, so the scope is there.
        let mine = unsafe { &*root }.station_if_any(block);
        let in_arena = if whose == Whose::OutOfBundle { ptr::null() } else { mine };
        // SAFETY: it has run, and the handle is used up. (The bundle has yet to pass by, so it is not to be taken for the topmost.)
        let outcome = unsafe { self.take(in_arena) };
        // SAFETY: it has run, and was not told so.
        unsafe { work::count(station, mine) };
        outcome
    }

    /// Takes the result, and frees the place.
    ///
    /// # Safety
    ///
    /// - The task has run; called once. `mine` is this timeline's station, or null.
    #[inline]
    unsafe fn take(&self, mine: *const Station) -> Outcome<T> {
        let at = usize::from(self.head().result_at);
        // SAFETY: within the place.
        let result = unsafe { self.task.byte_add(at) }.cast::<Outcome<T>>();
        // SAFETY: it has run, so the result is there; the invariant says of which type.
        let outcome = unsafe { result.read() };
        // SAFETY: nobody else uses the place any more: its runner has finished with it.
        unsafe { work::free(self.task, mine) };
        outcome
    }
}

impl<T> Drop for Latent<'_, T> {
    fn drop(&mut self) {
        let head = self.head();
        if !head.head.done.abandon() {
            return;
        }
        let block = ctx::installed().and_then(Ctx::current);
        let mine = block.map_or(ptr::null(), |block| head.scope().station_if_any(block));
        // SAFETY: it has run, and nobody else comes for the result.
        unsafe { (head.drop_result)(self.task.as_ptr().cast_const().cast()) };
        // SAFETY: as above: nobody else uses the place. Who has the handle is within the scope.
        unsafe { work::free(self.task, mine) };
    }
}
