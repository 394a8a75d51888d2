//! One run of the index in a process of its own, so that its peak memory is its own.
//!
//! The child is this program again with a hidden argument. It tells its parent in lines of `word value`: `progress`
//! while it works, the rest at its end.

use std::ffi::OsStr;
use std::fs;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use crate::sides::Side;
use crate::survey::Survey;
use crate::words::Ranking;

/// What a child reports.
#[derive(Debug, Clone, Default)]
pub(crate) struct Run {
    pub(crate) time: Duration,
    /// Peak resident memory in KiB, where the operating system tells it.
    pub(crate) peak: Option<u64>,
    /// Number of timelines that could be started.
    pub(crate) born: usize,
    /// Why they are fewer than wanted.
    pub(crate) refused: Option<String>,
    /// Of the files that the child saw.
    pub(crate) fingerprint: u64,
    pub(crate) ranking: Ranking,
    /// A line each.
    pub(crate) problems: Vec<String>,
}

/// The child's side: builds the index and prints the report.
///
/// # Errors
/// A sentence for the user.
pub(crate) fn serve(side: Side, root: &Path, timelines: usize) -> Result<(), String> {
    let survey = Survey::below(root)?;
    let fingerprint = survey.fingerprint;
    let (indexed, time) = side.index(survey, timelines, |percent| println!("progress {percent}"))?;
    println!("nanoseconds {}", time.as_nanos());
    if let Some(peak) = peak_memory() {
        println!("peak {peak}");
    }
    println!("born {}", indexed.born);
    if let Some(why) = indexed.refused {
        println!("refused {why}");
    }
    println!("fingerprint {fingerprint}");
    for problem in indexed.problems {
        println!("problem {}: {}", problem.path.display(), problem.kind);
    }
    let Ranking { top, distinct, words, digest } = indexed.ranking;
    println!("distinct {distinct}\nwords {words}\ndigest {digest}");
    for (count, word) in top {
        println!("top {count} {word}");
    }
    Ok(())
}

/// The parent's side: starts a child, passes on its progress in percent, and returns its report.
///
/// # Errors
/// A sentence for the user: the child could not be started, or died, and with what words.
pub(crate) fn run(side: Side, root: &Path, timelines: usize, mut progress: impl FnMut(u64)) -> Result<Run, String> {
    let side = match side {
        Side::Threads => "threads",
        Side::Vps => "vps",
    };
    let timelines = timelines.to_string();
    let arguments = ["--child", side, "--timelines", &timelines, "--"].map(OsStr::new);
    let mut child = again(&[&arguments, &[root.as_os_str()][..]].concat())
        .map_err(|error| format!("this program's own file is not known: {error}"))?
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| format!("a child process could not be started: {error}"))?;
    let (Some(stdout), Some(mut stderr)) = (child.stdout.take(), child.stderr.take()) else {
        return Err("the child process has no output".to_owned());
    };
    // Read at the same time as the report: a child with much to complain of must not wait for us.
    let complaint = thread::Builder::new()
        .spawn(move || {
            let mut text = Vec::new();
            // What could be read is shown; that reading failed is no news to a reader of a crash report.
            let _ = stderr.read_to_end(&mut text);
            String::from_utf8_lossy(&text).into_owned()
        })
        .map_err(|error| format!("no thread could be started to watch the child: {error}"))?;
    let mut run = Run::default();
    for line in BufReader::new(stdout).lines().map_while(Result::ok) {
        note(&mut run, &line, &mut progress);
    }
    let status = child.wait().map_err(|error| format!("the child process got lost: {error}"))?;
    let complaint = complaint.join().unwrap_or_default();
    if status.success() {
        return Ok(run);
    }
    let words = last_words(&complaint);
    Err(format!("the child process died ({status}): {words}; try fewer with --timelines"))
}

/// This program with other arguments.
fn again(arguments: &[&OsStr]) -> io::Result<Command> {
    #[cfg(test)]
    let command = crate::tests::again(arguments)?;
    #[cfg(not(test))]
    let mut command = Command::new(std::env::current_exe()?);
    #[cfg(not(test))]
    command.args(arguments);
    Ok(command)
}

/// The message of the first panic if there is one, otherwise the first line.
fn last_words(complaint: &str) -> &str {
    let mut lines = complaint.lines().filter(|line| !line.trim().is_empty());
    let first = lines.clone().next().unwrap_or("without a word");
    match lines.find(|line| line.contains("panicked at")) {
        Some(_) => lines.next().unwrap_or(first),
        None => first,
    }
}

fn note(run: &mut Run, line: &str, progress: &mut impl FnMut(u64)) {
    let (word, value) = line.split_once(' ').unwrap_or((line, ""));
    let number = value.parse::<u64>().unwrap_or(0);
    match word {
        "progress" => progress(number),
        "nanoseconds" => run.time = Duration::from_nanos(number),
        "peak" => run.peak = Some(number),
        "born" => run.born = number as usize,
        "refused" => run.refused = Some(value.to_owned()),
        "fingerprint" => run.fingerprint = number,
        "problem" => run.problems.push(value.to_owned()),
        "distinct" => run.ranking.distinct = number,
        "words" => run.ranking.words = number,
        "digest" => run.ranking.digest = number,
        "top" => {
            let (count, word) = value.split_once(' ').unwrap_or(("0", value));
            run.ranking.top.push((count.parse().unwrap_or(0), word.into()));
        }
        _ => {}
    }
}

/// The most memory this process ever had resident, in KiB. Linux knows; elsewhere `None`.
fn peak_memory() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix("kB")?.trim().parse().ok()
}
