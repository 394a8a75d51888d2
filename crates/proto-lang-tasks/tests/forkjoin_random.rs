//! Random trees of forks, scopes and loops, with panics, cancels, and locks that are held over forks: nothing is lost, nothing runs twice.
//!
//! `PROTO_TREES` says how many of each kind are tried (20 000 in the deep run), `PROTO_SEED` with which one to begin.

mod common;

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use common::{Dice, runtime, seeds, sized, watched};
use proto_core::{Runtime, blocking, yield_now};
use proto_lang_mutex::sync::Mutex;
use proto_lang_mutex::thread::sleep;
use proto_lang_tasks::{JoinError, join, over, scope, spawn};

const LOCKS: usize = 3;

/// How the children of a node run.
#[derive(Clone, Copy, Debug)]
enum Shape {
    InTurn,
    Join,
    /// The last one in the scope's own closure, the others as tasks of it; cancelled after that, or not.
    Scope(bool),
    Loop,
}

#[derive(Debug)]
struct Node {
    number: usize,
    shape: Shape,
    /// One of the ways to lose the core, or none.
    pause: u64,
    /// Held while the children run; they take only locks behind this one.
    lock: Option<usize>,
    /// Before the children, or after.
    panics: Option<bool>,
    children: Vec<Node>,
}

/// What is drawn for all nodes of a tree.
struct Kind {
    /// One node in so many panics, if any does.
    panics: Option<u64>,
    cancels: bool,
    count: usize,
}

fn grow(dice: &mut Dice, kind: &mut Kind, first_lock: usize, depth: u32) -> Node {
    let number = kind.count;
    kind.count += 1;
    let shape = match dice.below(5) {
        0 => Shape::InTurn,
        1 => Shape::Loop,
        2 => Shape::Scope(kind.cancels && dice.below(4) == 0),
        _ => Shape::Join,
    };
    let lock = first_lock + dice.below(4 * LOCKS as u64) as usize;
    let lock = (lock < LOCKS).then_some(lock);
    let panics = kind.panics.is_some_and(|one_in| dice.below(one_in) == 0).then(|| dice.below(2) == 0);
    let pause = dice.below(20);
    let children = if depth == 0 { 0 } else { dice.below(6) };
    let first_lock = lock.map_or(first_lock, |lock| lock + 1);
    let children = (0..children).map(|_| grow(dice, kind, first_lock, depth - 1)).collect();
    Node { number, shape, pause, lock, panics, children }
}

/// A tree, and what happened to it.
struct Tree {
    root: Node,
    count: usize,
    started: Vec<AtomicUsize>,
    ended: Vec<AtomicUsize>,
    locks: [Mutex<usize>; LOCKS],
    locked: AtomicUsize,
}

/// Counts the end of a node, however it comes.
struct End<'a>(&'a AtomicUsize);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl Tree {
    fn new(seed: u64, cancels: bool) -> Tree {
        let mut dice = Dice::new(seed);
        let panics = [None, Some(8), Some(40)][dice.below(3) as usize];
        let mut kind = Kind { panics, cancels, count: 0 };
        let root = grow(&mut dice, &mut kind, 0, 4);
        let count = kind.count;
        let zeros = || (0..count).map(|_| AtomicUsize::new(0)).collect();
        Tree { root, count, started: zeros(), ended: zeros(), locks: Default::default(), locked: AtomicUsize::new(0) }
    }

    fn run(&self, node: &Node) -> u64 {
        self.started[node.number].fetch_add(1, Ordering::Relaxed);
        let _end = End(&self.ended[node.number]);
        match node.pause {
            0 => yield_now(),
            1 => sleep(Duration::from_micros(20)),
            2 => blocking(|| ()),
            _ => {}
        }
        if node.panics == Some(true) {
            resume_unwind(Box::new(node.number));
        }
        let mut held = node.lock.map(|lock| self.locks[lock].lock().unwrap_or_else(PoisonError::into_inner));
        let before = held.as_deref().copied();
        let sum = node.number as u64 + self.run_children(node);
        if let (Some(held), Some(before)) = (&mut held, before) {
            // Not in one: nobody else may have been here meanwhile.
            **held = before + 1;
            self.locked.fetch_add(1, Ordering::Relaxed);
        }
        if node.panics == Some(false) {
            resume_unwind(Box::new(node.number));
        }
        sum
    }

    fn run_children(&self, node: &Node) -> u64 {
        match node.shape {
            Shape::InTurn => node.children.iter().map(|child| self.run(child)).sum(),
            Shape::Join => self.join(&node.children),
            Shape::Loop => over(&node.children).map_reduce(|child| self.run(child), |a, b| a + b).unwrap_or(0),
            Shape::Scope(cancelled) => {
                let sum = AtomicU64::new(0);
                let Some((last, others)) = node.children.split_last() else { return 0 };
                let own = scope(|s| {
                    let sum = &sum;
                    for child in others {
                        s.spawn(move || _ = sum.fetch_add(self.run(child), Ordering::Relaxed));
                    }
                    if cancelled {
                        s.cancel().expect("this program unwinds");
                    }
                    self.run(last)
                });
                own + sum.into_inner()
            }
        }
    }

    fn join(&self, nodes: &[Node]) -> u64 {
        match nodes {
            [] => 0,
            [node] => self.run(node),
            _ => {
                let (first, second) = nodes.split_at(nodes.len() / 2);
                let (first, second) = join(|| self.join(first), || self.join(second));
                first + second
            }
        }
    }

