//! `graph_rerun`: a graph of 10⁵ empty tasks (a grid of 250 × 400, see [`crate::lattice`]) that is made once and
//! run again; nanoseconds of core time per task, which is `time × workers / tasks`.
//!
//! * `again`: one run of the kept graph, the mean of ten after the first.
//! * `first`: making it, running it the first time, and freeing it.
//! * `unkept`: making and running the tasks without keeping them, each time anew.

use super::dataflow::overhead;
use super::{Workload, unknown};
use crate::goal::Goal;
use crate::lattice::{Lattice, Shape};
use crate::peers::dataflow;
use crate::peers::native::{self, Native, ONETBB};
use crate::plan::Plan;
use crate::record::{Case, Measure, Results};

/// See the head of this file.
#[derive(Debug)]
pub(crate) struct GraphRerun;

const WORKERS: [usize; 2] = [1, 2];
const ROUNDS: u32 = 10;
/// Tasks in a row of the grid.
const COLUMNS: usize = 400;

impl Workload for GraphRerun {
    fn name(&self) -> &'static str {
        "graph_rerun"
    }

    fn about(&self) -> &'static str {
        "a kept graph of 10⁵ empty tasks run again, core ns per task"
    }

    fn natives(&self) -> &'static [Native] {
        &[ONETBB]
    }

    fn cases(&self, plan: &Plan) -> Vec<Case> {
        let case = |peer, workers| Case::new(self.name(), peer, workers, "", plan.pick(2_000, 100_000, 100_000));
        let cases = ["proto", ONETBB.peer].into_iter().flat_map(|peer| WORKERS.map(|workers| case(peer, workers)));
        cases.filter_map(|case| plan.with_program(case)).collect()
    }

    fn measure(&self, case: &Case) -> anyhow::Result<Vec<Measure>> {
        let rows = case.size as usize / COLUMNS;
        let lattice = Lattice { shape: Shape::Grid, rows, columns: COLUMNS, steps: 0 };
        let ours = case.peer == "proto";
        let timing = if ours {
            dataflow::measure_again(case.workers, &lattice, ROUNDS)?
        } else {
            native::measure(case, &lattice, ROUNDS)?
        };
        let cost = |time| overhead(case, &lattice, 0.0, time);
        let again = timing.again.ok_or_else(|| unknown(case))?;
        let mut measures =
            vec![case.measure("again", "ns", cost(again)), case.measure("first", "ns", cost(timing.all))];
        if ours {
            let (unkept, _) = dataflow::measure(case.workers, &lattice)?;
            measures.push(case.measure("unkept", "ns", cost(unkept.all)));
        }
        Ok(measures)
    }

    fn goals(&self, _plan: &Plan, results: &Results) -> Vec<Goal> {
        let goal = |workers| {
            let median = |peer| results.median(peer, workers, "", "again");
            let what = format!("{workers} worker(s), run again, ns");
            Goal::against(what, median("proto"), 1.0, ONETBB.peer, median(ONETBB.peer))
        };
        WORKERS.map(goal).into()
    }
}
