//! `par_for`: a parallel loop; nanoseconds per step.
//!
//! `passes`: one multiply-add for each of 10⁵ numbers that stay in the cache, again and again, 10⁸ in all (2·10⁷
//! with `--quick`). Every pass is a loop of its own, of some ten or twenty microseconds; the compiler vectorises
//! it. `uneven`: one loop of 10⁶ steps (2·10⁵) of some tens of nanoseconds each. Later ones take longer, and of 64
//! one takes 32 times as long as its neighbours.
//!
//! `plain` is the loop without anything, on one core. `std` are two pinned threads with the work cut by hand: they
//! meet spinning after every pass, and the uneven loop is cut where half of its cost lies, which is known here.
//! Speed-ups on two workers are `plain` by the peer's time. Every number is compared with what the plain loop makes
//! of it.

use std::hint::black_box;
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use ::rayon::prelude::*;
use proto_lang_tasks::{over, par_for};

use super::{Workload, per, unknown};
use crate::calibrate::private_work;
use crate::goal::Goal;
use crate::machine;
use crate::peers::rayon;
use crate::peers::spin::{Half, Meeting, both};
use crate::peers::tasks::Forks;
use crate::plan::Plan;
use crate::record::{Case, Measure, Results};

/// See the head of this file.
#[derive(Debug)]
pub(crate) struct ParFor;

/// Numbers of one pass.
const LENGTH: usize = 100_000;

/// One step of a pass.
#[inline(always)]
fn multiply_add(number: &mut f64, factor: f64) {
    *number = *number * factor + 1.0;
}

/// The factor of all passes, which the compiler must not know: it is one, so the numbers count the passes.
fn factor() -> f64 {
    black_box(1.0)
}

/// A pass without anything.
fn plain_pass(numbers: &mut [f64]) {
    let factor = factor();
    numbers.iter_mut().for_each(|number| multiply_add(number, factor));
}

/// Every number has seen every pass.
fn assert_counted(numbers: &[f64], passes: u64) {
    assert!(numbers.iter().all(|number| *number == passes as f64), "every number in each of {passes} passes");
}

/// Times `count` passes after a tenth to warm up, in nanoseconds per step.
fn passes(count: u64, mut pass: impl FnMut(&mut [f64])) -> f64 {
    let mut numbers = vec![0.0; LENGTH];
    let mut some = |count| {
        let start = Instant::now();
        for _ in 0..count {
            pass(black_box(&mut numbers));
        }
        start.elapsed()
    };
    let warm = count.div_ceil(10);
    some(warm);
    let elapsed = some(count);
    assert_counted(&numbers, warm + count);
    per(elapsed, count * LENGTH as u64)
}

/// The same by two threads.
fn passes_by_hand(count: u64) -> f64 {
    let meeting = Arc::new(Meeting::default());
    let half = || -> Half<Vec<f64>> {
        // Not zero, or its pages would come with the first pass.
        let (meeting, mut numbers) = (Arc::clone(&meeting), vec![1.0; LENGTH / 2]);
        Box::new(move || {
            for _ in 0..count {
                plain_pass(black_box(&mut numbers));
                meeting.meet();
            }
            numbers
        })
    };
    let (elapsed, halves) = both([half(), half()]);
    for numbers in halves {
        assert_counted(&numbers, 1 + count);
    }
    per(elapsed, count * LENGTH as u64)
}

/// The steps of private work in step `n` of `count` of the uneven loop.
fn cost(n: u64, count: u64) -> u32 {
    // The upper bits of a product are as good as random.
    let rare = n.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 58 == 0;
    let usual = 1 + (n * 32 / count) as u32;
    if rare { 32 * usual } else { usual }
}

/// Step `n` of `count`.
fn uneven_step(n: u64, count: u64) -> u64 {
    private_work(n, cost(n, count))
}

/// Makes the results of some of the steps.
fn plain_uneven(steps: Range<u64>, results: &mut [u64], count: u64) {
    for (n, result) in steps.zip(results) {
        *result = uneven_step(n, count);
    }
}

/// Times the uneven loop of `count` steps after one to warm up, in nanoseconds per step.
fn uneven(count: u64, mut run: impl FnMut(&mut [u64])) -> f64 {
    let mut expected = vec![1; count as usize];
    plain_uneven(0..count, &mut expected, count);
    let mut results = vec![1; count as usize];
    run(&mut results);
    results.fill(1);
    let start = Instant::now();
    run(&mut results);
    let elapsed = start.elapsed();
    assert!(results == expected, "every step once, and its result in its place");
    per(elapsed, count)
}

