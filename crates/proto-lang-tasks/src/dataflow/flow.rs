//! Where tasks are made, and waited for.

use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::Arc;

use proto_core::{CannotCancel, EnvCell, ExternalEvent, ExternalWaker, Grant, Guarded, OrUnwind, external};

use super::access::{Access, Declare, Mode, WriteAccess};
use super::builder::{Nothing, TaskBuilder, sealed};
use super::data::Target;
use super::failure::TaskError;
use super::graph::{Graph, Over, ROOT, Ready, Spawner};
use super::job::{BROKEN, Job, Payload, finish};
use super::nest::OWN;

/// Makes tasks and waits for them; see [`dataflow`](super::dataflow).
///
/// It stays with the timeline that has it, so that there is one order in which tasks are made:
///
/// ```compile_fail,E0277
/// proto_lang_tasks::dataflow(|df| {
///     proto_core::join(|| df.taskwait(), || df.taskwait());
/// });
/// ```
pub struct Flow<'f, 'env> {
    spawner: &'f dyn Spawn<'env>,
    graph: &'f EnvCell<Graph<'env>>,
    /// Its slot.
    task: u32,
    /// All that is made here is undeferred.
    at_once: bool,
    /// Jobs that are over: each is freed when another one is made. (All at once they would be more than an allocator has at hand.)
    over: Cell<Over<'env>>,
    stays: PhantomData<*const ()>,
}

/// A [`Spawner`], whatever its scope borrows.
pub(super) trait Spawn<'env> {
    /// Leaves what became ready to the cores.
    fn leave(&self, ready: Ready<'env>);
    /// Runs a task here, and leaves to the cores what becomes ready by that.
    fn run(&self, job: Box<Job<'env>>);
    /// Runs what nobody has begun.
    fn sync(&self);
    /// Cancels what runs.
    fn cancel(&self) -> Result<(), CannotCancel>;
    /// Ends what keeps the task from being over when the event has come.
    fn end_after(&self, name: u64, event: ExternalEvent<()>, task: u32);
}

impl<'s, 'env: 's> Spawn<'env> for Spawner<'s, '_, 'env> {
    #[inline]
    fn leave(&self, mut ready: Ready<'env>) {
        while let Some(mut job) = ready.first {
            ready.first = job.next.take();
            self.spawn(job.seq, Some(job));
        }
        ready.tickets.for_each(|ticket| self.spawn(ticket, None));
    }

    fn run(&self, job: Box<Job<'env>>) {
        finish(*self, job).into_iter().for_each(|next| self.spawn(next.seq, Some(next)));
    }

    fn sync(&self) {
        self.scope.sync();
    }

    fn cancel(&self) -> Result<(), CannotCancel> {
        self.scope.cancel()
    }

    fn end_after(&self, name: u64, event: ExternalEvent<()>, task: u32) {
        let (this, mut event) = (*self, Some(event));
        self.scope.spawn_series(name as u32, move || {
            let _ = event.take()?.wait(None);
            let ready = this.graph.update(|graph, _, hidden| {
                graph.close(task, None, false, hidden);
                graph.go_on(false)
            });
            this.leave(ready.expect(BROKEN));
            None
        });
    }
}

/// A task that was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskId {
    pub(super) slot: u32,
    pub(super) generation: u32,
}

impl<'f, 'env> Flow<'f, 'env> {
    pub(super) fn new(spawner: &'f dyn Spawn<'env>, graph: &'f EnvCell<Graph<'env>>, task: u32, at_once: bool) -> Self {
        Flow { spawner, graph, task, at_once, over: Cell::default(), stays: PhantomData }
    }

