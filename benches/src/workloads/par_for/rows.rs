//! `rows`: one loop of 10⁵ steps, each the sum of a thousand multiply-adds over a row of 10⁵ numbers that stay in the
//! cache, again and again: 10⁸ multiply-adds, which the compiler vectorises, in steps of some hundred nanoseconds.

use std::hint::black_box;
use std::ops::Range;
use std::time::Instant;

use ::rayon::prelude::*;
use proto_lang_tasks::over;

use super::super::{per, unknown};
use super::{LENGTH, one};
use crate::machine;
use crate::peers::rayon;
use crate::peers::spin::{Half, both};
use crate::peers::tasks::Forks;
use crate::record::Case;

/// Numbers of a row.
const ROW: usize = 1_000;

/// Numbers to multiply and add, small whole ones, so that their sums are exact in any order.
fn numbers() -> Vec<f64> {
    (0..LENGTH).map(|n| (n % 7) as f64).collect()
}

/// One step of `rows`: multiplies the numbers of a row by `factor` and adds them up.
///
/// Never inlined, so that all peers run the same instructions at the same place: where its loop lies makes up to ×1.7.
#[inline(never)]
fn row(numbers: &[f64], step: u64, factor: f64) -> f64 {
    let begin = step as usize * ROW % LENGTH;
    let (eights, _) = numbers[begin..begin + ROW].as_chunks::<8>();
    // Eight sums, or every addition would wait for the one before.
    let mut sums = [0.0; 8];
    for eight in eights {
        for (sum, number) in sums.iter_mut().zip(eight) {
            *sum += number * factor;
        }
    }
    sums.iter().sum()
}

/// Times the loop of `count` rows after a tenth to warm up, in nanoseconds per multiply-add. `run` sums up all rows.
fn time(count: u64, mut run: impl FnMut(&[f64], u64, f64) -> f64) -> f64 {
    let (numbers, factor) = (numbers(), one());
    run(&numbers, count.div_ceil(10), factor);
    let start = Instant::now();
    let sum = run(black_box(&numbers), count, factor);
    let elapsed = start.elapsed();
    assert_eq!(sum, plain(&numbers, 0..count, factor), "every row once");
    per(elapsed, count * ROW as u64)
}

fn plain(numbers: &[f64], steps: Range<u64>, factor: f64) -> f64 {
    steps.map(|step| row(numbers, step, factor)).sum()
}

/// The same by two threads.
fn by_hand(count: u64) -> f64 {
    let half = |steps: Range<u64>| -> Half<f64> {
        let (numbers, factor) = (numbers(), one());
        Box::new(move || plain(&numbers, steps, factor))
    };
    let (elapsed, [first, second]) = both([half(0..count / 2), half(count / 2..count)]);
    assert_eq!(first + second, plain(&numbers(), 0..count, one()), "every row once");
    per(elapsed, count * ROW as u64)
}

/// Nanoseconds per multiply-add.
pub(super) fn measure(case: &Case) -> anyhow::Result<f64> {
    let size = case.size;
    let ns = match case.peer.as_str() {
        "plain" => {
            machine::pin(0);
            time(size, |numbers, count, factor| plain(numbers, 0..count, factor))
        }
        "std" => by_hand(size),
        "proto" => Forks::on(case.workers).run(|| {
            time(size, |numbers, count, factor| {
                let sum = over(0..count).map_reduce(|step| row(numbers, step, factor), |a, b| a + b);
                sum.expect("there are rows")
            })
        }),
        "rayon" => rayon::pool(case.workers).install(|| {
            time(size, |numbers, count, factor| (0..count).into_par_iter().map(|step| row(numbers, step, factor)).sum())
        }),
        _ => return Err(unknown(case)),
    };
    Ok(ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cut_by_hand_the_loop_sums_up_every_row() {
        assert!(by_hand(101) > 0.0);
    }
}
