//! The two sides that the tour compares, and what both of them take and give.
//!
//! `index.rs` and `lock.rs` are compiled once below `on_threads.rs`, with the standard library's `thread` and `sync`, and
//! once below `on_vps.rs`, with the mutex language's, which have the same shapes on virtual processors (VPs).

use std::fmt;
use std::time::{Duration, Instant};

use proto_core::Runtime;

use crate::survey::{Problem, Survey};
use crate::words::Ranking;
use crate::{on_threads, on_vps, rivals};

/// The stack of a timeline in bytes, the same on both sides.
pub(crate) const STACK: usize = 64 << 10;

/// What the timelines are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Side {
    /// Threads of the operating system.
    Threads,
    /// Virtual processors.
    Vps,
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Threads => "std::thread",
            Self::Vps => "VPs",
        })
    }
}

/// A finished index.
#[derive(Debug)]
pub(crate) struct Indexed {
    /// Number of timelines that took part.
    pub(crate) born: usize,
    /// Why they are fewer than wanted.
    pub(crate) refused: Option<String>,
    pub(crate) ranking: Ranking,
    /// Files that could not be read after all.
    pub(crate) problems: Vec<Problem>,
}

/// What `lock.rs` is to do.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Load {
    pub(crate) timelines: usize,
    /// How often each takes the lock.
    pub(crate) rounds: u64,
    /// Private work before each lock, in the steps of `work.rs`.
    pub(crate) steps: u64,
    /// Whether there is a lock at all.
    pub(crate) locked: bool,
}

impl Side {
    /// Builds the index and says how long that took: with the runtime's start and end, where there is one.
    pub(crate) fn index(
        self,
        survey: Survey,
        timelines: usize,
        progress: fn(u64),
    ) -> Result<(Indexed, Duration), String> {
        let begin = Instant::now();
        let indexed = match self {
            Self::Threads => on_threads::index::build(survey, timelines, progress),
            Self::Vps => {
                let runtime = rivals::runtime(None)?;
                on(&runtime, move || on_vps::index::build(survey, timelines, progress))
            }
        }?;
        Ok((indexed, begin.elapsed()))
    }
}

/// The lock-overhead program on threads.
pub(crate) fn lock_on_threads(load: Load) -> Result<Duration, String> {
    on_threads::lock::time(load)
}

/// The lock-overhead program on the VPs of `runtime`.
pub(crate) fn lock_on_vps(runtime: &Runtime, load: Load) -> Result<Duration, String> {
    on(runtime, move || on_vps::lock::time(load))
}

/// Runs `program` as a process of `runtime` and waits for its end.
fn on<T: Send + 'static>(
    runtime: &Runtime,
    program: impl FnOnce() -> Result<T, String> + Send + 'static,
) -> Result<T, String> {
    runtime.run(program).map_err(|error| error.to_string())?
}
