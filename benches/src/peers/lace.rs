//! lace-ws, the Rust port of the Lace work-stealing library, in its default configuration (which has the unsafe and
//! fast parts).
//!
//! Its tasks are functions and not closures, and its thieves spin for as long as the pool lives: fast hand-over for
//! cores burnt when idle. The calling thread is the first worker. `join!` leaves its first call to thieves and does
//! the second at once.

use lace_ws::{Lace, Worker, lace_run, lace_task};

use crate::workloads::tree::Node;

/// A pool of workers, of which the caller is one.
pub(crate) struct Workers(Lace);

impl Workers {
    pub(crate) fn on(workers: usize) -> Self {
        Self(Lace::init(workers))
    }

    pub(crate) fn fib(&mut self, n: u64) -> u64 {
        lace_run!(self.0, fib(n))
    }

    pub(crate) fn sum(&mut self, tree: &'static Node) -> u64 {
        lace_run!(self.0, sum(tree))
    }
}

#[lace_task]
fn fib(n: u64) -> u64 {
    if n < 2 {
        return n;
    }
    let (a, b) = join!(fib(n - 2), fib(n - 1));
    a + b
}

#[lace_task]
fn sum(node: &'static Node) -> u64 {
    let Some((left, right)) = node.children() else { return node.value };
    let (b, a) = join!(sum(right), sum(left));
    node.value + a + b
}
