//! How long it takes: on one core, on all, and the peers.

use std::time::Duration;

use faer::{MatRef, Par};
use proto_runtime::core::Runtime;

use crate::factor::Tiled;
use crate::peers::{by_faer, by_rayon};
use crate::show::{counted, median, milliseconds};
use crate::tiles::cut;

/// A way to factorise, and how long it took.
struct Row<'a> {
    name: String,
    run: Box<dyn FnMut() -> Result<Duration, String> + 'a>,
    times: Vec<Duration>,
}

impl<'a> Row<'a> {
    fn new(name: &str, cores: usize, run: impl FnMut() -> Result<Duration, String> + 'a) -> Row<'a> {
        Row { name: format!("{name}, {}", counted(cores, "core")), run: Box::new(run), times: Vec::new() }
    }
}

/// Factorises `matrix` in every way `runs` times, and prints the medians.
///
/// The ways take turns, so that what else happens on the machine hits all alike. Making the tiles does not count, nor does copying the matrix for faer.
///
/// # Errors
///
/// A sentence for the user.
pub(crate) fn table(matrix: MatRef<'_, f64>, size: usize, runs: u32, all: &Runtime) -> Result<(), String> {
    let one = Runtime::builder().controllers(1).build().map_err(|error| error.to_string())?;
    let tasks = |runtime| move || Tiled::new(cut(matrix, size), size).run(runtime);
    let loops = || Ok(by_rayon(&mut cut(matrix, size), size));
    let library = |par| move || by_faer(matrix, par).map(|(_, time)| time).map_err(|failure| failure.to_string());
    let (cores, threads) = (all.controllers(), rayon::current_num_threads());
    let mut rows = vec![
        Row::new("tasks on tiles", 1, tasks(&one)),
        Row::new("tasks on tiles", cores, tasks(all)),
        Row::new("rayon's loops on tiles", threads, loops),
        Row::new("faer's own", 1, library(Par::Seq)),
        Row::new("faer's own", threads, library(Par::rayon(0))),
    ];
    for _ in 0..runs {
        for row in &mut rows {
            row.times.push((row.run)()?);
        }
    }
    let operations = (matrix.nrows() as f64).powi(3) / 3.0;
    let first = median(&rows[0].times).as_secs_f64();
    println!("   {:<32} {:>9} {:>9} {:>9}", format!("medians of {runs}"), "ms", "GFlop/s", "speed");
    for Row { name, times, .. } in rows {
        let (time, seconds) = (median(&times), median(&times).as_secs_f64());
        let (rate, speed) = (operations / seconds / 1e9, format!("{:.2} ×", first / seconds));
        println!("   {name:<32} {:>9} {rate:>9.1} {speed:>9}", milliseconds(time));
    }
    Ok(())
}
