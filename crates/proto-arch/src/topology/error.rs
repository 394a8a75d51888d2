//! Why a description of a machine was not understood.

use std::path::PathBuf;
use std::{error, fmt, io};

/// Why there is no [`Topology`](super::Topology).
///
/// # Examples
///
/// ```
/// use proto_arch::topology::{Topology, TopologyError};
///
/// /// For the user who wrote the description.
/// fn told(error: TopologyError) -> String {
///     match error {
///         TopologyError::Description { text, at, problem } => format!("{text}\n{:at$}^ {problem}", ""),
///         TopologyError::Xml { problem } => format!("not a file of hwloc's: {problem}"),
///         TopologyError::File { path, source } => format!("{}: {source}", path.display()),
///         TopologyError::Size { cores } => format!("{cores} cores cannot be"),
///         other => other.to_string(),
///     }
/// }
/// let told_of = |made: Result<Topology, TopologyError>| made.map_err(told).unwrap_err();
/// let text = told_of(Topology::parse("2 packages x many cores"));
/// assert_eq!(text, "2 packages x many cores\n             ^ expected a number");
/// assert!(told_of(Topology::from_hwloc_xml("<html/>")).starts_with("not a file"));
/// assert!(told_of(Topology::from_hwloc_xml_file("no such file")).starts_with("no such file: "));
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum TopologyError {
    /// A description such as `4 packages × 10 cores` was not understood.
    Description {
        /// The whole of it.
        text: String,
        /// Where: an offset in bytes.
        at: usize,
        /// What is wrong there.
        problem: String,
    },
    /// A text is no XML, or not the XML of hwloc.
    Xml {
        /// What is wrong.
        problem: String,
    },
    /// A file cannot be read.
    File {
        /// Its path.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// A machine without a core, or with an absurd number.
    Size {
        /// Its cores.
        cores: usize,
    },
}

impl fmt::Display for TopologyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Description { text, at, problem } => {
                write!(f, "machine description `{text}` not understood: {problem}, ")?;
                match text.get(*at..) {
                    Some(rest) if !rest.is_empty() => write!(f, "at `{rest}`"),
                    _ => f.write_str("at its end"),
                }
            }
            Self::Xml { problem } => write!(f, "not a topology in hwloc's XML: {problem}"),
            Self::File { path, source } => {
                write!(f, "cannot read the topology file {}: {source}", path.display())
            }
            Self::Size { cores } => {
                write!(f, "a machine with {cores} cores: between 1 and {} are possible", super::draft::MAX_CORES)
            }
        }
    }
}

impl error::Error for TopologyError {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match self {
            Self::File { source, .. } => Some(source),
            _ => None,
        }
    }
}
