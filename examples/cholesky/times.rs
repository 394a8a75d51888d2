//! How long it takes: on one core, on all, and the rivals.

use std::time::Duration;

use faer::{MatRef, Par};
use proto_runtime::core::Runtime;

use crate::factor::Tiled;
use crate::rivals::{by_faer, by_rayon};
use crate::tiles::cut;

/// A way to factorise, and the shortest time that it took.
struct Row<'a> {
    name: String,
    run: Box<dyn FnMut() -> Result<Duration, String> + 'a>,
    best: Duration,
}

/// Factorises `matrix` in every way `runs` times, and prints the shortest times.
///
/// The ways take turns, so that what else happens on the machine hits all alike. Making the tiles does not count, nor does copying the matrix for faer.
///
/// # Errors
///
/// A sentence for the user.
pub(crate) fn table(matrix: MatRef<'_, f64>, size: usize, runs: u32, all: &Runtime) -> Result<(), String> {
    let one = Runtime::builder().controllers(1).build().map_err(|error| error.to_string())?;
    let dataflow = |runtime| move || Tiled::new(cut(matrix, size), size).run(runtime);
    let library = |par| move || by_faer(matrix, par).map(|(_, time)| time).map_err(|failure| failure.to_string());
    let row = |name: String, run| Row { name, run, best: Duration::MAX };
    let mut rows = vec![row("tasks on tiles, 1 core".into(), Box::new(dataflow(&one)) as _)];
    let cores = all.controllers();
    if cores > 1 {
        rows.push(row(format!("tasks on tiles, {cores} cores"), Box::new(dataflow(all))));
    }
    rows.push(row(format!("rayon's loops on tiles, {} threads", rayon::current_num_threads()), {
        Box::new(|| Ok(by_rayon(&mut cut(matrix, size), size)))
    }));
    rows.push(row("faer's own, 1 thread".into(), Box::new(library(Par::Seq))));
    rows.push(row(format!("faer's own, {} threads", rayon::current_num_threads()), Box::new(library(Par::rayon(0)))));

    for _ in 0..runs {
        for row in &mut rows {
            row.best = row.best.min((row.run)()?);
        }
    }
    let operations = (matrix.nrows() as f64).powi(3) / 3.0;
    let first = rows[0].best.as_secs_f64();
    println!("   {:<36} {:>9} {:>9} {:>9}", format!("best of {runs}"), "ms", "GFlop/s", "speed-up");
    for Row { name, best, .. } in rows {
        let time = best.as_secs_f64();
        println!("   {name:<36} {:>9.2} {:>9.1} {:>9.2}", time * 1e3, operations / time / 1e9, first / time);
    }
    Ok(())
}
