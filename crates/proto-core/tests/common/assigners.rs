//! Assigners that differ from a plain queue in one thing.

use std::collections::VecDeque;

use proto_core::{Assigner, CoreId, Cores, Locked, Why, Work};

/// What differs. Unless it says otherwise, nothing does: first in, first out, each core its own.
pub trait Twist: Send + Sync + 'static {
    /// See [`Assigner::ONLY_WORK_UNASKED`].
    const ONLY_WORK_UNASKED: bool = false;

    /// Work has become ready on the core with that queue.
    fn ready(&self, queue: &mut VecDeque<Work>, work: Work, _: Why) {
        queue.push_back(work);
    }

    /// A core is about to take the first of its queue.
    fn assigns(&self) {}

    /// A core has found nothing.
    fn idles(&self) {}

    /// Where new work goes.
    fn place(&self, _: &Cores<'_>) -> Option<CoreId> {
        None
    }
}

/// The queue with its twist.
pub struct Twisted<T>(pub T);

impl<T: Twist> Assigner for Twisted<T> {
    const ONLY_WORK_UNASKED: bool = T::ONLY_WORK_UNASKED;
    type Core = VecDeque<Work>;
    type Shared = ();

    fn core(&self, _: &Cores<'_>) -> VecDeque<Work> {
        VecDeque::new()
    }

    fn shared(&self) {}

    fn ready(&self, queue: &mut VecDeque<Work>, _: &Locked<()>, _: &Cores<'_>, work: Work, why: Why) {
        self.0.ready(queue, work, why);
    }

    fn assign(&self, queue: &mut VecDeque<Work>, _: &Locked<()>, _: &Cores<'_>) -> Option<Work> {
        self.0.assigns();
        queue.pop_front()
    }

    fn idle(&self, _: &mut VecDeque<Work>, _: &Locked<()>, _: &Cores<'_>) -> Option<Work> {
        self.0.idles();
        None
    }

    fn place(&self, _: &Locked<()>, cores: &Cores<'_>) -> Option<CoreId> {
        self.0.place(cores)
    }
}

/// One queue for all cores, also for what belongs to one of them: whoever is free takes the next.
pub struct Heap;

impl Assigner for Heap {
    type Core = ();
    type Shared = VecDeque<Work>;

    fn core(&self, _: &Cores<'_>) {}

    fn shared(&self) -> VecDeque<Work> {
        VecDeque::new()
    }

    fn ready(&self, _: &mut (), shared: &Locked<VecDeque<Work>>, _: &Cores<'_>, work: Work, _: Why) {
        shared.with(|heap| heap.push_back(work));
    }

    fn assign(&self, _: &mut (), shared: &Locked<VecDeque<Work>>, _: &Cores<'_>) -> Option<Work> {
        shared.with(VecDeque::pop_front)
    }

    fn idle(&self, core: &mut (), shared: &Locked<VecDeque<Work>>, cores: &Cores<'_>) -> Option<Work> {
        self.assign(core, shared, cores)
    }
}
