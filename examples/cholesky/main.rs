//! Tiled Cholesky factorisation by dataflow: of a symmetric positive definite matrix A, the lower triangle L with A = LLᵀ.
//!
//! ```text
//! cargo run --release --example cholesky [-- [FILE...] [--n N] [--kind KIND] [--tile N] [--runs N] [--quick]]
//! cargo run --release --example cholesky -- --graph graph.svg
//! cargo run --release --example cholesky -- --kind poisson --n 144 --write poisson-144.mtx
//! ```
//!
//! Read `factor.rs` first: a sequential program whose steps are tasks that say which tiles they read and write. Nothing else is said of
//! parallelism. `kernels.rs` is what they do, by faer; `peers.rs` is the same with rayon's loops; `check.rs` proves the factors right.

mod check;
mod factor;
#[cfg(test)]
#[path = "../tour/folder.rs"]
mod folder;
mod generate;
mod graph;
mod kernels;
mod market;
mod peers;
#[path = "../tour/show.rs"]
mod show;
#[cfg(test)]
mod tests;
mod tiles;
mod times;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;
use faer::Mat;
use proto_runtime::core::Runtime;

use crate::check::Checked;
use crate::generate::Kind;

/// Factorises matrices by dataflow, checks the factors, and compares the times of one core, all cores, rayon and faer.
#[derive(Debug, Parser)]
#[command(name = "cholesky")]
struct Arguments {
    /// MatrixMarket files [default: two small ones, and a generated matrix]
    files: Vec<PathBuf>,
    /// Rows of the matrix that is generated [default: 2048, or 512 with --quick]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=market::MOST as i64))]
    n: Option<u32>,
    /// What is generated
    #[arg(long, value_enum, default_value_t = Kind::Random)]
    kind: Kind,
    /// Rows of a tile [default: a sixteenth of the matrix's, but 16 to 128]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=market::MOST as i64))]
    tile: Option<u32>,
    /// How often each time is taken [default: 5, or 2 with --quick]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    runs: Option<u32>,
    /// Measure less
    #[arg(long)]
    quick: bool,
    /// Write the generated matrix to a MatrixMarket file, and do nothing else
    #[arg(long, value_name = "FILE", conflicts_with_all = ["files", "graph"])]
    write: Option<PathBuf>,
    /// Write the graph of the tasks for 6 x 6 tiles to a file, .svg or .dot, and do nothing else
    #[arg(long, value_name = "FILE", conflicts_with = "files")]
    graph: Option<PathBuf>,
}

fn main() -> ExitCode {
    match cholesky(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn cholesky(arguments: &Arguments) -> Result<(), String> {
    let runtime = Runtime::builder().build().map_err(|error| error.to_string())?;
    if let Some(file) = &arguments.graph {
        let (factor, dot) = graph::drawn(generate::matrix(arguments.kind, 96).as_ref(), 16, &runtime)?;
        factor.map_err(|failure| failure.to_string())?;
        return graph::write(file, &dot);
    }
    let generated = |n| generate::matrix(arguments.kind, n);
    let n = arguments.n.unwrap_or(if arguments.quick { 512 } else { 2048 }) as usize;
    if let Some(file) = &arguments.write {
        return write(file, &generated(n), arguments.kind);
    }

    let mut matrices = Vec::new();
    let workspace = std::env::var_os("CARGO_MANIFEST_DIR").map_or_else(|| ".".into(), PathBuf::from);
    for file in files(arguments, &workspace) {
        let name = file.strip_prefix(&workspace).unwrap_or(&file);
        matrices.push((name.display().to_string(), market::read(&file)?));
    }
    if arguments.files.is_empty() || arguments.n.is_some() {
        matrices.push((format!("generated, {:?}", arguments.kind).to_lowercase(), generated(n)));
    }
    let tile = |matrix: &Mat<f64>| arguments.tile.map_or((matrix.nrows() / 16).clamp(16, 128), |tile| tile as usize);
    println!("{:>6} {:>5} {:>6}  {:<20} {:<20} matrix", "rows", "tile", "tasks", "‖A − LLᵀ‖/‖A‖", "‖L − faer's‖/‖L‖");
    for (name, matrix) in &matrices {
        let checked =
            check::factor(matrix.as_ref(), tile(matrix), &runtime).map_err(|error| format!("{name}: {error}"))?;
        print_checked(name, matrix.nrows(), tile(matrix), checked);
    }
    if let Some((name, matrix)) = matrices.iter().max_by_key(|(_, matrix)| matrix.nrows()) {
        println!("\n{name}, {} rows", matrix.nrows());
        let runs = arguments.runs.unwrap_or(if arguments.quick { 2 } else { 5 });
        times::table(matrix.as_ref(), tile(matrix), runs, &runtime)?;
    }
    Ok(())
}

/// What is to be read.
fn files(arguments: &Arguments, workspace: &Path) -> Vec<PathBuf> {
    if !arguments.files.is_empty() || arguments.n.is_some() {
        return arguments.files.clone();
    }
    ["poisson-144.mtx", "covariance-48.mtx"].map(|name| workspace.join("examples/cholesky/data").join(name)).into()
}

fn print_checked(name: &str, n: usize, tile: usize, checked: Checked) {
    let beside = |value: f64, allowed: f64| format!("{value:.1e} (≤ {allowed:.0e})");
    let Checked { tasks, residual, allowed, apart, apart_allowed } = checked;
    let (residual, apart) = (beside(residual, allowed), beside(apart, apart_allowed));
    println!("{n:>6} {tile:>5} {tasks:>6}  {residual:<20} {apart:<20} {name}");
}

/// Writes a matrix, and in it how it was made.
fn write(file: &Path, matrix: &Mat<f64>, kind: Kind) -> Result<(), String> {
    let text = market::to_text(matrix, &generate::comment(kind, matrix.nrows()));
    fs::write(file, text).map_err(|error| format!("{}: {error}", file.display()))
}
