//! The order of the samples.
//!
//! Round robin over all cases of a workload, so that a disturbance that lasts seconds hits one
//! sample of every peer and not all samples of one; medians then do not see it. Each round starts
//! one case later than the last: no peer always runs behind the same neighbour.
//!
//! A sample during which others used more than [`QUIET`] percent of the machine may be repeated, as
//! long as the plan's time for that lasts. What decides is the load alone, never the figure.

use std::io::Write as _;
use std::thread;
use std::time::{Duration, Instant};

use crate::child;
use crate::machine::Load;
use crate::plan::Plan;
use crate::record::{Case, Measure, Results};
use crate::workloads::Workload;

/// A case that failed this often is not tried again in this run.
const TRIES: usize = 2;

/// Percent of the machine that others may use before figures of two cores mean little.
pub(crate) const QUIET: f64 = 10.0;

/// Measures one workload; progress goes to standard error.
pub(crate) fn run(workload: &dyn Workload, plan: &Plan) -> Results {
    let mut cases = workload.cases(plan);
    cases.retain(|case| plan.workers.is_none_or(|workers| workers == case.workers));
    let mut results = Results::default();
    let mut calm = plan.calm;
    let mut failed = vec![0; cases.len()];
    for round in 0..plan.rounds {
        eprint!("\r{}: round {}/{} ", workload.name(), round + 1, plan.rounds);
        let _ = std::io::stderr().flush();
        for turn in 0..cases.len() {
            let index = (turn + round) % cases.len();
            let case = &cases[index];
            if failed[index] >= TRIES {
                continue;
            }
            match calm_sample(case, plan, &mut calm) {
                Ok((measures, others)) => {
                    results.add(case, measures);
                    results.disturbance.push(others);
                }
                Err(error) => {
                    failed[index] += 1;
                    let name = format!("{} {} {}", case.peer, case.workers, case.param);
                    results.failures.push((name.trim_end().to_owned(), format!("{error:#}")));
                }
            }
        }
    }
    eprint!("\r{:40}\r", "");
    results
}

/// A sample, and how much of the machine others used meanwhile. Disturbed ones are repeated, and
/// their time is taken from `calm`.
fn calm_sample(case: &Case, plan: &Plan, calm: &mut Duration) -> anyhow::Result<(Vec<Measure>, f64)> {
    loop {
        let (load, start) = (Load::now()?, Instant::now());
        let measures = child::sample(case, plan.patience())?;
        let others = Load::now()?.others_since(&load);
        if others <= QUIET || calm.is_zero() {
            return Ok((measures, others));
        }
        // What disturbs is often a build or a test: over soon, but not at once.
        thread::sleep(Duration::from_millis(100));
        *calm = calm.saturating_sub(start.elapsed());
    }
}
