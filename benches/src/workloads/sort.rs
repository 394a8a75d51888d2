//! `sort`: 10⁷ numbers of 64 bits (10⁶ with `--quick`), stable and unstable; nanoseconds per number.
//!
//! `random`: every number is drawn anew. `nearly sorted`: ascending, then one pair of every hundred numbers, drawn
//! at random, changes places, so that up to two in a hundred are where they do not belong. The same numbers for
//! all. Copying them is not counted. The result must be sorted and have the same sum.

use std::time::{Duration, Instant};

use ::rayon::slice::ParallelSliceMut;
use proto_lang_tasks::{sort, sort_unstable};

use super::{Workload, unknown, warm_and_time};
use crate::goal::Goal;
use crate::peers::rayon;
use crate::peers::tasks::Forks;
use crate::plan::Plan;
use crate::record::{Case, Measure, Results};

/// See the head of this file.
#[derive(Debug)]
pub(crate) struct Sort;

const ORDERS: [&str; 2] = ["random", "nearly sorted"];
const WAYS: [&str; 2] = ["stable", "unstable"];

/// Marsaglia's xorshift generator: good enough to draw numbers to sort, and always the same.
fn draw(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

/// `count` numbers in this order.
fn numbers(order: &str, count: u64) -> Vec<u64> {
    let mut state = 88_172_645_463_325_252;
    if order == "random" {
        return (0..count).map(|_| draw(&mut state)).collect();
    }
    let mut numbers: Vec<u64> = (0..count).collect();
    for _ in 0..count / 100 {
        let mut place = || (draw(&mut state) % count) as usize;
        numbers.swap(place(), place());
    }
    numbers
}

/// Times `sort` of `count` numbers.
fn time(order: &str, count: u64, sort: impl Fn(&mut [u64])) -> Duration {
    let sum = |numbers: &[u64]| numbers.iter().fold(0, |sum: u64, number| sum.wrapping_add(*number));
    let mut numbers = numbers(order, count);
    let before = sum(&numbers);
    let start = Instant::now();
    sort(&mut numbers);
    let elapsed = start.elapsed();
    assert!(numbers.is_sorted(), "what was sorted is sorted");
    assert_eq!(sum(&numbers), before, "no number is lost");
    elapsed
}

impl Workload for Sort {
    fn name(&self) -> &'static str {
        "sort"
    }

    fn about(&self) -> &'static str {
        "numbers of 64 bits, sorted in parallel, ns per number"
    }

    fn cases(&self, plan: &Plan) -> Vec<Case> {
        let size = plan.pick(20_000, 1_000_000, 10_000_000);
        let mut cases = Vec::new();
        for param in params() {
            for (peer, workers) in [("proto", 1), ("proto", 2), ("rayon", 1), ("rayon", 2)] {
                cases.push(Case::new(self.name(), peer, workers, &param, size));
            }
        }
        cases
    }

    fn measure(&self, case: &Case) -> anyhow::Result<Vec<Measure>> {
        let (order, way) = case.param.split_once(", ").ok_or_else(|| unknown(case))?;
        let of = |sort: fn(&mut [u64])| warm_and_time(case.size, |count| time(order, count, sort));
        let ns = match (case.peer.as_str(), way) {
            ("proto", "stable") => Forks::on(case.workers).run(|| of(sort)),
            ("proto", _) => Forks::on(case.workers).run(|| of(sort_unstable)),
            ("rayon", "stable") => rayon::pool(case.workers).install(|| of(|numbers| numbers.par_sort())),
            ("rayon", _) => rayon::pool(case.workers).install(|| of(|numbers| numbers.par_sort_unstable())),
            _ => return Err(unknown(case)),
        };
        Ok(vec![case.measure("ns_per_number", "ns", ns)])
    }

    fn goals(&self, _plan: &Plan, results: &Results) -> Vec<Goal> {
        let mut goals = Vec::new();
        for param in params() {
            for workers in [1, 2] {
                let median = |peer| results.median(peer, workers, &param, "ns_per_number");
                let what = format!("{param}, {workers} worker(s), ns per number");
                goals.push(Goal::against(what, median("proto"), 1.0, "rayon", median("rayon")));
            }
        }
        goals
    }
}

/// Every order, sorted in every way.
fn params() -> impl Iterator<Item = String> {
    ORDERS.into_iter().flat_map(|order| WAYS.map(|way| format!("{order}, {way}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearly_sorted_numbers_are_those_of_their_range_and_few_of_them_astray() {
        let drawn = numbers("nearly sorted", 10_000);
        let astray = drawn.iter().zip(0..).filter(|&(number, place)| *number != place).count();
        assert!((100..=200).contains(&astray), "{astray} of 10 000 are astray");
        let mut sorted = drawn;
        sorted.sort_unstable();
        assert!(sorted.into_iter().eq(0..10_000));
    }
}
