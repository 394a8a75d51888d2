//! Private work of a known length: a chain of operations that no processor can shorten.

use std::hint::black_box;
use std::time::Instant;

/// Does `steps` steps of work in registers, starting from the result of the work before: were they independent, the
/// processor would begin with the next work while this one still runs.
#[inline]
pub(crate) fn work(seed: u64, steps: u64) -> u64 {
    let mut x = seed;
    for _ in 0..steps {
        x = x.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ (x >> 29);
    }
    black_box(x)
}

/// How many nanoseconds a step takes on a core that does nothing else: the shortest of several measurements, because
/// everything that disturbs one makes it longer.
pub(crate) fn nanoseconds_per_step() -> f64 {
    const STEPS: u64 = 1_000_000;
    let measure = || {
        let begin = Instant::now();
        black_box(work(black_box(1), STEPS));
        begin.elapsed().as_secs_f64() * 1e9 / STEPS as f64
    };
    (0..20).map(|_| measure()).fold(f64::INFINITY, f64::min)
}
