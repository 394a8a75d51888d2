//! `mutex_curve`: what a lock costs when timelines do other work between two locks (Fig. 19 of the
//! proto-runtime paper, see `docs/design.md`, section 6).
//!
//! `T` timelines on 2 cores each do `w` cycles of private work, then lock one shared mutex, add one,
//! unlock, and again. The figure is `(time × cores) / (private work)`: 1 means that the lock is free,
//! 2 on two cores that no parallelism is left. Peer `none` has no lock: what the machine, the
//! placement and the start of the timelines cost. Per `T` there are also the geometric mean over all
//! `w` and the largest `w` at which the ratio is still 2.
//!
//! Read the curve and not only the crossing: a lock handed over in order of arrival can form a
//! convoy, all work on one core, and stay near 2 for `w` of tens of thousands.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::{Workload, unknown};
use crate::calibrate::{WorkPoint, private_work};
use crate::goal::Goal;
use crate::peers::may::Coroutines;
use crate::peers::proto::{self, Vps};
use crate::peers::std::Threads;
use crate::peers::tokio::Tasks;
use crate::peers::{CountLock, Host, NoLock, Timeline, may, parking_lot, pthread, std as os};
use crate::plan::Plan;
use crate::plot;
use crate::record::{Case, Measure, Record, Results};
use crate::stats::{geometric_mean, last_crossing};

/// See the head of this file.
#[derive(Debug)]
pub(crate) struct MutexCurve;

const CORES: usize = 2;
const TIMELINES: [u64; 3] = [2, 8, 64];
/// Locks of one sample, where `w` is short: enough to outlast the start of the timelines.
const MOST_LOCKS: u64 = 1_300_000;
/// The goal's bound on a single point, and the rival's ratio from which on it counts: below, the
/// machine's own spread decides.
const WORST_POINT: (f64, f64) = (1.15, 1.2);

/// `timelines` timelines on `host` lock `each` times with `steps` of private work before each.
fn contend<L: CountLock>(host: &impl Host, timelines: u64, each: u64, steps: u32) -> Duration {
    let lock = Arc::new(L::default());
    let timeline = |seed| -> Timeline {
        let lock = Arc::clone(&lock);
        Box::new(move || {
            let mut value = seed;
            for _ in 0..each {
                value = private_work(value, steps);
                lock.add();
            }
            std::hint::black_box(value);
        })
    };
    host.run((0..timelines).map(timeline).collect())
}

/// Measures every point; `run(timelines, each, steps)` is the peer.
fn sweep(case: &Case, run: impl Fn(u64, u64, u32) -> Duration) -> anyhow::Result<Vec<Measure>> {
    let timelines = case.param.strip_prefix("T=").ok_or_else(|| unknown(case))?.parse::<u64>()?;
    let mut points = Vec::new();
    let mut measures = Vec::new();
    for WorkPoint { cycles, steps, ns } in &case.points {
        // The same private work at every point, in cycles, unless that is too many locks.
        let locks = (case.size / cycles).min(MOST_LOCKS).max(timelines);
        let each = locks / timelines;
        run(timelines, (each / 10).max(1), *steps);
        let elapsed = run(timelines, each, *steps).as_nanos() as f64;
        let ratio = elapsed * CORES as f64 / (ns * (each * timelines) as f64);
        points.push((*cycles as f64, ratio));
        let mut measure = case.measure("ratio", "1", ratio);
        measure.param = format!("{} w={cycles}", case.param);
        measures.push(measure);
    }
    let ratios: Vec<f64> = points.iter().map(|&(_, ratio)| ratio).collect();
    let mean = geometric_mean(&ratios).map(|mean| case.measure("geometric_mean", "1", mean));
    let crossing = last_crossing(&points, 2.0).map(|w| case.measure("w_at_ratio_2", "cycles", w));
    measures.extend(mean.into_iter().chain(crossing));
    Ok(measures)
}

/// The ratio of ours to the rival's at the point where it is worst, of those that count.
fn worst_point(plan: &Plan, results: &Results, timelines: u64, rival: &str) -> Option<(u64, f64)> {
    let at = |point: &WorkPoint| {
        let param = format!("T={timelines} w={}", point.cycles);
        let theirs = results.median(rival, CORES, &param, "ratio")?;
        let ours = results.median("proto", CORES, &param, "ratio")?;
        (theirs >= WORST_POINT.1).then_some((point.cycles, ours / theirs))
    };
    plan.points.iter().filter_map(at).max_by(|a, b| a.1.total_cmp(&b.1))
}

