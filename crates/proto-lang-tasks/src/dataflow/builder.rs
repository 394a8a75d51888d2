//! Making a task: what it is, what it declares, what it does.

use std::fmt;
use std::panic::Location;

use smallvec::SmallVec;

use super::access::{Access, Accesses, ReadAccess, ReduceAccess, Reduction, WriteAccess};
use super::data::{Data, SharedTarget, Target};
use super::flow::TaskId;
use super::graph::USUAL;
use super::job::{Body, Job};
use super::lanes::Mode;

/// A task to be made: what it declares, then [`run`](TaskBuilder::run) or [`result`](TaskBuilder::result) with what it does.
///
/// The closure gets one reference for each access, in the order of their declaration: at most eight.
///
/// | declared | the closure gets | tasks in a row that declare the same |
/// |---|---|---|
/// | `input` | `&T` | run at once |
/// | `output` | `&mut T`, with any value in it | one after the other |
/// | `inout` | `&mut T` | one after the other |
/// | `concurrent` | `&T` | run at once; they may change what in `T` can be changed so |
/// | `commutative` | `&mut T` | one at a time, in any order |
/// | `reduction` | `&mut T`, of a value of its own | run at once |
///
/// Between tasks that declare different things of one datum, or overlapping parts of it, the order is that in which they were made.
#[must_use = "a task is made by `run` or `result`"]
pub struct TaskBuilder<'b, 'env, M, A> {
    pub(super) maker: &'b M,
    pub(super) accesses: A,
    weak: Vec<Access<'env>>,
    pub(super) nests: bool,
    spec: Spec<'env>,
}

/// What there is to say of a task besides its accesses.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spec<'env> {
    label: &'env str,
    priority: u8,
    undeferred: bool,
    at_once: bool,
    held: bool,
    handle: bool,
}

impl<M, A> fmt::Debug for TaskBuilder<'_, '_, M, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TaskBuilder").field(&self.spec).finish()
    }
}

/// Where tasks are made: a [`Flow`](super::Flow), whose tasks run once, or the [`Recorder`](super::Recorder) of a graph that is kept.
///
/// # Examples
///
/// The same tasks for both:
///
/// ```
/// use proto_lang_tasks::{Data, KeptGraph, Maker, dataflow};
///
/// fn tasks<'env>(df: &impl Maker<'env>, x: &'env Data<u32>, y: &'env Data<u32>) {
///     df.task().inout(x).again(|x| *x += 1);
///     df.task().input(x).inout(y).again(|x, y| *y += x);
/// }
///
/// let (x, y) = (Data::new(0), Data::new(0));
/// dataflow(|df| tasks(df, &x, &y));
/// KeptGraph::record(|df| tasks(df, &x, &y)).run();
/// assert_eq!(y.into_inner(), 1 + 2);
/// ```
pub trait Maker<'env>: sealed::Maker<'env> + Sized {
    /// A task, to be told what it declares and does.
    fn task(&self) -> TaskBuilder<'_, 'env, Self, ()> {
        TaskBuilder::new(self)
    }
}
impl<'env, M: sealed::Maker<'env>> Maker<'env> for M {}

pub(super) mod sealed {
    use super::{Job, TaskId};

    pub trait Maker<'env> {
        #[expect(private_interfaces, reason = "it is sealed")]
        fn submit(&self, job: Box<Job<'env>>, handle: bool) -> TaskId;
    }
}

impl<'b, M> TaskBuilder<'b, '_, M, ()> {
    pub(super) fn new(maker: &'b M) -> Self {
        let spec = Spec { label: "", priority: USUAL, undeferred: false, at_once: false, held: false, handle: false };
        TaskBuilder { maker, accesses: (), weak: Vec::new(), nests: false, spec }
    }
}

