//! What may be said of a process before it starts.

use std::fmt;
use std::sync::Arc;

use crate::assign::Assigner;
use crate::assign::instance::Instance;
use crate::process::{self, OnSeedEnd, Options, Process, ProcessError};
use crate::runtime::shared::Shared;

/// A process that is to be started: made by [`Runtime::process`](crate::Runtime::process).
///
/// # Examples
///
/// A server whose connections end with it:
///
/// ```
/// use proto_core::{OnSeedEnd, Runtime, VpBuilder, sleep_until, yield_now};
/// use std::time::{Duration, Instant};
///
/// let runtime = Runtime::builder().controllers(1).build()?;
/// let served = runtime.process().on_seed_end(OnSeedEnd::Cancel).run(|| {
///     for _ in 0..3 {
///         let connection = || while sleep_until(Some(Instant::now() + Duration::from_secs(1))).is_ok() {};
///         VpBuilder::new().spawn(connection).expect("room for three");
///     }
///     yield_now();
///     3
/// })?;
/// assert_eq!(served, 3);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// One with an assigner of its own:
///
/// ```
/// use proto_core::{Lifo, OnSeedEnd, Runtime};
///
/// let runtime = Runtime::builder().controllers(1).build()?;
/// let wait = OnSeedEnd::Wait; // as it does anyway
/// let process = runtime.process().assigner(Lifo).on_seed_end(wait).start(|| 6 * 7)?;
/// assert_eq!(process.wait()?, 42);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// One that is waited for, and cancelled:
///
/// ```
/// use proto_core::{OrUnwind, Process, ProcessError, Runtime};
/// use std::time::Duration;
///
/// let runtime = Runtime::builder().controllers(1).build()?;
/// let (event, waker) = proto_core::external::<u32>();
/// let waits: Process<_> = runtime.process().start(move || event.wait(None).or_unwind())?;
/// assert_eq!((waits.id(), waits.has_ended()), (1, false));
/// let waits = waits.wait_timeout(Duration::from_millis(1)).expect_err("nobody wakes it");
/// waits.cancel()?;
/// assert!(matches!(waits.wait(), Err(ProcessError::Cancelled)));
/// drop(waker); // kept until here: without it nobody could have ended the wait, which is a deadlock
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "a builder does nothing until `start` or `run`"]
pub struct ProcessBuilder<'a> {
    shared: &'a Arc<Shared>,
    options: Options,
}

impl fmt::Debug for ProcessBuilder<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProcessBuilder").field("options", &self.options).finish_non_exhaustive()
    }
}

impl<'a> ProcessBuilder<'a> {
    pub(crate) fn new(shared: &'a Arc<Shared>) -> Self {
        ProcessBuilder { shared, options: Options::default() }
    }

    /// Its VPs belong to an assigner of the process's own, except those of languages that bring one ([`Scheduled`](crate::Scheduled)).
    pub fn assigner(mut self, assigner: impl Assigner) -> Self {
        self.options.instance = Some(Arc::new(Instance::new(assigner, self.shared.cores.len())));
        self
    }

    /// What becomes of its VPs when its seed has returned, or panicked. [`Cancel`](OnSeedEnd::Cancel) is refused in a `panic=abort` build.
    pub fn on_seed_end(mut self, what: OnSeedEnd) -> Self {
        self.options.on_seed_end = what;
        self
    }

    /// As [`Runtime::start`](crate::Runtime::start).
    ///
    /// # Errors
    ///
    /// If the seed cannot be created.
    pub fn start<T, F>(self, f: F) -> Result<Process<T>, ProcessError>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        // SAFETY: everything is 'static.
        unsafe { process::start(self.shared, self.options, f) }
    }

    /// As [`Runtime::run`](crate::Runtime::run).
    ///
    /// # Errors
    ///
    /// See [`ProcessError`].
    pub fn run<T, F>(self, f: F) -> Result<T, ProcessError>
    where
        T: Send,
        F: FnOnce() -> T + Send,
    {
        // SAFETY: `wait` is called before this returns, and returns when everything the process created has ended, or never runs
        // again (verdict).
        unsafe { process::start(self.shared, self.options, f) }?.wait()
    }
}
