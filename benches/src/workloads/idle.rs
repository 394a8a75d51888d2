//! `idle`: how much of a core a runtime uses, in percent, over some seconds.
//!
//! `nothing`: it exists and has nothing to do. `forking`: one timeline computes and starts and joins
//! an empty one every 100 µs, which is how a sequential program with a few parallel calls looks to
//! idle workers: each fork may wake them for nothing. 100 is the timeline itself, the rest is the
//! runtime's.

use std::time::{Duration, Instant};

use super::{Workload, unknown};
use crate::goal::Goal;
use crate::machine;
use crate::peers::may;
use crate::peers::may::Coroutines;
use crate::peers::proto::Vps;
use crate::peers::tokio::Tasks;
use crate::plan::Plan;
use crate::record::{Case, Measure, Results};

/// See the head of this file.
#[derive(Debug)]
pub(crate) struct Idle;

const PAUSE: Duration = Duration::from_micros(100);

/// Computes for `period` and calls `fork` every `pause`.
pub(crate) fn compute(period: Duration, pause: Duration, fork: impl Fn()) {
    let start = Instant::now();
    let mut next = pause;
    while start.elapsed() < period {
        if start.elapsed() >= next {
            fork();
            next = start.elapsed() + pause;
        }
        std::hint::spin_loop();
    }
}

/// Percent of one core that this process uses while `body` runs.
fn core_percent(body: impl FnOnce()) -> f64 {
    let (before, start) = (machine::cpu_time(), Instant::now());
    body();
    let (used, elapsed) = (machine::cpu_time() - before, start.elapsed());
    used.as_secs_f64() / elapsed.as_secs_f64() * 100.0
}

impl Workload for Idle {
    fn name(&self) -> &'static str {
        "idle"
    }

    fn about(&self) -> &'static str {
        "processor use of a runtime with nothing to do, or with one VP that forks, % of a core"
    }

    fn cases(&self, plan: &Plan) -> Vec<Case> {
        // Milliseconds.
        let size = plan.pick(50, 700, 5_000);
        let case = |(peer, param)| Case::new(self.name(), peer, 2, param, size);
        let peers = ["proto", "tokio", "may"];
        peers.iter().flat_map(|peer| [(*peer, "nothing"), (*peer, "forking")]).map(case).collect()
    }

    fn measure(&self, case: &Case) -> anyhow::Result<Vec<Measure>> {
        let period = Duration::from_millis(case.size);
        // What starts up is not idle yet: workers spin a while before they sleep.
        let settle = Duration::from_millis((case.size / 10).max(20));
        let rest = || std::thread::sleep(period);
        let percent = match (case.peer.as_str(), case.param.as_str()) {
            ("tokio", "nothing") => {
                let _tasks = Tasks::on(case.workers);
                std::thread::sleep(settle);
                core_percent(rest)
            }
            ("tokio", _) => {
                let tasks = Tasks::on(case.workers);
                core_percent(|| tasks.compute_and_fork(period, PAUSE))
            }
            ("may", "nothing") => {
                Coroutines::on(case.workers);
                std::thread::sleep(settle);
                core_percent(rest)
            }
            ("may", _) => {
                Coroutines::on(case.workers);
                core_percent(|| may::compute_and_fork(period, PAUSE))
            }
            ("proto", "nothing") => {
                let _vps = Vps::on(case.workers);
                std::thread::sleep(settle);
                core_percent(rest)
            }
            ("proto", _) => {
                let vps = Vps::on(case.workers);
                core_percent(|| vps.compute_and_fork(period, PAUSE))
            }
            _ => return Err(unknown(case)),
        };
        Ok(vec![case.measure("core_percent", "%", percent)])
    }

    fn goals(&self, _plan: &Plan, results: &Results) -> Vec<Goal> {
        let percent = |param| results.median("proto", 2, param, "core_percent");
        vec![
            Goal::below("nothing to do, % of a core", percent("nothing"), 0.5),
            Goal::at_most("forking every 100 µs, % of a core", percent("forking"), 115.0),
        ]
    }
}
