//! The tree of Barnes and Hut: far away bodies pull like one body in their centre of mass.
//!
//! Bodies are sorted along a curve through space (Morton's: the bits of the coordinates in turn), so that every cell of the tree is a range of
//! them. A cell is cut in two where its bodies first differ in a bit of their keys: three such cuts make one level of the octree of the textbooks.
//! Where bodies crowd, the tree is deep; the two halves of a cell have nothing in common, so each cut is a `join`, without any threshold.
//! (Of 10 000 bodies, 1 896 cuts, that makes 2.06 million instructions as plain calls, counted with callgrind: some 1 100 a cut, with the leaves. A fork is
//! a small part of that.)
//!
//! # How far off it may be
//!
//! Let a cell of mass M have all its bodies within b of its centre of mass, which is d away from where the pull is wanted, and b ≤ θ d. Seen from there,
//! a body at s from the centre pulls as if it were in the centre, plus a term linear in s, plus the rest of Taylor's series. The linear
//! terms of all bodies add up to nothing (it is the centre of mass). The n-th derivative of the potential along any direction is at most n! / rⁿ⁺¹
//! at a distance r (its series has Legendre polynomials for coefficients, which are at most 1; softening only adds to r), so the rest is at most
//!
//! ```text
//!   (3x² − 2x³) / ((1 − x)² d²)   with x = |s| / d,   for all bodies:   error ≤ 3 B / ((1 − b/d)² d⁴) ≤ 3 θ² / (1 − θ)² · M / d²
//! ```
//!
//! with B the sum of m |s|². [`Tree::bound`] adds this up. (Salmon and Warren, Skeletons from the Treecode Closet, 1994.)

use std::ops::Range;

use glam::DVec3;

use crate::bodies::Body;
use crate::rivals::With;

/// Cells of at most so many bodies are not cut. (The pull on a body takes 3.5 µs with 4, 3.3 with 8, 3.2 with 16 and 3.9 with 32, of 10 000.)
const LEAF: usize = 8;

/// Bits of a key for each coordinate.
const BITS: u32 = 21;

/// What pulls.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Mass {
    pub(crate) position: DVec3,
    pub(crate) mass: f64,
}

/// What a body feels.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Pull {
    pub(crate) acceleration: DVec3,
    pub(crate) potential: f64,
}

impl Pull {
    /// Adds the pull of `mass` on a body that is `away` from it. No body pulls itself, nor another one in the very same place.
    #[inline]
    fn add(&mut self, away: DVec3, mass: f64, softening: f64) {
        let distance2 = away.length_squared();
        if distance2 > 0.0 {
            let inverse = (distance2 + softening * softening).sqrt().recip();
            self.acceleration += away * (mass * inverse * inverse * inverse);
            self.potential -= mass * inverse;
        }
    }
}

/// The pull of all the masses on a body at `at`, one by one.
pub(crate) fn exact(masses: &[Mass], at: DVec3, softening: f64) -> Pull {
    let mut pull = Pull::default();
    for mass in masses {
        pull.add(mass.position - at, mass.mass, softening);
    }
    pull
}

/// The bodies of a moment, in cells.
#[derive(Debug)]
pub(crate) struct Tree {
    masses: Vec<Mass>,
    root: Option<Cell>,
}

#[derive(Debug)]
struct Cell {
    centre: DVec3,
    mass: f64,
    /// No body is farther from the centre than this …
    radius: f64,
    /// … and this is the sum of their masses times their squared distances from it.
    spread: f64,
    bodies: Range<usize>,
    halves: Option<Box<[Cell; 2]>>,
}

impl Tree {
    /// Sorts the bodies by where they are.
    pub(crate) fn sort(with: With, bodies: &mut [Body]) {
        let (low, high) = bodies.iter().fold((DVec3::INFINITY, DVec3::NEG_INFINITY), |(low, high), body| {
            (low.min(body.position), high.max(body.position))
        });
        // A little less than all steps, so that the highest coordinate is not one too high.
        let scale = f64::from((1 << BITS) - 1) / (high - low).max_element().max(f64::MIN_POSITIVE);
        with.for_each(bodies, |body| body.key = key((body.position - low) * scale));
        // By number within a key: the order, and with it each sum, is the same however the sort went.
        with.sort_unstable_by(bodies, |a, b| (a.key, a.number).cmp(&(b.key, b.number)));
    }

