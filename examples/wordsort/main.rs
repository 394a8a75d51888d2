//! The words of real texts: counted by map and reduce, and sorted, every occurrence of them, by the parallel sorts.
//!
//! ```text
//! cargo run --release --example wordsort [-- [--top N] [--runs N] [--quick] [--verbose] [PATH...]]
//! ```
//!
//! A path is a file or a folder; without any, the texts are this project's own. What is no text is left out and named.
//!
//! `sorting.rs` is the program; `rivals/verbs.rs` has its verbs beside rayon's. Every side must come to the same result, and that must be the one of
//! a count without pieces and the standard library's sort (`check.rs`).

mod check;
#[cfg(test)]
#[path = "../tour/folder.rs"]
mod folder;
#[path = "../rivals/mod.rs"]
mod rivals;
mod sorting;
#[path = "../tour/split.rs"]
mod split;
#[expect(dead_code, reason = "the tour reads its files in several processes, and asks whether they changed")]
#[path = "../tour/survey.rs"]
mod survey;
#[cfg(test)]
mod tests;
mod texts;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use indicatif::{HumanBytes, HumanCount};

use crate::rivals::show::counted;
use crate::sorting::{Ranked, pieces, rank};
use crate::texts::Texts;

/// Counts and sorts the words of texts, checks the result, and compares with rayon
#[derive(Debug, Parser)]
#[command(name = "wordsort")]
struct Arguments {
    /// Files, or folders whose text files are read [default: this workspace]
    paths: Vec<PathBuf>,
    /// How many of the commonest words are shown
    #[arg(long, value_name = "N", default_value_t = 10)]
    top: usize,
    /// How often each side is measured [default: 7, or 1 with --quick]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    runs: Option<u32>,
    /// Measure less
    #[arg(long)]
    quick: bool,
    /// List every file that is left out
    #[arg(long)]
    verbose: bool,
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("wordsort: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<(), String> {
    let workspace = std::env::var_os("CARGO_MANIFEST_DIR").map_or_else(|| ".".into(), PathBuf::from);
    let usual = [workspace];
    let paths = if arguments.paths.is_empty() { &usual[..] } else { &arguments.paths };
    let texts = Texts::read(paths)?;
    println!("   {}, {}", counted(texts.texts.len(), "text file"), HumanBytes(texts.bytes()));
    for line in texts.left_out(if arguments.verbose { usize::MAX } else { 5 }) {
        println!("   left out: {line}");
    }
    if texts.bytes() == 0 {
        return Err("there is no text in what was named: name text files, or a folder with some".to_owned());
    }

    println!();
    let pieces = pieces(&texts.texts);
    let runs = arguments.runs.unwrap_or(if arguments.quick { 1 } else { 7 });
    let ranked = rivals::compare(runs as usize, |with, laps| rank(with, &pieces, laps))?;
    check::check(&ranked, &texts.texts)?;
    println!("\n   All sides agree with each other, and with a plain count that the standard library has sorted.\n");
    show(&ranked, &texts, arguments.top);
    Ok(())
}

fn show(ranked: &[Ranked<'_>], texts: &Texts, top: usize) {
    let words = ranked.iter().map(|word| word.count).sum();
    println!("   {} words, {} different ones:\n", HumanCount(words), HumanCount(ranked.len() as u64));
    for Ranked { word, count, first } in ranked.iter().take(top) {
        println!("   {:>9}  {word:<16} first in {}", HumanCount(*count).to_string(), texts.paths[*first].display());
    }
}
