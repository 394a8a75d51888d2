//! Claims about the tree's errors, about what moves, and about the program as a whole.

use std::f64::consts::PI;
use std::fs;
use std::path::{Path, PathBuf};

use clap::Parser;
use glam::DVec3;

use crate::bodies::{Body, colliding};
use crate::check::Errors;
use crate::folder::Folder;
use crate::rivals::{Laps, With};
use crate::simulation::{Accuracy, centre, energy, forces, step};
use crate::{Arguments, input, run};

const EXACT: Accuracy = Accuracy { theta: 0.0, softening: 0.0, step: 0.001 };

fn planets() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/barnes_hut/planets.txt")
}

/// The errors of all bodies, which know what they feel afterwards.
fn errors(bodies: &mut [Body], accuracy: Accuracy) -> Errors {
    let tree = forces(With::Plain, bodies, accuracy, &mut Laps::new());
    Errors::of(With::Plain, bodies, &tree, accuracy, 1)
}

#[test]
fn errors_stay_below_what_theta_permits() {
    let mut bodies = colliding(1000, 3);
    // A crowd, so that the tree is deep, of which some are in the very same place, and two without mass.
    let crowd = bodies[0].position;
    for number in 1000..1100_u32 {
        let position = crowd + DVec3::splat(1e-7 * f64::from(number / 20));
        bodies.push(Body::new(number, f64::from(number.min(1098) % 1098) * 1e-6, position, DVec3::ZERO));
    }
    for theta in [0.1, 0.3, 0.5, 0.7, 0.9] {
        for softening in [0.0, 0.05] {
            let errors = errors(&mut bodies, Accuracy { theta, softening, step: 0.0 });
            assert!(errors.are_bounded(), "theta {theta}, softening {softening}: {errors}");
            assert!(errors.of_known > 0.0, "theta {theta}: an approximation is not exact");
        }
    }
}

#[test]
fn with_theta_zero_the_tree_is_exact() {
    let errors = errors(&mut colliding(500, 4), EXACT);
    assert!(errors.are_bounded() && errors.of_known == 0.0, "{errors}");
}

#[test]
fn where_pulls_cancel_rounding_is_no_error() {
    let mut bodies = vec![Body::new(0, 1.0, DVec3::ZERO, DVec3::ZERO)];
    for number in 1..200_u32 {
        let away = DVec3::new(0.1, 0.3, 0.7) * f64::from(number) + DVec3::X;
        bodies.extend([away, -away].map(|at| Body::new(2 * number, 1e6 / 3.0, at, DVec3::ZERO)));
    }
    let errors = errors(&mut bodies, EXACT);
    assert!(errors.are_bounded() && !errors.to_string().contains("inf"), "{errors}");
}

#[test]
fn a_wrong_acceleration_is_noticed() {
    let accuracy = Accuracy { theta: 0.5, softening: 0.0, step: 0.0 };
    let mut bodies = colliding(500, 4);
    let tree = forces(With::Plain, &mut bodies, accuracy, &mut Laps::new());
    bodies[77].acceleration *= 2.0;
    assert!(!Errors::of(With::Plain, &bodies, &tree, accuracy, 1).are_bounded(), "twice as much");
}

#[test]
fn bodies_in_one_place_do_not_pull_each_other() {
    let mut bodies: Vec<_> = (0..50).map(|number| Body::new(number, 1.0, DVec3::ONE, DVec3::ZERO)).collect();
    forces(With::Plain, &mut bodies, EXACT, &mut Laps::new());
    assert!(bodies.iter().all(|body| body.acceleration == DVec3::ZERO && body.potential == 0.0));
}

#[test]
fn two_bodies_are_back_after_a_turn() {
    let orbit = |x: f64| Body::new(u32::from(x > 0.0), 0.5, DVec3::X * x, DVec3::Y * x);
    let mut bodies = [orbit(-0.5), orbit(0.5)];
    forces(With::Plain, &mut bodies, EXACT, &mut Laps::new());
    let steps = 10_000;
    for _ in 0..steps {
        step(With::Plain, &mut bodies, Accuracy { step: 2.0 * PI / f64::from(steps), ..EXACT });
    }
    for body in bodies {
        let began = orbit(if body.number == 0 { -0.5 } else { 0.5 });
        let off = body.position.distance(began.position) + body.velocity.distance(began.velocity);
        assert!(off < 1e-6, "body {} is off by {off}", body.number);
    }
}

