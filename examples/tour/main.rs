//! A tour of the project in six parts: the machine, real work on very many timelines, what a lock costs, fork-join, dataflow, and where
//! to go from here.
//!
//! ```text
//! cargo run --release --example tour [-- [--timelines N] [--runs N] [--quick] [--verbose] [DIR]]
//! ```
//!
//! Read `index.rs` first: a program with readers, parsers, a bounded queue, locks and a barrier, compiled once for
//! `std::thread` and once for virtual processors. `on_threads.rs` and `on_vps.rs` show that two
//! `use` lines are all that differs. Then `front.rs`: a computation as two plain loops, and the same two loops as dataflow.

mod child;
mod compare;
#[cfg(test)]
mod folder;
mod front;
mod on_threads;
mod on_vps;
mod overhead;
mod passage;
mod pieces;
mod plot;
#[path = "../rivals/mod.rs"]
mod rivals;
mod search;
mod sides;
mod split;
mod survey;
#[cfg(test)]
mod tests;
mod texts;
mod words;
mod work;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use proto_arch::topology::Topology;

use crate::compare::Verdict;
use crate::rivals::show;

/// Shows the machine, compares a word index on threads and on virtual processors, measures a shared lock, and computes on all cores.
#[derive(Debug, Parser)]
#[command(name = "tour")]
struct Arguments {
    /// Folder whose text files are indexed [default: this workspace]
    dir: Option<PathBuf>,
    /// Number of timelines that build the index
    #[arg(long, value_name = "N", default_value_t = 10_000,
          value_parser = clap::value_parser!(u32).range(2..=1_000_000))]
    timelines: u32,
    /// How often each measurement is repeated [default: 5, or 3 with --quick]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    runs: Option<u32>,
    /// Measure less
    #[arg(long)]
    quick: bool,
    /// List every file that is left out
    #[arg(long)]
    verbose: bool,
    /// Be the child process that builds one index and reports
    #[arg(long, hide = true)]
    child: Option<sides::Side>,
}

fn main() -> ExitCode {
    tour(&Arguments::parse())
}

fn tour(arguments: &Arguments) -> ExitCode {
    let workspace = std::env::var_os("CARGO_MANIFEST_DIR").map_or_else(|| ".".into(), PathBuf::from);
    let root = arguments.dir.as_deref().unwrap_or(&workspace);
    let timelines = arguments.timelines as usize;
    if let Some(side) = arguments.child {
        return match child::serve(side, root, timelines) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("{error}");
                ExitCode::FAILURE
            }
        };
    }

    println!("1  The machine\n");
    show_machine();

    println!("\n2  A word index: the same program on threads and on virtual processors (VPs)\n");
    let runs = arguments.runs.unwrap_or(if arguments.quick { 3 } else { 5 }) as usize;
    let index = told(compare::run(root, timelines, runs, arguments.verbose));

    println!("\n3  What one shared lock costs\n");
    let picture = workspace.join("target/tour/overhead.svg");
    let curve_runs = if arguments.quick { 1 } else { runs.min(3) };
    let curve = told(overhead::run(&picture, curve_runs, arguments.quick));

    println!("\n4  Fork-join: a search through the same files\n");
    let search = told(search::run(root, runs));

    println!("\n5  Dataflow: tasks that say what they read and write\n");
    let front = search.as_ref().and_then(|found| told(front::run(found, root, runs, arguments.quick)));

    println!("\n6  What to look at next\n");
    show_next();
    let right = match index {
        Some(Verdict::Different) => false,
        // The files can be read and a runtime can be started: then the parts with them cannot fail but by an error of ours.
        Some(_) => search.is_some() && front.is_some(),
        None => curve.is_some(),
    };
    if right { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Prints why a part could not be done; the tour goes on.
fn told<T>(part: Result<T, String>) -> Option<T> {
    part.inspect_err(|error| println!("   This part could not be done: {error}.")).ok()
}

fn show_machine() {
    let tree = Topology::system().to_string();
    for line in tree.lines() {
        println!("   {line}");
    }
}

fn show_next() {
    for (what, why) in [
        ("examples/tour/index.rs", "the program of part 2: nothing in it tells a thread from a VP"),
        ("examples/tour/front.rs", "part 5: two plain loops, and the same two loops as dataflow"),
        ("docs/porting.md", "what differs from std::thread, rayon, OpenMP … before you port your own program"),
        ("examples/new_language.rs", "a parallel language of your own, in an afternoon"),
        ("cargo bench --bench overhead", "parts 3 to 5 done carefully, and more, beside their rivals"),
    ] {
        println!("   {what:<30}  {why}");
    }
}
