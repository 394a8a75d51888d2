//! Bodies, and where they come from if no file is given: two spheres of stars that collide.

use std::f64::consts::TAU;

use fastrand::Rng;
use glam::DVec3;

/// A body. The constant of gravity is 1: units of length, time and mass are whatever makes it so.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Body {
    /// Where it is along the curve of the tree; set by [`Tree::sort`](crate::tree::Tree::sort).
    pub(crate) key: u64,
    /// Its place in the input.
    pub(crate) number: u32,
    pub(crate) mass: f64,
    pub(crate) position: DVec3,
    pub(crate) velocity: DVec3,
    pub(crate) acceleration: DVec3,
    pub(crate) potential: f64,
}

impl Body {
    /// A body that feels nothing yet.
    pub(crate) fn new(number: u32, mass: f64, position: DVec3, velocity: DVec3) -> Self {
        Self { key: 0, number, mass, position, velocity, acceleration: DVec3::ZERO, potential: 0.0 }
    }
}

/// Two Plummer spheres, the smaller of half the mass, on a parabola that leads them past each other.
pub(crate) fn colliding(count: u32, seed: u64) -> Vec<Body> {
    let mut rng = Rng::with_seed(seed);
    let first = count - count / 3;
    let (masses, sizes) = ([2.0 / 3.0, 1.0 / 3.0], [0.35, 0.25]);
    let apart = DVec3::new(3.0, 1.0, 0.2);
    // What they would have if they had been at rest far away: together their mass is 1.
    let fall = DVec3::X * -(2.0 / apart.length()).sqrt();
    let spheres = [first, count - first].map(|stars| plummer(stars, &mut rng));
    let mut bodies = Vec::with_capacity(count as usize);
    for (which, sphere) in spheres.into_iter().enumerate() {
        // From the common centre of mass, which stays where it is.
        let share = if which == 0 { -masses[1] } else { masses[0] };
        let mass = masses[which] / sphere.len().max(1) as f64;
        for (position, velocity) in sphere {
            let position = position * sizes[which] + apart * share;
            let velocity = velocity * (masses[which] / sizes[which]).sqrt() + fall * share;
            bodies.push(Body::new(bodies.len() as u32, mass, position, velocity));
        }
    }
    bodies
}

/// Positions and velocities in a sphere of mass and size 1 that neither grows nor shrinks, after Aarseth, Hénon and Wielen (1974).
fn plummer(count: u32, rng: &mut Rng) -> Vec<(DVec3, DVec3)> {
    let mut stars = Vec::with_capacity(count as usize);
    while stars.len() < count as usize {
        let radius = (rng.f64().powf(-2.0 / 3.0) - 1.0).sqrt().recip();
        // One star in seventy is farther out, up to any distance: left away, as usual.
        if radius >= 10.0 {
            continue;
        }
        // The share of the speed of escape.
        let share = loop {
            let (share, chance) = (rng.f64(), rng.f64() * 0.1);
            if chance < share * share * (1.0 - share * share).powf(3.5) {
                break share;
            }
        };
        let escape = 2.0_f64.sqrt() * (1.0 + radius * radius).powf(-0.25);
        stars.push((direction(rng) * radius, direction(rng) * share * escape));
    }
    stars
}

/// Any direction, all alike.
fn direction(rng: &mut Rng) -> DVec3 {
    let z = 2.0 * rng.f64() - 1.0;
    let (sin, cos) = (TAU * rng.f64()).sin_cos();
    let across = (1.0 - z * z).sqrt();
    DVec3::new(across * cos, across * sin, z)
}
