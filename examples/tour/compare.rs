//! Part 2: the word index on both sides, with few timelines and with many.
//!
//! Each run is a child process. The sides take turns, and their order changes from round to round, so that what else
//! happens on the machine hits both alike. Reported are medians, with the extremes beside them.

use std::path::Path;
use std::time::Duration;

use indicatif::{HumanBytes, HumanCount, ProgressBar, ProgressStyle};

use crate::child::{self, Run};
use crate::show::{counted, median, milliseconds};
use crate::sides::Side;
use crate::survey::Survey;

/// So few that the operating system is at ease with them: here VPs must be no slower.
const FEW: usize = 8;

/// Whether the runs can be trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// All built the same index.
    Same,
    /// The files changed meanwhile: nothing can be said.
    Unknown,
    /// The same files gave different indexes: one side is wrong.
    Different,
}

/// Runs of one side with one number of timelines.
#[derive(Debug)]
struct Row {
    side: Side,
    timelines: usize,
    runs: Vec<Run>,
    /// Why there are no more of them.
    failed: Option<String>,
}

impl Row {
    fn time(&self) -> Option<Duration> {
        let times: Vec<_> = self.runs.iter().map(|run| run.time).collect();
        (!times.is_empty()).then(|| median(&times))
    }

    fn peak(&self) -> Option<u64> {
        let peaks: Vec<_> = self.runs.iter().filter_map(|run| run.peak).collect();
        (!peaks.is_empty()).then(|| median(&peaks))
    }
}

/// Compares the sides on the text files below `root`, and prints what it found.
///
/// # Errors
/// A sentence for the user if no index could be built.
pub(crate) fn run(root: &Path, timelines: usize, runs: usize, verbose: bool) -> Result<Verdict, String> {
    let survey = Survey::below(root)?;
    println!("   {}, {}, in {}", counted(survey.files.len(), "text file"), HumanBytes(survey.bytes()), root.display());
    if survey.passed_over > 0 {
        println!("   passed over, as hidden or build output: {}", survey.passed_over);
    }
    for line in survey.problem_lines(if verbose { usize::MAX } else { 5 }) {
        println!("   left out: {line}");
    }
    if survey.bytes() == 0 {
        return Err(format!("{}: no text in it; name a folder with text files", root.display()));
    }

    let mut sizes = vec![FEW, timelines];
    sizes.dedup();
    let mut rows = Vec::new();
    for timelines in sizes {
        for side in [Side::Threads, Side::Vps] {
            rows.push(Row { side, timelines, runs: Vec::new(), failed: None });
        }
    }
    measure(&mut rows, root, runs);
    print_table(&rows);
    print_result(&rows, survey.fingerprint)
}

fn measure(rows: &mut [Row], root: &Path, runs: usize) {
    let bar = ProgressBar::new((rows.len() * runs * 100) as u64).with_style(
        ProgressStyle::with_template("   {bar:40} {percent:>3} %  {msg}")
            .unwrap_or_else(|_| ProgressStyle::default_bar()),
    );
    let mut done = 0;
    for round in 0..runs {
        for turn in 0..rows.len() {
            // The other side goes first every other round.
            let row = &mut rows[turn ^ (round & 1)];
            bar.set_message(format!("{} on {}", counted(row.timelines, "timeline"), row.side));
            if row.failed.is_none() {
                let progress = |percent| bar.set_position(done + percent);
                match child::run(row.side, root, row.timelines, progress) {
                    Ok(run) => row.runs.push(run),
                    Err(error) => row.failed = Some(error),
                }
            }
            done += 100;
            bar.set_position(done);
        }
    }
    bar.finish_and_clear();
}

fn print_table(rows: &[Row]) {
    println!();
    println!("   timelines  on           time in ms: median (min … max)  peak memory");
    for row in rows {
        let Some(time) = row.time() else { continue };
        let times = || row.runs.iter().map(|run| run.time);
        println!(
            "   {:>9}  {:<11}  {:>18} {:<16}{:>11}",
            HumanCount(row.timelines as u64).to_string(),
            row.side,
            milliseconds(time),
            format!(
                "({} … {})",
                milliseconds(times().min().unwrap_or_default()),
                milliseconds(times().max().unwrap_or_default())
            ),
            row.peak().map_or_else(|| "unknown".to_owned(), |peak| HumanBytes(peak * 1024).to_string()),
        );
    }
    println!();
    for row in rows {
        let who = format!("{} on {}", counted(row.timelines, "timeline"), row.side);
        if let Some(error) = &row.failed {
            println!("   {who}: {error}");
        }
        if let Some((run, why)) = row.runs.iter().find_map(|run| Some((run, run.refused.as_ref()?))) {
            println!("   {who}: only {} could be started ({why});", HumanCount(run.born as u64));
            println!(
                "      its figures are for so many. `ulimit -u` and the system's limits on threads and mappings decide."
            );
        }
    }
    for pair in rows.chunks(2) {
        let [threads, vps] = pair else { continue };
        let (Some(slow), Some(fast)) = (threads.time(), vps.time()) else {
            continue;
        };
        let memory = match (threads.peak(), vps.peak()) {
            (Some(more), Some(less)) => {
                format!(", with {:.2} × the memory", less as f64 / more as f64)
            }
            _ => String::new(),
        };
        println!(
            "   At {}, VPs are {:.2} × as fast as threads{memory}.",
            counted(vps.timelines, "timeline"),
            slow.as_secs_f64() / fast.as_secs_f64(),
        );
    }
}

fn print_result(rows: &[Row], fingerprint: u64) -> Result<Verdict, String> {
    let runs: Vec<&Run> = rows.iter().flat_map(|row| &row.runs).collect();
    let Some(first) = runs.first() else {
        return Err("no run of the index came to its end".to_owned());
    };
    let mut problems: Vec<_> = runs.iter().flat_map(|run| &run.problems).collect();
    problems.sort();
    problems.dedup();
    for problem in problems {
        println!("   left out while reading: {problem}");
    }
    let verdict = if runs.iter().any(|run| run.fingerprint != fingerprint) {
        println!("   The files changed meanwhile, so the runs cannot be compared: run the tour again.");
        Verdict::Unknown
    } else if runs.iter().any(|run| run.ranking != first.ranking) {
        println!("   The runs built different indexes of the same files: a bug, please report it.");
        Verdict::Different
    } else {
        println!("   All {} built the same index.", counted(runs.len(), "run"));
        Verdict::Same
    };
    let ranking = &first.ranking;
    println!(
        "   The index has {} words, {} different ones (digest {:016x}). The commonest:\n",
        HumanCount(ranking.words),
        HumanCount(ranking.distinct),
        ranking.digest,
    );
    for (count, word) in &ranking.top {
        println!("   {:>9}  {word}", HumanCount(*count).to_string());
    }
    Ok(verdict)
}
