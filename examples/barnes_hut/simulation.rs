//! Bodies that move by the pull of all others: leapfrog, with a new tree for each step.

use glam::DVec3;

use crate::bodies::Body;
use crate::rivals::{Laps, With};
use crate::tree::Tree;

/// How exact the simulation is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Accuracy {
    /// Cells whose size is less than this share of their distance pull like one body.
    pub(crate) theta: f64,
    /// Bodies nearer than this hardly pull more than at this distance.
    pub(crate) softening: f64,
    /// Time of a step.
    pub(crate) step: f64,
}

/// Sorts the bodies, and sets what each of them feels.
pub(crate) fn forces(with: With, bodies: &mut [Body], accuracy: Accuracy, laps: &mut Laps) -> Tree {
    Tree::sort(with, bodies);
    laps.end("sort");
    let tree = Tree::build(with, bodies);
    laps.end("tree");
    with.for_each(bodies, |body| {
        let pull = tree.pull(body.position, accuracy.theta, accuracy.softening);
        body.acceleration = pull.acceleration;
        body.potential = pull.potential;
    });
    laps.end("forces");
    tree
}

/// Moves bodies that know what they feel by one step; they know it again after it.
pub(crate) fn step(with: With, bodies: &mut [Body], accuracy: Accuracy) {
    let step = accuracy.step;
    with.for_each(bodies, |body| {
        body.velocity += body.acceleration * (step / 2.0);
        body.position += body.velocity * step;
    });
    forces(with, bodies, accuracy, &mut Laps::new());
    with.for_each(bodies, |body| body.velocity += body.acceleration * (step / 2.0));
}

/// The energy of bodies that know what they feel.
pub(crate) fn energy(bodies: &[Body]) -> f64 {
    // Half the potential: each pair of bodies counts for both.
    bodies.iter().map(|body| body.mass * (body.velocity.length_squared() + body.potential) / 2.0).sum()
}

/// The centre of mass.
pub(crate) fn centre(bodies: &[Body]) -> DVec3 {
    let mass: f64 = bodies.iter().map(|body| body.mass).sum();
    bodies.iter().map(|body| body.position * body.mass).sum::<DVec3>() / mass
}

/// The distance from `centre` within which that share of the bodies is.
///
/// # Panics
/// If there are no bodies.
pub(crate) fn reach(bodies: &[Body], centre: DVec3, share: f64) -> f64 {
    let mut distances: Vec<f64> = bodies.iter().map(|body| body.position.distance(centre)).collect();
    let last = ((distances.len() - 1) as f64 * share).ceil() as usize;
    *distances.select_nth_unstable_by(last, f64::total_cmp).1
}
