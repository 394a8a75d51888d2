//! `mutex_uncontended`: lock, add one, unlock; one timeline, nobody else wants the lock.
//!
//! The process has a second thread, asleep, because glibc would otherwise leave out the lock prefix.

use std::sync::Arc;

use super::{Workload, unknown, warm_and_time};
use crate::goal::Goal;
use crate::peers::may::Coroutines;
use crate::peers::proto::{self, Vps};
use crate::peers::std::Threads;
use crate::peers::tokio::Tasks;
use crate::peers::{CountLock, Host, may, parking_lot, pthread, std as os};
use crate::plan::Plan;
use crate::record::{Case, Measure, Results};

/// See the head of this file.
#[derive(Debug)]
pub(crate) struct MutexUncontended;

/// Nanoseconds per lock and unlock of one timeline on `host`.
fn alone<L: CountLock>(host: &impl Host, size: u64) -> f64 {
    let lock = Arc::new(L::default());
    warm_and_time(size, |count| {
        let lock = Arc::clone(&lock);
        host.run(vec![Box::new(move || {
            for _ in 0..count {
                lock.add();
            }
        })])
    })
}

impl Workload for MutexUncontended {
    fn name(&self) -> &'static str {
        "mutex_uncontended"
    }

    fn about(&self) -> &'static str {
        "lock + unlock by one timeline, ns per pair"
    }

    fn cases(&self, plan: &Plan) -> Vec<Case> {
        let size = plan.pick(100, 2_000_000, 10_000_000);
        ["proto", "std", "parking_lot", "pthread", "may", "tokio"]
            .map(|peer| Case::new(self.name(), peer, 1, "", size))
            .into()
    }

    fn measure(&self, case: &Case) -> anyhow::Result<Vec<Measure>> {
        let size = case.size;
        let core = Threads::pinned(1);
        let ns = match case.peer.as_str() {
            "std" => alone::<os::MutexCount>(&core, size),
            "parking_lot" => alone::<parking_lot::MutexCount>(&core, size),
            "pthread" => alone::<pthread::MutexCount>(&core, size),
            "may" => alone::<may::MutexCount>(&Coroutines::on(1), size),
            "tokio" => {
                let tasks = Tasks::on(1);
                warm_and_time(size, |count| tasks.lock_alone(count))
            }
            "proto" => alone::<proto::MutexCount>(&Vps::on(1), size),
            _ => return Err(unknown(case)),
        };
        Ok(vec![case.measure("ns_per_pair", "ns", ns)])
    }

    fn goals(&self, _plan: &Plan, results: &Results) -> Vec<Goal> {
        let median = |peer| results.median(peer, 1, "", "ns_per_pair");
        vec![Goal::against("ns", median("proto"), 1.15, "parking_lot", median("parking_lot"))]
    }
}
