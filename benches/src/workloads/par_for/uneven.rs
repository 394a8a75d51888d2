//! `uneven`: one loop of 10⁶ steps of some ten nanoseconds each. Later ones take longer, and one in 64 takes 32 times
//! as long as its neighbours.

use std::ops::Range;
use std::time::Instant;

use ::rayon::prelude::*;
use proto_lang_tasks::over;

use super::super::{per, unknown};
use crate::calibrate::private_work;
use crate::machine;
use crate::peers::rayon;
use crate::peers::spin::{Half, both};
use crate::peers::tasks::Forks;
use crate::record::Case;

/// The steps of private work in step `n` of `count` of the uneven loop.
fn cost(n: u64, count: u64) -> u32 {
    // The upper bits of a product are as good as random.
    let rare = n.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 58 == 0;
    let usual = 1 + (n * 32 / count) as u32;
    if rare { 32 * usual } else { usual }
}

/// Step `n` of `count`.
fn step(n: u64, count: u64) -> u64 {
    private_work(n, cost(n, count))
}

/// Makes the results of some of the steps.
fn plain(steps: Range<u64>, results: &mut [u64], count: u64) {
    for (n, result) in steps.zip(results) {
        *result = step(n, count);
    }
}

/// Times the uneven loop of `count` steps after one to warm up, in nanoseconds per step.
fn time(count: u64, mut run: impl FnMut(&mut [u64])) -> f64 {
    let mut expected = vec![1; count as usize];
    plain(0..count, &mut expected, count);
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
fn by_hand(count: u64) -> f64 {
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
            plain(steps, &mut results, count);
            results
        })
    };
    let (elapsed, parts) = both([part(0..middle), part(middle..count)]);
    let mut expected = vec![1; count as usize];
    plain(0..count, &mut expected, count);
    assert!(parts.concat() == expected, "every step once, and its result in its place");
    per(elapsed, count)
}

/// Nanoseconds per step.
pub(super) fn measure(case: &Case) -> anyhow::Result<f64> {
    let size = case.size;
    let ns = match case.peer.as_str() {
        "plain" => {
            machine::pin(0);
            time(size, |results| plain(0..size, results, size))
        }
        "std" => by_hand(size),
        "proto" => Forks::on(case.workers).run(|| {
            time(size, |results| {
                over(results).enumerate().for_each(|(n, result)| *result = step(n as u64, size));
            })
        }),
        "rayon" => rayon::pool(case.workers).install(|| {
            time(size, |results| {
                results.par_iter_mut().enumerate().for_each(|(n, result)| *result = step(n as u64, size));
            })
        }),
        _ => return Err(unknown(case)),
    };
    Ok(ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cut_by_hand_the_loop_makes_every_result() {
        assert!(by_hand(1_000) > 0.0);
    }

    #[test]
    fn one_step_of_many_is_a_long_one() {
        let long = (0..6_400).filter(|&n| cost(n, 6_400) > 33).count();
        assert!((50..200).contains(&long), "{long} of 6 400");
    }
}
