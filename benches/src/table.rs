//! The printed result: first the goals, then every figure.

use comfy_table::{CellAlignment, Table, presets};

use crate::goal::{Bound, Goal, Verdict};
use crate::peers::native::Native;
use crate::plan::Plan;
use crate::record::{Record, Results};
use crate::workloads::Workload;

/// An empty table with a head; columns from `numbers` on are aligned right.
fn table(head: &[&str], numbers: std::ops::Range<usize>) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::ASCII_MARKDOWN).set_header(head);
    for column in numbers {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

/// A figure with three significant digits, or all digits before the point.
pub(crate) fn figure(value: f64) -> String {
    let digits = match value.abs() {
        _ if value.is_nan() => return "–".to_owned(),
        magnitude if magnitude >= 100.0 => 0,
        magnitude if magnitude >= 10.0 => 1,
        magnitude if magnitude >= 1.0 => 2,
        _ => 3,
    };
    format!("{value:.digits$}")
}

/// The goals of all workloads that were run.
pub(crate) fn goals(rows: &[(String, Goal)]) -> String {
    let head = ["workload", "what", "proto", "rival", "rival's", "figure", "goal", ""];
    let mut table = table(&head, 2..7);
    for (workload, goal) in rows {
        let (rival, theirs) = match &goal.rival {
            Some((name, theirs)) => (name.as_str(), figure(*theirs)),
            None => ("", String::new()),
        };
        let sign = if goal.rival.is_some() { "× " } else { "" };
        let bound = match goal.bound {
            Bound::AtMost => "≤",
            Bound::Below => "<",
            Bound::AtLeast => "≥",
        };
        let mark = match goal.verdict() {
            Verdict::Met => "met",
            Verdict::Missed => "MISSED",
            Verdict::Unknown => "not measured",
        };
        table.add_row([
            workload.as_str(),
            &goal.what,
            &goal.ours.map_or_else(|| "–".to_owned(), figure),
            rival,
            &theirs,
            &goal.figure().map_or_else(|| "–".to_owned(), |value| sign.to_owned() + &figure(value)),
            &format!("{bound} {sign}{}", goal.limit),
            mark,
        ]);
    }
    table.to_string()
}

/// Every record of one workload.
pub(crate) fn figures(records: &[Record]) -> String {
    let head = ["peer", "workers", "param", "metric", "median", "min", "max", "unit"];
    let mut table = table(&head, 4..7);
    for record in records {
        table.add_row([
            record.peer.as_str(),
            &record.workers.to_string(),
            &record.param,
            &record.metric,
            &figure(record.median),
            &figure(record.min),
            &figure(record.max),
            &record.unit,
        ]);
    }
    table.to_string()
}

/// Why samples are missing, one line each; empty when none is.
pub(crate) fn failures(results: &Results) -> String {
    let lines = results.failures.iter().map(|(case, why)| format!("no sample of {case}: {why}\n"));
    lines.collect()
}

/// The rivals of `workload` that this machine lacks, one line each.
pub(crate) fn absent(workload: &dyn Workload, plan: &Plan) -> String {
    let why = |native: &Native| Some((native.peer, plan.programs.get(native.peer)?.as_ref().err()?));
    let lines = workload.natives().iter().filter_map(why).map(|(peer, why)| format!("not measured: {peer}: {why}\n"));
    lines.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_keep_three_digits() {
        let shown: Vec<_> = [0.1234, 1.234, 12.34, 1234.5, f64::NAN].map(figure).into();
        assert_eq!(shown, ["0.123", "1.23", "12.3", "1234", "–"]);
    }

    #[test]
    fn a_missed_goal_is_shown_as_missed() {
        let goal = Goal::against("round trip, ns", Some(30.0), 0.5, "may", Some(40.0));
        let text = goals(&[("handoff".to_owned(), goal)]);
        assert!(text.contains("MISSED") && text.contains("0.750"), "{text}");
    }
}
