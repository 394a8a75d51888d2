//! chili: fork-join by heartbeats. What is forked can be taken only when the forker comes by a fork after the next
//! beat (100 µs).
//!
//! `TIMES` is how many forks share one job: 1 makes a job of every fork, which is what all others here do; chili's
//! own `join` is 64, and most of its forks are plain calls that no worker could ever take. The calling thread is
//! the first worker. The second closure is done at once.

use std::num::NonZero;

use chili::{Config, Scope, ThreadPool};

use crate::workloads::tree::Node;

/// As many forks as share one job in `Scope::join`.
pub(crate) const JOIN: u8 = 64;

/// A pool of `workers` workers, of which the caller is one.
pub(crate) fn pool(workers: usize) -> ThreadPool {
    ThreadPool::with_config(Config { thread_count: NonZero::new(workers), ..Config::default() })
}

pub(crate) fn fib<const TIMES: u8>(scope: &mut Scope<'_>, n: u64) -> u64 {
    if n < 2 {
        return n;
    }
    let (a, b) =
        scope.join_with_heartbeat_every::<TIMES, _, _, _, _>(|s| fib::<TIMES>(s, n - 2), |s| fib::<TIMES>(s, n - 1));
    a + b
}

pub(crate) fn sum<const TIMES: u8>(scope: &mut Scope<'_>, node: &Node) -> u64 {
    let Some((left, right)) = node.children() else { return node.value };
    let (b, a) =
        scope.join_with_heartbeat_every::<TIMES, _, _, _, _>(|s| sum::<TIMES>(s, right), |s| sum::<TIMES>(s, left));
    node.value + a + b
}
