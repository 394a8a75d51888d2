//! `forkjoin`: `fib(n)` by fork and join without a cut-off; nanoseconds per fork.
//!
//! Next to nothing but forks: the figure is the price of one, with the call, the compare and the addition that come
//! with it. `call` is the same recursion by calls that the compiler may not inline: the floor. `chili` makes a job
//! of every fork, as all others do; `chili_join` is its own `join`, where most forks are calls. Ours and lace-ws's
//! can be taken by another core at any moment, chili's at a heartbeat.
//!
//! n is 40 (rayon 36: it takes five times as long). The result is compared with the n-th Fibonacci number.

use std::time::{Duration, Instant};

use super::{Workload, per, unknown};
use crate::goal::Goal;
use crate::machine;
use crate::peers::tasks::Forks;
use crate::peers::{chili, lace, rayon, tasks};
use crate::plan::Plan;
use crate::record::{Case, Measure, Results};

/// See the head of this file.
#[derive(Debug)]
pub(crate) struct ForkJoin;

/// The n-th Fibonacci number.
fn fibonacci(n: u64) -> u64 {
    (0..n).fold((0, 1), |(a, b), _| (b, a + b)).0
}

/// The recursion by calls.
#[inline(never)]
fn call(n: u64) -> u64 {
    if n < 2 { n } else { call(n - 1) + call(n - 2) }
}

/// Times `fib(n)` after a warm-up of a tenth, in nanoseconds per fork. Called where `fib` may be: by a worker.
fn time(n: u64, mut fib: impl FnMut(u64) -> u64) -> f64 {
    let mut once = |n| -> Duration {
        let start = Instant::now();
        let result = fib(n);
        let elapsed = start.elapsed();
        assert_eq!(result, fibonacci(n), "fib({n})");
        elapsed
    };
    // Five less is an eleventh of the forks.
    once(n.saturating_sub(5));
    // A call with n ≥ 2 forks: as many as calls, less the leaves.
    per(once(n), fibonacci(n + 1) - 1)
}

impl Workload for ForkJoin {
    fn name(&self) -> &'static str {
        "forkjoin"
    }

    fn about(&self) -> &'static str {
        "fib(n) by fork and join, no cut-off, ns per fork"
    }

    fn cases(&self, plan: &Plan) -> Vec<Case> {
        let n = plan.pick(12, 34, 40);
        let case = |peer: &str, workers| {
            let n = if peer == "rayon" { plan.pick(12, 32, 36) } else { n };
            Case::new(self.name(), peer, workers, "", n)
        };
        let peers = ["proto", "lace", "chili", "chili_join", "rayon"];
        let both = peers.iter().flat_map(|peer| [case(peer, 1), case(peer, 2)]);
        both.chain([case("call", 1)]).collect()
    }

    fn measure(&self, case: &Case) -> anyhow::Result<Vec<Measure>> {
        let n = case.size;
        let ns = match case.peer.as_str() {
            "proto" => {
                let forks = Forks::on(case.workers);
                forks.run(|| time(n, tasks::fib))
            }
            "lace" => {
                let mut workers = lace::Workers::on(case.workers);
                time(n, |n| workers.fib(n))
            }
            "chili" => {
                let pool = chili::pool(case.workers);
                let mut scope = pool.scope();
                time(n, |n| chili::fib::<1>(&mut scope, n))
            }
            "chili_join" => {
                let pool = chili::pool(case.workers);
                let mut scope = pool.scope();
                time(n, |n| chili::fib::<{ chili::JOIN }>(&mut scope, n))
            }
            "rayon" => {
                let pool = rayon::pool(case.workers);
                pool.install(|| time(n, rayon::fib))
            }
            "call" => {
                machine::pin(0);
                time(n, call)
            }
            _ => return Err(unknown(case)),
        };
        Ok(vec![case.measure("ns_per_fork", "ns", ns)])
    }

    fn goals(&self, _plan: &Plan, results: &Results) -> Vec<Goal> {
        let goal = |workers, rival, limit| {
            let median = |peer| results.median(peer, workers, "", "ns_per_fork");
            Goal::against(format!("{workers} worker(s), ns per fork"), median("proto"), limit, rival, median(rival))
        };
        [1, 2].into_iter().flat_map(|workers| [goal(workers, "lace", 1.15), goal(workers, "chili", 1.0)]).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_forks_are_the_calls_that_have_calls() {
        fn forks(n: u64) -> u64 {
            if n < 2 { 0 } else { 1 + forks(n - 1) + forks(n - 2) }
        }
        for n in 0..15 {
            assert_eq!(forks(n), fibonacci(n + 1) - 1, "fib({n})");
            assert_eq!(call(n), fibonacci(n), "fib({n})");
        }
    }
}
