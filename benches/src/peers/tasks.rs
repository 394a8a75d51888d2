//! Ours: the fork-join face of the tasks language.
//!
//! Stacks have their default size and not the 64 KiB of `proto`: where less than that is left, a fork becomes a VP
//! instead of a call.

use std::time::{Duration, Instant};

use proto_core::Runtime;
use proto_lang_tasks::{join, scope};

use crate::workloads::tree::Node;

/// A runtime whose processes fork and join.
#[derive(Debug)]
pub(crate) struct Forks(Runtime);

impl Forks {
    /// On `workers` controllers, pinned.
    pub(crate) fn on(workers: usize) -> Self {
        let builder = Runtime::builder().controllers(workers).pin(true);
        Self(builder.build().expect("a runtime needs threads and stacks only"))
    }

    /// Runs `seed` as a process of its own.
    pub(crate) fn run<T: Send>(&self, seed: impl FnOnce() -> T + Send) -> T {
        self.0.run(seed).expect("nothing panics and nothing waits for ever")
    }

    /// Spawns `count` tasks in one scope and waits for all.
    pub(crate) fn spawn_tasks(&self, count: u64, task: impl Fn() + Copy + Send + Sync) -> Duration {
        self.run(|| {
            let start = Instant::now();
            scope(|s| {
                for _ in 0..count {
                    s.spawn(task);
                }
            });
            start.elapsed()
        })
    }
}

pub(crate) fn fib(n: u64) -> u64 {
    if n < 2 {
        return n;
    }
    let (a, b) = join(|| fib(n - 1), || fib(n - 2));
    a + b
}

pub(crate) fn sum(node: &Node) -> u64 {
    let Some((left, right)) = node.children() else { return node.value };
    let (a, b) = join(|| sum(left), || sum(right));
    node.value + a + b
}
