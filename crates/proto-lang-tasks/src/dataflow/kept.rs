//! Graphs that are made once and run again.
//!
//! While a graph is recorded nothing runs, so who waits for whom does not depend on what is over already: it is found out once, from the ranges that tasks
//! declare, and kept as a list of successors. To run it takes no look at the order of accesses any more, no memory, and no closure is made.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt::Write as _;

use proto_core::{EnvCell, Fronts};

use super::access::{Access, Mode};
use super::builder::{Nothing, TaskBuilder, sealed};
use super::failure::TaskError;
use super::flow::TaskId;
use super::graph::Graph;
use super::in_scope;
use super::job::{BROKEN, Job, Payload};

/// A graph of tasks that is made once and run as often as wanted.
///
/// It has its data as long as it lives: no other dataflow can use them meanwhile.
///
/// # Examples
///
/// ```
/// use proto_lang_tasks::{Data, KeptGraph};
///
/// let (x, y) = (Data::new(1), Data::new(0));
/// let mut graph = KeptGraph::record(|df| {
///     df.task().label("double").inout(&x).again(|x| *x *= 2);
///     df.task().label("add").input(&x).inout(&y).again(|x, y| *y += x);
/// });
/// for _ in 0..3 {
///     graph.run();
/// }
/// assert!(graph.dot().contains("label=\"double\""));
/// drop(graph);
/// assert_eq!(y.into_inner(), 2 + 4 + 8);
/// ```
// Aligned as the graph of a `dataflow` is.
#[repr(align(64))]
pub struct KeptGraph<'env> {
    graph: EnvCell<Graph<'env>>,
}

/// Makes the tasks of a [`KeptGraph`].
pub struct Recorder<'env>(RefCell<Record<'env>>);

struct Record<'env> {
    graph: Graph<'env>,
    /// For each datum, by its address, the last accesses.
    fronts: HashMap<usize, Fronts>,
    operations: Vec<Mode>,
    /// Who goes before whom.
    edges: Vec<(u32, u32)>,
}

impl<'env> KeptGraph<'env> {
    /// Makes a graph of the tasks that `f` makes. None of them runs.
    ///
    /// # Panics
    ///
    /// If another dataflow has what a task declares.
    pub fn record(f: impl FnOnce(&Recorder<'env>)) -> KeptGraph<'env> {
        let (fronts, operations, edges) = (HashMap::new(), Vec::new(), Vec::new());
        let recorder = Recorder(RefCell::new(Record { graph: Graph::new(), fronts, operations, edges }));
        f(&recorder);
        let Record { mut graph, mut edges, .. } = recorder.0.into_inner();
        // A task may wait for another on account of several data.
        edges.sort_unstable();
        edges.dedup();
        graph.keep_edges(&edges);
        KeptGraph { graph: EnvCell::new(graph) }
    }

    /// Runs all tasks of the graph.
    ///
    /// # Panics
    ///
    /// If a task does, with its payload, when all that had begun are over: no other begins. What it was to write is poisoned, also for the next run, until a
    /// task writes it whole ([`output`](TaskBuilder::output)). Unwinds if the calling VP was cancelled meanwhile.
    #[track_caller]
    pub fn run(&mut self) {
        if let Err((error, payload)) = self.run_all() {
            match payload {
                Some(payload) => proto_core::resume_unwind(payload),
                None => panic!("{error}"),
            }
        }
    }

    /// As [`run`](KeptGraph::run), for who wants to know what failed.
    ///
    /// # Errors
    ///
    /// Why the first task that failed did.
    #[track_caller]
    pub fn try_run(&mut self) -> Result<(), TaskError> {
        self.run_all().map_err(|(error, _)| error)
    }

    #[track_caller]
    fn run_all(&mut self) -> Result<(), (TaskError, Option<Payload>)> {
        in_scope(&self.graph, |flow| flow.change(Graph::start)).1
    }

    /// The graph in the language of Graphviz: a node for each task, an edge to each that waits for it.
    pub fn dot(&mut self) -> String {
        let mut text = String::from("digraph {\n");
        let graph = self.graph.get_mut().expect(BROKEN);
        for (number, job) in graph.waiting() {
            let label = if job.spec.label.is_empty() { &job.spec.place.to_string() } else { job.spec.label };
            let _ = writeln!(text, "  t{number} [label={label:?}];");
            graph.after(number).iter().for_each(|after| _ = writeln!(text, "  t{number} -> t{after};"));
        }
        text + "}\n"
    }
}

impl<'env> Recorder<'env> {
    /// A task, to be told what it declares and does.
    #[track_caller]
    pub fn task(&self) -> TaskBuilder<'_, 'env, Self, Nothing<'env>> {
        TaskBuilder::new(self)
    }
}

#[expect(private_interfaces, reason = "it is sealed")]
impl<'env> sealed::Maker<'env> for Recorder<'env> {
    fn submit(&self, mut job: Box<Job<'env>>, _: Vec<Access<'env>>, _: bool) -> TaskId {
        let Record { graph, fronts, operations, edges } = &mut *self.0.borrow_mut();
        let task = graph.next_slot();
        for access in job.body.accesses() {
            let fronts = fronts.entry(std::ptr::from_ref(access.chain).addr()).or_default();
            let mode = access.mode.in_lane(operations);
            fronts.enter(&access.claim.range(), task, mode, |before| edges.push((before, task)));
        }
        graph.keep(job).unwrap_or_else(|error| panic!("{error}"))
    }
}
