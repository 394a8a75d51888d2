//! How much to measure.

use std::time::Duration;

use crate::calibrate::WorkPoint;

/// How large the samples are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scale {
    /// Only to see that everything runs: figures mean nothing.
    Tiny,
    /// All workloads within 90 seconds: figures for a first look.
    Quick,
    /// Figures to quote.
    Full,
}

/// What one run measures; the same for all workloads.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) scale: Scale,
    /// Samples of every case.
    pub(crate) rounds: usize,
    /// Only cases with this many workers, when given.
    pub(crate) workers: Option<usize>,
    /// How long, for all samples of a workload together, disturbed samples may be repeated.
    pub(crate) calm: Duration,
    /// The private work of the mutex curve; empty when that is not measured.
    pub(crate) points: Vec<WorkPoint>,
}

impl Plan {
    /// Chooses the value for this run's scale.
    pub(crate) fn pick<T>(&self, tiny: T, quick: T, full: T) -> T {
        match self.scale {
            Scale::Tiny => tiny,
            Scale::Quick => quick,
            Scale::Full => full,
        }
    }

    /// How long one sample may take before it counts as hung.
    pub(crate) fn patience(&self) -> Duration {
        self.pick(Duration::from_secs(20), Duration::from_secs(20), Duration::from_secs(120))
    }
}
