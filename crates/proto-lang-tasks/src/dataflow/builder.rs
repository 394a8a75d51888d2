//! Making a task: what it is, what it declares, what it does.

use std::panic::Location;

use super::access::{Access, Accesses, Declared, Mode, ReadAccess, ReduceAccess, Reduction, WriteAccess};
use super::data::{Data, SharedTarget, Target};
use super::flow::TaskId;
use super::graph::USUAL;
use super::job::{Body, Job, Spec};

type Read<'env, P> = ReadAccess<'env, <P as super::data::sealed::Target<'env>>::Value>;
type Write<'env, P> = WriteAccess<'env, <P as super::data::sealed::Target<'env>>::Value>;

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
    declared: A,
    weak: Vec<Access<'env>>,
    pub(super) spec: Spec<'env>,
    pub(super) has_handle: bool,
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
    #[track_caller]
    fn task(&self) -> TaskBuilder<'_, 'env, Self, Nothing<'env>> {
        TaskBuilder::new(self)
    }
}
impl<'env, M: sealed::Maker<'env>> Maker<'env> for M {}

pub(super) mod sealed {
    use super::{Access, Job, TaskId};

    pub trait Maker<'env> {
        #[expect(private_interfaces, reason = "it is sealed")]
        fn submit(&self, job: Box<Job<'env>>, weak: Vec<Access<'env>>, has_handle: bool) -> TaskId;
    }
}

/// What a task declares of which nothing was said.
pub(super) type Nothing<'env> = Declared<'env, (), 0>;

impl<'b, 'env, M> TaskBuilder<'b, 'env, M, Nothing<'env>> {
    #[inline]
    #[track_caller]
    pub(super) fn new(maker: &'b M) -> Self {
        let place = Location::caller();
        let spec =
            Spec { label: "", place, priority: USUAL, nests: false, undeferred: false, at_once: false, held: false };
        let declared = Declared { given: (), accesses: [] };
        TaskBuilder { maker, declared, weak: Vec::new(), spec, has_handle: false }
    }
}

impl<'b, 'env, M, A: Accesses<'env>> TaskBuilder<'b, 'env, M, A> {
    #[inline]
    fn and<B>(self, given: B, access: Access<'env>) -> TaskBuilder<'b, 'env, M, A::And<B>> {
        let TaskBuilder { maker, declared, weak, spec, has_handle } = self;
        TaskBuilder { maker, declared: declared.and(given, access), weak, spec, has_handle }
    }

    #[inline]
    fn reads<P: SharedTarget<'env>>(self, data: P, mode: Mode) -> TaskBuilder<'b, 'env, M, A::And<Read<'env, P>>> {
        let place = data.place();
        self.and(ReadAccess(place.cell), Access::new(&place, mode))
    }

    #[inline]
    fn writes<P: Target<'env>>(self, data: P, mode: Mode) -> TaskBuilder<'b, 'env, M, A::And<Write<'env, P>>> {
        let place = data.place();
        self.and(WriteAccess(place.cell), Access::new(&place, mode))
    }

    /// The task reads it.
    #[inline]
    pub fn input<P: SharedTarget<'env>>(self, data: P) -> TaskBuilder<'b, 'env, M, A::And<Read<'env, P>>> {
        self.reads(data, Mode::READ)
    }

    /// The task writes it whole; what it was before does not count, not even that it was poisoned.
    #[inline]
    pub fn output<P: Target<'env>>(self, data: P) -> TaskBuilder<'b, 'env, M, A::And<Write<'env, P>>> {
        self.writes(data, Mode::OUTPUT)
    }

    /// The task reads and writes it.
    #[inline]
    pub fn inout<P: Target<'env>>(self, data: P) -> TaskBuilder<'b, 'env, M, A::And<Write<'env, P>>> {
        self.writes(data, Mode::INOUT)
    }

    /// The task has it at once with others that declare the same, and sees to that itself, by a lock in it, say.
    ///
    /// # Examples
    ///
    /// ```
    /// use proto_lang_mutex::Mutex;
    /// use proto_lang_tasks::{Data, dataflow};
    ///
    /// let hits = Data::new(Mutex::new(0));
    /// dataflow(|df| {
    ///     for _ in 0..5 {
    ///         df.task().concurrent(&hits).run(|hits| *hits.lock().unwrap() += 1);
    ///     }
    /// });
    /// assert_eq!(hits.into_inner().into_inner().unwrap(), 5);
    /// ```
    #[inline]
    pub fn concurrent<P: SharedTarget<'env>>(self, data: P) -> TaskBuilder<'b, 'env, M, A::And<Read<'env, P>>> {
        self.reads(data, Mode::CONCURRENT)
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
    pub fn commutative<P: Target<'env>>(self, data: P) -> TaskBuilder<'b, 'env, M, A::And<Write<'env, P>>> {
        self.writes(data, Mode::COMMUTATIVE)
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
        let (given, access) = operation.of(data);
        self.and(given, access)
    }
}

impl<'env, M: Maker<'env>, A> TaskBuilder<'_, 'env, M, A> {
    /// The tasks that the task [makes](TaskBuilder::nest) read it; itself it does not.
    pub fn weak_input<P: SharedTarget<'env>>(self, data: P) -> Self {
        self.weakly(data, Mode::READ)
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
        self.weakly(data, Mode::INOUT)
    }

    fn weakly(mut self, data: impl Target<'env>, mode: Mode) -> Self {
        self.weak.push(Access::new(&data.place(), mode));
        self.spec.nests = true;
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

    /// Whoever makes the task waits until it is over, and runs it if it may begin at once; [`run`](TaskBuilder::run) returns then.
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
}

impl<'env, M: Maker<'env>, T, const N: usize> TaskBuilder<'_, 'env, M, Declared<'env, T, N>> {
    #[inline]
    pub(super) fn make_with<B: Body<'env> + 'env>(self, body: impl FnOnce(Declared<'env, T, N>) -> B) -> TaskId {
        let TaskBuilder { maker, declared, weak, spec, has_handle } = self;
        let list = &declared.accesses;
        for (number, access) in list.iter().chain(&weak).enumerate() {
            let twice = list.iter().chain(&weak).take(number).any(|other| other.excludes(access));
            assert!(!twice, "a task declares a datum twice: it would wait for itself");
        }
        let reduces = list.iter().any(|access| access.mode.reduces());
        let job = Job {
            slot: 0,
            frame: 0,
            seq: 0,
            combining: false,
            reduces,
            spec,
            next: None,
            failure: None,
            body: body(declared),
        };
        maker.submit(Box::new(job), weak, has_handle)
    }
}