impl Workload for MutexCurve {
    fn name(&self) -> &'static str {
        "mutex_curve"
    }

    fn about(&self) -> &'static str {
        "T timelines on 2 cores, w cycles of private work, one shared lock; (time × cores) / work"
    }

    fn lengths(&self, plan: &Plan) -> Vec<u64> {
        plan.pick(
            vec![100, 5_200],
            vec![37, 72, 100, 190, 720, 5_200, 14_000, 37_000],
            vec![37, 52, 72, 100, 140, 190, 268, 380, 720, 1_400, 2_700, 5_200, 14_000, 37_000, 100_000],
        )
    }

    fn cases(&self, plan: &Plan) -> Vec<Case> {
        // Cycles of private work per point.
        let size = plan.pick(200_000, 40_000_000, 260_000_000);
        let case = |peer: &str, timelines: u64| {
            let mut case = Case::new(self.name(), peer, CORES, &format!("T={timelines}"), size);
            case.points = plan.points(&self.lengths(plan));
            case
        };
        let peers = ["none", "proto", "std", "parking_lot", "pthread", "may", "tokio"];
        let all = peers.iter().flat_map(|peer| TIMELINES.map(|timelines| case(peer, timelines)));
        all.collect()
    }

    fn measure(&self, case: &Case) -> anyhow::Result<Vec<Measure>> {
        fn on<L: CountLock>(host: &impl Host) -> impl Fn(u64, u64, u32) -> Duration {
            move |timelines, each, steps| contend::<L>(host, timelines, each, steps)
        }
        let threads = Threads::free();
        match case.peer.as_str() {
            "none" => sweep(case, on::<NoLock>(&threads)),
            "std" => sweep(case, on::<os::MutexCount>(&threads)),
            "parking_lot" => sweep(case, on::<parking_lot::MutexCount>(&threads)),
            "pthread" => sweep(case, on::<pthread::MutexCount>(&threads)),
            "may" => sweep(case, on::<may::MutexCount>(&Coroutines::on(CORES))),
            "tokio" => {
                let tasks = Tasks::on(CORES);
                sweep(case, |timelines, each, steps| tasks.curve(timelines, each, steps))
            }
            "proto" => sweep(case, on::<proto::MutexCount>(&Vps::on(CORES))),
            _ => Err(unknown(case)),
        }
    }

    fn goals(&self, plan: &Plan, results: &Results) -> Vec<Goal> {
        const RIVAL: &str = "parking_lot";
        let mut goals = Vec::new();
        for timelines in TIMELINES {
            let param = format!("T={timelines}");
            let median = |peer, metric| results.median(peer, CORES, &param, metric);
            let mut against = |what: &str, metric, limit| {
                let (ours, theirs) = (median("proto", metric), median(RIVAL, metric));
                goals.push(Goal::against(format!("{param} {what}"), ours, limit, RIVAL, theirs));
            };
            against("mean ratio", "geometric_mean", 1.0);
            match timelines {
                8 => against("w at ratio 2", "w_at_ratio_2", 1.0),
                64 => against("w at ratio 2", "w_at_ratio_2", 0.8),
                _ => {}
            }
            let worst = worst_point(plan, results, timelines, RIVAL);
            let place = worst.map_or_else(String::new, |(cycles, _)| format!(" (w={cycles})"));
            goals.push(Goal::at_most(
                format!("{param} worst point × {RIVAL}{place}"),
                worst.map(|(_, ratio)| ratio),
                WORST_POINT.0,
            ));
        }
        goals
    }

    fn plot(&self, records: &[Record], folder: &Path) -> anyhow::Result<()> {
        for timelines in TIMELINES {
            let prefix = format!("T={timelines} w=");
            let lines = plot::lines(records, |record| {
                let cycles = record.param.strip_prefix(&prefix)?.parse().ok()?;
                (record.metric == "ratio").then_some((cycles, record.median))
            });
            let file = folder.join(format!("{}-{timelines}.svg", self.name()));
            let title = format!("{timelines} timelines on {CORES} cores, one lock");
            plot::curves(&lines, &file, &title, "cycles between locks", "time × cores / work")?;
        }
        Ok(())
    }
}
