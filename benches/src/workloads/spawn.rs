//! `spawn`: 10⁶ timelines are born by one, run empty, and are joined by it; nanoseconds each.
//!
//! All handles are kept until the last timeline is born. may joins after every 1 000 births and
//! gets fewer of them, OS threads fewer still: more of them at once are not to be had at a price
//! that could be compared.

use std::time::Duration;

use super::{Workload, per, unknown};
use crate::goal::Goal;
use crate::peers::may::Coroutines;
use crate::peers::proto::Vps;
use crate::peers::tokio::Tasks;
use crate::peers::{may, std as os};
use crate::plan::Plan;
use crate::record::{Case, Measure, Results};

/// See the head of this file.
#[derive(Debug)]
pub(crate) struct Spawn;

/// Times `spawn` after a warm-up of the same size, in nanoseconds each: the first million of anything
/// pays for its memory, and that is the subject of `memory`.
fn all_and_time(count: u64, spawn: impl Fn(u64) -> Duration) -> f64 {
    spawn(count);
    per(spawn(count), count)
}

impl Workload for Spawn {
    fn name(&self) -> &'static str {
        "spawn"
    }

    fn about(&self) -> &'static str {
        "empty timelines born by one, run, joined, ns each"
    }

    fn cases(&self, plan: &Plan) -> Vec<Case> {
        let size = plan.pick(1_000, 200_000, 1_000_000);
        let cases = [
            ("proto", 1, size),
            ("proto", 2, size),
            ("tokio", 1, size),
            ("tokio", 2, size),
            ("may", 1, plan.pick(1_000, 50_000, 300_000)),
            ("may", 2, plan.pick(1_000, 50_000, 300_000)),
            ("std", 2, plan.pick(10, 1_000, 10_000)),
        ];
        cases.map(|(peer, workers, size)| Case::new(self.name(), peer, workers, "", size)).into()
    }

    fn measure(&self, case: &Case) -> anyhow::Result<Vec<Measure>> {
        let ns = match case.peer.as_str() {
            "tokio" => {
                let tasks = Tasks::on(case.workers);
                all_and_time(case.size, |count| tasks.spawn(count))
            }
            "may" => {
                Coroutines::on(case.workers);
                all_and_time(case.size, may::spawn)
            }
            "std" => all_and_time(case.size, os::spawn),
            "proto" => {
                let vps = Vps::on(case.workers);
                all_and_time(case.size, |count| vps.spawn(count))
            }
            _ => return Err(unknown(case)),
        };
        Ok(vec![case.measure("ns_per_spawn", "ns", ns)])
    }

    fn goals(&self, _plan: &Plan, results: &Results) -> Vec<Goal> {
        let goal = |(workers, limit)| {
            let median = |peer| results.median(peer, workers, "", "ns_per_spawn");
            let what = format!("{workers} worker(s), ns");
            Goal::against(what, median("proto"), limit, "tokio", median("tokio"))
        };
        [(1, 0.3), (2, 0.5)].map(goal).into()
    }
}
