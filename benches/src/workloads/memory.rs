//! `memory`: what a suspended timeline keeps, when very many are suspended at once.
//!
//! * `resident_bytes`: growth of the resident set from before the first birth until all are
//!   suspended, per timeline. A stackful timeline has touched at least one page of its stack.
//! * `mappings`: growth of the number of mappings, in all. The kernel allows 65 530 by default, so a
//!   peer that needs one or two per stack ends there, and is measured with fewer timelines.
//! * `suspend_seconds`: until all are suspended; `seconds`: their whole life, ends included.
//!
//! Page tables and kernel stacks are not counted: an OS thread costs 20 KiB more than shown.

use std::sync::OnceLock;
use std::time::Instant;

use super::{Workload, unknown};
use crate::goal::Goal;
use crate::machine;
use crate::peers::may::Coroutines;
use crate::peers::proto::Vps;
use crate::peers::tokio::Tasks;
use crate::peers::{corosensei, may, std as os};
use crate::plan::Plan;
use crate::record::{Case, Measure, Results};

/// See the head of this file.
#[derive(Debug)]
pub(crate) struct Memory;

/// How many of our VPs and of tokio's tasks are suspended at once.
fn many(plan: &Plan) -> u64 {
    plan.pick(1_000, 100_000, 1_000_000)
}

/// Runs `suspend_all`, which calls its argument when all timelines are suspended.
fn weigh(
    case: &Case,
    suspend_all: impl FnOnce(u64, &(dyn Fn() + Sync)) -> anyhow::Result<()>,
) -> anyhow::Result<Vec<Measure>> {
    let looked = OnceLock::new();
    let before = machine::Memory::now()?;
    let start = Instant::now();
    suspend_all(case.size, &|| {
        let suspended = start.elapsed();
        // A second look would be a mistake of the peer; the first one counts.
        let _ = looked.set((machine::Memory::now(), suspended));
    })?;
    let seconds = start.elapsed().as_secs_f64();
    let (memory, suspended) =
        looked.into_inner().ok_or_else(|| anyhow::anyhow!("the timelines never all stood still"))?;
    let memory = memory?;
    let bytes = memory.resident.saturating_sub(before.resident) as f64 / case.size as f64;
    let mappings = memory.mappings.saturating_sub(before.mappings) as f64;
    Ok(vec![
        case.measure("resident_bytes", "B", bytes),
        case.measure("mappings", "1", mappings),
        case.measure("suspend_seconds", "s", suspended.as_secs_f64()),
        case.measure("seconds", "s", seconds),
    ])
}

impl Workload for Memory {
    fn name(&self) -> &'static str {
        "memory"
    }

    fn about(&self) -> &'static str {
        "suspended timelines: resident bytes each, mappings, seconds"
    }

    fn cases(&self, plan: &Plan) -> Vec<Case> {
        let cases = [
            ("proto", many(plan)),
            ("tokio", many(plan)),
            ("corosensei", plan.pick(100, 10_000, 30_000)),
            ("may", plan.pick(100, 10_000, 30_000)),
            ("std", plan.pick(100, 1_000, 10_000)),
        ];
        let case = |(peer, count)| Case::new(self.name(), peer, 1, &format!("n={count}"), count);
        cases.map(case).into()
    }

    fn measure(&self, case: &Case) -> anyhow::Result<Vec<Measure>> {
        match case.peer.as_str() {
            "tokio" => {
                let tasks = Tasks::on(1);
                weigh(case, |count, look| {
                    tasks.wait_all(count, look);
                    Ok(())
                })
            }
            "corosensei" => weigh(case, |count, look| corosensei::suspend_all(count, 64 << 10, look)),
            "may" => {
                Coroutines::on(1);
                weigh(case, |count, look| {
                    may::park_all(count, look);
                    Ok(())
                })
            }
            "std" => weigh(case, |count, look| {
                os::park_all(count, look);
                Ok(())
            }),
            "proto" => {
                let vps = Vps::on(1);
                weigh(case, |count, look| {
                    vps.wait_all(count, look);
                    Ok(())
                })
            }
            _ => Err(unknown(case)),
        }
    }

    fn goals(&self, plan: &Plan, results: &Results) -> Vec<Goal> {
        let count = many(plan);
        let param = format!("n={count}");
        let median = |metric| results.median("proto", 1, &param, metric);
        // Fewer VPs than the million of the goal get so much less time.
        let seconds = 5.0 * count as f64 / 1e6;
        vec![
            Goal::at_most(format!("{param} bytes each"), median("resident_bytes"), 4.5 * 1024.0),
            Goal::at_most(format!("{param} mappings"), median("mappings"), 100.0),
            Goal::at_most(format!("{param} seconds"), median("seconds"), seconds),
        ]
    }
}
