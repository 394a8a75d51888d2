//! Tasks that have nothing to wait for any more: when they are ready, and in which order they go.

use std::cmp::Reverse;
use std::ops::Range;

use super::{Graph, NONE};
use crate::dataflow::access::Mode;
use crate::dataflow::job::Job;

/// Jobs that are chained, to be dropped one after the other.
#[derive(Default)]
pub(in crate::dataflow) struct Over<'env>(pub(super) Option<Box<Job<'env>>>);

impl<'env> Over<'env> {
    /// Takes one of them off.
    #[inline]
    pub(in crate::dataflow) fn pop(&mut self) -> Option<Box<Job<'env>>> {
        let mut job = self.0.take()?;
        self.0 = job.next.take();
        Some(job)
    }
}

impl Drop for Over<'_> {
    fn drop(&mut self) {
        while self.pop().is_some() {}
    }
}

/// What became ready: a chain of tasks; or names for those who will fetch as many.
#[derive(Default)]
pub(in crate::dataflow) struct Ready<'env> {
    pub(in crate::dataflow) first: Option<Box<Job<'env>>>,
    pub(in crate::dataflow) tickets: Range<u64>,
}

impl<'env> Graph<'env> {
    /// Nothing has a task wait any more: it is ready if it can have its data.
    pub(super) fn admit(&mut self, mut job: Box<Job<'env>>) {
        let Graph { key, slots, cancelled, .. } = self;
        let Job { slot, frame, combining, failure, body, .. } = &mut *job;
        if failure.is_none() && cancelled.is_some() {
            failure.clone_from(cancelled);
        }
        let accesses = body.accesses();
        for at in 0..accesses.len() {
            let access = &mut accesses[at];
            let chain = access.chain.open(key);
            let lanes = match access.inner {
                NONE => &chain.lanes,
                inner => &slots[*frame as usize].rare().inner[inner as usize].lanes,
            };
            if failure.is_none() && access.mode != Mode::OUTPUT && lanes.is_marked() {
                *failure = lanes.mark(&access.claim.range()).cloned();
            }
            if failure.is_some() {
                break;
            }
            let Some(alone) = access.mode.needs(*combining) else { continue };
            if !chain.keeper.take(&mut access.claim, alone) {
                chain.blocked.get_or_insert_default().push(*slot);
                for access in &mut accesses[..at] {
                    access.chain.open(key).keeper.put(&mut access.claim);
                }
                let slot = *slot;
                self.at(slot).job = Some(job);
                return;
            }
        }
        job.next = self.ready.take();
        self.ready = Some(job);
    }

    /// The end of each request that may have made something ready: carries on with what has been granted, and with what may try again; gives what is ready by
    /// now. `fetches`: whoever gets it runs one itself.
    pub(in crate::dataflow) fn go_on(&mut self, fetches: bool) -> Ready<'env> {
        // The one that was made first runs next: what it touches lies where what is over did.
        while let Some(who) = self.granted.pop() {
            let slot = self.at(who);
            slot.waits -= 1;
            if slot.waits > 0 {
                continue;
            }
            match slot.job.take() {
                Some(job) => self.admit(job),
                None => {
                    let (task, access) = self.at(who).rare().stands_for.expect("who waits without a job is a proxy");
                    self.let_children(task, access);
                }
            }
        }
        let mut next = 0;
        while let Some(&task) = self.retry.get(next) {
            next += 1;
            let job = self.at(task).job.take().expect("a task that is blocked lies in its slot");
            self.admit(job);
        }
        self.retry.clear();
        let ready = self.ready.take();
        let Some(heap) = &mut self.heap else { return Ready { first: ready, tickets: 0..0 } };
        let mut ready = Over(ready);
        let first = self.names + 1;
        while let Some(job) = ready.pop() {
            self.names += 1;
            heap.insert((Reverse(job.spec.priority), self.names), job);
        }
        let tickets = first..self.names + 1;
        match fetches && !tickets.is_empty() {
            true => Ready { first: self.fetch(), tickets: first + 1..tickets.end },
            false => Ready { first: None, tickets },
        }
    }

    /// The task that a ticket is for: of those that are ready, the one to go first.
    pub(in crate::dataflow) fn fetch(&mut self) -> Option<Box<Job<'env>>> {
        self.heap.as_mut()?.pop_first().map(|(_, job)| job)
    }

    /// The task `slot`, if it is one of those that became ready just now: its maker runs it.
    pub(in crate::dataflow) fn take_own(&mut self, slot: u32) -> Option<Box<Job<'env>>> {
        let mut own = self.ready.take_if(|job| job.slot == slot)?;
        self.ready = own.next.take();
        Some(own)
    }
}
