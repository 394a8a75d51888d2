//! A task of a scope: its closure, and then its result, in the scope's arena.
//!
//! ```text
//!              ┌─ on a latent list ──────────── taken off by its timeline, or touched there ─► run inline ─┐
//!   spawned ───┤        │ its timeline leaves its core   │ stolen ─► run by a VP of the crew ─────────────┤
//!              │        ▼                                                                                │
//!              │    in a bundle (loose) ── taken out by the bundle's VP ─► on that VP's latent list      ├─► over ─► place free
//!              │        └──────────────── touched there ─► run inline ───────────────────────────────────┤
//!              └─ (no core, or a timeline that is none of the scope's): a VP of its own                     not here
//! ```
//!
//! # Who may touch what
//!
//! Whoever has the task in hand, because it took it off a list or out of a bundle, runs it. Then its place is free, but if there is a handle that is not
//! used up: then `Done` says who frees it. What is constant from the spawn on anybody may read who knows that the place is not free: who has it
//! in hand, who has the handle, who runs within it.
//!
//! # The dangerous race
//!
//! The scope's owner goes on as soon as the last task is counted as over, and frees all the memory. So a runner counts last of all, and an entry of a list
//! is not looked into before it is known that nobody took it.

use std::any::Any;
use std::cell::{Cell, UnsafeCell};
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::{self, NonNull};
use std::sync::atomic::AtomicU32;

use smallvec::SmallVec;

use super::crew::{self, Station};
use super::root::Root;
use super::{JobHead, arena, marks, wake};
use crate::ctx;
use crate::kernel::done::After;
use crate::vp::block::Block;
use crate::vp::local;

pub(super) type Outcome<T> = Result<T, Box<dyn Any + Send>>;

/// The steps of a name that are kept; deeper ones forget their beginning, as the names of VPs do.
const MAX_STEPS: usize = 255;

/// What every task of a scope has, whatever its closure.
#[repr(C)]
pub(crate) struct TaskHead {
    pub(super) head: JobHead,
    /// Whose arena it lies in, and who counts it.
    pub(super) station: *const Station,
    /// The next one of its bundle. Whoever has the bundle.
    pub(super) next: Cell<Option<NonNull<TaskHead>>>,
    /// Who waits for it; see `Done`.
    pub(super) waiter: Cell<Option<&'static Block>>,
    /// Drops the result.
    pub(super) drop_result: unsafe fn(*const JobHead),
    /// Where it was put into a latent list. A hint: the list is asked whether it is there.
    pub(super) index: AtomicU32,
    /// The bytes of its place.
    pub(super) bytes: u32,
    /// The steps that lead from the scope's owner to whoever spawned it, behind the task in its place; how many they are. (Of a series: to the scope, in that.)
    pub(super) path: *const u32,
    pub(super) steps: u16,
    /// The offset of its result.
    pub(super) result_at: u16,
    /// There is, or was, a handle.
    pub(super) kept: bool,
}

impl std::fmt::Debug for TaskHead {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TaskHead").field("number", &self.head.number()).finish_non_exhaustive()
    }
}

/// The task itself. `task` comes first: lists and bundles know only that.
#[repr(C)]
pub(super) struct TaskJob<F, T> {
    pub(super) task: TaskHead,
    pub(super) body: UnsafeCell<Body<F, T>>,
}

#[repr(C)]
pub(super) union Body<F, T> {
    pub(super) closure: ManuallyDrop<F>,
    outcome: ManuallyDrop<Outcome<T>>,
}

impl TaskHead {
    /// The scope.
    #[inline]
    pub(crate) fn scope(&self) -> &Root {
        // SAFETY: the place is not free, so the scope has not ended.
        unsafe { (*self.station).root() }
    }

    /// The steps from the scope's owner to whoever spawned it.
    pub(crate) fn steps(&self) -> &[u32] {
        // SAFETY: they were written there (`place_with`), and the place is not free.
        unsafe { std::slice::from_raw_parts(self.path, usize::from(self.steps)) }
    }
}

/// Where a new task is put.
pub(super) struct Place {
    pub(super) at: NonNull<u8>,
    pub(super) bytes: usize,
    pub(super) path: *const u32,
    pub(super) steps: u16,
}

/// A place for a task that is spawned by what runs inline on `block`, which runs here. May yield.
#[inline(never)]
pub(super) fn place_in_task(root: &Root, station: &Station, block: &'static Block, size: usize, align: usize) -> Place {
    let around = block.inline_job();
    // SAFETY: what runs inline is not over.
    if let Some(task) = unsafe { JobHead::task(around) }.filter(|task| ptr::eq(task.scope(), root)) {
        let before = task.steps();
        let before = &before[(before.len() + 1).saturating_sub(MAX_STEPS)..];
        return place_with(station, block, size, align, before, &[task.head.number()]);
    }
    place_with(station, block, size, align, &steps_to(root, block), &[])
}

