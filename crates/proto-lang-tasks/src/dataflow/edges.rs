//! Tasks that are put in order by their names: each after certain others, whatever they declare.
//!
//! Only a task that is *held* can be made to wait for another: it cannot have begun. So an edge is a count more at the one that waits, and a name in a list at
//! the other. An edge may close a cycle with others, and with what the data say; so each new one looks for a way back along both, among the tasks that
//! have not begun. That is slow where there are many: such edges are for few tasks.

use std::collections::BTreeMap;

use super::graph::{Graph, ROOT};
use super::job::Job;
use super::{TaskError, TaskId};

impl<'env> Graph<'env> {
    /// `after` begins after `before`.
    ///
    /// # Errors
    ///
    /// The cycle that this would close; `None`: `after` is not held.
    pub(super) fn precede(&mut self, before: TaskId, after: TaskId) -> Result<(), Option<TaskError>> {
        let is_held = self.find(after).is_some_and(|slot| slot.rare().held);
        if !is_held {
            return Err(None);
        }
        if self.find(before).is_none_or(|slot| slot.over) {
            return Ok(());
        }
        if let Some(cycle) = self.path(after.slot, before.slot) {
            return Err(Some(TaskError::cycle(cycle)));
        }
        self.at(before.slot).rare().after.push(after.slot);
        self.at(after.slot).waits += 1;
        Ok(())
    }

    /// The names of the tasks on the way from one that waits to another, if the other waits for it.
    fn path(&self, from: u32, to: u32) -> Option<Vec<String>> {
        let mut come_from = BTreeMap::from([(from, from)]);
        let mut open = Vec::from([from]);
        while let Some(task) = open.pop() {
            if task == to {
                let mut path = Vec::from([task]);
                while path[path.len() - 1] != from {
                    path.push(come_from[&path[path.len() - 1]]);
                }
                return Some(path.into_iter().rev().filter_map(|task| Some(self.job(task)?.name())).collect());
            }
            let Some(job) = self.job(task) else { continue };
            let by_data = self.waiting().filter(|(_, other)| job.seq < other.seq && job.comes_before(other));
            for next in self.after(task).iter().copied().chain(by_data.map(|(other, _)| other)) {
                if let std::collections::btree_map::Entry::Vacant(place) = come_from.entry(next) {
                    place.insert(task);
                    open.push(next);
                }
            }
        }
        None
    }

    /// A task that was held may begin.
    pub(super) fn start_held(&mut self, id: TaskId) {
        let Some(slot) = self.find(id) else { return };
        if std::mem::replace(&mut slot.rare().held, false) {
            let at_root = slot.parent == ROOT;
            self.started(id.slot, at_root);
        }
    }

    /// All that `parent` has made, and holds, may begin.
    pub(super) fn start_all(&mut self, parent: u32) {
        for id in std::mem::take(self.held()) {
            match self.at(id.slot).parent == parent {
                true => self.start_held(id),
                false => self.held().push(id),
            }
        }
    }
}

impl Job<'_> {
    /// What errors and drawings call it.
    pub(super) fn name(&self) -> String {
        if self.label.is_empty() { format!("the task made at {}", self.place) } else { self.label.to_owned() }
    }

    /// Whether `other`, which was made later by the same task, waits for this one.
    fn comes_before(&self, other: &Job<'_>) -> bool {
        self.accesses.iter().any(|access| other.accesses.iter().any(|later| access.orders(later)))
    }
}
