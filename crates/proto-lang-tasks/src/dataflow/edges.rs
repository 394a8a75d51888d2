//! Tasks that are put in order by their names: each after certain others, whatever they declare.
//!
//! Only a task that is *held* can be made to wait for another: it cannot have begun. So an edge is a count more at the one that waits, and a name in a list at
//! the other. An edge may close a cycle with others, and with what the data say; so each new one looks for a way back along both, among the tasks that
//! have not begun. That is slow where there are many: such edges are for few tasks.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use super::access::Access;
use super::graph::{Graph, Slot};
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
    fn path(&mut self, from: u32, to: u32) -> Option<Vec<String>> {
        let mut come_from = BTreeMap::from([(from, from)]);
        let mut open = Vec::from([from]);
        while let Some(task) = open.pop() {
            if task == to {
                let mut path = Vec::from([task]);
                while path[path.len() - 1] != from {
                    path.push(come_from[&path[path.len() - 1]]);
                }
                path.reverse();
                return Some(path.into_iter().filter_map(|task| Some(self.at(task).job.as_ref()?.name())).collect());
            }
            let by_data = self.after_by_data(task);
            let after = [self.after(task), &by_data].concat();
            for next in after {
                if let Entry::Vacant(place) = come_from.entry(next) {
                    place.insert(task);
                    open.push(next);
                }
            }
        }
        None
    }

    /// The tasks that wait for what this one declares, all of which wait themselves.
    fn after_by_data(&mut self, task: u32) -> Vec<u32> {
        let Some(seq) = self.at(task).job.as_ref().map(|job| job.seq) else { return Vec::new() };
        let mine = self.declared(task);
        let waiting: Vec<u32> = self.waiting().filter(|(_, other)| seq < other.seq).map(|(other, _)| other).collect();
        let waits = |later: Access<'env>| mine.iter().any(|access| access.orders(&later));
        waiting.into_iter().filter(|&other| self.declared(other).into_iter().any(waits)).collect()
    }

    /// What a task that waits declares.
    fn declared(&mut self, task: u32) -> Vec<Access<'env>> {
        let Slot { rare, job, .. } = self.at(task);
        match (rare, job) {
            (Some(rare), _) if !rare.inner.is_empty() => rare.inner.iter().map(|inner| inner.access.twin()).collect(),
            (_, Some(job)) => job.body.accesses().iter().map(Access::twin).collect(),
            _ => Vec::new(),
        }
    }

    /// A task that was held may begin.
    pub(super) fn start_held(&mut self, id: TaskId) {
        let Some(slot) = self.find(id) else { return };
        if std::mem::replace(&mut slot.rare().held, false) {
            self.started(id.slot);
        }
    }

    /// All that `parent` has made, and holds, may begin.
    pub(super) fn start_all(&mut self, parent: u32) {
        for id in std::mem::take(&mut self.held) {
            match self.at(id.slot).parent == parent {
                true => self.start_held(id),
                false => self.held.push(id),
            }
        }
    }
}