#[test]
fn the_planets_have_the_energy_that_is_known_of_them() {
    let mut bodies = input::read(&planets()).expect("the file");
    forces(With::Plain, &mut bodies, EXACT, &mut Laps::new());
    let energy = energy(&bodies);
    assert!((energy - -0.169_075_164).abs() < 5e-10, "{energy}: as every program of that contest prints at its start");
}

#[test]
fn the_galaxies_are_in_equilibrium_and_their_centre_rests() {
    let mut bodies = colliding(6000, 5);
    let momentum: DVec3 = bodies.iter().map(|body| body.velocity * body.mass).sum();
    assert!(momentum.length() < 0.02, "{momentum}");
    assert!(centre(&bodies).length() < 0.02, "the centre is not far from 0");
    // The larger one by itself, about its own centre: twice the kinetic energy is the potential energy (virial theorem).
    bodies.truncate(4000);
    let mean = bodies.iter().map(|body| body.velocity).sum::<DVec3>() / 4000.0;
    bodies.iter_mut().for_each(|body| body.velocity -= mean);
    forces(With::Plain, &mut bodies, EXACT, &mut Laps::new());
    let kinetic: f64 = bodies.iter().map(|body| body.mass * body.velocity.length_squared() / 2.0).sum();
    let potential = energy(&bodies) - kinetic;
    let ratio = -2.0 * kinetic / potential;
    assert!((ratio - 1.0).abs() < 0.05, "{ratio}");
}

/// Runs the program with a picture of its own; what came, and the picture's size.
fn program(test: &str, arguments: &[&str]) -> (Result<(), String>, Option<(u32, u32)>) {
    let folder = Folder::new(test);
    let picture = folder.path().join("bodies.png");
    let words = ["barnes_hut", "--quick", "--picture"].map(Into::into).into_iter();
    let words = words.chain([picture.clone().into_os_string()]).chain(arguments.iter().map(Into::into));
    let done = run(&Arguments::parse_from(words));
    let size = fs::File::open(&picture).ok().map(|file| {
        let reader = png::Decoder::new(std::io::BufReader::new(file)).read_info().expect("a PNG");
        reader.info().size()
    });
    (done, size)
}

#[test]
fn the_program_draws_six_moments() {
    assert_eq!(program("six", &["--bodies", "300"]), (Ok(()), Some((960, 640))));
}

#[test]
fn a_file_of_few_bodies_and_few_steps_is_enough() {
    let planets = planets();
    let planets = planets.to_str().expect("a name in UTF-8");
    assert_eq!(program("few", &["--steps", "1", "--softening", "0", planets]), (Ok(()), Some((640, 320))));
    assert_eq!(program("none", &["--steps", "0", planets]), (Ok(()), Some((320, 320))));
}

#[test]
fn bodies_that_cannot_move_are_refused_with_the_reason() {
    let folder = Folder::new("alone");
    let file = folder.file("bodies.txt", "1 0 0 0 0 0 0\n");
    let (done, picture) = program("one", &[file.to_str().expect("a name in UTF-8")]);
    let error = done.expect_err("one body");
    assert!(error.contains("have no mass, or are all in one place"), "{error}");
    assert_eq!(picture, None);
}

#[test]
fn bodies_that_fly_apart_by_rounding_are_refused_with_a_remedy() {
    let folder = Folder::new("near");
    let file = folder.file("bodies.txt", "1e40 0 0 0 0 0 0\n1e40 1e-49 0 0 0 0 0\n");
    let (done, _) = program("fly", &["--softening", "0", "--step", "1e9", file.to_str().expect("a name in UTF-8")]);
    let error = done.expect_err("infinite");
    assert!(error.contains("take a larger --softening"), "{error}");
}

#[test]
fn a_picture_that_cannot_be_written_is_named() {
    let words = ["barnes_hut", "--quick", "--bodies", "30", "--steps", "1", "--picture", "/proc/none/a.png"];
    let error = run(&Arguments::parse_from(words)).expect_err("no such folder can be made");
    assert!(error.starts_with("/proc/none/a.png: the picture could not be written: "), "{error}");
}