    /// A task, to be told what it declares and does.
    #[inline]
    #[track_caller]
    pub fn task(&self) -> TaskBuilder<'_, 'env, Self, Nothing<'env>> {
        TaskBuilder::new(self)
    }

    /// Waits until all tasks made here so far are over.
    ///
    /// # Panics
    ///
    /// If one of them panicked, or was not run because of that or of a cancel, and nobody was told yet. Unwinds if the calling VP is cancelled.
    #[track_caller]
    pub fn taskwait(&self) {
        if let Err(error) = self.try_taskwait() {
            panic!("{error}");
        }
    }

    /// As [`taskwait`](Flow::taskwait), for who wants to know what failed.
    ///
    /// # Errors
    ///
    /// Why a task failed, of those whose failure nobody was told yet.
    #[track_caller]
    pub fn try_taskwait(&self) -> Result<(), TaskError> {
        self.settle().map_err(|(error, _)| error)
    }

    #[track_caller]
    pub(super) fn settle(&self) -> Result<(), (TaskError, Option<Payload>)> {
        let task = self.task;
        self.change(|graph| graph.start_all(task));
        if task == ROOT {
            self.spawner.sync();
        }
        let waited = self.graph.ask(|graph, caller, hidden| graph.wait(task, 0, caller, hidden), None).or_unwind();
        assert!(waited, "{OWN}");
        self.graph.visit(|graph, _, _| graph.tell(task)).expect(BROKEN).map_or(Ok(()), Err)
    }

    /// Waits until the tasks made so far that declare `data`, or an overlapping part of it, are over; others may go on.
    ///
    /// # Panics
    ///
    /// If `data` are poisoned. Unwinds if the calling VP is cancelled.
    ///
    /// # Examples
    ///
    /// ```
    /// use proto_lang_tasks::{Data, dataflow};
    ///
    /// let x = Data::new(0);
    /// dataflow(|df| {
    ///     df.task().inout(&x).run(|x| *x += 1);
    ///     df.taskwait_on(&x);
    ///     // Here it has been added.
    /// });
    /// ```
    #[track_caller]
    pub fn taskwait_on<P>(&self, data: P)
    where
        P: Target<'env>,
        WriteAccess<'env, P::Value>: Declare<'env>,
    {
        self.change(|graph| graph.start_all(self.task));
        if let Err(error) = self.task().inout(data).undeferred().result(|_| ()).join() {
            panic!("{error}");
        }
    }

    /// Says that no more tasks made here will declare `data`, which the task has declared weakly: then those outside that wait for it need not wait for the
    /// task's end. (It is over when the tasks made here so far are done with it.)
    ///
    /// # Examples
    ///
    /// ```
    /// use proto_lang_tasks::{Data, dataflow};
    ///
    /// let (x, y) = (Data::new(0), Data::new(0));
    /// dataflow(|df| {
    ///     df.task().weak_inout(&x).weak_inout(&y).nest(|df| {
    ///         df.task().inout(&x).run(|x| *x = 5);
    ///         df.release(&x);
    ///         df.task().inout(&y).run(|y| *y = 6); // while others have x
    ///     });
    ///     df.task().inout(&x).run(|x| *x += 1);
    /// });
    /// assert_eq!((x.into_inner(), y.into_inner()), (6, 6));
    /// ```
    pub fn release(&self, data: impl Target<'env>) {
        let (access, task) = (Access::new(&data.place(), Mode::INOUT), self.task);
        self.change(|graph| graph.release(task, &access));
    }

    /// Changes something, and leaves what becomes ready to the cores.
    pub(super) fn change<R>(&self, change: impl FnOnce(&mut Graph<'env>) -> R) -> R {
        let changed = self.graph.visit(|graph, _, _| (change(graph), graph.go_on(false)));
        let (result, ready) = changed.expect(BROKEN);
        self.spawner.leave(ready);
        result
    }

    /// Lets a task that was made [held](TaskBuilder::held) begin, when it may. So does the next wait here, for all.
    pub fn start(&self, task: TaskId) {
        self.change(|graph| graph.start_held(task));
    }

    /// `after`, which is [held](TaskBuilder::held), begins when `before` is over, whatever they declare. If that fails, it does not run, and fails, too.
    ///
    /// # Errors
    ///
    /// The cycle of tasks, by their labels, that this would close. Nothing is changed then.
    ///
    /// # Panics
    ///
    /// If `after` is not held.
    ///
    /// # Examples
    ///
    /// ```
    /// use proto_lang_tasks::{Data, dataflow};
    ///
    /// let order = Data::new(Vec::new());
    /// dataflow(|df| {
    ///     let task = |name| df.task().label(name).held().commutative(&order).run(move |order| order.push(name));
    ///     let (bake, mix, eat) = (task("bake"), task("mix"), task("eat"));
    ///     df.precedes(mix, bake)?;
    ///     df.precedes(bake, eat)?;
    ///     let error = df.precedes(eat, mix).expect_err("nobody eats first");
    ///     assert_eq!(error.to_string(), "a cycle: mix → bake → eat → mix");
    ///     df.taskwait();
    ///     Ok::<_, proto_lang_tasks::TaskError>(())
    /// })?;
    /// assert_eq!(order.into_inner(), ["mix", "bake", "eat"]);
    /// # Ok::<(), proto_lang_tasks::TaskError>(())
    /// ```
    #[track_caller]
    pub fn precedes(&self, before: TaskId, after: TaskId) -> Result<(), TaskError> {
        let error = self.change(|graph| graph.precede(before, after).err());
        match error {
            None => Ok(()),
            Some(Some(cycle)) => Err(cycle),
            Some(None) => panic!("only a task that is held can be made to wait for another"),
        }
    }

    /// Keeps the task that has this from being over, and its successors from beginning, until the waker wakes, or it and its clones are dropped: for something that the task has begun
    /// outside, such as a transfer.
    ///
    /// # Panics
    ///
    /// If this is not the flow of a task that [nests](TaskBuilder::nest).
    ///
    /// # Examples
    ///
    /// ```
    /// use proto_lang_tasks::{Data, dataflow};
    ///
    /// let (x, y) = (Data::new(0), Data::new(0));
    /// dataflow(|df| {
    ///     df.task().inout(&x).nest(|df, x| {
    ///         let transfer = df.event();
    ///         *x = 1;
    ///         std::thread::spawn(move || transfer.wake(()));
    ///     });
    ///     df.task().input(&x).output(&y).run(|x, y| *y = *x); // after the transfer
    /// });
    /// assert_eq!(y.into_inner(), 1);
    /// ```
    #[track_caller]
    pub fn event(&self) -> ExternalWaker<()> {
        assert_ne!(self.task, ROOT, "an event keeps a task that nests from being over");
        let (event, waker) = external();
        let name = self.change(|graph| {
            graph.at(self.task).rare().open += 1;
            graph.next_name()
        });
        self.spawner.end_after(name, event, self.task);
        waker
    }

    /// At most so many tasks made by the dataflow's closure are not over at a time: whoever makes one more waits until half of them are. 4096 if nothing
    /// is said.
    ///
    /// # Panics
    ///
    /// If it is 0.
    #[track_caller]
    pub fn limit(&self, tasks: usize) {
        assert!(tasks > 0, "a graph without tasks does nothing");
        self.graph.visit(|graph, _, _| graph.limit = tasks.try_into().unwrap_or(u32::MAX));
    }

    /// Cancels the graph. What has not begun does not run, also if it is made from now on; what runs meets the cancel at its next abandonable wait. All of it
    /// fails.
    ///
    /// # Errors
    ///
    /// In a `panic=abort` build what runs cannot be cancelled.
    ///
    /// # Examples
    ///
    /// ```
    /// use proto_lang_tasks::dataflow;
    ///
    /// let error = dataflow(|df| {
    ///     let task = df.task().held().run(|| unreachable!("it was cancelled"));
    ///     df.cancel()?;
    ///     df.start(task);
    ///     Ok::<_, proto_core::CannotCancel>(df.try_taskwait().expect_err("a task did not run"))
    /// })?;
    /// assert!(error.is_cancelled());
    /// # Ok::<(), proto_core::CannotCancel>(())
    /// ```
    pub fn cancel(&self) -> Result<(), CannotCancel> {
        self.change(|graph| graph.cancelled = Some(TaskError::cancelled()));
        self.spawner.cancel()
    }
}

