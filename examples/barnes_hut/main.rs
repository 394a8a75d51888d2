//! Two galaxies collide: the Barnes–Hut simulation of many bodies, whose tree is built by fork-join and whose forces are a parallel loop.
//!
//! ```text
//! cargo run --release --example barnes_hut [-- [--bodies N] [--steps N] [--theta T] [--picture PNG] [--quick] [FILE]]
//! ```
//!
//! Without a file the bodies are random. A file has a line for each: mass, position, velocity (`input.rs`); `planets.txt` is one.
//!
//! Read `rivals/verbs.rs` first, which has the verbs beside rayon's, then `tree.rs`: what is forked there is small and uneven, and no
//! threshold says where to stop. Checked are the accelerations, against the exact ones and a bound that is proved there; that all sides
//! compute the same to the last bit; and the energy, which must stay the same.

mod bodies;
mod check;
#[cfg(test)]
#[path = "../tour/folder.rs"]
mod folder;
mod input;
mod picture;
#[path = "../rivals/mod.rs"]
mod rivals;
mod simulation;
#[cfg(test)]
mod tests;
mod tree;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;
use indicatif::HumanCount;

use crate::bodies::Body;
use crate::check::Errors;
use crate::picture::Strip;
use crate::rivals::With;
use crate::rivals::show::counted;
use crate::simulation::{Accuracy, centre, energy, forces, reach, step};

/// Pictures of one simulation.
const PICTURES: u32 = 6;

/// Bodies whose accelerations are checked.
const SAMPLE: usize = 500;

/// What the energy of the random galaxies may change by, relative to itself: five times what it does with the usual step and theta.
const DRIFT: f64 = 0.01;

/// Simulates bodies that attract each other, checks the result, and compares with rayon
#[derive(Debug, Parser)]
#[command(name = "barnes_hut")]
struct Arguments {
    /// Bodies, a line each: mass x y z vx vy vz, in units where the constant of gravity is 1 [default: two random galaxies]
    file: Option<PathBuf>,
    /// Number of random bodies [default: 10000, or 3000 with --quick]
    #[arg(long, value_name = "N", conflicts_with = "file", value_parser = clap::value_parser!(u32).range(3..=50_000_000))]
    bodies: Option<u32>,
    /// Begin of the random numbers
    #[arg(long, value_name = "N", default_value_t = 1, conflicts_with = "file")]
    seed: u64,
    /// Steps of the simulation [default: 120, or 12 with --quick]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=100_000_000))]
    steps: Option<u32>,
    /// Time of a step [default: a fortieth of the time in which the bodies can fall together]
    #[arg(long, value_name = "TIME", value_parser = positive)]
    step: Option<f64>,
    /// Cells smaller than this share of their distance pull like one body; 0: none, the exact sum
    #[arg(long, default_value_t = 0.5, value_parser = share)]
    theta: f64,
    /// Bodies nearer than this hardly pull more than at this distance [default: a fiftieth of the distance that half of them are within]
    #[arg(long, value_name = "LENGTH", value_parser = positive)]
    softening: Option<f64>,
    /// Where the picture goes [default: target/barnes_hut/bodies.png]
    #[arg(long, value_name = "PNG")]
    picture: Option<PathBuf>,
    /// How often each side is measured [default: 5, or 1 with --quick]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    runs: Option<u32>,
    /// Simulate less
    #[arg(long)]
    quick: bool,
}

fn positive(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(number) if (0.0..1e50).contains(&number) => Ok(number),
        _ => Err("not a number from 0 to 1e50".to_owned()),
    }
}

