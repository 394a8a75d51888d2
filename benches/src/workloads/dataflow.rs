//! `dataflow_grid` and `dataflow_chains`: tasks that depend on each other, made by one timeline, with work of
//! 0 to 100 µs each; see [`crate::lattice`] for what they compute.
//!
//! * `overhead`: what a task costs besides its work, in nanoseconds of core time:
//!   `(time × workers − tasks × work) / tasks`. The time is from the first task made until the last is over and
//!   forgotten; so a graph that is built first is built, run and freed in it. Also in it is what a worker idles
//!   because the tasks are made by one; and a worker that is there counts, busy or not.
//! * `efficiency`: `tasks × work / (time × workers)`, the share of the core time that is work.
//! * `overhead_run`: the same without making and forgetting, where a peer's interface tells that apart.
//! * `data`: what it costs us to make a task's data and to drop them, per task: one `Data` for each cell of a
//!   grid. It is not in the overhead, as the rivals' arrays are not.
//!
//! From 20 µs on a percent of noise is more than any overhead: read the efficiency. The goals are about two
//! workers: one of libgomp makes no task that may run at once, but calls it.

use std::path::Path;

use super::{Workload, unknown};
use crate::calibrate::cycles;
use crate::goal::Goal;
use crate::lattice::{Lattice, Shape};
use crate::peers::dataflow;
use crate::peers::native::{self, LIBGOMP, Native, ONETBB};
use crate::plan::Plan;
use crate::plot;
use crate::record::{Case, Measure, Record, Results};

/// See the head of this file.
#[derive(Debug)]
pub(crate) struct Dataflow {
    shape: Shape,
    name: &'static str,
    about: &'static str,
}

/// A wave front.
pub(crate) const GRID: Dataflow = Dataflow {
    shape: Shape::Grid,
    name: "dataflow_grid",
    about: "tasks that wait for those above and to the left; what each costs besides its work",
};

/// Many independent chains.
pub(crate) const CHAINS: Dataflow = Dataflow {
    shape: Shape::Chains,
    name: "dataflow_chains",
    about: "64 chains of up to 10 000 tasks; what each costs besides its work",
};

const WORKERS: [usize; 2] = [1, 2];
/// The goals: from which work on, in nanoseconds, which share of the core time may be lost; below it, what the
/// overhead may be in times of a rival's.
const LOST: (u64, f64) = (20_000, 0.03);
const PEERS: [&str; 3] = ["proto", LIBGOMP.peer, ONETBB.peer];
const RIVALS: [(&str, f64); 2] = [(LIBGOMP.peer, 0.2), (ONETBB.peer, 0.3)];

/// The work of a task, in nanoseconds.
fn bodies(plan: &Plan) -> &'static [u64] {
    plan.pick(&[0, 1_000], &[0, 200, 1_000, 5_000, 20_000], &[0, 200, 500, 1_000, 2_000, 5_000, 20_000, 100_000])
}

/// The parameter of that work.
fn param(body: u64) -> String {
    format!("{} µs", body as f64 / 1e3)
}

/// Nanoseconds of core time that each task costs besides its work, if all of them take `time`.
pub(super) fn overhead(case: &Case, lattice: &Lattice, work: f64, time: f64) -> f64 {
    time * case.workers as f64 / lattice.tasks() as f64 - work
}

impl Dataflow {
    /// Tasks with the work of `point`: at most `size`, and as many as make half a microsecond for each of those.
    fn lattice(&self, case: &Case) -> anyhow::Result<Lattice> {
        let point = case.points.first().ok_or_else(|| unknown(case))?;
        let tasks = (case.size as f64 * 500.0 / point.ns) as u64;
        Ok(Lattice::new(self.shape, tasks.clamp(case.size / 200, case.size), point))
    }
}

impl Workload for Dataflow {
    fn name(&self) -> &'static str {
        self.name
    }

    fn about(&self) -> &'static str {
        self.about
    }

    fn lengths(&self, plan: &Plan) -> Vec<u64> {
        bodies(plan).iter().map(|&body| cycles(body as f64)).collect()
    }

    fn natives(&self) -> &'static [Native] {
        &[LIBGOMP, ONETBB]
    }

    fn cases(&self, plan: &Plan) -> Vec<Case> {
        // The most tasks. A chain has 10 000 then.
        let most = if self.shape == Shape::Grid { 400_000 } else { 640_000 };
        let mut cases = Vec::new();
        for (&body, point) in bodies(plan).iter().zip(plan.points(&self.lengths(plan))) {
            for (peer, workers) in PEERS.iter().flat_map(|peer| WORKERS.map(|workers| (peer, workers))) {
                let mut case = Case::new(self.name, peer, workers, &param(body), plan.pick(400, 40_000, most));
                case.points.push(point);
                cases.extend(plan.with_program(case));
            }
        }
        cases
    }

    fn measure(&self, case: &Case) -> anyhow::Result<Vec<Measure>> {
        let lattice = self.lattice(case)?;
        let (timing, data) = match case.peer.as_str() {
            "proto" => dataflow::measure(case.workers, &lattice).map(|(timing, data)| (timing, Some(data)))?,
            _ => (native::measure(case, &lattice, 0)?, None),
        };
        let cost = |time| overhead(case, &lattice, timing.work, time);
        let efficiency = timing.work / (cost(timing.all) + timing.work);
        let figures = [
            Some(case.measure("overhead", "ns", cost(timing.all))),
            (lattice.steps > 0).then(|| case.measure("efficiency", "1", efficiency)),
            timing.run.map(|run| case.measure("overhead_run", "ns", cost(run))),
            data.map(|data| case.measure("data", "ns", data / lattice.tasks() as f64)),
        ];
        Ok(figures.into_iter().flatten().collect())
    }

    fn goals(&self, plan: &Plan, results: &Results) -> Vec<Goal> {
        let mut goals = Vec::new();
        for &body in bodies(plan) {
            let median = |peer, metric| results.median(peer, 2, &param(body), metric);
            if body >= LOST.0 {
                let lost = median("proto", "efficiency").map(|efficiency| 1.0 - efficiency);
                goals.push(Goal::at_most(format!("{}, share of core time lost", param(body)), lost, LOST.1));
            } else if body > 0 {
                goals.extend(RIVALS.map(|(rival, limit)| {
                    let what = format!("{}, overhead, ns", param(body));
                    Goal::against(what, median("proto", "overhead"), limit, rival, median(rival, "overhead"))
                }));
            }
        }
        goals
    }

    fn plot(&self, records: &[Record], folder: &Path) -> anyhow::Result<()> {
        for workers in WORKERS {
            let lines = plot::lines(records, |record| {
                let body = record.param.strip_suffix(" µs")?.parse().ok()?;
                let shown = record.metric == "efficiency" && record.workers == workers;
                // Its inverse: as in the mutex curve, 1 is the best, and the axis shows how far all are from it.
                shown.then(|| (body, 1.0 / record.median))
            });
            let file = folder.join(format!("{}-{workers}.svg", self.name));
            let title = format!("{}: dependent tasks on {workers} worker(s)", self.name);
            plot::curves(&lines, &file, &title, "work of a task, µs", "time × workers / work")?;
        }
        Ok(())
    }
}
