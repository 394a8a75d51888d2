//! Ours: dataflow tasks, made by one virtual processor, as many in flight as the language allows unless told
//! otherwise.
//!
//! The data are made before, as the arrays of the rivals are; what that costs is told apart.

use std::time::Instant;

use proto_lang_tasks::{Data, KeptGraph, dataflow};

use super::proto::Vps;
use crate::calibrate::{private_work, time_call};
use crate::lattice::{Lattice, Shape, Timing, chain_seed, checksum, grid_seed};

/// The cells of `lattice`, each a datum.
fn cells(lattice: &Lattice) -> Vec<Data<u64>> {
    (0..lattice.cells()).map(|_| Data::new(1)).collect()
}

/// Nanoseconds that `f` takes.
fn time(f: impl FnOnce()) -> f64 {
    let start = Instant::now();
    f();
    start.elapsed().as_nanos() as f64
}

/// Makes all tasks of `lattice` and waits for them.
fn run(lattice: &Lattice, cells: &[Data<u64>]) {
    let steps = lattice.steps;
    dataflow(|df| match lattice.shape {
        Shape::Grid => lattice.grid().for_each(|[cell, above, left]| {
            let task = df.task().input(&cells[above]).input(&cells[left]).inout(&cells[cell]);
            task.run(move |above, left, cell| *cell = private_work(grid_seed(*cell, *above, *left), steps));
        }),
        Shape::Chains => lattice.chains().for_each(|(cell, number)| {
            let task = df.task().inout(&cells[cell]);
            task.run(move |cell| *cell = private_work(chain_seed(*cell, number), steps));
        }),
    });
}

/// How long the work of a task takes, alone on a core.
fn work(lattice: &Lattice) -> f64 {
    if lattice.steps == 0 { 0.0 } else { time_call(lattice.steps, 5) }
}

/// Measures `lattice`; also, in nanoseconds, what its data cost.
pub(crate) fn measure(workers: usize, lattice: &Lattice) -> anyhow::Result<(Timing, f64)> {
    let vps = Vps::on(workers);
    let once = || {
        let start = Instant::now();
        let mut cells = cells(lattice);
        let made = start.elapsed().as_nanos() as f64;
        let all = vps.process(|| time(|| run(lattice, &cells)));
        lattice.check(1, checksum(cells.iter_mut().map(|cell| *cell.get_mut())))?;
        anyhow::Ok((all, made + time(|| drop(cells))))
    };
    // The first time is the warm-up.
    once()?;
    let (all, data) = once()?;
    Ok((Timing { work: work(lattice), all, run: None, again: None }, data))
}

/// Measures a grid that is kept and run `rounds` times after the first.
pub(crate) fn measure_again(workers: usize, lattice: &Lattice, rounds: u32) -> anyhow::Result<Timing> {
    let vps = Vps::on(workers);
    let steps = lattice.steps;
    let once = || {
        let cells = cells(lattice);
        let timing = vps.process(|| {
            let start = Instant::now();
            let mut graph = KeptGraph::record(|df| {
                lattice.grid().for_each(|[cell, above, left]| {
                    let task = df.task().input(&cells[above]).input(&cells[left]).inout(&cells[cell]);
                    task.again(move |above, left, cell| *cell = private_work(grid_seed(*cell, *above, *left), steps));
                });
            });
            let run = time(|| graph.run());
            let first = start.elapsed().as_nanos() as f64;
            let again = time(|| (0..rounds).for_each(|_| graph.run())) / f64::from(rounds);
            let all = first + time(|| drop(graph));
            Timing { work: work(lattice), all, run: Some(run), again: Some(again) }
        });
        lattice.check(1 + rounds, checksum(cells.into_iter().map(Data::into_inner)))?;
        anyhow::Ok(timing)
    };
    // The first time is the warm-up.
    once()?;
    once()
}
