//! Numbers as people read them.

use std::time::Duration;

use indicatif::HumanCount;

/// In milliseconds, with three digits that count.
pub(crate) fn milliseconds(time: Duration) -> String {
    let time = time.as_secs_f64() * 1e3;
    let decimals = if time < 10.0 {
        2
    } else if time < 100.0 {
        1
    } else {
        0
    };
    format!("{time:.decimals$}")
}

/// `1 file`, `2 files`.
pub(crate) fn counted(number: usize, thing: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{} {thing}{plural}", HumanCount(number as u64))
}

/// The middle one; of an even number, the lower of the two.
///
/// # Panics
/// If there is none.
pub(crate) fn median<T: Copy + PartialOrd>(samples: &[T]) -> T {
    let mut sorted = samples.to_vec();
    sorted.sort_by(|a, b| a.partial_cmp(b).expect("measured values can be ordered"));
    sorted[(sorted.len() - 1) / 2]
}
