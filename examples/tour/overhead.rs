//! Part 3: how much work must lie between two uses of a shared lock before the lock no longer matters.
//!
//! For several numbers of timelines T and lengths w of private work, the ratio (time × cores) / work: 1 is perfect; on
//! two cores, 2 means that the second core gained nothing. The careful form with more rivals is the bench `overhead`.

use std::path::Path;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use proto_core::Runtime;

use crate::show::median;
use crate::sides::{self, Load};
use crate::work::nanoseconds_per_step;
use crate::{plot, rivals};

/// Numbers of timelines that share the lock.
pub(crate) const TIMELINES: [usize; 3] = [2, 8, 64];

/// All private work of one measurement, in nanoseconds …
const WORK: f64 = 40e6;
/// … unless that means more locks than this.
const LOCKS: f64 = 1e6;

/// A ratio that a program without locks has only if it does not have the cores for itself.
const BUSY: f64 = 1.3;

/// Who is measured, in the order of the columns.
pub(crate) const PEERS: [Peer; 3] = [Peer::NoLock, Peer::Threads, Peer::Vps];

/// A column of the table, a line of the plot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Peer {
    /// Threads that do the work and take no lock: what is lost without any lock.
    NoLock,
    /// `std::sync::Mutex` between threads.
    Threads,
    /// The mutex language's lock between VPs.
    Vps,
}

impl Peer {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::NoLock => "no lock",
            Self::Threads => "std::sync",
            Self::Vps => "VPs",
        }
    }
}

/// One measured point.
#[derive(Debug)]
pub(crate) struct Point {
    pub(crate) timelines: usize,
    pub(crate) peer: Peer,
    /// Private work between two locks, in nanoseconds.
    pub(crate) work: f64,
    /// (time × cores) / work, the median of the runs.
    pub(crate) ratio: f64,
}

/// Measures the curve, prints it as a table, and draws it into `picture`.
///
/// # Errors
/// A sentence for the user: the runtime or a timeline could not be started.
pub(crate) fn run(picture: &Path, runs: usize, quick: bool) -> Result<(), String> {
    let works: &[f64] =
        if quick { &[30.0, 100.0, 1_000.0, 10_000.0] } else { &[10.0, 30.0, 100.0, 300.0, 1_000.0, 3_000.0, 10_000.0] };
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    println!("   T timelines on {cores} cores do w ns of private work, take one shared lock, and begin again.");
    println!("   Ratio = time × cores / work: 1 is perfect; {cores} is no better than one core alone.");
    let points = measure(works, cores, runs)?;
    print_table(&points, works);
    let idle = |point: &&Point| point.peer == Peer::NoLock;
    let unhindered: Vec<f64> = points.iter().filter(idle).map(|point| point.ratio).collect();
    if median(&unhindered) > BUSY {
        println!("   Without a lock it is far from 1 too: something else uses the cores now. Compare columns only.");
    }
    match plot::draw(&points, cores, picture) {
        Ok(()) => println!("\n   Drawn in {}", picture.display()),
        Err(error) => println!("\n   {}: not drawn: {error}", picture.display()),
    }
    Ok(())
}

fn measure(works: &[f64], cores: usize, runs: usize) -> Result<Vec<Point>, String> {
    let runtime = rivals::runtime(None)?;
    let step = nanoseconds_per_step();
    let bar = ProgressBar::new((runs * works.len() * TIMELINES.len() * PEERS.len()) as u64).with_style(
        ProgressStyle::with_template("   {bar:40} {percent:>3} %  the shared lock")
            .unwrap_or_else(|_| ProgressStyle::default_bar()),
    );
    let mut samples = vec![Vec::new(); works.len() * TIMELINES.len() * PEERS.len()];
    for _ in 0..runs {
        let mut samples = samples.iter_mut();
        for &work in works {
            for timelines in TIMELINES {
                let rounds = (WORK / work).min(LOCKS) / timelines as f64;
                let load = Load {
                    timelines,
                    rounds: (rounds as u64).max(1),
                    steps: ((work / step).round() as u64).max(1),
                    locked: true,
                };
                let all_work = (load.rounds * load.steps * timelines as u64) as f64 * step;
                for peer in PEERS {
                    let time = time(&runtime, peer, load)?;
                    let ratio = time.as_secs_f64() * 1e9 * cores as f64 / all_work;
                    samples.next().expect("there is one for each point").push(ratio);
                    bar.inc(1);
                }
            }
        }
    }
    bar.finish_and_clear();
    let mut samples = samples.iter();
    let mut points = Vec::new();
    for &work in works {
        for timelines in TIMELINES {
            for peer in PEERS {
                let ratio = median(samples.next().expect("there is one for each point"));
                points.push(Point { timelines, peer, work, ratio });
            }
        }
    }
    Ok(points)
}

fn time(runtime: &Runtime, peer: Peer, load: Load) -> Result<Duration, String> {
    match peer {
        Peer::NoLock => sides::lock_on_threads(Load { locked: false, ..load }),
        Peer::Threads => sides::lock_on_threads(load),
        Peer::Vps => sides::lock_on_vps(runtime, load),
    }
    .map_err(|error| format!("{} with {} timelines: {error}", peer.name(), load.timelines))
}

fn print_table(points: &[Point], works: &[f64]) {
    println!();
    print!("   {:>7}", "");
    for timelines in TIMELINES {
        print!(" │ {:^28}", format!("T = {timelines}"));
    }
    print!("\n   {:>7}", "w in ns");
    for _ in TIMELINES {
        print!(" │");
        for peer in PEERS {
            print!(" {:>9}", peer.name());
        }
    }
    println!();
    let columns = TIMELINES.len() * PEERS.len();
    for (row, work) in points.chunks(columns).zip(works) {
        print!("   {work:>7}");
        for (column, point) in row.iter().enumerate() {
            if column % PEERS.len() == 0 {
                print!(" │");
            }
            print!(" {:>9.2}", point.ratio);
        }
        println!();
    }
}
