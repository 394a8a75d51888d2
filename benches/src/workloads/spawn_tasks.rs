//! `spawn_tasks`: 10⁶ empty tasks are spawned from one scope, and waited for at its end; nanoseconds each.
//!
//! Tasks and not timelines (`spawn` has those): nobody asks for any of them by itself. The warm-up is of the same
//! size and its tasks count themselves, so a task that is lost or run twice shows.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::{Workload, per, unknown};
use crate::goal::Goal;
use crate::peers::rayon;
use crate::peers::tasks::Forks;
use crate::plan::Plan;
use crate::record::{Case, Measure, Results};

/// See the head of this file.
#[derive(Debug)]
pub(crate) struct SpawnTasks;

/// A counter alone on its cache lines.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Counter(AtomicU64);

impl Counter {
    /// The task of the warm-up.
    fn add(&self) {
        // Relaxed: read after the end of the scope, which orders.
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn assert_reached(&self, count: u64) {
        // Relaxed: see above.
        assert_eq!(self.0.load(Ordering::Relaxed), count, "every task is run once");
    }
}

impl Workload for SpawnTasks {
    fn name(&self) -> &'static str {
        "spawn_tasks"
    }

    fn about(&self) -> &'static str {
        "empty tasks spawned from one scope, run, waited for, ns each"
    }

    fn cases(&self, plan: &Plan) -> Vec<Case> {
        let size = plan.pick(1_000, 200_000, 1_000_000);
        let case = |(peer, workers)| Case::new(self.name(), peer, workers, "", size);
        [("proto", 1), ("proto", 2), ("rayon", 1), ("rayon", 2)].map(case).into()
    }

    fn measure(&self, case: &Case) -> anyhow::Result<Vec<Measure>> {
        let (size, counter) = (case.size, Counter::default());
        let elapsed: Duration = match case.peer.as_str() {
            "proto" => {
                let forks = Forks::on(case.workers);
                forks.spawn_tasks(size, || counter.add());
                forks.spawn_tasks(size, || {})
            }
            "rayon" => {
                let pool = rayon::pool(case.workers);
                rayon::spawn_tasks(&pool, size, || counter.add());
                rayon::spawn_tasks(&pool, size, || {})
            }
            _ => return Err(unknown(case)),
        };
        counter.assert_reached(size);
        Ok(vec![case.measure("ns_per_task", "ns", per(elapsed, size))])
    }

    fn goals(&self, _plan: &Plan, results: &Results) -> Vec<Goal> {
        let goal = |workers| {
            let median = |peer| results.median(peer, workers, "", "ns_per_task");
            Goal::against(format!("{workers} worker(s), ns"), median("proto"), 0.5, "rayon", median("rayon"))
        };
        [1, 2].map(goal).into()
    }
}