fn share(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(number) if (0.0..0.95).contains(&number) => Ok(number),
        _ => Err("not a number from 0 to 0.95, above which nothing can be said of the errors".to_owned()),
    }
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("barnes_hut: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<(), String> {
    let either = |given: Option<u32>, usual, quick| given.unwrap_or(if arguments.quick { quick } else { usual });
    let bodies = match &arguments.file {
        Some(path) => input::read(path)?,
        None => bodies::colliding(either(arguments.bodies, 10_000, 3_000), arguments.seed),
    };
    let centre = centre(&bodies);
    let radius = reach(&bodies, centre, 0.5);
    let mass: f64 = bodies.iter().map(|body| body.mass).sum();
    if !(radius > 0.0 && mass > 0.0) {
        return Err("the bodies have no mass, or are all in one place: nothing would move".to_owned());
    }
    let accuracy = Accuracy {
        theta: arguments.theta,
        softening: arguments.softening.unwrap_or(radius / 50.0),
        step: arguments.step.unwrap_or((radius.powi(3) / mass).sqrt() / 40.0),
    };

    println!("1  The forces on {} bodies, theta {}\n", HumanCount(bodies.len() as u64), accuracy.theta);
    let bodies = compare(bodies, accuracy, either(arguments.runs, 5, 1) as usize)?;

    let steps = either(arguments.steps, 120, 12);
    println!("\n2  {} on all cores\n", counted(steps as usize, "step"));
    let workspace = std::env::var_os("CARGO_MANIFEST_DIR").map_or_else(|| ".".into(), PathBuf::from);
    let picture = arguments.picture.clone().unwrap_or_else(|| workspace.join("target/barnes_hut/bodies.png"));
    let strip = Strip::new(&bodies, centre, 1.2 * reach(&bodies, centre, 0.95));
    let drift = simulate(bodies, accuracy, steps, strip, &picture)?;
    if !drift.is_finite() {
        return Err(
            "bodies came so near to each other that nothing can be computed: take a larger --softening".to_owned()
        );
    }
    if arguments.file.is_none() && drift > DRIFT {
        return Err(format!("the energy changed by more than {} %: take a smaller --step or --theta", DRIFT * 100.0));
    }
    Ok(())
}

/// Computes the forces on every side, checks them, and gives back the bodies that know them.
fn compare(bodies: Vec<Body>, accuracy: Accuracy, runs: usize) -> Result<Vec<Body>, String> {
    let bodies = rivals::compare(runs, |with, laps| {
        let mut bodies = bodies.clone();
        laps.end("copy");
        forces(with, &mut bodies, accuracy, laps);
        bodies
    })?;
    let every = bodies.len().div_ceil(SAMPLE);
    let runtime = rivals::runtime(None)?;
    let errors = runtime.run(|| {
        let tree = tree::Tree::build(With::Tasks, &bodies);
        Errors::of(With::Tasks, &bodies, &tree, accuracy, every)
    });
    let errors = errors.map_err(|error| error.to_string())?;
    println!("\n   All sides found the same forces, to the last bit.\n   {errors}");
    if errors.are_bounded() { Ok(bodies) } else { Err("that is more than can be: a bug, please report it".to_owned()) }
}

/// Lets the bodies move, draws them, and returns how much the energy has changed, relative to itself.
fn simulate(
    mut bodies: Vec<Body>,
    accuracy: Accuracy,
    steps: u32,
    mut strip: Strip,
    picture: &Path,
) -> Result<f64, String> {
    let before = energy(&bodies);
    let begin = Instant::now();
    let runtime = rivals::runtime(None)?;
    let simulated = runtime.run(|| {
        strip.take(&bodies);
        for number in 1..=steps {
            step(With::Tasks, &mut bodies, accuracy);
            // The last step is the last picture, and the others are as far apart as can be.
            if (number * (PICTURES - 1)) % steps < PICTURES - 1 {
                strip.take(&bodies);
            }
        }
    });
    simulated.map_err(|error| error.to_string())?;
    let time = begin.elapsed().as_secs_f64();
    let drift = ((energy(&bodies) - before) / before).abs();
    println!("   Time {:.3} went by in {time:.2} s.", f64::from(steps) * accuracy.step);
    println!("   The energy was {before:.6}, and changed by {:.4} %.", drift * 100.0);
    match strip.write(picture) {
        Ok(()) => println!("   Drawn in {}", picture.display()),
        Err(error) => return Err(format!("{}: the picture could not be written: {error}", picture.display())),
    }
    Ok(drift)
}
