//! Tasks that say what they read and write, and run in any order that gives what the program would give if each ran where it is made.
//!
//! The model is that of StarSs and OmpSs-2. Tasks are closures; what they share lies in [`Data`]. The closure gets `&T` or `&mut T` of what its task has declared:
//! the borrow is sound because the language lets nobody else have it meanwhile, so there are no locks in the program.
//!
//! # What runs where
//!
//! A task that is ready is a latent task of the core that made it so: its creator, or the task that it waited for last. One of those that a task makes ready
//! runs next in its place, without any list: a chain of tasks is a loop on one core. Others are taken by idle cores like all latent tasks.
//!
//! Data end after the dataflow that uses them, by their lifetime: there is no handle that could be used too late.
//!
//! | file | |
//! |---|---|
//! | `flow` | [`Flow`]: where tasks are made, and waited for |
//! | `builder` | [`TaskBuilder`]: what a task is |
//! | `access` | what it declares, and how its closure gets that |
//! | `data` | [`Data`]: what tasks read and write |
//! | `graph` | the environment: which task waits for what; in `waits` who waits for a task's end, in `ready` who may run, in `rerun` what is special if it is kept, in `spawner` how tasks come to the cores |
//! | `nest` | tasks that make tasks |
//! | `edges` | tasks that are put in order by their names |
//! | `kept` | [`KeptGraph`]: a graph that is made once and run again |
//! | `job` | a task that was made, and running it |
//! | `failure` | [`TaskError`]: why one has not done what it was to do |

mod access;
mod builder;
mod data;
mod edges;
mod failure;
mod flow;
mod graph;
mod job;
mod kept;
mod nest;

pub use self::access::{Accesses, Declare, Declared, Gives, ReadAccess, ReduceAccess, Reduction, WriteAccess};
pub use self::builder::{Maker, TaskBuilder};
pub use self::data::{Data, Part, SharedTarget, Target};
pub use self::failure::TaskError;
pub use self::flow::{Flow, TaskHandle, TaskId};
use self::graph::{Graph, ROOT, Spawner};
use self::job::Payload;
pub use self::kept::{KeptGraph, Recorder};

use proto_core::{EnvCell, task_scope};

/// They are shown by their names only: what is in them may be in use elsewhere.
macro_rules! shown_by_name {
    ($([$($generic:tt)*] $name:ident<$($of:tt),*>;)*) => {$(
        impl<$($generic)*> std::fmt::Debug for $name<$($of),*> {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_struct(stringify!($name)).finish_non_exhaustive()
            }
        }
    )*};
}

shown_by_name! {
    [T: ?Sized] Data<T>; [T] Part<'_, T>; [M, A] TaskBuilder<'_, '_, M, A>; [] Flow<'_, '_>; [R] TaskHandle<'_, '_, R>;
    [] KeptGraph<'_>; [] Recorder<'_>;
}

/// An environment whose lock lies in one line of memory with what follows.
#[repr(align(64))]
struct Aligned<'env>(EnvCell<Graph<'env>>);

/// Runs `f`, which makes tasks that declare what they read and write; returns when all of them are over.
///
/// A task begins when those made before it that declare the same data, and one of the two writes, are over: so the result is that of the program in which
/// each task runs where it is made. (Not in which order concurrent, commutative and reducing tasks change what they share.)
///
/// The closures, and what they and the data borrow, live outside of the dataflow. The closure of a task may block on any construct of any language; it then
/// holds what it declared, and no core.
///
/// # Panics
///
/// If `f` panics, with its payload, after all tasks are over. Else if a task panicked and nobody was told: with the payload of the first.
/// Unwinds if the calling VP was cancelled meanwhile.
///
/// # Examples
///
/// A wave front: each cell is made of the one above and the one to the left.
///
/// ```
/// use proto_lang_tasks::{Data, dataflow};
///
/// const N: usize = 10;
/// let mut cells: Vec<Data<u64>> = (0..N * N).map(|_| Data::new(1)).collect();
/// dataflow(|df| {
///     for (row, column) in (1..N).flat_map(|row| (1..N).map(move |column| (row, column))) {
///         let (above, left) = (&cells[(row - 1) * N + column], &cells[row * N + column - 1]);
///         df.task().input(above).input(left).output(&cells[row * N + column]).run(|above, left, cell| *cell = above + left);
///     }
/// });
/// // As in Pascal's triangle.
/// assert_eq!(*cells[N * N - 1].get_mut(), 48620);
/// ```
#[track_caller]
pub fn dataflow<'env, F, T>(f: F) -> T
where
    F: FnOnce(&Flow<'_, 'env>) -> T,
{
    let Aligned(graph) = &Aligned(EnvCell::new(Graph::new()));
    let (result, failure) = in_scope(graph, f);
    match failure {
        Err((_, Some(payload))) => proto_core::resume_unwind(payload),
        _ => result,
    }
}

/// Has `f` make, or start, tasks of a graph, and waits for them. Gives also why some failed of which nobody was told.
#[track_caller]
fn in_scope<'env, F, T>(graph: &EnvCell<Graph<'env>>, f: F) -> (T, Result<(), (TaskError, Option<Payload>)>)
where
    F: FnOnce(&Flow<'_, 'env>) -> T,
{
    task_scope(|scope| {
        let spawner = Spawner { scope, graph };
        let flow = Flow::new(&spawner, graph, ROOT, false);
        let result = f(&flow);
        (result, flow.settle())
    })
}
