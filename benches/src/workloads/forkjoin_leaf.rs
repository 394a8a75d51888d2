//! `forkjoin_leaf`: `join` of two equal halves of 2 ms that fork no more; milliseconds until both are done.
//!
//! The halves are pure computing (one dependent chain each, no memory), so all that is lost is lost in getting the
//! second half to the other core and its end back. `awake`: the other core has just been busy, with a short join of
//! the same kind. `parked`: for 20 ms there was nothing for it to do, while this core computed.
//!
//! `plain` is one half after the other on one thread; `std` is a thread that stands ready with the second half,
//! spinning on a flag (`awake`) or parked (`parked`), while the first spins for its end. Speed-ups are `plain` by
//! the peer's time, and ours is to reach 0.95 of that of the ready threads. chili hands over at heartbeats that it
//! sees in forks only, and these halves have none: it shows what "takable at any moment" is about.
//!
//! A sample is the median of some joins. The values that the halves compute are compared with those of `plain`.

use std::hint::black_box;
use std::time::{Duration, Instant};

use super::{Workload, unknown};
use crate::calibrate::{calibrate, private_work};
use crate::goal::Goal;
use crate::machine;
use crate::peers::ready::Ready;
use crate::peers::tasks::Forks;
use crate::peers::{chili, rayon};
use crate::plan::Plan;
use crate::record::{Case, Measure, Results};
use crate::stats::Summary;

/// See the head of this file.
#[derive(Debug)]
pub(crate) struct ForkJoinLeaf;

/// What a half takes.
const HALF: Duration = Duration::from_millis(2);

/// How long the other core has nothing to do before it counts as parked, in halves.
const IDLE: u32 = 10;

/// Joins of one sample.
const JOINS: usize = 11;

/// What both halves compute.
type Values = (u64, u64);

/// The two halves of `steps` steps.
fn halves(steps: u32) -> (impl Fn() -> u64 + Copy + Send + Sync, impl Fn() -> u64 + Copy + Send + Sync) {
    (move || private_work(1, steps), move || private_work(2, steps))
}

/// The median time of `join(steps)`, called by a worker, in milliseconds.
fn time(case: &Case, mut join: impl FnMut(u32) -> Values) -> f64 {
    let steps = case.size as u32;
    let (first, second) = halves(steps);
    let expected = (first(), second());
    let mut sample = |_| {
        if case.param == "parked" {
            black_box(private_work(3, steps * IDLE));
        } else {
            join(steps / 10);
        }
        let start = Instant::now();
        let values = join(steps);
        let elapsed = start.elapsed();
        assert_eq!(values, expected, "what the halves compute");
        elapsed.as_secs_f64() * 1e3
    };
    let samples: Vec<f64> = (0..JOINS).map(&mut sample).collect();
    Summary::of(&samples).expect("a sample has joins").median
}

impl Workload for ForkJoinLeaf {
    fn name(&self) -> &'static str {
        "forkjoin_leaf"
    }

    fn about(&self) -> &'static str {
        "join of two equal halves of 2 ms that fork no more, ms for both"
    }

    fn cases(&self, plan: &Plan) -> Vec<Case> {
        // Measured once, so that all do the same work.
        let point = &calibrate(&[20_000])[0];
        let half = plan.pick(HALF / 1_000, HALF, HALF);
        let steps = (f64::from(point.steps) * half.as_nanos() as f64 / point.ns) as u64;
        let case = |peer: &str, workers, param: &str| Case::new(self.name(), peer, workers, param, steps);
        let both = |peer| [case(peer, 2, "awake"), case(peer, 2, "parked")];
        let peers = ["proto", "std", "rayon", "chili"].into_iter().flat_map(both);
        peers.chain([case("plain", 1, "")]).collect()
    }

    fn measure(&self, case: &Case) -> anyhow::Result<Vec<Measure>> {
        let ms = match case.peer.as_str() {
            "proto" => Forks::on(case.workers).run(|| {
                time(case, |steps| {
                    let (first, second) = halves(steps);
                    proto_lang_tasks::join(first, second)
                })
            }),
            "std" => {
                let mut other = Ready::pinned(case.param == "parked");
                time(case, |steps| {
                    let (first, second) = halves(steps);
                    other.join(first, second)
                })
            }
            "rayon" => rayon::pool(case.workers).install(|| {
                time(case, |steps| {
                    let (first, second) = halves(steps);
                    ::rayon::join(first, second)
                })
            }),
            "chili" => {
                let pool = chili::pool(case.workers);
                let mut scope = pool.scope();
                time(case, |steps| {
                    let (first, second) = halves(steps);
                    scope.join_with_heartbeat_every::<1, _, _, _, _>(|_| first(), |_| second())
                })
            }
            "plain" => {
                machine::pin(0);
                time(case, |steps| {
                    let (first, second) = halves(steps);
                    (first(), second())
                })
            }
            _ => return Err(unknown(case)),
        };
        Ok(vec![case.measure("ms_for_both", "ms", ms)])
    }

    fn goals(&self, _plan: &Plan, results: &Results) -> Vec<Goal> {
        let goal = |param| {
            let plain = results.median("plain", 1, "", "ms_for_both");
            let speedup = |peer| Some(plain? / results.median(peer, 2, param, "ms_for_both")?);
            Goal::against(format!("other core {param}, speed-up"), speedup("proto"), 0.95, "std", speedup("std"))
                .or_more()
        };
        ["awake", "parked"].map(goal).into()
    }
}
