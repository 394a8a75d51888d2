//! An assigner with its states for every core, whatever their types.
//!
//! The state of a core is touched by that core's controller only; each call goes through `catch_unwind`. An assigner
//! that panicked is *retired*: from then on each core serves this instance's work first in, first out, and drops its own state of the
//! broken assigner when it next comes by; the work in it is put into that queue by `Work`'s drop.

use std::any::TypeId;
use std::cell::UnsafeCell;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};

use crossbeam_utils::CachePadded;
use proto_arch::topology::CoreId;

use super::{Assigner, Cores, Locked, Pool, Why, Work};
use crate::ended::payload_text;
use crate::language::Scheduled;

trait Erased: Send + Sync {
    fn ready(&self, cores: &Cores<'_>, work: Work, why: Why);
    fn assign(&self, cores: &Cores<'_>) -> Option<Work>;
    /// `ready`, then `assign`.
    fn yielded(&self, cores: &Cores<'_>, work: Work) -> Option<Work>;
    fn idle(&self, cores: &Cores<'_>) -> Option<Work>;
    fn place(&self, cores: &Cores<'_>) -> Option<CoreId>;
    fn has_shared_work(&self) -> bool;
    /// Drops the calling core's state.
    fn drop_core(&self, index: usize);
}

/// The state of one core, once it was asked for.
type OfCore<C> = CachePadded<UnsafeCell<Option<C>>>;

struct Typed<A: Assigner> {
    assigner: A,
    /// invariant: element `i` is touched only by the controller of core `i`
    cores: Box<[OfCore<A::Core>]>,
    shared: Locked<A::Shared>,
}

// SAFETY: the states of the cores are each touched by one thread (invariant of `cores`), and are `Send`; the rest is `Sync`.
unsafe impl<A: Assigner> Sync for Typed<A> {}

impl<A: Assigner> Typed<A> {
    #[inline]
    #[expect(clippy::mut_from_ref, reason = "each element is one controller's own (invariant of `cores`)")]
    fn core(&self, cores: &Cores<'_>) -> &mut A::Core {
        let slot = self.cores[cores.index()].get();
        // SAFETY: this controller's own element; `Erased`'s methods do not nest, so no other reference is alive.
        let slot = unsafe { &mut *slot };
        slot.get_or_insert_with(|| self.assigner.core(cores))
    }
}

impl<A: Assigner> Erased for Typed<A> {
    fn ready(&self, cores: &Cores<'_>, work: Work, why: Why) {
        self.assigner.ready(self.core(cores), &self.shared, cores, work, why);
    }

    fn assign(&self, cores: &Cores<'_>) -> Option<Work> {
        self.assigner.assign(self.core(cores), &self.shared, cores)
    }

    fn yielded(&self, cores: &Cores<'_>, work: Work) -> Option<Work> {
        let core = self.core(cores);
        self.assigner.ready(core, &self.shared, cores, work, Why::Yielded);
        self.assigner.assign(core, &self.shared, cores)
    }

    fn idle(&self, cores: &Cores<'_>) -> Option<Work> {
        self.assigner.idle(self.core(cores), &self.shared, cores)
    }

    fn place(&self, cores: &Cores<'_>) -> Option<CoreId> {
        self.assigner.place(&self.shared, cores)
    }

    fn has_shared_work(&self) -> bool {
        self.assigner.has_shared_work(&self.shared)
    }

    fn drop_core(&self, index: usize) {
        // SAFETY: the calling controller's own element, and no reference into it is alive between two calls.
        drop(unsafe { &mut *self.cores[index].get() }.take());
    }
}

/// See the head of this file.
pub(crate) struct Instance {
    erased: Box<dyn Erased>,
    pub(crate) pools: Box<[CachePadded<Pool>]>,
    name: &'static str,
    /// The language that brought it, if one did.
    pub(crate) language: Option<TypeId>,
    retired: AtomicBool,
    /// [`Assigner::NEW_WORK_IN_POOL`].
    pub(crate) new_work_in_pool: bool,
    /// [`Assigner::ONLY_WORK_UNASKED`].
    pub(crate) only_work_unasked: bool,
}

impl fmt::Debug for Instance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Instance").field("name", &self.name).field("retired", &self.retired).finish_non_exhaustive()
    }
}

impl Instance {
    pub(crate) fn new<A: Assigner>(assigner: A, count: usize) -> Instance {
        let cores = (0..count).map(|_| CachePadded::new(UnsafeCell::new(None))).collect();
        let shared = Locked::new(assigner.shared());
        Instance {
            erased: Box::new(Typed { assigner, cores, shared }),
            pools: (0..count).map(|_| CachePadded::new(Pool::new())).collect(),
            name: std::any::type_name::<A>(),
            language: None,
            retired: AtomicBool::new(false),
            new_work_in_pool: A::NEW_WORK_IN_POOL,
            only_work_unasked: A::ONLY_WORK_UNASKED,
        }
    }

    /// Of a language that brings it.
    pub(crate) fn of_language<L: Scheduled>(count: usize) -> Instance {
        Instance { language: Some(TypeId::of::<L>()), ..Instance::new(L::assigner(), count) }
    }

    #[inline]
    fn is_retired(&self) -> bool {
        // ORDERING: Relaxed: a core that sees it late calls the broken assigner once more, which is allowed to panic again.
        self.retired.load(Ordering::Relaxed)
    }

    #[inline]
    pub(crate) fn ready(&self, cores: &Cores<'_>, work: Work, why: Why) {
        if self.is_retired() {
            // Its drop puts it into the controller's own queue.
            return drop(work);
        }
        self.guarded(cores, || self.erased.ready(cores, work, why));
    }

    #[inline]
    pub(crate) fn assign(&self, cores: &Cores<'_>) -> Option<Work> {
        if self.is_retired() {
            return self.assign_retired(cores);
        }
        match self.guarded(cores, || self.erased.assign(cores)) {
            Some(work) => work,
            None => self.assign_retired(cores),
        }
    }

    /// Gives it work that has yielded, and asks it.
    #[inline]
    pub(crate) fn yielded(&self, cores: &Cores<'_>, work: Work) -> Option<Work> {
        if self.is_retired() {
            drop(work);
            return None;
        }
        self.guarded(cores, || self.erased.yielded(cores, work)).flatten()
    }

    pub(crate) fn idle(&self, cores: &Cores<'_>) -> Option<Work> {
        if self.is_retired() {
            return (0..cores.count()).find_map(|victim| cores.steal(victim));
        }
        self.guarded(cores, || self.erased.idle(cores)).flatten()
    }

    pub(crate) fn place(&self, cores: &Cores<'_>) -> Option<CoreId> {
        if self.is_retired() {
            return None;
        }
        self.guarded(cores, || self.erased.place(cores)).flatten()
    }

    /// Whether any core may find work here.
    pub(crate) fn has_work_for_all(&self, cores: &Cores<'_>) -> bool {
        let pooled = self.pools.iter().any(|pool| !pool.is_empty());
        pooled || (!self.is_retired() && self.guarded(cores, || self.erased.has_shared_work()) == Some(true))
    }

    #[cold]
    fn assign_retired(&self, cores: &Cores<'_>) -> Option<Work> {
        self.forget_core(cores.index());
        cores.mine().pop()
    }

    /// Lets go of the state of a core whose controller ends.
    pub(crate) fn forget_core(&self, index: usize) {
        // A drop in it may panic as well; the work in it has been saved one by one all the same.
        let _ = catch_unwind(AssertUnwindSafe(|| self.erased.drop_core(index)));
    }

    #[inline]
    fn guarded<R>(&self, cores: &Cores<'_>, call: impl FnOnce() -> R) -> Option<R> {
        match catch_unwind(AssertUnwindSafe(call)) {
            Ok(value) => Some(value),
            Err(payload) => {
                self.retire(cores, &*payload);
                None
            }
        }
    }

    #[cold]
    fn retire(&self, cores: &Cores<'_>, payload: &(dyn std::any::Any + Send)) {
        // ORDERING: Relaxed: see `is_retired`.
        if !self.retired.swap(true, Ordering::Relaxed) {
            eprintln!(
                "proto-runtime: the assigner {} panicked on core {}: {}; its work is run first in, first out from now on",
                self.name,
                cores.index(),
                payload_text(payload)
            );
        }
        // At once: this core may have nothing else to do, and then would not come by again. What it has in its state goes to its orphans.
        self.forget_core(cores.index());
    }
}
