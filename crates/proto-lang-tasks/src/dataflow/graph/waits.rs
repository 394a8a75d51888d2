//! The ends of tasks: who waits for them, and what they are told.

use proto_core::{Caller, Hidden};

use super::{Graph, Over, ROOT};
use crate::dataflow::failure::TaskError;
use crate::dataflow::flow::TaskId;
use crate::dataflow::job::Payload;

impl<'env> Graph<'env> {
    /// A task is over, and so are its children.
    pub(in crate::dataflow) fn over(&mut self, index: u32, failure: Option<TaskError>, hidden: &mut Hidden<'_>) {
        let slot = self.at(index);
        let parent = slot.parent;
        slot.over = true;
        if failure.is_some() || slot.rare.is_some() {
            let rare = slot.rare();
            rare.failure.clone_from(&failure);
            let after = std::mem::take(&mut rare.after);
            if let Some(joiner) = rare.joiner.take() {
                let _ = hidden.resume(joiner, ());
            }
            for task in after {
                let waiting = self.at(task).job.as_mut().expect("a task that waits lies in its slot");
                waiting.failure = waiting.failure.take().or_else(|| failure.clone());
                self.granted.push(task);
            }
        }
        self.drop_use(index);
        if let Some(failure) = failure {
            self.at(parent).rare().failed.get_or_insert(failure);
        }
        self.child_over(parent, hidden);
    }

    /// One of those that the task `parent` has made is over.
    #[inline]
    pub(super) fn child_over(&mut self, parent: u32, hidden: &mut Hidden<'_>) {
        let above = self.at(parent);
        above.children -= 1;
        let children = above.children;
        if let Some(rare) = &mut above.rare {
            if let Some((_, waiter)) = rare.waiter.take_if(|(left, _)| children <= *left) {
                let _ = hidden.resume(waiter, true);
            }
            if children == 0 {
                self.over_if_done(parent, hidden);
            }
        }
    }

    /// Jobs to be freed.
    pub(in crate::dataflow) fn take_done(&mut self) -> Over<'env> {
        std::mem::take(&mut self.done)
    }

    /// Whether whoever makes tasks at the root has to wait.
    pub(in crate::dataflow) fn is_full(&mut self) -> bool {
        self.at(ROOT).children >= self.limit
    }

    /// Keeps a task, or the root, waiting until no more than `left` of those that it has made are left. `false`: it would wait for itself.
    pub(in crate::dataflow) fn wait(
        &mut self,
        index: u32,
        left: u32,
        caller: Caller<'_, bool>,
        hidden: &mut Hidden<'_>,
    ) {
        if self.at(index).children <= left {
            hidden.answer(caller, true);
        } else if index != ROOT && self.waits_for_itself(index) {
            hidden.answer(caller, false);
        } else {
            self.at(index).rare().waiter = Some((left, hidden.suspend(caller)));
        }
    }

    /// Keeps the caller waiting until the task is over.
    pub(in crate::dataflow) fn join(&mut self, id: TaskId, caller: Caller<'_, ()>, hidden: &mut Hidden<'_>) {
        match self.find(id).filter(|slot| !slot.over) {
            None => hidden.answer(caller, ()),
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
}
