//! `par_for`: a parallel loop; nanoseconds per step, or per multiply-add. The kinds of loops have a file each.
//!
//! `plain` is the loop without anything, on one core. `std` are two pinned threads with the work cut by hand, where
//! half of the cost lies, which is known here. Speed-ups on two workers are `plain` by the peer's time. Every result is
//! compared with that of the plain loop.
//!
//! `passes` on two workers is shown and has no goal: threads that meet spinning do nothing else meanwhile, and no
//! runtime hands over half a pass, and its end, in three percent of five microseconds.

mod passes;
mod rows;
mod uneven;

use std::hint::black_box;

use super::{Workload, unknown};
use crate::goal::Goal;
use crate::plan::Plan;
use crate::record::{Case, Measure, Results};

/// See the head of this file.
#[derive(Debug)]
pub(crate) struct ParFor;

/// Numbers that stay in the cache.
const LENGTH: usize = 100_000;

/// One, but the compiler must not know.
fn one() -> f64 {
    black_box(1.0)
}

impl Workload for ParFor {
    fn name(&self) -> &'static str {
        "par_for"
    }

    fn about(&self) -> &'static str {
        "parallel loops of equal, uneven and tiny steps, ns per multiply-add or step"
    }

    fn cases(&self, plan: &Plan) -> Vec<Case> {
        // Not smaller with --quick: the loops must be long beside the waking of a core.
        let kinds = [
            ("rows", plan.pick(100, 100_000, 100_000)),
            ("uneven", plan.pick(1_000, 1_000_000, 1_000_000)),
            ("passes", plan.pick(2, 1_000, 1_000)),
        ];
        let peers = [("plain", 1), ("proto", 1), ("rayon", 1), ("std", 2), ("proto", 2), ("rayon", 2)];
        let case = |(peer, workers), (kind, size)| Case::new(self.name(), peer, workers, kind, size);
        kinds.into_iter().flat_map(|kind| peers.map(|peer| case(peer, kind))).collect()
    }

    fn measure(&self, case: &Case) -> anyhow::Result<Vec<Measure>> {
        let ns = match case.param.as_str() {
            "rows" => rows::measure(case),
            "uneven" => uneven::measure(case),
            "passes" => passes::measure(case),
            _ => Err(unknown(case)),
        }?;
        Ok(vec![case.measure("ns_per_step", "ns", ns)])
    }

    fn goals(&self, _plan: &Plan, results: &Results) -> Vec<Goal> {
        let time = |kind, peer, workers| results.median(peer, workers, kind, "ns_per_step");
        let alone = |kind| {
            let what = format!("{kind}, 1 worker, ns");
            Goal::against(what, time(kind, "proto", 1), 1.05, "plain", time(kind, "plain", 1))
        };
        let shared = |kind| {
            let speedup = |peer| Some(time(kind, "plain", 1)? / time(kind, peer, 2)?);
            let what = format!("{kind}, 2 workers, speed-up");
            Goal::against(what, speedup("proto"), 0.97, "std", speedup("std")).or_more()
        };
        vec![alone("rows"), shared("rows"), alone("uneven"), shared("uneven"), alone("passes")]
    }
}
