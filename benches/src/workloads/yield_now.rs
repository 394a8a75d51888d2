//! `yield`: two timelines of one core yield to each other; per yield, so half a round.
//!
//! OS threads are pinned to one core. With 2 workers a scheduler may keep the two apart, and then a
//! yield finds nothing to run: those figures are shown, the goal is about 1 worker.

use super::{Workload, unknown, warm_and_time};
use crate::goal::Goal;
use crate::peers::may::Coroutines;
use crate::peers::proto::{self, Vps};
use crate::peers::std::Threads;
use crate::peers::tokio::Tasks;
use crate::peers::{Host, Timeline, may};
use crate::plan::Plan;
use crate::record::{Case, Measure, Results};

/// See the head of this file.
#[derive(Debug)]
pub(crate) struct Yield;

/// Nanoseconds per yield of two timelines on `host`, `count` yields in all. Generic, so that each peer's call can be inlined as in a program
/// of its own.
fn yields(host: &impl Host, count: u64, yield_now: impl Fn() + Copy + Send + 'static) -> f64 {
    warm_and_time(count, |count| {
        let timeline = || -> Timeline {
            Box::new(move || {
                for _ in 0..count / 2 {
                    yield_now();
                }
            })
        };
        host.run(vec![timeline(), timeline()])
    })
}

impl Workload for Yield {
    fn name(&self) -> &'static str {
        "yield"
    }

    fn about(&self) -> &'static str {
        "two timelines of one core yield to each other, ns per yield"
    }

    fn cases(&self, plan: &Plan) -> Vec<Case> {
        let size = plan.pick(100, 500_000, 4_000_000);
        let peers = [
            ("proto", 1, size),
            ("proto", 2, size),
            ("may", 1, size),
            ("may", 2, size),
            ("tokio_current", 1, size),
            ("tokio", 1, size),
            ("tokio", 2, size),
            ("std", 1, size / 10),
        ];
        peers.map(|(peer, workers, size)| Case::new(self.name(), peer, workers, "", size)).into()
    }

    fn measure(&self, case: &Case) -> anyhow::Result<Vec<Measure>> {
        let (size, workers) = (case.size, case.workers);
        let ns = match case.peer.as_str() {
            "may" => yields(&Coroutines::on(workers), size, may::yield_now),
            "std" => yields(&Threads::pinned(1), size, std::thread::yield_now),
            "tokio" | "tokio_current" => {
                let tasks = Tasks::on(if case.peer == "tokio" { workers } else { 0 });
                warm_and_time(size, |size| tasks.yields(size / 2))
            }
            "proto" => yields(&Vps::on(workers), size, proto::yield_now),
            _ => return Err(unknown(case)),
        };
        Ok(vec![case.measure("ns_per_yield", "ns", ns)])
    }

    fn goals(&self, _plan: &Plan, results: &Results) -> Vec<Goal> {
        let median = |peer| results.median(peer, 1, "", "ns_per_yield");
        vec![Goal::against("1 worker, ns", median("proto"), 0.5, "may", median("may"))]
    }
}
