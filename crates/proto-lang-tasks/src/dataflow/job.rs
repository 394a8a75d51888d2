//! A task that was made: its closure, its accesses, and running it.

use std::any::Any;
use std::panic::{AssertUnwindSafe, Location, catch_unwind};

use smallvec::SmallVec;

use super::access::Access;
use super::failure::TaskError;
use super::flow::{Flow, Spawn as _};
use super::graph::Spawner;

pub(super) type Payload = Box<dyn Any + Send>;

/// What a task does.
pub(super) trait Body<'env>: Send {
    /// Runs the closure, with the tokens of all accesses; they are there again afterwards.
    fn run(&mut self, accesses: &mut [Access<'env>], flow: &Flow<'_, 'env>) -> Result<(), Payload>;
    /// Puts what it has made for reductions into the data, whose tokens it has.
    fn combine(&mut self, accesses: &mut [Access<'env>]) -> Result<(), Payload>;
}

/// A task, in one allocation. It lies in its slot of the graph while it waits, and with who runs it while it runs.
pub(super) struct Job<'env, B: ?Sized = dyn Body<'env> + 'env> {
    pub(super) slot: u32,
    /// It has run, and waits for the data that it is to be combined into, or is being combined.
    pub(super) combining: bool,
    pub(super) priority: u8,
    /// Some access is a reduction.
    pub(super) reduces: bool,
    /// It may make tasks.
    pub(super) nests: bool,
    /// It does not begin before it is started.
    pub(super) held: bool,
    /// In which order the tasks of the graph were made.
    pub(super) seq: u64,
    /// Whoever made it runs it.
    pub(super) undeferred: bool,
    /// All that it makes is undeferred, and what that makes.
    pub(super) at_once: bool,
    /// The next one of those that became ready at once.
    pub(super) next: Option<Box<Job<'env>>>,
    pub(super) accesses: SmallVec<[Access<'env>; 3]>,
    pub(super) label: &'env str,
    pub(super) place: &'static Location<'static>,
    /// Why it does not run, or has not run to its end.
    pub(super) failure: Option<TaskError>,
    pub(super) body: B,
}

impl<'env> Job<'env> {
    /// Runs it, or puts what it has made into the data. What it panicked with is the graph's.
    fn step(&mut self, spawner: Spawner<'_, '_, 'env>) -> Option<Payload> {
        if self.failure.is_some() {
            return None;
        }
        let outcome = match self.combining {
            false => self.body.run(&mut self.accesses, &Flow::new(&spawner, spawner.graph, self.slot, self.at_once)),
            true => self.body.combine(&mut self.accesses),
        };
        let payload = outcome.err()?;
        self.failure = Some(match payload.is::<proto_core::Cancelled>() {
            true => TaskError::cancelled(),
            false => TaskError::panicked(self.label, self.place, &*payload),
        });
        Some(payload)
    }
}

/// Runs a task that is ready, and then those that it makes ready: one after the other here, the others are for whoever takes them.
pub(super) fn work<'env>(spawner: Spawner<'_, '_, 'env>, first: Box<Job<'env>>) {
    let mut next = finish(spawner, first);
    while let Some(job) = next {
        // What others wait for is not kept from them by a loop that never forks.
        proto_core::work_wanted();
        // Each is a task of its own, also for what it keeps in VP-locals.
        next = proto_core::divisible(|_| finish(spawner, job));
    }
}

/// Runs a task that is ready. Gives one of those that became ready by that, and leaves the others to whoever takes them.
pub(super) fn finish<'env>(spawner: Spawner<'_, '_, 'env>, mut job: Box<Job<'env>>) -> Option<Box<Job<'env>>> {
    let mut payload = job.step(spawner);
    let mut done = Some(job);
    let ready = spawner.graph.update(|graph, _, hidden| graph.complete(&mut done, &mut payload, hidden));
    let (mut first, tickets) = ready.expect(BROKEN);
    spawner.leave(first.as_mut().and_then(|first| first.next.take()), tickets);
    // A closure that was not run is the user's to drop; whatever comes of it, the others go on.
    if let Err(payload) = catch_unwind(AssertUnwindSafe(|| drop((done, payload)))) {
        first.into_iter().for_each(|first| spawner.spawn(first));
        proto_core::resume_unwind(payload);
    }
    first
}

/// Ends a task that nobody will run.
pub(super) fn give_up<'env>(spawner: Spawner<'_, '_, 'env>, mut job: Box<Job<'env>>) {
    job.failure.get_or_insert_with(TaskError::cancelled);
    spawner.leave(finish(spawner, job), 0);
}

pub(super) const BROKEN: &str = "the graph's own code does not panic";
