//! How much to measure.

use std::time::Duration;

use crate::calibrate::WorkPoint;
use crate::peers::native::Programs;
use crate::record::Case;

/// How large the samples are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scale {
    /// Only to see that everything runs: figures mean nothing.
    Tiny,
    /// All workloads within some minutes: figures for a first look.
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
    /// The private work of all lengths that the chosen workloads asked for.
    pub(crate) points: Vec<WorkPoint>,
    /// The rivals they asked for that had to be compiled.
    pub(crate) programs: Programs,
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

    /// The private work of these lengths.
    pub(crate) fn points(&self, lengths: &[u64]) -> Vec<WorkPoint> {
        let of = |length| self.points.iter().copied().find(|point| point.cycles == length);
        lengths.iter().filter_map(|&length| of(length)).collect()
    }

    /// `case` with its program, if it needs one; `None` if there is none.
    pub(crate) fn with_program(&self, case: Case) -> Option<Case> {
        match self.programs.get(case.peer.as_str()) {
            Some(Ok(program)) => Some(Case { program: Some(program.clone()), ..case }),
            Some(Err(_)) => None,
            None => Some(case),
        }
    }

    /// How long one sample may take before it counts as hung.
    pub(crate) fn patience(&self) -> Duration {
        self.pick(Duration::from_secs(20), Duration::from_secs(20), Duration::from_secs(120))
    }
}