/// A place that has these steps at its end.
fn place_with(
    station: &Station,
    block: &'static Block,
    size: usize,
    align: usize,
    first: &[u32],
    then: &[u32],
) -> Place {
    let steps = first.len() + then.len();
    let bytes = size + (size_of::<u32>() * steps).next_multiple_of(16);
    let at = station.take(block, bytes, align);
    // SAFETY: within the place.
    let path = unsafe { at.as_ptr().add(size) }.cast::<u32>();
    // SAFETY: there is room for them behind what else is put there; sizes are multiples of 16.
    unsafe { ptr::copy_nonoverlapping(first.as_ptr(), path, first.len()) };
    // SAFETY: as above.
    let behind = unsafe { path.add(first.len()) };
    // SAFETY: as above.
    unsafe { ptr::copy_nonoverlapping(then.as_ptr(), behind, then.len()) };
    Place { at, bytes, path, steps: steps as u16 }
}

/// The steps from the owner of `root` to the code that runs on `block`, which is within the scope.
#[cold]
fn steps_to(root: &Root, block: &Block) -> SmallVec<[u32; 16]> {
    let mut backwards: SmallVec<[u32; 16]> = SmallVec::new();
    let mut job = block.inline_job();
    while !ptr::eq(job, root.around()) {
        // SAFETY: tasks that run inline stay until they are over.
        let Some(head) = (unsafe { job.as_ref() }) else { break };
        backwards.push(head.number());
        // SAFETY: as above.
        job = match unsafe { JobHead::task(job) } {
            None => head.outer(),
            Some(task) => {
                backwards.extend(task.steps().iter().rev().copied());
                if ptr::eq(task.scope(), root) {
                    break;
                }
                task.scope().around()
            }
        };
    }
    backwards.truncate(MAX_STEPS);
    backwards.reverse();
    backwards
}

impl<F: FnOnce()> TaskJob<F, ()> {
    /// Runs a task without a handle: its panic goes to the scope.
    ///
    /// # Safety
    ///
    /// - `job` is the head of a `TaskJob<F, ()>` whose closure has not run; the caller has it in hand.
    pub(super) unsafe fn run_quiet(job: *const JobHead) {
        let this: *const Self = job.cast();
        // SAFETY: duty of the caller; the body is the runner's alone.
        let body = unsafe { (*this).body.get() };
        // SAFETY: the closure has not run.
        let closure = unsafe { body.cast::<F>().read() };
        if let Err(payload) = catch_unwind(AssertUnwindSafe(closure)) {
            // SAFETY: the task is not over, so its scope is there.
            unsafe { (*this).task.scope() }.note_panic(payload);
        }
    }
}

impl<F: FnMut() -> Option<u32>> TaskJob<F, ()> {
    /// Runs a series: each time the closure gives a number, the next task begins, under that. What one of them had is gone by then: what it forked, and
    /// the scopes that it opened, have ended within it, so nobody reads the number that changes.
    ///
    /// # Safety
    ///
    /// - As for [`run_quiet`](TaskJob::run_quiet).
    pub(super) unsafe fn run_series(job: *const JobHead) {
        let this: *const Self = job.cast();
        // SAFETY: duty of the caller; the body is the runner's alone.
        let body = unsafe { (*this).body.get() };
        // SAFETY: the closure has not run.
        let closure = unsafe { body.cast::<F>().read() };
        // SAFETY: the place is not free before it has run.
        let head = unsafe { &*job };
        let series = move || {
            let mut closure = closure;
            while let Some(number) = closure() {
                if head.has(marks::LOCALS) {
                    ctx::get().current().into_iter().for_each(|block| local::end_inline(block, head));
                }
                head.go_on_as(number);
            }
        };
        if let Err(payload) = catch_unwind(AssertUnwindSafe(series)) {
            // SAFETY: the task is not over, so its scope is there.
            unsafe { (*this).task.scope() }.note_panic(payload);
        }
    }
}

/// There is no result.
pub(super) unsafe fn no_result(_: *const JobHead) {}

