//! What a process is to the runtime, and how it ends.

use std::any::Any;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use super::end::{AwaitEnd, EndEnv, Over};
use super::{OnSeedEnd, Options};
use crate::assign::instance::Instance;
use crate::env::{EnvCell, Waiters};
use crate::kernel::ends::{Ends, Of};
use crate::language::{Belongings, OfLanguage};
use crate::report::Report;
use crate::runtime::core::Core;
use crate::runtime::shared::Shared;
use crate::vp::block::{Block, flag};
use crate::vp::cancel;

/// What a process is to the runtime.
pub(crate) struct ProcessInner {
    id: u64,
    pub(super) shared: Arc<Shared>,
    this: Weak<ProcessInner>,
    pub(super) ends: Ends,
    cancelled: AtomicBool,
    /// Doomed: its waits were ended by a verdict.
    doomed: AtomicBool,
    /// That all of it waits was said.
    suspected: AtomicBool,
    /// Its assigner, if it has one of its own.
    instance: Option<Arc<Instance>>,
    /// All assigners that it brought: that one, and those of its languages.
    instances: Mutex<Vec<Arc<Instance>>>,
    pub(super) on_seed_end: OnSeedEnd,
    pub(super) env: EnvCell<EndEnv>,
    trouble: Mutex<Trouble>,
    belongings: Belongings,
}

/// What went wrong so far.
#[derive(Default)]
pub(super) struct Trouble {
    pub(super) panic: Option<Box<dyn Any + Send>>,
    pub(super) failure: Option<String>,
    pub(super) report: Option<Report>,
}

impl fmt::Debug for ProcessInner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProcessInner").field("id", &self.id).field("ended", &self.is_ended()).finish_non_exhaustive()
    }
}

