//! rayon: `join`, `scope`, parallel iterators and sorts on a pool of its own.

use std::time::{Duration, Instant};

use rayon::{ThreadPool, ThreadPoolBuilder};

use crate::workloads::tree::Node;

/// A pool of `workers` workers; what is measured is run on one of them by `install`.
pub(crate) fn pool(workers: usize) -> ThreadPool {
    ThreadPoolBuilder::new().num_threads(workers).build().expect("a pool needs threads only")
}

pub(crate) fn fib(n: u64) -> u64 {
    if n < 2 {
        return n;
    }
    let (a, b) = rayon::join(|| fib(n - 1), || fib(n - 2));
    a + b
}

pub(crate) fn sum(node: &Node) -> u64 {
    let Some((left, right)) = node.children() else { return node.value };
    let (a, b) = rayon::join(|| sum(left), || sum(right));
    node.value + a + b
}

/// Spawns `count` tasks in one scope and waits for all.
pub(crate) fn spawn_tasks(pool: &ThreadPool, count: u64, task: impl Fn() + Copy + Send + Sync) -> Duration {
    pool.install(|| {
        let start = Instant::now();
        rayon::scope(|s| {
            for _ in 0..count {
                s.spawn(move |_| task());
            }
        });
        start.elapsed()
    })
}
