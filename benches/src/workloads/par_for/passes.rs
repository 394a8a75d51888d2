//! `passes`: a loop of 10⁵ steps of one multiply-add in place, begun and ended a thousand times: 10⁸ of the tiniest
//! steps, vectorised, in loops of some ten microseconds. On one core it shows what a loop costs as such.
//!
//! The two threads that do it by hand have half of the numbers each, and meet spinning after every pass.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use ::rayon::prelude::*;
use proto_lang_tasks::par_for;

use super::super::{per, unknown};
use super::{LENGTH, one};
use crate::machine;
use crate::peers::rayon;
use crate::peers::spin::{Half, Meeting, both};
use crate::peers::tasks::Forks;
use crate::record::Case;

/// One step of a pass.
#[inline(always)]
fn multiply_add(number: &mut f64, factor: f64) {
    *number = *number * factor + 1.0;
}

/// A pass without anything.
fn plain(numbers: &mut [f64]) {
    let factor = one();
    numbers.iter_mut().for_each(|number| multiply_add(number, factor));
}

/// Every number has seen every pass.
fn assert_counted(numbers: &[f64], passes: u64) {
    assert!(numbers.iter().all(|number| *number == passes as f64), "every number in each of {passes} passes");
}

/// Times `count` passes after a tenth to warm up, in nanoseconds per step.
fn time(count: u64, mut pass: impl FnMut(&mut [f64])) -> f64 {
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
fn by_hand(count: u64) -> f64 {
    let meeting = Arc::new(Meeting::default());
    let half = || -> Half<Vec<f64>> {
        // Not zero, or its pages would come with the first pass.
        let (meeting, mut numbers) = (Arc::clone(&meeting), vec![1.0; LENGTH / 2]);
        Box::new(move || {
            for _ in 0..count {
                plain(black_box(&mut numbers));
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

/// Nanoseconds per multiply-add.
pub(super) fn measure(case: &Case) -> anyhow::Result<f64> {
    let size = case.size;
    let ns = match case.peer.as_str() {
        "plain" => {
            machine::pin(0);
            time(size, plain)
        }
        "std" => by_hand(size),
        "proto" => Forks::on(case.workers).run(|| {
            let factor = one();
            time(size, |numbers| par_for(numbers, |number| multiply_add(number, factor)))
        }),
        "rayon" => rayon::pool(case.workers).install(|| {
            let factor = one();
            time(size, |numbers| numbers.par_iter_mut().for_each(|number| multiply_add(number, factor)))
        }),
        _ => return Err(unknown(case)),
    };
    Ok(ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cut_by_hand_every_pass_reaches_every_number() {
        assert!(by_hand(3) > 0.0);
    }
}