    /// The tree of bodies that are sorted.
    pub(crate) fn build(with: With, bodies: &[Body]) -> Self {
        let masses: Vec<_> = bodies.iter().map(|body| Mass { position: body.position, mass: body.mass }).collect();
        let root = (!bodies.is_empty()).then(|| Cell::build(with, bodies, &masses, 0));
        Self { masses, root }
    }

    pub(crate) fn masses(&self) -> &[Mass] {
        &self.masses
    }

    /// The pull of all bodies on one at `at`: of cells as a whole that are smaller than `theta` times their distance.
    pub(crate) fn pull(&self, at: DVec3, theta: f64, softening: f64) -> Pull {
        let mut pull = Pull::default();
        self.walk(at, theta, &mut |seen| match seen {
            Seen::Far(cell) => pull.add(cell.centre - at, cell.mass, softening),
            Seen::Near(masses) => {
                masses.iter().for_each(|mass| pull.add(mass.position - at, mass.mass, softening));
            }
        });
        pull
    }

    /// How far the acceleration of [`pull`](Tree::pull) can be from that of [`exact`], and what alone follows from `theta`. See the head of the file.
    pub(crate) fn bound(&self, at: DVec3, theta: f64) -> (f64, f64) {
        let (mut known, mut mass_over_square) = (0.0, 0.0);
        self.walk(at, theta, &mut |seen| {
            if let Seen::Far(cell) = seen {
                let square = cell.centre.distance_squared(at);
                let inner = 1.0 - cell.radius / square.sqrt();
                known += 3.0 * cell.spread / (inner * inner * square * square);
                mass_over_square += cell.mass / square;
            }
        });
        (known, 3.0 * theta * theta / ((1.0 - theta) * (1.0 - theta)) * mass_over_square)
    }

    fn walk<'t>(&'t self, at: DVec3, theta: f64, see: &mut impl FnMut(Seen<'t>)) {
        if let Some(root) = &self.root {
            root.walk(&self.masses, at, theta * theta, see);
        }
    }
}

/// What is looked at from a place.
enum Seen<'t> {
    Far(&'t Cell),
    Near(&'t [Mass]),
}

impl Cell {
    /// The cell of the given bodies, which are those from `first` on of the whole.
    fn build(with: With, bodies: &[Body], masses: &[Mass], first: usize) -> Self {
        let [a, .., b] = bodies else { return Self::leaf(masses, first) };
        let differ = a.key ^ b.key;
        if bodies.len() <= LEAF || differ == 0 {
            return Self::leaf(masses, first);
        }
        let bit = 1 << differ.ilog2();
        let middle = bodies.partition_point(|body| body.key & bit == 0);
        let (low, high) = bodies.split_at(middle);
        let (low_masses, high_masses) = masses.split_at(middle);
        let halves = with.join(
            || Self::build(with, low, low_masses, first),
            || Self::build(with, high, high_masses, first + middle),
        );
        Self::of(Box::new(halves.into()))
    }

    fn leaf(masses: &[Mass], first: usize) -> Self {
        let mass = masses.iter().map(|mass| mass.mass).sum();
        let centre = centre(masses.iter().map(|mass| (mass.position, mass.mass)));
        let (mut radius, mut spread) = (0.0_f64, 0.0);
        for mass in masses {
            let square = mass.position.distance_squared(centre);
            radius = radius.max(square.sqrt());
            spread += mass.mass * square;
        }
        Self { centre, mass, radius, spread, bodies: first..first + masses.len(), halves: None }
    }

    fn of(halves: Box<[Cell; 2]>) -> Self {
        let [a, b] = &*halves;
        let centre = centre([a, b].map(|half| (half.centre, half.mass)).into_iter());
        let (mut radius, mut spread) = (0.0_f64, 0.0);
        for half in [a, b] {
            let away = half.centre.distance(centre);
            radius = radius.max(half.radius + away);
            spread += half.spread + half.mass * away * away;
        }
        let bodies = a.bodies.start..b.bodies.end;
        Self { centre, mass: a.mass + b.mass, radius, spread, bodies, halves: Some(halves) }
    }

    fn walk<'t>(&'t self, masses: &'t [Mass], at: DVec3, theta2: f64, see: &mut impl FnMut(Seen<'t>)) {
        let square = self.centre.distance_squared(at);
        if self.radius * self.radius < theta2 * square {
            see(Seen::Far(self));
        } else if let Some(halves) = &self.halves {
            halves.iter().for_each(|half| half.walk(masses, at, theta2, see));
        } else {
            see(Seen::Near(&masses[self.bodies.clone()]));
        }
    }
}

