//! Tasks: two faces of one language. *Fork-join*, where work is cut in pieces that a free core may take, at nearly the price of a call; and
//! *dataflow*, where tasks say what they read and write, and run in any order that gives the result of the sequential program.
//!
//! # Fork-join
//!
//! | I want to | |
//! |---|---|
//! | run two closures, or a few, perhaps in parallel | [`join()`], [`join!`] |
//! | run any number of them, which may borrow | [`scope`], [`Scope::spawn`], [`Scope::task`]; [`Scope::sync`] waits |
//! | run one that nobody has to wait for | [`spawn`] |
//! | loop over ranges, slices, chunks of slices | [`par_for`]; [`over`] and then [`for_each`](Over::for_each), [`map`](Over::map), [`map_reduce`](Over::map_reduce), [`fold`](Over::fold) |
//! | sort | [`sort`], [`sort_by`], [`sort_by_key`], [`sort_unstable`], [`sort_unstable_by`], [`sort_unstable_by_key`] |
//! | cut work of another shape | [`work`] with a [`Divide`] of my own; [`dku`] |
//!
//! A closure may wait on any construct of any language: it is a virtual processor from then on, and its core does other work. So what
//! deadlocks a pool of threads (a lock that is held over a join, a channel between two forks) does not deadlock here.
//!
//! # Dataflow
//!
//! | I want to | |
//! |---|---|
//! | make tasks that run when what they read is there | [`dataflow`], [`Flow::task`] |
//! | have data that tasks share, without locks | [`Data`]; parts of a slice: [`Data::range`], [`Data::tiles`] |
//! | say what a task does with them | [`TaskBuilder`] |
//! | make tasks within tasks | [`TaskBuilder::nest`] |
//! | put tasks in order by their names, or wait for something outside | [`Flow::precedes`], [`Flow::event`] |
//! | run the same graph again and again, or draw it | [`KeptGraph`] |
//! | wait | [`Flow::taskwait`], [`Flow::taskwait_on`], [`TaskHandle::join`] |
//!
//! # Where it runs
//!
//! On the cores of the runtime that the caller runs in. An OS thread that calls anything here has the work done on the program's default runtime, and
//! waits for it.
//!
//! # Examples
//!
//! ```
//! use proto_lang_tasks::{Data, dataflow, join, over};
//!
//! let words = ["fork", "join", "task", "wait", "data"];
//! let (letters, longest) = join(
//!     || over(&words).map_reduce(|word| word.len(), |a, b| a + b),
//!     || over(&words).map_reduce(|word| *word, |a, b| if b.len() > a.len() { b } else { a }),
//! );
//! assert_eq!((letters, longest), (Some(20), Some("fork")));
//!
//! let (price, tax, total) = (Data::new(0), Data::new(0), Data::new(0));
//! dataflow(|df| {
//!     df.task().output(&price).run(|price| *price = 200);
//!     df.task().output(&tax).run(|tax| *tax = 19); // at once with the one above
//!     df.task().input(&price).input(&tax).output(&total).run(|price, tax, total| *total = price + price * tax / 100);
//! });
//! assert_eq!(total.into_inner(), 238);
//! ```
//!
//! # Memory
//!
//! Whoever makes tasks without end, and does not wait for them, needs memory for some of them. In a [`scope`], who has a quarter of a megabyte of tasks that
//! have not ended lets others run first, so all is well below 4 MiB if tasks end by themselves. In a [`dataflow`], who has made 4096 tasks that are not
//! over, or as many as [`Flow::limit`] says, waits: 4 MiB are enough for tasks of few accesses. Closures that own memory come on top, and tasks that wait
//! for something keep theirs.

#![forbid(unsafe_code)]

mod dataflow;
mod forkjoin;

pub use dataflow::{
    Accesses, Data, Declare, Declared, Flow, Gives, KeptGraph, Maker, Part, ReadAccess, Recorder, ReduceAccess,
    Reduction, SharedTarget, Target, TaskBuilder, TaskError, TaskHandle, TaskId, WriteAccess, dataflow,
};
pub use forkjoin::{
    Chunks, Divide, IntoPieces, JoinError, JoinHandle, Over, Pieces, Scope, Task, Zip3, chunks, chunks_mut, dku, join,
    over, par_for, scope, sort, sort_by, sort_by_key, sort_unstable, sort_unstable_by, sort_unstable_by_key, spawn,
    work,
};