impl<'b, 'env, M, A: Accesses<'env>> TaskBuilder<'b, 'env, M, A> {
    #[inline]
    fn and<B>(self, access: B) -> TaskBuilder<'b, 'env, M, A::And<B>> {
        TaskBuilder {
            maker: self.maker,
            accesses: self.accesses.and(access),
            weak: self.weak,
            nests: self.nests,
            spec: self.spec,
        }
    }

    /// The task reads it.
    #[inline]
    pub fn input<P: SharedTarget<'env>>(self, data: P) -> TaskBuilder<'b, 'env, M, A::And<ReadAccess<P>>> {
        self.and(ReadAccess::new(data, Mode::READ))
    }

    /// The task writes it whole; what it was before does not count, not even that it was poisoned.
    #[inline]
    pub fn output<P: Target<'env>>(self, data: P) -> TaskBuilder<'b, 'env, M, A::And<WriteAccess<P>>> {
        self.and(WriteAccess::new(data, Mode::OUTPUT))
    }

    /// The task reads and writes it.
    #[inline]
    pub fn inout<P: Target<'env>>(self, data: P) -> TaskBuilder<'b, 'env, M, A::And<WriteAccess<P>>> {
        self.and(WriteAccess::new(data, Mode::INOUT))
    }

    /// The task has it at once with others that declare the same, and sees to that itself: by atomics in it, or a lock.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::atomic::{AtomicU32, Ordering};
    ///
    /// use proto_lang_tasks::{Data, dataflow};
    ///
    /// let hits = Data::new(AtomicU32::new(0));
    /// dataflow(|df| {
    ///     for _ in 0..5 {
    ///         df.task().concurrent(&hits).run(|hits| _ = hits.fetch_add(1, Ordering::Relaxed));
    ///     }
    /// });
    /// assert_eq!(hits.into_inner().into_inner(), 5);
    /// ```
    #[inline]
    pub fn concurrent<P: SharedTarget<'env>>(self, data: P) -> TaskBuilder<'b, 'env, M, A::And<ReadAccess<P>>> {
        self.and(ReadAccess::new(data, Mode::CONCURRENT))
    }

    /// The task reads and writes it, before or after others that declare the same, as it comes.
    ///
    /// # Examples
    ///
    /// ```
    /// use proto_lang_tasks::{Data, dataflow};
    ///
    /// let found = Data::new(Vec::new());
    /// dataflow(|df| {
    ///     for i in 0..5 {
    ///         df.task().commutative(&found).run(move |found| found.push(i));
    ///     }
    ///     df.task().inout(&found).run(|found| found.sort());
    /// });
    /// assert_eq!(found.into_inner(), [0, 1, 2, 3, 4]);
    /// ```
    #[inline]
    pub fn commutative<P: Target<'env>>(self, data: P) -> TaskBuilder<'b, 'env, M, A::And<WriteAccess<P>>> {
        self.and(WriteAccess::new(data, Mode::COMMUTATIVE))
    }

    /// The task adds to it: it gets a value of its own, which `operation` puts into the datum afterwards.
    ///
    /// # Examples
    ///
    /// ```
    /// use proto_lang_tasks::{Data, Reduction, dataflow};
    ///
    /// static SUM: Reduction<u64> = Reduction::new(|| 0, |sum, part| *sum += part);
    /// let (numbers, sum) = (Data::from(Vec::from_iter(1..=100)), Data::new(0));
    /// dataflow(|df| {
    ///     for tile in numbers.tiles(30) {
    ///         df.task().input(tile).reduction(&sum, &SUM).run(|tile, sum| *sum += tile.iter().sum::<u64>());
    ///     }
    /// });
    /// assert_eq!(sum.into_inner(), 5050);
    /// ```
    #[inline]
    pub fn reduction<T: Send>(
        self,
        data: &'env Data<T>,
        operation: &'env Reduction<T>,
    ) -> TaskBuilder<'b, 'env, M, A::And<ReduceAccess<'env, T>>> {
        self.and(ReduceAccess::new(data, operation))
    }
}