/// The centre of mass; of things without mass, the middle.
fn centre(things: impl Iterator<Item = (DVec3, f64)> + Clone) -> DVec3 {
    let mass: f64 = things.clone().map(|(_, mass)| mass).sum();
    if mass > 0.0 {
        things.map(|(position, mass)| position * mass).sum::<DVec3>() / mass
    } else {
        let count = things.clone().count();
        things.map(|(position, _)| position).sum::<DVec3>() / count as f64
    }
}

/// Morton's: the bits of the three coordinates in turn, the highest first.
fn key(coordinates: DVec3) -> u64 {
    let [x, y, z] = coordinates.to_array().map(|coordinate| spread_bits(coordinate as u64));
    x << 2 | y << 1 | z
}

/// Two zeros between any two bits of a number of [`BITS`] bits.
fn spread_bits(number: u64) -> u64 {
    let mut spread = number & ((1 << BITS) - 1);
    for (shift, mask) in [
        (32, 0x001f_0000_0000_ffff),
        (16, 0x001f_0000_ff00_00ff),
        (8, 0x100f_00f0_0f00_f00f),
        (4, 0x10c3_0c30_c30c_30c3),
        (2, 0x1249_2492_4924_9249),
    ] {
        spread = (spread | spread << shift) & mask;
    }
    spread
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bodies::colliding;

    #[test]
    fn keys_take_the_bits_of_the_coordinates_in_turn() {
        let coordinates = [0b101_u64, 0x1f_ffff, 0x12_3456];
        let mut expected = 0;
        for bit in (0..BITS).rev() {
            for coordinate in coordinates {
                expected = expected << 1 | coordinate >> bit & 1;
            }
        }
        assert_eq!(key(DVec3::from(coordinates.map(|coordinate| coordinate as f64))), expected);
    }

    fn check(cell: &Cell, masses: &[Mass]) {
        let of_cell = &masses[cell.bodies.clone()];
        let mass: f64 = of_cell.iter().map(|mass| mass.mass).sum();
        assert!((cell.mass - mass).abs() <= 1e-12 * mass, "mass of {:?}", cell.bodies);
        let spread: f64 = of_cell.iter().map(|mass| mass.mass * mass.position.distance_squared(cell.centre)).sum();
        assert!((cell.spread - spread).abs() <= 1e-9 * spread + 1e-24, "spread of {:?}", cell.bodies);
        for mass in of_cell {
            assert!(mass.position.distance(cell.centre) <= cell.radius * (1.0 + 1e-12), "radius of {:?}", cell.bodies);
        }
        match &cell.halves {
            Some(halves) => {
                assert_eq!(halves[0].bodies.end, halves[1].bodies.start, "nothing lost, nothing twice");
                assert!(halves.iter().all(|half| !half.bodies.is_empty()));
                halves.iter().for_each(|half| check(half, masses));
            }
            None => assert!(of_cell.len() <= LEAF, "cut while it is possible: {:?}", cell.bodies),
        }
    }

    #[test]
    fn cells_know_their_bodies() {
        let mut bodies = colliding(3000, 2);
        Tree::sort(With::Plain, &mut bodies);
        let tree = Tree::build(With::Plain, &bodies);
        let root = tree.root.expect("there are bodies");
        assert_eq!(root.bodies, 0..3000);
        check(&root, &tree.masses);
    }
}
