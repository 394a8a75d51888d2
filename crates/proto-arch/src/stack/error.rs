//! Why there is no stack, and what to do about it.

use std::{error, fmt, io};

/// Why a [`StackArena`](super::StackArena) could not be made, or has no further stack.
///
/// # Examples
///
/// ```
/// use proto_arch::stack::{Stack, StackArena, StackError, StackOptions};
///
/// /// A stack, or a hint for whoever runs the program.
/// fn take(arena: &StackArena) -> Result<Stack, String> {
///     arena.take().map_err(|error| match error {
///         StackError::GuardBudget { budget, max_map_count } => {
///             format!("{budget} at a time; raise vm.max_map_count ({max_map_count}), or use Linux 6.13")
///         }
///         StackError::Map { bytes, stacks, source } => format!("{stacks} are there; {bytes} bytes more: {source}"),
///         StackError::Guard { source } => source.to_string(),
///         other => other.to_string(),
///     })
/// }
/// let error = StackArena::new(StackOptions::with_size(1000)).unwrap_err();
/// assert!(matches!(error, StackError::BadSize { size: 1000 }));
/// assert!(take(&StackArena::new(StackOptions::default())?).is_ok());
/// # Ok::<(), StackError>(())
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum StackError {
    /// The size asked for is below [`MIN_SIZE`](super::MIN_SIZE), or size and guard exceed the address space.
    BadSize {
        /// What was asked for, in bytes.
        size: usize,
    },
    /// The kernel refuses to map a region.
    Map {
        /// Bytes that were to be mapped.
        bytes: usize,
        /// Stacks that the arena has mapped already.
        stacks: usize,
        /// What the kernel said.
        source: io::Error,
    },
    /// The kernel cannot mark guards, and no more pages may be protected without coming close to the limit of
    /// mappings (`vm.max_map_count`).
    GuardBudget {
        /// Stacks that may have a protected page at a time, in the whole process.
        budget: usize,
        /// The limit of mappings, `vm.max_map_count`.
        max_map_count: usize,
    },
    /// The kernel refuses to guard a stack.
    Guard {
        /// What the kernel said.
        source: io::Error,
    },
}

impl fmt::Display for StackError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BadSize { size } => write!(
                f,
                "a stack of {size} bytes is not possible: the smallest is {} bytes, and a stack and its guard must fit \
                 into the address space",
                super::MIN_SIZE
            ),
            Self::Map { bytes, stacks, source } => write!(
                f,
                "cannot map {bytes} bytes for stacks beyond the {stacks} there are: {source}; use smaller stacks, or raise \
                 the limit concerned (`ulimit -v`, vm.overcommit_memory, vm.max_map_count)"
            ),
            Self::GuardBudget { budget, max_map_count } => write!(
                f,
                "{budget} stacks are as many as can be guarded here: each needs two mappings and vm.max_map_count is \
                 {max_map_count}; raise it (`sysctl vm.max_map_count=…`), or run on Linux 6.13 or later, which guards \
                 stacks without mappings"
            ),
            Self::Guard { source } => write!(f, "cannot guard a stack: {source}"),
        }
    }
}

impl error::Error for StackError {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match self {
            Self::Map { source, .. } | Self::Guard { source } => Some(source),
            Self::BadSize { .. } | Self::GuardBudget { .. } => None,
        }
    }
}
