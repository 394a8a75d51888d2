//! Why a VP could not be created.

use std::fmt;
use std::sync::Arc;

use proto_arch::topology::CoreId;

/// Why a VP was not created.
///
/// # Examples
///
/// ```
/// use proto_core::{CoreId, Runtime, SpawnError, VpBuilder};
///
/// let runtime = Runtime::builder().controllers(1).build()?;
/// let hint = runtime.run(|| match VpBuilder::new().home(CoreId::new(70_000)).spawn(|| ()) {
///     Err(SpawnError::NoSuchCore(_)) => "Runtime::cores says which there are".into(),
///     Err(SpawnError::NoStack { why, .. }) => why,
///     Err(SpawnError::StackSize(_) | SpawnError::Stopping | SpawnError::NoRuntime(_)) => "no hint".into(),
///     other => format!("{other:?}").into(),
/// })?;
/// assert_eq!(&*hint, "Runtime::cores says which there are");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SpawnError {
    /// A stack larger than the runtime makes (2 GiB) was asked for.
    StackSize(usize),
    /// The runtime is shutting down.
    Stopping,
    /// The asked-for home is no core of the runtime.
    NoSuchCore(CoreId),
    /// There is no runtime, and the default one could not be made.
    NoRuntime(String),
    /// All the stacks are in use that the system lets there be.
    NoStack {
        /// The bytes of the stack that could not be had.
        bytes: usize,
        /// Which limit was met, and how to raise it.
        why: Arc<str>,
    },
}

impl fmt::Display for SpawnError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SpawnError::StackSize(size) => write!(f, "a stack of {size} bytes was asked for; the largest is 2 GiB"),
            SpawnError::Stopping => f.write_str("the runtime is shutting down"),
            SpawnError::NoSuchCore(core) => {
                write!(f, "the home that was asked for, core {}, is none of the runtime's", core.index())
            }
            SpawnError::NoRuntime(why) => write!(f, "the default runtime could not be made: {why}"),
            SpawnError::NoStack { bytes, why } => write!(f, "a stack of {bytes} bytes is not to be had: {why}"),
        }
    }
}

impl std::error::Error for SpawnError {}

impl From<SpawnError> for std::io::Error {
    fn from(error: SpawnError) -> Self {
        std::io::Error::other(error)
    }
}