    fn each_that_started_has_ended_once(&self, seed: u64) {
        for (number, (started, ended)) in self.started.iter().zip(&self.ended).enumerate() {
            let (started, ended) = (started.load(Ordering::Relaxed), ended.load(Ordering::Relaxed));
            assert!(started == ended && started <= 1, "PROTO_SEED={seed}: {number}: {started} starts, {ended} ends");
        }
        let passed: usize = self.locks.iter().map(|lock| *lock.lock().unwrap_or_else(PoisonError::into_inner)).sum();
        assert_eq!(passed, self.locked.load(Ordering::Relaxed), "PROTO_SEED={seed}: two held a lock at a time");
    }
}

/// What comes of a node: its sum, or the numbers of those whose panic it may be.
type Expected = Result<u64, Vec<usize>>;

/// What comes of `node`. In `runs`: whether a node runs; none: that depends on where a loop was cut.
fn expect(node: &Node, runs: &mut [Option<bool>]) -> Expected {
    runs[node.number] = Some(true);
    if node.panics == Some(true) {
        return Err(vec![node.number]);
    }
    let all = |runs: &mut [_]| node.children.iter().map(|child| expect(child, runs)).collect::<Vec<Expected>>();
    let sum = match node.shape {
        Shape::InTurn => node.children.iter().map(|child| expect(child, runs)).sum(),
        Shape::Join => all(runs).into_iter().sum(),
        Shape::Scope(_) => {
            let mut children = all(runs);
            match children.pop() {
                Some(Err(own)) => Err(own),
                own => any_of(own.into_iter().chain(children)),
            }
        }
        Shape::Loop => {
            let mut those = vec![Some(false); runs.len()];
            let sum = any_of(all(&mut those));
            // A panic in it leaves out what comes later in its piece.
            let here = runs.iter_mut().zip(those).filter(|(_, that)| *that != Some(false));
            here.for_each(|(run, that)| *run = that.filter(|_| sum.is_ok()));
            sum
        }
    };
    let sum = sum? + node.number as u64;
    if node.panics == Some(false) { Err(vec![node.number]) } else { Ok(sum) }
}

/// The sum of all, or the panics of any.
fn any_of(all: impl IntoIterator<Item = Expected>) -> Expected {
    let (mut sum, mut any) = (0, Vec::new());
    for one in all {
        match one {
            Ok(one) => sum += one,
            Err(those) => any.extend(those),
        }
    }
    if any.is_empty() { Ok(sum) } else { Err(any) }
}

fn number_of(payload: &(dyn Any + Send)) -> usize {
    *payload.downcast_ref().expect("a panic of a node")
}

/// Calls `f` with each seed, and with a runtime of one to five controllers for it.
fn for_each_seed(f: impl Fn(u64, Runtime)) {
    for seed in seeds("PROTO_TREES", sized(300, 4)) {
        watched(&format!("PROTO_SEED={seed}"), || f(seed, runtime(1 + (seed % 5) as usize)));
    }
}

#[test]
fn each_node_of_a_tree_runs_as_often_as_it_would_in_turn() {
    for_each_seed(|seed, runtime| {
        let tree = Tree::new(seed, false);
        let mut runs = vec![Some(false); tree.count];
        let expected = expect(&tree.root, &mut runs);
        let run = || catch_unwind(AssertUnwindSafe(|| tree.run(&tree.root)));
        let outcome = runtime.run(run).expect("the process ends well");
        tree.each_that_started_has_ended_once(seed);
        for (number, runs) in runs.iter().enumerate() {
            let ran = tree.started[number].load(Ordering::Relaxed) == 1;
            assert!(runs.is_none_or(|runs| runs == ran), "PROTO_SEED={seed}: {number} ran: {ran}");
        }
        match (outcome, expected) {
            (Ok(sum), Ok(expected)) => assert_eq!(sum, expected, "PROTO_SEED={seed}"),
            (Err(panic), Err(any)) => assert!(any.contains(&number_of(&*panic)), "PROTO_SEED={seed}: {any:?}"),
            (outcome, expected) => panic!("PROTO_SEED={seed}: {outcome:?} instead of {expected:?}"),
        }
    });
}

#[test]
fn a_cancel_at_any_time_leaves_nothing_half_done() {
    for_each_seed(|seed, runtime| {
        let tree = Arc::new(Tree::new(seed, true));
        let cancel = || {
            let running = spawn({
                let tree = Arc::clone(&tree);
                move || tree.run(&tree.root)
            });
            // When one of the nodes runs, or all is over.
            let at = Dice::new(seed).below(tree.count as u64) as usize;
            while tree.started[at].load(Ordering::Relaxed) + tree.ended[0].load(Ordering::Relaxed) == 0 {
                yield_now();
            }
            running.cancel().expect("this program unwinds");
            running.join()
        };
        let outcome = runtime.run(cancel).expect("the process ends well");
        tree.each_that_started_has_ended_once(seed);
        match outcome {
            Ok(_) | Err(JoinError::Cancelled) => {}
            Err(JoinError::Panic(panic)) => assert!(number_of(&*panic) < tree.count, "PROTO_SEED={seed}"),
            other => panic!("PROTO_SEED={seed}: {other:?}"),
        }
    });
}
