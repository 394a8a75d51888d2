//! The same work done in several ways, in turns, and compared: a table of times, and whether all results are the same.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use crate::compare::Verdict;
use crate::show::{median, milliseconds};

/// One way to do the work.
pub(crate) struct Way<'a, T> {
    name: &'static str,
    run: Box<dyn Fn() -> Result<T, String> + 'a>,
}

impl<'a, T> Way<'a, T> {
    pub(crate) fn new(name: &'static str, run: impl Fn() -> Result<T, String> + 'a) -> Self {
        Way { name, run: Box::new(run) }
    }
}

/// Does the work `runs` times in each way, prints a table in which the first way is the measure, and gives the first way's result.
///
/// The order of the ways changes from round to round, so that what else happens on the machine hits all alike. Reported are medians, with the extremes
/// beside them.
///
/// # Errors
/// A sentence for the user: one way could not be gone.
pub(crate) fn race<T: PartialEq>(runs: usize, ways: &[Way<'_, T>]) -> Result<(T, Verdict), String> {
    let bar = ProgressBar::new((runs * ways.len()) as u64).with_style(
        ProgressStyle::with_template("   {bar:40} {percent:>3} %  {msg}")
            .unwrap_or_else(|_| ProgressStyle::default_bar()),
    );
    let mut times = vec![Vec::new(); ways.len()];
    let mut results = Vec::new();
    for round in 0..runs {
        for turn in 0..ways.len() {
            let way = (round + turn) % ways.len();
            bar.set_message(ways[way].name);
            let begin = Instant::now();
            let result = (ways[way].run)().map_err(|error| format!("{}: {error}", ways[way].name))?;
            times[way].push(begin.elapsed());
            results.push(result);
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    print_table(ways, &times);
    let same = results.windows(2).all(|pair| pair[0] == pair[1]);
    if same {
        println!("   All {} runs had the same result.", results.len());
    } else {
        println!("   The runs had different results of the same texts: a bug, please report it.");
    }
    let verdict = if same { Verdict::Same } else { Verdict::Different };
    let first = results.into_iter().next().ok_or("there was no run")?;
    Ok((first, verdict))
}

fn print_table<T>(ways: &[Way<'_, T>], times: &[Vec<Duration>]) {
    println!("   {:<28}  time in ms: median (min … max)  times as fast", "");
    let measure = median(&times[0]);
    for (way, times) in ways.iter().zip(times) {
        let time = median(times);
        let least = times.iter().min().copied().unwrap_or_default();
        let most = times.iter().max().copied().unwrap_or_default();
        println!(
            "   {:<28}  {:>18} {:<16}{:>9.2}",
            way.name,
            milliseconds(time),
            format!("({} … {})", milliseconds(least), milliseconds(most)),
            measure.as_secs_f64() / time.as_secs_f64(),
        );
    }
}
