//! `switch`: one timeline gives the core away and gets it back at once.
//!
//! For us a VP alone on one controller yields: out to the controller, `ready`, `assign`, and in
//! again, not short-cut although nothing else is ready. corosensei's bare resume and suspend is the
//! same two switches with nobody deciding between them: the difference is the scheduler.

use super::{Workload, unknown, warm_and_time};
use crate::goal::Goal;
use crate::machine;
use crate::peers::corosensei;
use crate::peers::proto::Vps;
use crate::plan::Plan;
use crate::record::{Case, Measure, Results};

/// See the head of this file.
#[derive(Debug)]
pub(crate) struct Switch;

impl Workload for Switch {
    fn name(&self) -> &'static str {
        "switch"
    }

    fn about(&self) -> &'static str {
        "a lone VP yields through controller and assigner, ns per yield (two switches)"
    }

    fn cases(&self, plan: &Plan) -> Vec<Case> {
        let size = plan.pick(1_000, 20_000_000, 100_000_000);
        ["proto", "corosensei"].map(|peer| Case::new(self.name(), peer, 1, "", size)).into()
    }

    fn measure(&self, case: &Case) -> anyhow::Result<Vec<Measure>> {
        let ns = match case.peer.as_str() {
            "corosensei" => {
                machine::pin(0);
                warm_and_time(case.size, corosensei::switch)
            }
            "proto" => {
                let vps = Vps::on(1);
                warm_and_time(case.size / 10, |count| vps.switch(count))
            }
            _ => return Err(unknown(case)),
        };
        Ok(vec![case.measure("ns_per_switch", "ns", ns)])
    }

    fn goals(&self, _plan: &Plan, results: &Results) -> Vec<Goal> {
        let median = |peer| results.median(peer, 1, "", "ns_per_switch");
        vec![Goal::against("ns", median("proto"), 4.0, "corosensei", median("corosensei"))]
    }
}