#[expect(private_interfaces, reason = "it is sealed")]
impl<'env> sealed::Maker<'env> for Flow<'_, 'env> {
    #[track_caller]
    fn submit(&self, mut job: Box<Job<'env>>, weak: Vec<Access<'env>>, has_handle: bool) -> TaskId {
        job.spec.at_once |= self.at_once;
        job.spec.undeferred |= self.at_once;
        let (undeferred, parent) = (job.spec.undeferred, self.task);
        assert!(
            !undeferred || !job.spec.held,
            "a task that is held cannot be undeferred: its maker would wait for itself"
        );
        let mut over = self.over.take();
        let freed = over.pop();
        let spent = freed.is_none();
        let (mut fresh, mut own, mut ready, mut full) = (Some(job), None, Ready::default(), false);
        let made = self.graph.visit(|graph, _, _| {
            let id = graph.register(&mut fresh, weak, parent, has_handle)?;
            if undeferred {
                own = graph.take_own(id.slot);
            }
            if spent {
                over = graph.take_done();
            }
            (ready, full) = (graph.go_on(false), parent == ROOT && graph.is_full());
            Ok(id)
        });
        let id = made.expect(BROKEN).unwrap_or_else(|error: &str| panic!("{error}"));
        self.over.set(over);
        self.spawner.leave(ready);
        if undeferred {
            own.into_iter().for_each(|job| self.spawner.run(job));
            self.graph.ask_binding(|graph, caller, hidden| graph.join(id, caller, hidden)).or_unwind();
        } else if full {
            self.graph.ask(|graph, caller, hidden| graph.wait(ROOT, graph.limit / 2, caller, hidden), None).or_unwind();
        }
        id
    }
}

