//! The runtime that a library finds itself in [design rule 16].
//!
//! A [`Runtime`](super::Runtime) is a handle whose last clone shuts the runtime down. Were what a library finds such a handle, a library that keeps
//! it would keep the runtime: the drop of its owner's handle would do nothing. So it is a reference: it keeps the memory, not the controllers, and
//! what is started by it after the end is refused.
//!
//! **The dangerous race** is a start, by an OS thread that holds a reference, while the owner's handle is dropped. The process is registered before
//! the start looks whether the runtime stops, and the controllers look at the registry after they have seen that it does: either the start is
//! refused, or they wait for the process.

use std::fmt;
use std::num::NonZero;
use std::sync::Arc;

use proto_arch::topology::{CoreId, Topology};

use super::handle::Runtime;
use super::shared::Shared;
use crate::ctx::{self, Ctx};
use crate::process::{self, Options, Process, ProcessBuilder, ProcessError};

/// A runtime, as [`Runtime::current`] finds it. Does not keep it: when its owner shuts it down or drops the last [`Runtime`], it ends, and starting
/// something by a reference that is left is an error.
///
/// # Examples
///
/// A library that leaves a process behind which outlives the call, wherever it was called:
///
/// ```
/// use proto_core::{Process, ProcessError, Runtime};
///
/// fn index_later(words: Vec<String>) -> Result<Process<usize>, Box<dyn std::error::Error>> {
///     let process = match Runtime::current() {
///         Some(here) => here.start(move || words.len())?,
///         None => Runtime::global()?.start(move || words.len())?,
///     };
///     Ok(process)
/// }
///
/// let runtime = Runtime::builder().name("host").controllers(2).build()?;
/// let process = runtime.run(|| {
///     let here = Runtime::current().expect("this is a VP");
///     assert_eq!((here.name(), here.controllers()), ("host", 2));
///     println!("{:?} of\n{}", here.cores(), here.topology());
///     index_later(vec!["one".into()]).map_err(|error| error.to_string())
/// })??;
/// assert_eq!(process.wait()?, 1);
/// assert!(Runtime::current().is_none());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct RuntimeRef(Arc<Shared>);

impl fmt::Debug for RuntimeRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RuntimeRef")
            .field("name", &self.name())
            .field("controllers", &self.controllers())
            .finish_non_exhaustive()
    }
}

impl Runtime {
    /// The runtime that the calling VP runs in. `None` on an OS thread, those of [`blocking`](crate::blocking) included.
    ///
    /// To use the runtime it finds itself in a library needs no handle: what it creates is there. This is for what is to be known of the runtime,
    /// and for processes of the library's own.
    #[must_use]
    pub fn current() -> Option<RuntimeRef> {
        let block = ctx::installed().and_then(Ctx::current).filter(|block| !block.is_thread())?;
        Some(RuntimeRef(Arc::clone(block.process()?.shared_handle())))
    }
}

impl RuntimeRef {
    /// As [`Runtime::name`].
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// As [`Runtime::controllers`].
    pub fn controllers(&self) -> usize {
        self.0.cores.len()
    }

    /// As [`Runtime::cores`].
    pub fn cores(&self) -> Vec<CoreId> {
        self.0.places.to_vec()
    }

    /// As [`Runtime::topology`].
    pub fn topology(&self) -> &Topology {
        &self.0.topology
    }

    /// As [`Runtime::start`].
    ///
    /// # Errors
    ///
    /// If the seed cannot be created; [`SpawnError::Stopping`](crate::SpawnError::Stopping) if the runtime has been shut down.
    pub fn start<T, F>(&self, f: F) -> Result<Process<T>, ProcessError>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        // SAFETY: everything is 'static.
        unsafe { process::start(&self.0, Options::default(), f) }
    }

    /// As [`Runtime::process`].
    pub fn process(&self) -> ProcessBuilder<'_> {
        ProcessBuilder::new(&self.0)
    }

    /// As [`Runtime::run`].
    ///
    /// # Errors
    ///
    /// See [`ProcessError`], and [`start`](RuntimeRef::start).
    pub fn run<T, F>(&self, f: F) -> Result<T, ProcessError>
    where
        T: Send,
        F: FnOnce() -> T + Send,
    {
        self.process().run(f)
    }
}

/// How many timelines can compute at a time here: on a VP the number of its runtime's controllers, elsewhere the number of processors that the
/// program may use, its quota of processor time included (which is how many controllers a runtime has unless said otherwise).
///
/// The answer of [`std::thread::available_parallelism`] is the calling OS thread's, and 1 on a controller that is pinned.
///
/// # Examples
///
/// ```
/// let runtime = proto_core::Runtime::builder().controllers(3).build()?;
/// assert_eq!(runtime.run(|| proto_core::available_parallelism().get())?, 3);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use]
pub fn available_parallelism() -> NonZero<usize> {
    let count = match ctx::installed().and_then(Ctx::core) {
        Some(core) => core.shared().cores.len(),
        None => proto_arch::pin::usable_parallelism(),
    };
    NonZero::new(count).unwrap_or(NonZero::<usize>::MIN)
}
