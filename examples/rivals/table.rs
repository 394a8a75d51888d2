//! The times of all sides, a row for each stage of the program.

use std::time::Duration;

use super::Side;
use super::show::{median, milliseconds};

/// Prints medians, in milliseconds, and how much faster than plain code the whole was.
pub(super) fn print(sides: &[Side], runs: usize) {
    let names: Vec<_> = sides.iter().map(Side::name).collect();
    print_row(if runs == 1 { "ms, one run" } else { "ms, medians" }, names.iter().map(|[who, _]| who.clone()));
    print_row("", names.iter().map(|[_, on]| on.clone()));
    let stages = sides.first().and_then(|side| side.runs.first()).map_or(0, Vec::len);
    for stage in 0..stages {
        let name = sides[0].runs[0][stage].0;
        print_row(name, sides.iter().map(|side| milliseconds(middle(side, |run| run[stage].1))));
    }
    let wholes: Vec<Duration> =
        sides.iter().map(|side| middle(side, |run| run.iter().map(|lap| lap.1).sum())).collect();
    print_row("all", wholes.iter().map(|whole| milliseconds(*whole)));
    print_row("speed", wholes.iter().map(|whole| format!("{:.2} ×", wholes[0].as_secs_f64() / whole.as_secs_f64())));
}

fn middle(side: &Side, of: impl Fn(&Vec<(&'static str, Duration)>) -> Duration) -> Duration {
    median(&side.runs.iter().map(of).collect::<Vec<_>>())
}

fn print_row(name: &str, cells: impl Iterator<Item = String>) {
    print!("   {name:<22}");
    for cell in cells {
        print!(" {cell:>9}");
    }
    println!();
}
