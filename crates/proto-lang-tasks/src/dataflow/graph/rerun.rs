//! What is special of a graph that is kept: its tasks stay in their slots, and wait for lists of others instead of in lanes.

use proto_core::Hidden;

use super::{Graph, ROOT};
use crate::dataflow::flow::TaskId;
use crate::dataflow::job::Job;

impl<'env> Graph<'env> {
    /// A task of a kept graph has run: it goes back to its slot, and waits for the same as before.
    pub(super) fn rest(&mut self, mut job: Box<Job<'env>>, hidden: &mut Hidden<'_>) {
        if let Some(failure) = job.failure.take() {
            self.cancelled.get_or_insert_with(|| failure.clone());
            self.at(ROOT).rare().failed.get_or_insert(failure);
        }
        job.combining = false;
        let Graph { slots, granted, kept, .. } = self;
        let slot = &mut slots[job.slot as usize];
        slot.waits = slot.before;
        let edges = kept.as_ref().expect("it is kept");
        granted.extend_from_slice(&edges[slot.after.start as usize..slot.after.end as usize]);
        slot.job = Some(job);
        self.child_over(ROOT, hidden);
    }

    /// Takes a task of a graph that is to be kept in.
    ///
    /// # Errors
    ///
    /// Why it may not be made.
    pub(in crate::dataflow) fn keep(&mut self, mut job: Box<Job<'env>>) -> Result<TaskId, &'static str> {
        for access in job.body.accesses() {
            self.keep_datum(access)?;
        }
        let slot = self.slot(ROOT);
        self.name(&mut job, slot, ROOT);
        self.at(slot).job = Some(job);
        Ok(TaskId { slot, generation: 0 })
    }

    /// The slot of the task that [`keep`](Graph::keep) takes in next.
    pub(in crate::dataflow) fn next_slot(&self) -> u32 {
        self.slots.len() as u32
    }

    /// All tasks are there: keeps their edges, which are sorted by the task that goes before.
    pub(in crate::dataflow) fn keep_edges(&mut self, edges: &[(u32, u32)]) {
        for &(_, after) in edges {
            self.at(after).before += 1;
        }
        let mut start = 0;
        for (slot, index) in self.slots.iter_mut().zip(0..) {
            let end = start + edges[start as usize..].iter().take_while(|edge| edge.0 == index).count() as u32;
            slot.waits = slot.before;
            slot.after = std::mem::replace(&mut start, end)..end;
        }
        self.kept = Some(edges.iter().map(|edge| edge.1).collect());
    }

    /// The tasks that lie in their slots, and where.
    pub(in crate::dataflow) fn waiting(&self) -> impl Iterator<Item = (u32, &Job<'env>)> {
        self.slots.iter().zip(0..).filter_map(|(slot, at)| Some((at, slot.job.as_deref()?)))
    }

    /// The tasks that wait for this one by its name; in a kept graph all that do.
    pub(in crate::dataflow) fn after(&self, index: u32) -> &[u32] {
        let slot = &self.slots[index as usize];
        match &self.kept {
            Some(edges) => &edges[slot.after.start as usize..slot.after.end as usize],
            None => slot.rare.as_ref().map_or(&[], |rare| &rare.after),
        }
    }

    /// Starts a kept graph.
    pub(in crate::dataflow) fn start(&mut self) {
        self.cancelled = None;
        self.at(ROOT).rare = None;
        self.at(ROOT).children = self.slots.len() as u32 - 1;
        for index in 1..self.slots.len() as u32 {
            if self.at(index).waits == 0 {
                let job = self.at(index).job.take().expect("a graph that is not running has its tasks");
                self.admit(job);
            }
        }
    }
}