impl<'env, M: Maker<'env>, A> TaskBuilder<'_, 'env, M, A> {
    /// The tasks that the task [makes](TaskBuilder::nest) read it; itself it does not.
    pub fn weak_input<P: SharedTarget<'env>>(self, data: P) -> Self {
        self.weakly(&data, Mode::READ)
    }

    /// The tasks that the task [makes](TaskBuilder::nest) read and write it; itself it does not. So it does not wait for it: they do.
    ///
    /// # Examples
    ///
    /// ```
    /// use proto_lang_tasks::{Data, dataflow};
    ///
    /// let (x, y) = (Data::new(1), Data::new(0));
    /// dataflow(|df| {
    ///     df.task().weak_inout(&x).inout(&y).nest(|df, y| {
    ///         for _ in 0..3 {
    ///             df.task().inout(&x).run(|x| *x *= 2);
    ///         }
    ///         df.taskwait();
    ///         *y = 5;
    ///     });
    ///     df.task().inout(&x).run(|x| *x += 1); // after the three
    /// });
    /// assert_eq!((x.into_inner(), y.into_inner()), (9, 5));
    /// ```
    pub fn weak_inout<P: Target<'env>>(self, data: P) -> Self {
        self.weakly(&data, Mode::INOUT)
    }

    fn weakly(mut self, data: &impl Target<'env>, mode: Mode) -> Self {
        self.weak.push(Access { weak: true, ..Access::new(data, mode) });
        self.nests = true;
        self
    }

    /// What errors and drawings call it.
    pub fn label(mut self, label: &'env str) -> Self {
        self.spec.label = label;
        self
    }

    /// Of several tasks that are ready, those of the highest priority go first: 255 at most, 128 if nothing is said.
    pub fn priority(mut self, priority: u8) -> Self {
        self.spec.priority = priority;
        self
    }

    /// Whoever makes the task runs it, as soon as it may; [`run`](TaskBuilder::run) returns then.
    ///
    /// # Examples
    ///
    /// ```
    /// use proto_lang_tasks::{Data, dataflow};
    ///
    /// let x = Data::new(1);
    /// let seen = dataflow(|df| {
    ///     df.task().inout(&x).run(|x| *x += 1);
    ///     df.task().input(&x).undeferred().result(|x| *x).join()
    /// });
    /// assert_eq!(seen.unwrap(), 2);
    /// ```
    pub fn undeferred(mut self) -> Self {
        self.spec.undeferred = true;
        self
    }

    /// All tasks that the task [makes](TaskBuilder::nest), and those that they make, are [undeferred](TaskBuilder::undeferred): a way to end the cutting of
    /// work that is small enough, with the same code.
    ///
    /// # Examples
    ///
    /// ```
    /// use proto_lang_tasks::{Data, Flow, dataflow};
    ///
    /// fn sum<'env>(df: &Flow<'_, 'env>, cells: &'env Data<[u64]>, start: usize, end: usize) {
    ///     let task = df.task().weak_inout(cells.range(start..end));
    ///     let task = if end - start < 100 { task.at_once() } else { task };
    ///     task.nest(move |df| match end - start {
    ///         1 => _ = df.task().inout(cells.range(start..end)).run(|cell| cell[0] += 1),
    ///         _ => {
    ///             sum(df, cells, start, start.midpoint(end));
    ///             sum(df, cells, start.midpoint(end), end);
    ///         }
    ///     });
    /// }
    /// let cells = Data::from(vec![0; 300]);
    /// dataflow(|df| sum(df, &cells, 0, 300));
    /// assert_eq!(*cells.into_boxed_slice(), [1; 300]);
    /// ```
    pub fn at_once(mut self) -> Self {
        self.spec.at_once = true;
        self
    }

    /// The task does not begin before [`Flow::start`](super::Flow::start), or the next wait: so it can be put in order by [`Flow::precedes`](super::Flow::precedes).
    pub fn held(mut self) -> Self {
        self.spec.held = true;
        self
    }

    pub(super) fn kept(mut self) -> Self {
        self.spec.handle = true;
        self
    }

    #[inline]
    #[track_caller]
    pub(super) fn make_with<B: Body<'env> + 'env>(
        self,
        accesses: impl IntoIterator<Item = Access<'env>>,
        body: impl FnOnce(A) -> B,
    ) -> TaskId {
        let Spec { label, priority, undeferred, at_once, held, handle } = self.spec;
        let mut list = SmallVec::new();
        accesses.into_iter().for_each(|access| list.push(access));
        if !self.weak.is_empty() {
            list.extend(self.weak);
        }
        let job = Box::new(Job {
            reduces: list.iter().any(|access: &Access<'_>| access.mode.reduces()),
            slot: 0,
            combining: false,
            nests: self.nests,
            priority,
            undeferred,
            at_once,
            held,
            seq: 0,
            next: None,
            accesses: list,
            label,
            place: Location::caller(),
            failure: None,
            body: body(self.accesses),
        });
        for (number, access) in job.accesses.iter().enumerate() {
            let twice = job.accesses[..number].iter().any(|other| other.excludes(access));
            assert!(!twice, "a task declares a datum twice: it would wait for itself");
        }
        self.maker.submit(job, handle)
    }
}
