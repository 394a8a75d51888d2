//! Private work of a known length.
//!
//! A timeline of the `mutex_curve` computes for `w` cycles between two locks. The work is a chain:
//! every step needs the value of the one before, and every call the value of the call before. Without
//! the second part the processor overlaps short calls, and two cores seem to do the work of four
//! (a no-lock ratio of 0.56 was seen).
//!
//! *Cycles* are those of the time-stamp counter, which ticks at a constant rate, so `w` is a length
//! of time and does not change when the core's frequency does.

use std::hint::black_box;
use std::time::Instant;

use proto_arch::clock::Clock;
use serde::{Deserialize, Serialize};

/// An amount of private work: what was asked for, and what this machine does for it.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct WorkPoint {
    /// The nominal length in cycles, the name of the point.
    pub(crate) cycles: u64,
    /// Steps of [`private_work`] that come closest to it.
    pub(crate) steps: u32,
    /// Nanoseconds that one call of that many steps takes, alone on a core.
    pub(crate) ns: f64,
}

/// Computes `steps` dependent steps from `seed` and returns the value to carry into the next call.
#[inline(never)]
pub(crate) fn private_work(seed: u64, steps: u32) -> u64 {
    let mut value = seed;
    for _ in 0..steps {
        value = black_box(value.wrapping_mul(0x9E37_79B9_7F4A_7C15).wrapping_add(1));
    }
    value
}

/// The best of `tries` timings of a call of `steps`, in nanoseconds.
///
/// The best and not the median: other work on the machine only ever makes it longer, and a length
/// that is too long would make every peer look better than it is.
pub(crate) fn time_call(steps: u32, tries: u32) -> f64 {
    let calls = (500_000 / (steps + 4)).max(20);
    let mut best = f64::MAX;
    let mut value = 1;
    for _ in 0..tries {
        let start = Instant::now();
        for _ in 0..calls {
            value = private_work(value, steps);
        }
        best = best.min(start.elapsed().as_nanos() as f64 / f64::from(calls));
    }
    black_box(value);
    best
}

/// Finds the steps for each nominal length. None for a length of 0.
pub(crate) fn calibrate(lengths: &[u64]) -> Vec<WorkPoint> {
    let ghz = counter_ghz();
    let base = time_call(1_000, 9);
    let per_step = (time_call(3_000, 9) - base) / 2_000.0;
    let overhead = time_call(8, 9) - 8.0 * per_step;
    let point = |&cycles: &u64| {
        if cycles == 0 {
            return WorkPoint { cycles, steps: 0, ns: 0.0 };
        }
        let wanted = cycles as f64 / ghz;
        let guess = ((wanted - overhead) / per_step).max(1.0);
        // The overhead is not the same at all lengths (the loop's exit is predicted only when the
        // loop is short), so the guess is corrected once by what it took.
        let took = time_call(guess as u32, 3);
        let steps = (guess + (wanted - took) / per_step).round().max(1.0) as u32;
        WorkPoint { cycles, steps, ns: time_call(steps, 5) }
    };
    lengths.iter().map(point).collect()
}

/// The nominal length that is so many nanoseconds.
pub(crate) fn cycles(ns: f64) -> u64 {
    (ns * counter_ghz()).round() as u64
}

/// Cycles per nanosecond.
fn counter_ghz() -> f64 {
    if cfg!(target_arch = "x86_64") {
        Clock::get().frequency() as f64 / 1e9
    } else {
        // Counters elsewhere tick at anything from 24 MHz on. A nominal clock, so that the same `w`
        // means about the same time on every machine.
        2.6
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_depends_on_the_value_carried_in() {
        assert_ne!(private_work(1, 10), private_work(2, 10));
        assert_eq!(private_work(private_work(1, 4), 6), private_work(1, 10), "steps form one chain");
    }

    #[test]
    fn every_length_gets_a_point_of_at_least_one_step() {
        let points = calibrate(&[1, 400]);
        assert_eq!(points.len(), 2);
        assert!(points.iter().all(|point| point.steps >= 1 && point.ns > 0.0), "{points:?}");
    }
}
