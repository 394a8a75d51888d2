//! How far the pull of the tree is from that of all bodies one by one.

use std::fmt;

use crate::bodies::Body;
use crate::rivals::With;
use crate::rivals::show::median;
use crate::simulation::Accuracy;
use crate::tree::{Tree, exact};

/// What a sum is off by because it is rounded, relative to the sum of the magnitudes: the pulls may cancel each other.
const ROUNDING: f64 = 1e-12;

/// The errors of the accelerations of a sample of bodies.
#[derive(Debug)]
pub(crate) struct Errors {
    /// Of each, relative to the exact acceleration.
    relative: Vec<f64>,
    /// The greatest part of what is possible with these cells that was reached.
    pub(crate) of_known: f64,
    /// The same of what follows from theta alone.
    pub(crate) of_theta: f64,
}

impl Errors {
    /// Of every `every`-th body, which all know what they feel by `tree`.
    pub(crate) fn of(with: With, bodies: &[Body], tree: &Tree, accuracy: Accuracy, every: usize) -> Self {
        let sample: Vec<&Body> = bodies.iter().step_by(every).collect();
        let errors = with.map(&sample, |body| {
            let exact = exact(tree.masses(), body.position, accuracy.softening);
            let (known, by_theta) = tree.bound(body.position, accuracy.theta);
            let length = exact.acceleration.length();
            let error = (body.acceleration - exact.acceleration).length();
            let squares = tree.masses().iter().map(|mass| (mass.position.distance_squared(body.position), mass.mass));
            let magnitudes: f64 = squares.filter(|pair| pair.0 > 0.0).map(|(square, mass)| mass / square).sum();
            let beyond_rounding = (error - ROUNDING * magnitudes).max(0.0);
            let share = |bound: f64| if beyond_rounding > 0.0 { beyond_rounding / bound } else { 0.0 };
            (if beyond_rounding > 0.0 { error / length } else { 0.0 }, share(known), share(by_theta))
        });
        let greatest = |of: fn(&(f64, f64, f64)) -> f64| errors.iter().map(of).fold(0.0, f64::max);
        Self {
            of_known: greatest(|error| error.1),
            of_theta: greatest(|error| error.2),
            relative: errors.iter().map(|error| error.0).collect(),
        }
    }

    /// Whether they are what they may be.
    pub(crate) fn are_bounded(&self) -> bool {
        self.of_known <= 1.0 && self.of_theta <= 1.0
    }
}

impl fmt::Display for Errors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = |part: f64| format!("{:.2} %", part * 100.0);
        let worst = self.relative.iter().copied().fold(0.0, f64::max);
        let bodies = self.relative.len();
        write!(
            f,
            "accelerations of {bodies} bodies against the sum over all: off by {} (median), ",
            percent(median(&self.relative))
        )?;
        write!(
            f,
            "{} (worst);\n   the worst reaches {} of what its cells permit, ",
            percent(worst),
            percent(self.of_known)
        )?;
        write!(f, "{} of the bound by theta alone", percent(self.of_theta))
    }
}
