//! Graphs that are made once and run again.
//!
//! While a graph is recorded nothing runs, so who waits for whom does not depend on what is over already: it is found out once, from the ranges that tasks
//! declare, and kept as a list of successors. To run it takes no look at the order of accesses any more, no memory, and no closure is made.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Write as _};

use proto_core::{EnvCell, task_scope};

use super::access::Access;
use super::builder::{TaskBuilder, sealed};
use super::failure::TaskError;
use super::flow::{Flow, Spawn, TaskId};
use super::graph::{Graph, ROOT, Spawner};
use super::job::{BROKEN, Job, Payload};
use super::lanes::{Mode, WHOLE};

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
pub struct KeptGraph<'env> {
    graph: EnvCell<Graph<'env>>,
}

/// Makes the tasks of a [`KeptGraph`].
pub struct Recorder<'env>(RefCell<Record<'env>>);

struct Record<'env> {
    graph: Graph<'env>,
    /// For each datum, by its address, the last accesses.
    fronts: BTreeMap<usize, Vec<Front>>,
}

/// The last accesses to a stretch of a datum: those that go together, and those before them.
#[derive(Clone)]
struct Front {
    end: usize,
    mode: Mode,
    last: Vec<u32>,
    before: Vec<u32>,
}

impl fmt::Debug for KeptGraph<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeptGraph").finish_non_exhaustive()
    }
}

impl fmt::Debug for Recorder<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recorder").finish_non_exhaustive()
    }
}

impl<'env> KeptGraph<'env> {
    /// Makes a graph of the tasks that `f` makes. None of them runs.
    ///
    /// # Panics
    ///
    /// If another dataflow has what a task declares.
    pub fn record(f: impl FnOnce(&Recorder<'env>)) -> KeptGraph<'env> {
        let recorder = Recorder(RefCell::new(Record { graph: Graph::new(true), fronts: BTreeMap::new() }));
        f(&recorder);
        KeptGraph { graph: EnvCell::new(recorder.0.into_inner().graph) }
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
        let graph = &self.graph;
        task_scope(|scope| {
            let spawner = Spawner { scope, graph };
            let (first, tickets) = graph.visit(|graph, _, hidden| graph.start(hidden)).expect(BROKEN);
            spawner.leave(first, tickets);
            let _ = Flow::new(&spawner, graph, ROOT, false).settle();
        });
        graph.visit(|graph, _, _| graph.tell_kept()).expect(BROKEN).map_or(Ok(()), Err)
    }

    /// The graph in the language of Graphviz: a node for each task, an edge to each that waits for it.
    pub fn dot(&mut self) -> String {
        let mut text = String::from("digraph {\n");
        let graph = self.graph.get_mut().expect(BROKEN);
        for (number, job) in graph.waiting() {
            let label = if job.label.is_empty() { &job.place.to_string() } else { job.label };
            let _ = writeln!(text, "  t{number} [label={label:?}];");
            graph.after(number).iter().for_each(|after| _ = writeln!(text, "  t{number} -> t{after};"));
        }
        text + "}\n"
    }
}

impl<'env> Recorder<'env> {
    /// A task, to be told what it declares and does.
    pub fn task(&self) -> TaskBuilder<'_, 'env, Self, ()> {
        TaskBuilder::new(self)
    }
}

#[expect(private_interfaces, reason = "it is sealed")]
impl<'env> sealed::Maker<'env> for Recorder<'env> {
    fn submit(&self, job: Box<Job<'env>>, _: bool) -> TaskId {
        let Record { graph, fronts } = &mut *self.0.borrow_mut();
        let (task, mut before) = (graph.next_kept(), BTreeSet::new());
        job.accesses.iter().for_each(|access| wait(fronts, access, task, &mut before));
        graph.keep(job, before.into_iter())
    }
}

/// Puts an access last, and those that it waits for into `before`.
fn wait(fronts: &mut BTreeMap<usize, Vec<Front>>, access: &Access<'_>, task: u32, before: &mut BTreeSet<u32>) {
    let whole = || Vec::from([Front { end: WHOLE.end, mode: Mode::READ, last: Vec::new(), before: Vec::new() }]);
    let fronts = fronts.entry(std::ptr::from_ref(access.chain).addr()).or_insert_with(whole);
    for at in [access.range.start, access.range.end] {
        let front = fronts.partition_point(|front| front.end < at);
        if at != 0 && fronts[front].end != at {
            fronts.insert(front, Front { end: at, ..fronts[front].clone() });
        }
    }
    let first = fronts.partition_point(|front| front.end <= access.range.start);
    let last = fronts.partition_point(|front| front.end < access.range.end);
    for front in fronts.iter_mut().take(last + 1).skip(first).filter(|_| !access.range.is_empty()) {
        if front.mode != access.mode || matches!(access.mode, Mode::INOUT | Mode::OUTPUT) {
            front.mode = access.mode;
            front.before = std::mem::take(&mut front.last);
        }
        front.last.push(task);
        before.extend(&front.before);
    }
}