impl ProcessInner {
    pub(super) fn new(shared: &Arc<Shared>, options: Options) -> Arc<ProcessInner> {
        let Options { instance, on_seed_end } = options;
        if let Some(instance) = &instance {
            shared.add_instance(instance);
        }
        // ORDERING: only uniqueness.
        let id = shared.next_process.fetch_add(1, Ordering::Relaxed);
        let process = Arc::new_cyclic(|this| ProcessInner {
            id,
            shared: Arc::clone(shared),
            this: Weak::clone(this),
            ends: Ends::new(shared.cores.len()),
            cancelled: AtomicBool::new(false),
            doomed: AtomicBool::new(false),
            suspected: AtomicBool::new(false),
            instances: Mutex::new(instance.iter().map(Arc::clone).collect()),
            instance,
            on_seed_end,
            env: EnvCell::new(EndEnv { over: false, waiting: Waiters::new() }),
            trouble: Mutex::new(Trouble::default()),
            belongings: Belongings::new(),
        });
        shared.processes.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(&process));
        process
    }

    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    pub(crate) fn handle(&self) -> Arc<ProcessInner> {
        self.this.upgrade().expect("whoever asks keeps the process alive")
    }

    /// Its runtime, for who holds the process but is none of its timelines.
    pub(crate) fn shared_handle(&self) -> &Arc<Shared> {
        &self.shared
    }

    pub(crate) fn shared(&self) -> &'static Shared {
        let shared: *const Shared = Arc::as_ptr(&self.shared);
        // SAFETY: the controllers' threads hold it until all timelines of the process have ended, and only those come here.
        unsafe { &*shared }
    }

    #[inline]
    pub(crate) fn instance(&self) -> *const Instance {
        self.instance.as_ref().map_or(std::ptr::null(), Arc::as_ptr)
    }

    fn instances(&self) -> MutexGuard<'_, Vec<Arc<Instance>>> {
        self.instances.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The assigner that `language` brings, in this process; made at its first VP. `parent`: the VP that makes this one.
    #[inline]
    pub(crate) fn instance_of(&self, language: OfLanguage, parent: Option<&Block>) -> *const Instance {
        // Mostly a language's VPs are made by its VPs.
        if let Some(parent) = parent.filter(|parent| parent.process().is_some_and(|its| std::ptr::eq(its, self))) {
            let same = parent.instance.get();
            // SAFETY: a VP's instance outlives it.
            if unsafe { same.as_ref() }.is_some_and(|instance| instance.language == Some(language.id)) {
                return same;
            }
        }
        self.find_or_make(language)
    }

    #[cold]
    fn find_or_make(&self, language: OfLanguage) -> *const Instance {
        let known = |instances: &[Arc<Instance>]| {
            instances.iter().find(|instance| instance.language == Some(language.id)).map(Arc::as_ptr)
        };
        if let Some(known) = known(&self.instances()) {
            return known;
        }
        // The language's code, so outside of the lock; of two that are made at once the first counts.
        let fresh = Arc::new((language.make)(self.shared.cores.len()));
        let mut instances = self.instances();
        known(&instances).unwrap_or_else(|| {
            self.shared.add_instance(&fresh);
            instances.push(Arc::clone(&fresh));
            Arc::as_ptr(&fresh)
        })
    }

    pub(super) fn trouble<R>(&self, f: impl FnOnce(&mut Trouble) -> R) -> R {
        f(&mut self.trouble.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// A panic that nobody joins. The first one counts.
    pub(crate) fn note_panic(&self, payload: Box<dyn Any + Send>) {
        self.trouble(|trouble| {
            if trouble.panic.is_none() {
                trouble.panic = Some(payload);
            }
        });
    }

    pub(crate) fn note_failure(&self, text: String) {
        self.trouble(|trouble| trouble.failure.get_or_insert(text).len());
    }

    pub(crate) fn note_report(&self, report: Report) {
        self.trouble(|trouble| trouble.report = Some(report));
    }

    #[inline]
    pub(crate) fn count_birth(&self, core: Option<&Core>, of: Of) {
        self.ends.born(core.map(|core| core.index), of);
    }

    /// A VP has ended, on `core`. The process may be gone afterwards: hence no reference as argument, which would have to stay good
    /// until the end of this function.
    ///
    /// # Safety
    ///
    /// - `this` is a process, and the VP that has ended on `core` has not been counted yet.
    #[inline]
    pub(crate) unsafe fn count_end(this: *const ProcessInner, core: &Core, of: Of) {
        // Once the end is counted, another core may find the sums equal and end the process; it waits for this mark to go (`leave`).
        // ORDERING: Relaxed: before the Release of the count, by which `all_over` comes to know of it.
        core.counting.store(this.cast_mut(), Ordering::Relaxed);
        let last = {
            // SAFETY: the VP that is being counted keeps it until the count, and then the mark does.
            let process = unsafe { &*this };
            process.ends.ended(Some(core.index), of).then(|| process.handle())
        };
        // ORDERING: Release pairs with `wait_for_counters`: the last look at the process comes before.
        core.counting.store(std::ptr::null_mut(), Ordering::Release);
        if let Some(process) = last {
            process.look_at_ends(of);
        }
    }

    /// As [`count_end`](ProcessInner::count_end), by an OS thread.
    pub(crate) fn count_end_outside(&self, of: Of) {
        if self.ends.ended(None, of) {
            self.handle().look_at_ends(of);
        }
    }

    #[cold]
    fn look_at_ends(self: Arc<Self>, of: Of) {
        match of {
            Of::Waited if self.ends.all_over() => self.finish(),
            // (Of a process that was given up the others stay for ever, and refer to it.)
            Of::Daemons if self.ends.all_ended(of) && self.ends.all_ended(Of::Waited) => self.leave(),
            _ => {}
        }
    }

    /// Everything but daemons has ended.
    fn finish(&self) {
        if self.ends.lingers() {
            // The last of them has the process leave.
            cancel::cancel_process(self.shared(), self);
        } else {
            self.leave();
        }
        self.env.release(Over);
    }

    /// All have ended: nobody but those who hold it refers to this process any more. More than one may come here.
    pub(super) fn leave(&self) {
        for instance in self.instances().drain(..) {
            self.shared.remove_instance(&instance);
        }
        let mut processes = self.shared.processes.lock().unwrap_or_else(PoisonError::into_inner);
        let mine = processes.iter().position(|other| std::ptr::eq(Arc::as_ptr(other), self));
        let mine = mine.map(|index| processes.swap_remove(index));
        drop(processes);
        self.wait_for_counters();
        drop(mine);
        if self.shared.is_stopping() {
            for core in &self.shared.cores {
                crate::runtime::send::wake(core);
            }
        }
    }

    /// Waits until no core looks at this process any more because of an end that has been counted. A few instructions, unless the system has
    /// taken the processor away.
    fn wait_for_counters(&self) {
        for core in &self.shared.cores {
            // ORDERING: Acquire pairs with the Release of the mark's end.
            while std::ptr::eq(core.counting.load(Ordering::Acquire), self) {
                std::thread::yield_now();
            }
        }
    }

    /// Whether one of its VPs has not ended.
    pub(crate) fn is_inhabited(&self) -> bool {
        !self.is_ended() || !self.ends.all_ended(Of::Daemons)
    }

    pub(crate) fn is_ended(&self) -> bool {
        self.ends.is_over()
    }

    pub(crate) fn mark_cancelled(&self) {
        // ORDERING: Relaxed: told by mail as well.
        self.cancelled.store(true, Ordering::Relaxed);
    }

    pub(crate) fn mark_doomed(&self) {
        // ORDERING: as above.
        self.doomed.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_doomed(&self) -> bool {
        // ORDERING: as above.
        self.doomed.load(Ordering::Relaxed)
    }

    /// Notes that all of it was seen to wait. `true`: for the first time.
    pub(crate) fn suspect(&self) -> bool {
        // ORDERING: Relaxed: whoever exchanges it first says so.
        !self.suspected.swap(true, Ordering::Relaxed)
    }

    /// How many timelines of it live: never too few.
    pub(crate) fn alive(&self) -> u64 {
        self.ends.alive()
    }

    /// Whether this process asks `block`, one of its VPs, to end.
    #[inline]
    pub(crate) fn cancels(&self, block: &Block) -> bool {
        // ORDERING: as above.
        if !self.cancelled.load(Ordering::Relaxed) {
            return false;
        }
        !self.is_ended() || block.has(flag::DAEMON)
    }

    /// Whether `wait` is for the end of a process.
    pub(crate) fn is_awaited_by(wait: &crate::report::Wait) -> bool {
        wait.request == std::any::type_name::<AwaitEnd>()
    }

    /// Lets the waiters of a process go whose last frames never will: a verdict with nothing but binding waits left.
    pub(crate) fn give_up(&self) {
        if self.ends.declare_over() {
            if self.ends.lingers() {
                cancel::cancel_process(self.shared(), self);
            }
            self.env.release(Over);
        }
    }

    /// What languages keep for this process.
    pub(crate) fn belongings(&self) -> &Belongings {
        &self.belongings
    }

    /// Whether this is the process of what OS threads create by themselves.
    pub(crate) fn is_ambient(&self) -> bool {
        matches!(AMBIENT.get(), Some(Ok(ambient)) if std::ptr::eq(&raw const **ambient, self))
    }
}

static AMBIENT: OnceLock<Result<Arc<ProcessInner>, crate::RuntimeError>> = OnceLock::new();

/// The process of what OS threads create by themselves: it never ends.
pub(crate) fn ambient() -> Result<&'static ProcessInner, crate::RuntimeError> {
    let made = AMBIENT.get_or_init(|| {
        let runtime = crate::Runtime::global()?;
        Ok(ProcessInner::new(runtime.shared(), Options::default()))
    });
    match made {
        Ok(process) => Ok(process),
        Err(error) => Err(error.clone()),
    }
}

/// A panic in a VP that an OS thread made and nobody joins: std prints it by its hook and forgets it; so do we.
pub(crate) fn note_ambient_panic(payload: Box<dyn Any + Send>) {
    drop(payload);
}
