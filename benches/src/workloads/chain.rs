//! `chain`: a token goes around a ring of 1 000 timelines, 10⁶ hops; nanoseconds per hop.
//!
//! Each hop is a send, a wake-up and a receive, and touches a stack that 999 others have displaced
//! from the nearest cache. The clock starts with the first hop, not with the start of the timelines.

use super::{Workload, per, unknown};
use crate::goal::Goal;
use crate::peers::may::Coroutines;
use crate::peers::proto::{self, Vps};
use crate::peers::std::Threads;
use crate::peers::tokio::Tasks;
use crate::peers::{Host, may, ring, std as os};
use crate::plan::Plan;
use crate::record::{Case, Measure, Results};

/// See the head of this file.
#[derive(Debug)]
pub(crate) struct Chain;

const LENGTH: u64 = 1_000;

/// Nanoseconds per hop of `laps` laps; `make` makes one channel.
fn hops<S, R>(host: &impl Host, laps: u64, make: impl Fn() -> (S, R)) -> anyhow::Result<f64>
where
    S: Fn(u64) + Send + 'static,
    R: Fn() -> u64 + Send + 'static,
{
    let run = |laps| {
        let (timelines, stopwatch) = ring(LENGTH, laps, &make);
        host.run(timelines);
        stopwatch.get().copied()
    };
    run((laps / 10).max(1));
    let elapsed = run(laps).ok_or_else(|| anyhow::anyhow!("the ring was left before its end"))?;
    Ok(per(elapsed, laps * LENGTH))
}

impl Workload for Chain {
    fn name(&self) -> &'static str {
        "chain"
    }

    fn about(&self) -> &'static str {
        "a token on a ring of 1 000 timelines, ns per hop"
    }

    fn cases(&self, plan: &Plan) -> Vec<Case> {
        // Laps of 1 000 hops.
        let size = plan.pick(2, 200, 1_000);
        let slow = plan.pick(2, 10, 100);
        let cases = [
            ("proto", 1, size),
            ("proto", 2, size),
            ("tokio", 1, size),
            ("tokio", 2, size),
            ("may", 1, size),
            ("may", 2, size),
            ("std", 1, slow),
            ("std", 2, slow),
        ];
        cases.map(|(peer, workers, size)| Case::new(self.name(), peer, workers, "", size)).into()
    }

    fn measure(&self, case: &Case) -> anyhow::Result<Vec<Measure>> {
        let (laps, workers) = (case.size, case.workers);
        let ns = match case.peer.as_str() {
            "tokio" => {
                let tasks = Tasks::on(workers);
                tasks.ring(LENGTH, (laps / 10).max(1));
                per(tasks.ring(LENGTH, laps), laps * LENGTH)
            }
            "may" => hops(&Coroutines::on(workers), laps, may::channel)?,
            "std" => hops(&Threads::pinned(workers), laps, os::channel)?,
            "proto" => hops(&Vps::on(workers), laps, proto::channel)?,
            _ => return Err(unknown(case)),
        };
        Ok(vec![case.measure("ns_per_hop", "ns", ns)])
    }

    fn goals(&self, _plan: &Plan, results: &Results) -> Vec<Goal> {
        let goal = |(workers, limit)| {
            let median = |peer| results.median(peer, workers, "", "ns_per_hop");
            let what = format!("{workers} worker(s), ns");
            Goal::against(what, median("proto"), limit, "tokio", median("tokio"))
        };
        [(1, 0.35), (2, 0.8)].map(goal).into()
    }
}