/// The result of a task.
///
/// Dropped, the task runs all the same.
///
/// # Examples
///
/// ```
/// use proto_lang_tasks::{Data, dataflow};
///
/// let words = Data::new(vec!["data", "flow"]);
/// let length = dataflow(|df| {
///     let length = df.task().input(&words).result(|words| words.concat().len());
///     df.task().output(&words).run(|words| words.clear());
///     length.join()
/// });
/// assert_eq!(length.unwrap(), 8);
/// ```
pub struct TaskHandle<'f, 'env, R> {
    graph: &'f EnvCell<Graph<'env>>,
    id: TaskId,
    result: Arc<Guarded<Option<R>>>,
}

/// Where a task leaves its result.
pub(super) struct Promise<R>(Arc<Guarded<Option<R>>>);

impl<R> Promise<R> {
    pub(super) fn keep(&self, result: R) {
        *self.0.open(Grant::new()) = Some(result);
    }
}

impl<'f, 'env, R> TaskHandle<'f, 'env, R> {
    pub(super) fn new(flow: &Flow<'f, 'env>, make: impl FnOnce(Promise<R>) -> TaskId) -> Self {
        let result = Arc::new(Guarded::new(None));
        TaskHandle { graph: flow.graph, id: make(Promise(Arc::clone(&result))), result }
    }

    /// The task.
    pub fn id(&self) -> TaskId {
        self.id
    }

    /// Waits until the task is over.
    ///
    /// # Errors
    ///
    /// Why it gave no result.
    ///
    /// # Panics
    ///
    /// Unwinds if the calling VP is cancelled.
    #[track_caller]
    pub fn join(mut self) -> Result<R, TaskError> {
        let id = self.id;
        self.graph.ask(|graph, caller, hidden| graph.join(id, caller, hidden), None).or_unwind();
        if let Some((error, _)) = self.graph.visit(|graph, _, _| graph.tell_handle(id)).flatten() {
            return Err(error);
        }
        let result = std::mem::replace(&mut self.result, Arc::new(Guarded::new(None)));
        let result = Arc::into_inner(result).and_then(Guarded::into_inner);
        Ok(result.expect("a task that has run has left its result"))
    }
}

impl<R> Drop for TaskHandle<'_, '_, R> {
    fn drop(&mut self) {
        self.graph.update(|graph, _, _| graph.let_go(self.id));
    }
}
