//! Why a process gave no value.

use std::any::Any;
use std::fmt;

use crate::ended::payload_text;
use crate::report::Report;
use crate::vp::SpawnError;

/// Why a process gave no value.
///
/// # Examples
///
/// ```
/// use proto_core::{ProcessError, RawLock, Runtime};
///
/// fn code(outcome: Result<(), ProcessError>) -> u8 {
///     match outcome {
///         Ok(()) => 0,
///         Err(ProcessError::Panic(_payload)) => 101,
///         Err(ProcessError::Deadlock(report)) => {
///             eprintln!("{report}");
///             1
///         }
///         Err(ProcessError::Cancelled) => 2,
///         Err(ProcessError::Spawn(why)) => {
///             eprintln!("there was not even a seed: {why}");
///             3
///         }
///         Err(ProcessError::Failed(why)) => {
///             eprintln!("a part of it never ran: {why}");
///             4
///         }
///         Err(other) => panic!("{other}"),
///     }
/// }
/// let runtime = Runtime::builder().controllers(1).build()?;
/// assert_eq!(code(runtime.run(|| ())), 0);
/// assert_eq!(code(runtime.run(|| panic!("on purpose"))), 101);
/// let twice = || {
///     let lock = RawLock::new();
///     let (_once, _again) = (lock.lock(), lock.lock());
/// };
/// assert_eq!(code(runtime.run(twice)), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[non_exhaustive]
pub enum ProcessError {
    /// Its seed, or a VP that nobody joined, panicked with this payload (the seed's comes first).
    Panic(Box<dyn Any + Send>),
    /// It was cancelled.
    Cancelled,
    /// It could go on no more; what waited for what is in the report.
    Deadlock(Box<Report>),
    /// A VP of it did not get a stack.
    Failed(String),
    /// Its seed could not be created.
    Spawn(SpawnError),
}

impl fmt::Debug for ProcessError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ProcessError::Panic(payload) => f.debug_tuple("Panic").field(&payload_text(&**payload)).finish(),
            ProcessError::Cancelled => f.write_str("Cancelled"),
            ProcessError::Deadlock(report) => write!(f, "Deadlock(\n{report})"),
            ProcessError::Failed(text) => f.debug_tuple("Failed").field(text).finish(),
            ProcessError::Spawn(error) => f.debug_tuple("Spawn").field(error).finish(),
        }
    }
}

impl fmt::Display for ProcessError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ProcessError::Panic(payload) => write!(f, "the process panicked: {}", payload_text(&**payload)),
            ProcessError::Cancelled => f.write_str("the process was cancelled"),
            ProcessError::Deadlock(report) => write!(f, "the process could go on no more:\n{report}"),
            ProcessError::Failed(text) => f.write_str(text),
            ProcessError::Spawn(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ProcessError {}
