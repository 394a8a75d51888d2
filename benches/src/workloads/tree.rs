//! `tree`: the sum over a complete binary tree by fork and join; nanoseconds per node.
//!
//! 2²⁴ − 1 nodes of 24 bytes, or 2²⁰ − 1 with `--quick`, each a block of the heap; inner nodes fork, leaves do not,
//! so a node is half a fork. Parents are allocated before their children and left ones before right ones, and every
//! peer walks left first: otherwise the figure would be one of the memory's (the same plain sum takes five times as
//! long when children lie before their parents). `call` is the sum by plain calls.
//!
//! Every value is one, so the sum is compared with the number of nodes.

use std::hint::black_box;
use std::time::{Duration, Instant};

use super::{Workload, per, unknown};
use crate::goal::{Goal, best};
use crate::machine;
use crate::peers::tasks::Forks;
use crate::peers::{chili, lace, rayon, tasks};
use crate::plan::Plan;
use crate::record::{Case, Measure, Results};

/// See the head of this file.
#[derive(Debug)]
pub(crate) struct Tree;

/// A node with two children or none.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) value: u64,
    left: Option<Box<Node>>,
    right: Option<Box<Node>>,
}

impl Node {
    /// A tree of `levels` levels.
    fn tree(levels: u64) -> Box<Self> {
        let mut node = Box::new(Self { value: 1, left: None, right: None });
        if levels > 1 {
            node.left = Some(Self::tree(levels - 1));
            node.right = Some(Self::tree(levels - 1));
        }
        node
    }

    #[inline]
    pub(crate) fn children(&self) -> Option<(&Self, &Self)> {
        self.left.as_deref().zip(self.right.as_deref())
    }
}

/// The sum by calls.
fn call(node: &Node) -> u64 {
    let Some((left, right)) = node.children() else { return node.value };
    node.value + call(left) + call(right)
}

/// Times sums over a tree of `levels` levels, 2²⁴ nodes in all (a tiny tree is summed once), in nanoseconds per node.
/// Called by a worker.
fn time(levels: u64, mut sum: impl FnMut(&'static Node) -> u64) -> f64 {
    // Never freed: its process ends when it has answered.
    let tree: &'static Node = Box::leak(Node::tree(levels));
    let nodes = (1 << levels) - 1;
    let mut once = || -> Duration {
        let start = Instant::now();
        let result = sum(black_box(tree));
        let elapsed = start.elapsed();
        assert_eq!(result, nodes, "the sum over {levels} levels");
        elapsed
    };
    once();
    let walks = if levels < 20 { 1 } else { 1 << (24 - levels) };
    per((0..walks).map(|_| once()).sum(), walks * nodes)
}

impl Workload for Tree {
    fn name(&self) -> &'static str {
        "tree"
    }

    fn about(&self) -> &'static str {
        "sum over a binary tree by fork and join, ns per node"
    }

    fn cases(&self, plan: &Plan) -> Vec<Case> {
        let levels = plan.pick(10, 20, 24);
        let case = |peer: &str, workers| Case::new(self.name(), peer, workers, "", levels);
        let peers = ["proto", "lace", "chili", "chili_join", "rayon"];
        let both = peers.iter().flat_map(|peer| [case(peer, 1), case(peer, 2)]);
        both.chain([case("call", 1)]).collect()
    }

    fn measure(&self, case: &Case) -> anyhow::Result<Vec<Measure>> {
        let levels = case.size;
        let ns = match case.peer.as_str() {
            "proto" => {
                let forks = Forks::on(case.workers);
                forks.run(|| time(levels, tasks::sum))
            }
            "lace" => {
                let mut workers = lace::Workers::on(case.workers);
                time(levels, |tree| workers.sum(tree))
            }
            "chili" => {
                let pool = chili::pool(case.workers);
                let mut scope = pool.scope();
                time(levels, |tree| chili::sum::<1>(&mut scope, tree))
            }
            "chili_join" => {
                let pool = chili::pool(case.workers);
                let mut scope = pool.scope();
                time(levels, |tree| chili::sum::<{ chili::JOIN }>(&mut scope, tree))
            }
            "rayon" => {
                let pool = rayon::pool(case.workers);
                pool.install(|| time(levels, rayon::sum))
            }
            "call" => {
                machine::pin(0);
                time(levels, call)
            }
            _ => return Err(unknown(case)),
        };
        Ok(vec![case.measure("ns_per_node", "ns", ns)])
    }

    fn goals(&self, _plan: &Plan, results: &Results) -> Vec<Goal> {
        let goal = |workers| {
            let median = |peer| results.median(peer, workers, "", "ns_per_node");
            let (name, figure) = best(&["lace", "chili", "chili_join"].map(|peer| (peer, median(peer))));
            Goal::against(format!("{workers} worker(s), ns per node"), median("proto"), 1.0, name, figure)
        };
        [1, 2].map(goal).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_has_the_nodes_of_its_levels() {
        for levels in 1..8 {
            assert_eq!(call(&Node::tree(levels)), (1 << levels) - 1);
        }
    }
}
