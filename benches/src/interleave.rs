//! The order of the samples.
//!
//! Round robin over all cases of a workload, so that a disturbance that lasts seconds hits one
//! sample of every peer and not all samples of one; medians then do not see it. Each round starts
//! one case later than the last: no peer always runs behind the same neighbour.

use std::io::Write as _;

use crate::child;
use crate::plan::Plan;
use crate::record::Results;
use crate::workloads::Workload;

/// A case that failed this often is not tried again in this run.
const TRIES: usize = 2;

/// Measures one workload; progress goes to standard error.
pub(crate) fn run(workload: &dyn Workload, plan: &Plan) -> Results {
    let mut cases = workload.cases(plan);
    cases.retain(|case| plan.workers.is_none_or(|workers| workers == case.workers));
    // Ours is compiled in by a feature of this crate.
    cases.retain(|case| case.peer != "proto" || cfg!(feature = "proto"));
    let mut results = Results::default();
    let mut failed = vec![0; cases.len()];
    for round in 0..plan.rounds {
        eprint!(
            "\r{}: round {}/{} ",
            workload.name(),
            round + 1,
            plan.rounds
        );
        let _ = std::io::stderr().flush();
        for turn in 0..cases.len() {
            let index = (turn + round) % cases.len();
            let case = &cases[index];
            if failed[index] >= TRIES {
                continue;
            }
            match child::sample(case, plan.patience()) {
                Ok(measures) => results.add(case, measures),
                Err(error) => {
                    failed[index] += 1;
                    let name = format!("{} {} {}", case.peer, case.workers, case.param);
                    results
                        .failures
                        .push((name.trim_end().to_owned(), format!("{error:#}")));
                }
            }
        }
    }
    eprint!("\r{:40}\r", "");
    results
}
