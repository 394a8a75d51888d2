//! The ends of tasks: who waits for them, and what they are told.

use proto_core::{Caller, Hidden};

use super::{Graph, Joined, Over, ROOT};
use crate::dataflow::failure::TaskError;
use crate::dataflow::flow::TaskId;
use crate::dataflow::job::{Job, Payload};

impl<'env> Graph<'env> {
    /// A task is over, and so are its children.
    pub(in crate::dataflow) fn over(&mut self, index: u32, failure: Option<TaskError>, hidden: &mut Hidden<'_>) {
        let slot = self.at(index);
        let id = TaskId { slot: index, generation: slot.generation };
        slot.over = true;
        if failure.is_some() {
            slot.rare().failure.clone_from(&failure);
        }
        if let Some(joiner) = slot.rare.as_mut().and_then(|rare| rare.joiner.take()) {
            let _ = hidden.resume(joiner, (Ok(id), None));
        }
        let parent = slot.parent;
        for task in slot.rare.as_mut().map_or(Vec::new(), |rare| std::mem::take(&mut rare.after)) {
            let waiting = self.at(task).job.as_mut().expect("a task that waits lies in its slot");
            waiting.failure = waiting.failure.take().or_else(|| failure.clone());
            self.granted.push(task);
        }
        self.drop_use(index);
        if failure.is_some() {
            let failed = &mut self.at(parent).rare().failed;
            *failed = failed.take().or(failure);
        }
        self.child_over(parent, hidden);
        if parent == ROOT {
            self.in_flight -= 1;
            if self.in_flight <= self.limit / 2 {
                if let Some(throttled) = self.throttled.take() {
                    let _ = hidden.resume(throttled, ());
                }
            }
        }
    }

    /// One of those that the task `parent` has made is over.
    pub(super) fn child_over(&mut self, parent: u32, hidden: &mut Hidden<'_>) {
        let above = self.at(parent);
        above.children -= 1;
        if above.children == 0 {
            if let Some(waiter) = above.rare.as_mut().and_then(|rare| rare.waiter.take()) {
                let _ = hidden.resume(waiter, true);
            }
            self.over_if_done(parent, hidden);
        }
    }

    /// Jobs to be freed.
    pub(in crate::dataflow) fn take_done(&mut self) -> Over<'env> {
        Over(self.done.take())
    }

    /// Whether whoever makes tasks at the root has to wait.
    pub(in crate::dataflow) fn is_full(&self) -> bool {
        self.in_flight >= self.limit
    }

    /// Keeps who makes tasks at the root waiting until half of the tasks are over.
    pub(in crate::dataflow) fn throttle(&mut self, caller: Caller<'_, ()>, hidden: &mut Hidden<'_>) {
        match self.in_flight <= self.limit / 2 {
            true => hidden.answer(caller, ()),
            false => self.throttled = Some(hidden.suspend(caller)),
        }
    }

    /// Keeps a task, or the root, waiting until all it has made is over. `false`: it would wait for itself.
    pub(in crate::dataflow) fn wait(&mut self, index: u32, caller: Caller<'_, bool>, hidden: &mut Hidden<'_>) {
        let children = self.at(index).children;
        match children {
            0 => hidden.answer(caller, true),
            _ if index != ROOT && self.waits_for_itself(index) => hidden.answer(caller, false),
            _ => self.at(index).rare().waiter = Some(hidden.suspend(caller)),
        }
    }

    /// As [`register`](Graph::register), and keeps the caller waiting until the task is ready: it runs that itself.
    pub(in crate::dataflow) fn register_own(
        &mut self,
        fresh: &mut Option<Box<Job<'env>>>,
        parent: u32,
        handle: bool,
        caller: Caller<'_, Joined<'env>>,
        hidden: &mut Hidden<'_>,
    ) {
        let id = self.register(fresh, parent, handle, hidden);
        match (id, self.ready.take()) {
            (Ok(id), None) => self.at(id.slot).rare().joiner = Some(hidden.suspend(caller)),
            (id, ready) => hidden.answer(caller, (id, ready)),
        }
    }

    /// Keeps the caller waiting until the task is over.
    pub(in crate::dataflow) fn join(&mut self, id: TaskId, caller: Caller<'_, Joined<'env>>, hidden: &mut Hidden<'_>) {
        match self.find(id).filter(|slot| !slot.over) {
            None => hidden.answer(caller, (Ok(id), None)),
            Some(slot) => slot.rare().joiner = Some(hidden.suspend(caller)),
        }
    }

    /// A handle is used up.
    pub(in crate::dataflow) fn let_go(&mut self, id: TaskId) {
        if self.find(id).is_some() {
            self.drop_use(id.slot);
        }
    }

    /// Whoever has the handle of a task that is over is told why it failed, and with what.
    pub(in crate::dataflow) fn tell_handle(&mut self, id: TaskId) -> Option<(TaskError, Option<Payload>)> {
        let slot = self.find(id)?;
        let (failure, parent) = (slot.rare().failure.clone()?, slot.parent);
        self.at(parent).rare().failed.take_if(|failed| failed.is(&failure));
        Some(self.with_panic(failure))
    }

    /// Why something that the task `index` has made failed, since this was last asked; and what it panicked with.
    pub(in crate::dataflow) fn tell(&mut self, index: u32) -> Option<(TaskError, Option<Payload>)> {
        let failed = self.at(index).rare.as_mut()?.failed.take()?;
        Some(self.with_panic(failed))
    }

    pub(super) fn with_panic(&mut self, error: TaskError) -> (TaskError, Option<Payload>) {
        let panic = self.panic.take_if(|(panicked, _)| panicked.is(&error));
        (error, panic.map(|(_, payload)| payload))
    }

    /// Nothing more is to be run.
    pub(in crate::dataflow) fn cancel(&mut self) {
        self.cancelled = Some(TaskError::cancelled());
    }
}
