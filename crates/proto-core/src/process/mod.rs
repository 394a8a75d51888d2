//! Processes: one started program each: a seed VP and all it creates.
//!
//! It has ended when its seed has returned and every VP it created has ended, daemons apart [design rule 13]: `kernel::ends` counts.
//!
//! | file | what it is |
//! |---|---|
//! | `builder` | what may be said of a process before it starts |
//! | `inner` | what it is to the runtime, and how it ends |
//! | `end` | the environment in which its end is waited for |
//! | `error` | why it gave no value |

mod builder;
mod end;
mod error;
mod inner;

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

pub use self::builder::ProcessBuilder;
pub use self::error::ProcessError;
pub(crate) use self::inner::{ProcessInner, ambient, note_ambient_panic};

use self::end::AwaitEnd;
use crate::assign::instance::Instance;
use crate::ended::{Cancelled, Ended};
use crate::runtime::attach;
use crate::runtime::shared::Shared;
use crate::vp::cancel;

/// What becomes of a process's VPs when its seed has returned. [`ProcessBuilder`](crate::ProcessBuilder) has an example.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnSeedEnd {
    /// The process waits until they have ended.
    #[default]
    Wait,
    /// They are cancelled, and the process waits until they have unwound.
    Cancel,
}

/// What may be said of a process before it starts.
#[derive(Debug, Default)]
pub(crate) struct Options {
    pub(crate) instance: Option<Arc<Instance>>,
    pub(crate) on_seed_end: OnSeedEnd,
}

/// A started process. Dropped without [`wait`](Process::wait), it runs on. [`ProcessBuilder`](crate::ProcessBuilder) has examples.
#[must_use = "`wait` gives the process's result"]
pub struct Process<T> {
    inner: Arc<ProcessInner>,
    result: Arc<Mutex<Option<std::thread::Result<T>>>>,
}

impl<T> fmt::Debug for Process<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Process").field("id", &self.inner.id()).finish_non_exhaustive()
    }
}

impl<T> Process<T> {
    /// Its number in its runtime.
    pub fn id(&self) -> u64 {
        self.inner.id()
    }

    /// Whether its seed and all it created have ended.
    pub fn has_ended(&self) -> bool {
        self.inner.is_ended()
    }

    /// Cancels every VP of the process [design rule 13].
    ///
    /// # Errors
    ///
    /// In a `panic=abort` build.
    pub fn cancel(&self) -> Result<(), crate::CannotCancel> {
        cancel::check_possible()?;
        cancel::cancel_process(self.inner.shared(), &self.inner);
        Ok(())
    }

    /// Waits until the seed has returned and everything the process created has ended, and gives the seed's value.
    ///
    /// # Errors
    ///
    /// See [`ProcessError`].
    pub fn wait(self) -> Result<T, ProcessError> {
        self.stand();
        self.take()
    }

    /// As [`wait`](Process::wait), at most for `time`.
    ///
    /// # Errors
    ///
    /// Gives the process back if it has not ended by then.
    pub fn wait_timeout(self, time: Duration) -> Result<Result<T, ProcessError>, Process<T>> {
        // A time too far to be represented is no deadline.
        let deadline = Instant::now().checked_add(time);
        let ended = attach::standing_in_wait(|| self.inner.env.request_until(AwaitEnd, deadline));
        match ended {
            Err(Ended::Deadline) => Err(self),
            _ => Ok(self.take()),
        }
    }

    fn stand(&self) {
        // A binding wait ends by its answer.
        let _ = attach::standing_in_wait(|| self.inner.env.request(AwaitEnd));
    }

    fn take(self) -> Result<T, ProcessError> {
        let result = self.result.lock().unwrap_or_else(PoisonError::into_inner).take();
        let trouble = self.inner.trouble(std::mem::take);
        if let Some(report) = trouble.report {
            return Err(ProcessError::Deadlock(Box::new(report)));
        }
        match (result, trouble.panic) {
            (Some(Err(payload)), _) if !payload.is::<Cancelled>() => Err(ProcessError::Panic(payload)),
            (_, Some(payload)) => Err(ProcessError::Panic(payload)),
            (Some(Ok(value)), None) => match trouble.failure {
                None => Ok(value),
                Some(text) => Err(ProcessError::Failed(text)),
            },
            (Some(Err(_)), None) => Err(ProcessError::Cancelled),
            (None, None) => Err(trouble.failure.map_or(ProcessError::Cancelled, ProcessError::Failed)),
        }
    }
}

/// Starts a process.
///
/// # Safety
///
/// - What `f` and `T` borrow outlives the process: the caller waits for it, or they are 'static.
pub(crate) unsafe fn start<T, F>(shared: &Arc<Shared>, options: Options, f: F) -> Result<Process<T>, ProcessError>
where
    T: Send,
    F: FnOnce() -> T + Send,
{
    if options.on_seed_end == OnSeedEnd::Cancel {
        cancel::check_possible().map_err(|error| ProcessError::Failed(error.to_string()))?;
    }
    let inner = ProcessInner::new(shared, options);
    let result = Arc::new(Mutex::new(None));
    let place = Arc::clone(&result);
    let seat = Seat(Arc::clone(&inner));
    let body = move || {
        let seat = seat;
        let outcome = catch_unwind(AssertUnwindSafe(f));
        *place.lock().unwrap_or_else(PoisonError::into_inner) = Some(outcome);
        drop(place);
        drop(seat);
    };
    // SAFETY: the process lives until its VPs have ended: the registry holds it, and `Seat` does.
    let process: &'static ProcessInner = unsafe { &*Arc::as_ptr(&inner) };
    // SAFETY: duty of the caller.
    let seed = unsafe { crate::vp::seed(process, body) };
    match seed {
        Ok(_) => Ok(Process { inner, result }),
        Err(error) => {
            inner.give_up();
            // Nobody else will, and the registry and the process would keep each other for ever.
            inner.leave();
            Err(ProcessError::Spawn(error))
        }
    }
}

/// The seed's place in its process: dropped when the seed has returned, or never ran.
struct Seat(Arc<ProcessInner>);

impl Drop for Seat {
    fn drop(&mut self) {
        let process = &self.0;
        process.ends.close();
        if process.on_seed_end == OnSeedEnd::Cancel {
            cancel::cancel_process(&process.shared, process);
        }
    }
}
