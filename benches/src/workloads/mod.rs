//! The workloads: one file each, whose head says what its numbers mean.

mod chain;
mod dataflow;
mod forkjoin;
mod forkjoin_leaf;
mod graph_rerun;
mod handoff;
pub(crate) mod idle;
mod memory;
mod mutex_curve;
mod mutex_uncontended;
mod par_for;
mod sort;
mod spawn;
mod spawn_tasks;
mod switch;
pub(crate) mod tree;
mod yield_now;

use std::path::Path;
use std::time::Duration;

use crate::goal::Goal;
use crate::peers::native::Native;
use crate::plan::Plan;
use crate::plot;
use crate::record::{Case, Measure, Record, Results};

/// One definition of what is measured, and what is expected of us there.
pub(crate) trait Workload: Sync {
    /// The name on the command line and of the files.
    fn name(&self) -> &'static str;

    /// One line of what a figure means.
    fn about(&self) -> &'static str;

    /// The amounts of private work to calibrate, in cycles.
    fn lengths(&self, _plan: &Plan) -> Vec<u64> {
        Vec::new()
    }

    /// The rivals to compile.
    fn natives(&self) -> &'static [Native] {
        &[]
    }

    /// Everything to measure.
    fn cases(&self, plan: &Plan) -> Vec<Case>;

    /// Takes one sample of one of the cases, warm-up included. Called in a process of its own.
    fn measure(&self, case: &Case) -> anyhow::Result<Vec<Measure>>;

    /// The goals, with the figures of this run.
    fn goals(&self, plan: &Plan, results: &Results) -> Vec<Goal>;

    /// Draws the figures into `folder`.
    fn plot(&self, records: &[Record], folder: &Path) -> anyhow::Result<()> {
        plot::bars(records, &folder.join(self.name()).with_extension("svg"), self.about())
    }
}

/// All of them, in the order in which they run.
pub(crate) const ALL: [&dyn Workload; 18] = [
    &switch::Switch,
    &yield_now::Yield,
    &mutex_uncontended::MutexUncontended,
    &mutex_curve::MutexCurve,
    &handoff::Handoff,
    &chain::Chain,
    &spawn::Spawn,
    &memory::Memory,
    &idle::Idle,
    &forkjoin::ForkJoin,
    &forkjoin_leaf::ForkJoinLeaf,
    &tree::Tree,
    &spawn_tasks::SpawnTasks,
    &par_for::ParFor,
    &sort::Sort,
    &dataflow::GRID,
    &dataflow::CHAINS,
    &graph_rerun::GraphRerun,
];

/// The workload of this name.
pub(crate) fn find(name: &str) -> Option<&'static dyn Workload> {
    ALL.into_iter().find(|workload| workload.name() == name)
}

/// Nanoseconds per operation.
fn per(elapsed: Duration, operations: u64) -> f64 {
    elapsed.as_nanos() as f64 / operations as f64
}

/// Times `body` of `size` operations after a warm-up of a tenth, in nanoseconds per operation.
///
/// The warm-up fills caches and pools, wakes the second core, and lets a scheduler start; what is
/// measured is the state that lasts.
fn warm_and_time(size: u64, body: impl Fn(u64) -> Duration) -> f64 {
    body((size / 10).max(1));
    per(body(size), size)
}

/// The case is not one of this workload's own: a mistake in its file.
fn unknown(case: &Case) -> anyhow::Error {
    anyhow::anyhow!("{} does not know the case {} {:?}", case.workload, case.peer, case.param)
}
