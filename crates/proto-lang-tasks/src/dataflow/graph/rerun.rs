//! What is special of a graph that is kept: its tasks stay in their slots, and wait for lists of others instead of in lanes.

use proto_core::Hidden;

use super::{Graph, ROOT, Ready, USUAL};
use crate::dataflow::failure::TaskError;
use crate::dataflow::flow::TaskId;
use crate::dataflow::job::{Job, Payload};

impl<'env> Graph<'env> {
    /// A task of a kept graph has run: it goes back to its slot, and waits for the same as before.
    pub(super) fn rest(&mut self, mut job: Box<Job<'env>>, hidden: &mut Hidden<'_>) {
        self.cancelled = self.cancelled.take().or(job.failure.take());
        job.combining = false;
        let Graph { slots, granted, .. } = self;
        let slot = &mut slots[job.slot as usize];
        if let Some(rare) = &slot.rare {
            slot.waits = rare.before;
            granted.extend_from_slice(&rare.after);
        }
        slot.job = Some(job);
        self.child_over(ROOT, hidden);
    }

    /// Takes a task of a kept graph in, which runs after those of `before`.
    pub(in crate::dataflow) fn keep(
        &mut self,
        mut job: Box<Job<'env>>,
        before: impl ExactSizeIterator<Item = u32>,
    ) -> TaskId {
        let index = self.slot(ROOT);
        job.slot = index;
        if job.priority != USUAL {
            self.heap.get_or_insert_default();
        }
        for access in &job.accesses {
            let chain = access.chain.open(&mut self.key);
            if !std::mem::replace(&mut chain.noted, true) {
                self.data.push(access.chain);
            }
        }
        let slot = self.at(index);
        slot.waits = before.len() as u32;
        slot.rare().before = slot.waits;
        slot.job = Some(job);
        before.for_each(|before| self.at(before).rare().after.push(index));
        TaskId { slot: index, generation: 0 }
    }

    /// The task that [`keep`](Graph::keep) takes in next.
    pub(in crate::dataflow) fn next_kept(&self) -> u32 {
        self.slots.len() as u32
    }

    /// The tasks that lie in their slots, and where.
    pub(in crate::dataflow) fn waiting(&self) -> impl Iterator<Item = (u32, &Job<'env>)> {
        self.slots.iter().zip(0..).filter_map(|(slot, at)| Some((at, slot.job.as_deref()?)))
    }

    /// A task that lies in its slot.
    pub(in crate::dataflow) fn job(&self, index: u32) -> Option<&Job<'env>> {
        self.slots[index as usize].job.as_deref()
    }

    /// The tasks that wait for this one, whatever they declare; in a kept graph all that do.
    pub(in crate::dataflow) fn after(&self, index: u32) -> &[u32] {
        self.slots[index as usize].rare.as_ref().map_or(&[], |rare| &rare.after)
    }

    /// Starts a kept graph.
    pub(in crate::dataflow) fn start(&mut self, hidden: &mut Hidden<'_>) -> Ready<'env> {
        self.cancelled = None;
        self.at(ROOT).children = self.slots.len() as u32 - 1;
        for index in 1..self.slots.len() as u32 {
            if self.at(index).waits == 0 {
                let job = self.at(index).job.take().expect("a graph that is not running has its tasks");
                self.admit(job, hidden);
            }
        }
        self.take_ready(false)
    }

    /// Why the last run of a kept graph failed.
    pub(in crate::dataflow) fn tell_kept(&mut self) -> Option<(TaskError, Option<Payload>)> {
        let failure = self.cancelled.take()?;
        Some(self.with_panic(failure))
    }
}