/// The same by two threads.
fn uneven_by_hand(count: u64) -> f64 {
    // A step costs its call and its store, too: as much as two steps of private work.
    let cost = |n| u64::from(cost(n, count)) + 2;
    let total: u64 = (0..count).map(cost).sum();
    let mut so_far = 0;
    let middle = (0..count).take_while(|&n| {
        so_far += cost(n);
        so_far <= total / 2
    });
    let middle = middle.count() as u64;
    let part = |steps: Range<u64>| -> Half<Vec<u64>> {
        let mut results = vec![1; (steps.end - steps.start) as usize];
        Box::new(move || {
            plain_uneven(steps, &mut results, count);
            results
        })
    };
    let (elapsed, parts) = both([part(0..middle), part(middle..count)]);
    let mut expected = vec![1; count as usize];
    plain_uneven(0..count, &mut expected, count);
    assert!(parts.concat() == expected, "every step once, and its result in its place");
    per(elapsed, count)
}

impl Workload for ParFor {
    fn name(&self) -> &'static str {
        "par_for"
    }

    fn about(&self) -> &'static str {
        "parallel loops of tiny equal and of uneven steps, ns per step"
    }

    fn cases(&self, plan: &Plan) -> Vec<Case> {
        let kinds = [("passes", plan.pick(2, 200, 1_000)), ("uneven", plan.pick(1_000, 200_000, 1_000_000))];
        let peers = [("plain", 1), ("proto", 1), ("rayon", 1), ("std", 2), ("proto", 2), ("rayon", 2)];
        let case = |(peer, workers), (kind, size)| Case::new(self.name(), peer, workers, kind, size);
        kinds.into_iter().flat_map(|kind| peers.map(|peer| case(peer, kind))).collect()
    }

    fn measure(&self, case: &Case) -> anyhow::Result<Vec<Measure>> {
        let size = case.size;
        let ns = match (case.peer.as_str(), case.param.as_str()) {
            ("plain", kind) => {
                machine::pin(0);
                match kind {
                    "passes" => passes(size, plain_pass),
                    _ => uneven(size, |results| plain_uneven(0..size, results, size)),
                }
            }
            ("std", "passes") => passes_by_hand(size),
            ("std", _) => uneven_by_hand(size),
            ("proto", kind) => Forks::on(case.workers).run(|| match kind {
                "passes" => {
                    let factor = factor();
                    passes(size, |numbers| par_for(numbers, |number| multiply_add(number, factor)))
                }
                _ => uneven(size, |results| {
                    over(results).enumerate().for_each(|(n, result)| *result = uneven_step(n as u64, size));
                }),
            }),
            ("rayon", kind) => rayon::pool(case.workers).install(|| match kind {
                "passes" => {
                    let factor = factor();
                    passes(size, |numbers| numbers.par_iter_mut().for_each(|number| multiply_add(number, factor)))
                }
                _ => uneven(size, |results| {
                    let results = results.par_iter_mut().enumerate();
                    results.for_each(|(n, result)| *result = uneven_step(n as u64, size));
                }),
            }),
            _ => return Err(unknown(case)),
        };
        Ok(vec![case.measure("ns_per_step", "ns", ns)])
    }

    fn goals(&self, _plan: &Plan, results: &Results) -> Vec<Goal> {
        let goals = |kind| {
            let median = |peer, workers| results.median(peer, workers, kind, "ns_per_step");
            let plain = median("plain", 1);
            let speedup = |peer| Some(plain? / median(peer, 2)?);
            [
                Goal::against(format!("{kind}, 1 worker, ns per step"), median("proto", 1), 1.05, "plain", plain),
                Goal::against(format!("{kind}, 2 workers, speed-up"), speedup("proto"), 0.97, "std", speedup("std"))
                    .or_more(),
            ]
        };
        ["passes", "uneven"].into_iter().flat_map(goals).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cut_by_hand_both_loops_do_every_step() {
        assert!(passes_by_hand(3) > 0.0);
        assert!(uneven_by_hand(1_000) > 0.0);
    }

    #[test]
    fn one_step_of_many_is_a_long_one() {
        let long = (0..6_400).filter(|&n| cost(n, 6_400) > 33).count();
        assert!((50..200).contains(&long), "{long} of 6 400");
    }
}
