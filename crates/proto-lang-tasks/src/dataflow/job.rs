//! A task that was made: its closure, its accesses, and running it.

use std::any::Any;
use std::panic::{AssertUnwindSafe, Location, catch_unwind};

use super::access::Access;
use super::failure::TaskError;
use super::flow::{Flow, Spawn as _};
use super::graph::Spawner;

pub(super) type Payload = Box<dyn Any + Send>;

/// What a task does, and what it has for that.
pub(super) trait Body<'env>: Send {
    fn accesses(&mut self) -> &mut [Access<'env>];
    /// Runs the closure. All accesses are held that it needs for that.
    fn run(&mut self, flow: &Flow<'_, 'env>) -> Result<(), Payload>;
    /// Puts what it has made for reductions into the data, which it has.
    fn combine(&mut self) -> Result<(), Payload>;
}

/// What there is to say of a task besides what it declares and does.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spec<'env> {
    pub(super) label: &'env str,
    pub(super) place: &'static Location<'static>,
    pub(super) priority: u8,
    /// It may make tasks.
    pub(super) nests: bool,
    /// Whoever made it runs it, or waits for it.
    pub(super) undeferred: bool,
    /// All that it makes is undeferred, and what that makes.
    pub(super) at_once: bool,
    /// It does not begin before it is started.
    pub(super) held: bool,
}

/// A task, in one allocation. It lies in its slot of the graph while it waits, and with who runs it while it runs.
pub(super) struct Job<'env, B: ?Sized = dyn Body<'env> + 'env> {
    pub(super) slot: u32,
    /// The slot of the task within whose accesses its own are.
    pub(super) frame: u32,
    /// In which order the tasks of the graph were made; also its name.
    pub(super) seq: u64,
    /// It has run, and waits for the data that it is to be combined into, or is being combined.
    pub(super) combining: bool,
    /// Some access is a reduction.
    pub(super) reduces: bool,
    pub(super) spec: Spec<'env>,
    /// The next one of those that became ready at once, or are over.
    pub(super) next: Option<Box<Job<'env>>>,
    /// Why it does not run, or has not run to its end.
    pub(super) failure: Option<TaskError>,
    pub(super) body: B,
}

impl<'env> Job<'env> {
    /// What errors call it.
    pub(super) fn name(&self) -> String {
        match self.spec {
            Spec { label: "", place, .. } => format!("the task made at {place}"),
            Spec { label, .. } => label.to_owned(),
        }
    }

    /// Runs it, or puts what it has made into the data. What it panicked with is the graph's.
    fn step(&mut self, spawner: &Spawner<'_, '_, 'env>) -> Option<Payload> {
        if self.failure.is_some() {
            return None;
        }
        let outcome = match self.combining {
            false => self.body.run(&Flow::new(spawner, spawner.graph, self.slot, self.spec.at_once)),
            true => self.body.combine(),
        };
        let payload = outcome.err()?;
        self.failure = Some(match payload.is::<proto_core::Cancelled>() {
            true => TaskError::cancelled(),
            false => TaskError::panicked(self.spec.label, self.spec.place, &*payload),
        });
        Some(payload)
    }
}

/// Runs a task that is ready. Gives one of those that became ready by that, and leaves the others to whoever takes them.
pub(super) fn finish<'env>(spawner: Spawner<'_, '_, 'env>, mut job: Box<Job<'env>>) -> Option<Box<Job<'env>>> {
    let mut payload = job.step(&spawner);
    let mut done = Some(job);
    let ready = spawner.graph.update(|graph, _, hidden| graph.complete(&mut done, &mut payload, hidden));
    let mut ready = ready.expect(BROKEN);
    let mut first = ready.first.take();
    ready.first = first.as_mut().and_then(|first| first.next.take());
    spawner.leave(ready);
    // A closure that was not run is the user's to drop; whatever comes of it, the others go on.
    if done.is_some() || payload.is_some() {
        if let Err(payload) = catch_unwind(AssertUnwindSafe(|| drop((done, payload)))) {
            first.into_iter().for_each(|first| spawner.spawn(first.seq, Some(first)));
            proto_core::resume_unwind(payload);
        }
    }
    first
}

pub(super) const BROKEN: &str = "the graph's own code does not panic";
