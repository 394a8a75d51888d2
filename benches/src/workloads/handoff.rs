//! `handoff`: ping-pong of two timelines; nanoseconds per round trip.
//!
//! `condvar`: one mutex and one condition variable, lock and unlock in every turn. `channel`: two
//! channels with room for one value (may: its unbounded ones). With 1 worker both timelines share a
//! core. With 2 a scheduler places the pair as it does by default, and most put it on one core; OS
//! threads are pinned to two cores. `… apart` puts our VPs' homes on different cores, so every hop
//! crosses; its floor is `spin`, two pinned threads that spin on one atomic, which moves a cache
//! line there and back and nothing else.

use super::{Workload, unknown, warm_and_time};
use crate::goal::{Goal, best};
use crate::peers::may::Coroutines;
use crate::peers::proto::{self, Vps};
use crate::peers::std::Threads;
use crate::peers::tokio::Tasks;
use crate::peers::{Host, Timeline, crossbeam, may, parking_lot, ping_pong, spin, std as os, take_turns};
use crate::plan::Plan;
use crate::record::{Case, Measure, Results};

/// See the head of this file.
#[derive(Debug)]
pub(crate) struct Handoff;

/// Nanoseconds per round trip of the two timelines that `make` makes for a number of rounds.
fn rounds(host: &impl Host, size: u64, make: impl Fn(u64) -> Vec<Timeline>) -> f64 {
    warm_and_time(size, |rounds| host.run(make(rounds)))
}

impl Workload for Handoff {
    fn name(&self) -> &'static str {
        "handoff"
    }

    fn about(&self) -> &'static str {
        "ping-pong of two timelines, ns per round trip"
    }

    fn cases(&self, plan: &Plan) -> Vec<Case> {
        let size = plan.pick(100, 100_000, 1_000_000);
        // What sleeps and wakes OS threads takes microseconds, on two cores tens of them.
        let (slow, slowest) = (size / 20, size / 100);
        let cases = [
            ("proto", 1, "condvar", size),
            ("proto", 2, "condvar", size),
            ("proto", 2, "condvar apart", size),
            ("proto", 1, "channel", size),
            ("proto", 2, "channel", size),
            ("proto", 2, "channel apart", size),
            ("spin", 2, "channel", size),
            ("tokio_current", 1, "channel", size),
            ("tokio", 1, "channel", size),
            ("tokio", 2, "channel", size),
            ("may", 1, "channel", size),
            ("may", 2, "channel", size),
            ("crossbeam", 1, "channel", slow),
            ("crossbeam", 2, "channel", size),
            ("std", 1, "channel", slow),
            ("std", 2, "channel", slowest),
            ("may", 1, "condvar", size),
            ("may", 2, "condvar", size),
            ("std", 1, "condvar", slow),
            ("std", 2, "condvar", slowest),
            ("parking_lot", 1, "condvar", slow),
            ("parking_lot", 2, "condvar", slowest),
        ];
        let case = |(peer, workers, param, size)| Case::new(self.name(), peer, workers, param, size);
        cases.map(case).into()
    }

    fn measure(&self, case: &Case) -> anyhow::Result<Vec<Measure>> {
        let (size, workers) = (case.size, case.workers);
        let threads = Threads::pinned(workers);
        let ns = match (case.peer.as_str(), case.param.as_str()) {
            ("spin", _) => warm_and_time(size, spin::ping_pong),
            ("tokio" | "tokio_current", _) => {
                let tasks = Tasks::on(if case.peer == "tokio" { workers } else { 0 });
                warm_and_time(size, |rounds| tasks.ping_pong(rounds))
            }
            ("may", "channel") => rounds(&Coroutines::on(workers), size, |n| ping_pong(n, may::channel)),
            ("may", _) => rounds(&Coroutines::on(workers), size, take_turns::<may::CondvarTurns>),
            ("crossbeam", _) => rounds(&threads, size, |n| ping_pong(n, crossbeam::channel)),
            ("std", "channel") => rounds(&threads, size, |n| ping_pong(n, os::channel)),
            ("std", _) => rounds(&threads, size, take_turns::<os::CondvarTurns>),
            ("parking_lot", _) => rounds(&threads, size, take_turns::<parking_lot::CondvarTurns>),
            ("proto", way) => {
                let host = if way.ends_with("apart") { Vps::apart(workers) } else { Vps::on(workers) };
                if way.starts_with("channel") {
                    rounds(&host, size, |n| ping_pong(n, proto::channel))
                } else {
                    rounds(&host, size, take_turns::<proto::CondvarTurns>)
                }
            }
            _ => return Err(unknown(case)),
        };
        Ok(vec![case.measure("ns_per_round_trip", "ns", ns)])
    }

    fn goals(&self, _plan: &Plan, results: &Results) -> Vec<Goal> {
        let median = |peer, workers, param: &str| results.median(peer, workers, param, "ns_per_round_trip");
        let tokio = median("tokio", 1, "channel");
        let rivals = ["tokio", "may", "crossbeam"];
        let (name, figure) = best(&rivals.map(|peer| (peer, median(peer, 2, "channel"))));
        let spin = median("spin", 2, "channel");
        let mut goals = Vec::new();
        for way in ["condvar", "channel"] {
            let apart = format!("{way} apart");
            let one = median("proto", 1, way);
            let two = median("proto", 2, way);
            let across = median("proto", 2, &apart);
            goals.push(Goal::against(format!("{way}, 1 worker, ns"), one, 0.3, "tokio", tokio));
            goals.push(Goal::against(format!("{way}, 2 workers, ns"), two, 0.6, name, figure));
            goals.push(Goal::against(format!("{apart}, ns"), across, 5.0, "spin", spin));
        }
        goals
    }
}
