//! Why a task has not done what it was to do.

use std::fmt;
use std::panic::Location;
use std::sync::Arc;

/// Why a task gave no result, or data hold no value to go on with: the task that panicked first, or that the graph was cancelled.
/// Also why a task cannot come [before](super::Flow::precedes) another.
///
/// # Examples
///
/// ```
/// use proto_lang_tasks::{Data, dataflow};
///
/// let x = Data::new(1);
/// let error = dataflow(|df| {
///     df.task().label("halve").inout(&x).run(|_| panic!("it is odd"));
///     df.task().inout(&x).run(|x| *x += 1); // does not run
///     df.try_taskwait()
/// });
/// let error = error.expect_err("a task panicked").to_string();
/// assert!(error.starts_with("task `halve` (") && error.ends_with("panicked: it is odd"), "{error}");
/// ```
#[derive(Clone)]
pub struct TaskError(Arc<Cause>);

enum Cause {
    Cancelled,
    Cycle(Vec<String>),
    Panicked { label: String, place: &'static Location<'static>, message: String },
}

impl TaskError {
    pub(super) fn cancelled() -> TaskError {
        TaskError(Arc::new(Cause::Cancelled))
    }

    pub(super) fn panicked(
        label: &str,
        place: &'static Location<'static>,
        payload: &(dyn std::any::Any + Send),
    ) -> Self {
        let message = payload
            .downcast_ref::<&str>()
            .map(|text| (*text).to_owned())
            .or_else(|| payload.downcast_ref::<String>().cloned())
            .unwrap_or_else(|| "with a payload that is no text".to_owned());
        TaskError(Arc::new(Cause::Panicked { label: label.to_owned(), place, message }))
    }

    pub(super) fn cycle(names: Vec<String>) -> TaskError {
        TaskError(Arc::new(Cause::Cycle(names)))
    }

    /// Whether both are of one cause.
    pub(super) fn is(&self, other: &TaskError) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Whether the reason is that the graph was cancelled.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        matches!(*self.0, Cause::Cancelled)
    }
}

impl fmt::Display for TaskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.0 {
            Cause::Cancelled => f.write_str("the graph was cancelled"),
            Cause::Cycle(names) => write!(f, "a cycle: {} → {}", names.join(" → "), names[0]),
            Cause::Panicked { label, place, message } if label.is_empty() => {
                write!(f, "the task made at {place} panicked: {message}")
            }
            Cause::Panicked { label, place, message } => write!(f, "task `{label}` ({place}) panicked: {message}"),
        }
    }
}

impl fmt::Debug for TaskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TaskError({self})")
    }
}

impl std::error::Error for TaskError {}