impl<F: FnOnce() -> T, T> TaskJob<F, T> {
    /// Runs a task and keeps its result.
    ///
    /// # Safety
    ///
    /// - `job` is the head of a `TaskJob<F, T>` whose closure has not run; the caller has it in hand.
    pub(super) unsafe fn run_kept(job: *const JobHead) {
        let this: *const Self = job.cast();
        // SAFETY: duty of the caller; the body is the runner's alone.
        let body = unsafe { (*this).body.get() };
        // SAFETY: the closure has not run.
        let closure = unsafe { body.cast::<F>().read() };
        let outcome = catch_unwind(AssertUnwindSafe(closure));
        // SAFETY: the closure is gone; its place takes the outcome.
        unsafe { body.cast::<Outcome<T>>().write(outcome) };
    }

    /// Drops the result; a panic goes to the scope.
    ///
    /// # Safety
    ///
    /// - `job` is the head of a `TaskJob<F, T>` that `run_kept` has run; its result is nobody else's, and dropped once.
    pub(super) unsafe fn drop_kept(job: *const JobHead) {
        let this: *const Self = job.cast();
        // SAFETY: duty of the caller.
        let body = unsafe { (*this).body.get() };
        // SAFETY: as above.
        let outcome = unsafe { body.cast::<Outcome<T>>().read() };
        // SAFETY: the place is not free, so the scope is there.
        let scope = unsafe { (*this).task.scope() };
        match outcome {
            Err(payload) => scope.note_panic(payload),
            Ok(value) => {
                if let Err(payload) = catch_unwind(AssertUnwindSafe(|| drop(value))) {
                    scope.note_panic(payload);
                }
            }
        }
    }
}

/// Runs the closure on `block`, which runs here, as a child of its own.
///
/// # Safety
///
/// - The caller has the task in hand.
#[inline]
pub(super) unsafe fn run_on(task: NonNull<TaskHead>, block: &'static Block) {
    let job = task.as_ptr().cast_const().cast::<JobHead>();
    // SAFETY: the place is not free.
    let head = unsafe { &*job };
    let before = block.inline_job();
    block.set_inline_job(job);
    // SAFETY: duty of the caller.
    unsafe { (head.run)(job) };
    block.set_inline_job(before);
    if head.has(marks::LOCALS) {
        local::end_inline(block, head);
    }
}

/// Frees the place of a task. `mine` is the station of the timeline that runs here, if it has one.
///
/// # Safety
///
/// - The task has run, and nobody else uses its place; done once.
#[inline]
pub(super) unsafe fn free(task: NonNull<TaskHead>, mine: *const Station) {
    // SAFETY: the place is not free yet.
    let (station, bytes) = unsafe { task.as_ref() }.place();
    if ptr::eq(station, mine) {
        // SAFETY: the station of this timeline, in a scope that has not ended.
        let arena = unsafe { &(*station).arena };
        // SAFETY: the place is of this arena.
        unsafe { arena.free(task.cast(), bytes) };
    } else {
        // SAFETY: the scope has not ended: the task is not counted as over, or the handle was still there.
        unsafe { arena::free_away(task.cast()) };
    }
}

impl TaskHead {
    fn place(&self) -> (*const Station, usize) {
        (self.station, self.bytes as usize)
    }
}

/// A task has run: tells who wants to know.
///
/// # Safety
///
/// - The caller has run the task; `mine` is the station of this timeline, if it has one in this scope. With `counts` the scope may be gone afterwards.
#[inline]
pub(super) unsafe fn over(task: NonNull<TaskHead>, mine: *const Station, counts: bool) {
    // SAFETY: the place is not free yet.
    let head = unsafe { task.as_ref() };
    let station = head.station;
    if head.kept {
        match head.head.done.finish() {
            After::Left => {}
            After::Wake => {
                // SAFETY: just said; who waits keeps the task.
                let key = unsafe { head.head.left_key() };
                wake(head.waiter.get().expect("who waits has left its name"), key);
            }
            After::Drop => {
                // SAFETY: it has run, and nobody comes for the result.
                unsafe { (head.drop_result)(task.as_ptr().cast_const().cast()) };
                // SAFETY: as above.
                unsafe { free(task, mine) };
            }
        }
    } else {
        // SAFETY: nobody has a handle.
        unsafe { free(task, mine) };
    }
    if counts {
        // SAFETY: it is counted there, and is over.
        unsafe { count(station, mine) };
    }
}

/// Counts a task of `station` as over.
///
/// # Safety
///
/// - As for [`over`]; once for each task.
#[inline]
pub(super) unsafe fn count(station: *const Station, mine: *const Station) {
    if ptr::eq(station, mine) {
        // SAFETY: this timeline's own station.
        let out = unsafe { &(*station).out };
        out.set(out.get() - 1);
    } else {
        // SAFETY: duty of the caller.
        unsafe { crew::ended(station) };
    }
}
