//! The command line of the `overhead` bench, and the run from arguments to files.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use clap::Parser;

use crate::calibrate::calibrate;
use crate::peers::native;
use crate::plan::{Plan, Scale};
use crate::workloads::{self, Workload};
use crate::{child, interleave, machine, record, table};

/// Measures proto-runtime and its rivals, interleaved, and says which goals are met.
#[derive(Debug, Parser)]
#[command(name = "overhead")]
struct Arguments {
    /// Workloads to run; all when none is named.
    names: Vec<String>,
    /// Smaller samples: everything within some minutes.
    #[arg(long)]
    quick: bool,
    /// List the workloads and what each measures.
    #[arg(long)]
    list: bool,
    /// Only peers with this many workers.
    #[arg(long, value_name = "N")]
    workers: Option<usize>,
    /// Samples of every case [default: 5].
    #[arg(long, value_name = "N")]
    repeat: Option<usize>,
    /// Spend up to this many seconds per workload on repeating samples during which others used
    /// the machine [default: 60; with --quick 0].
    #[arg(long, value_name = "SECONDS")]
    calm: Option<u64>,
    /// Run everything once in its smallest form; figures mean nothing.
    #[arg(long)]
    test: bool,
    /// Given by cargo; without effect.
    #[arg(long, hide = true)]
    bench: bool,
}

/// Runs the `overhead` bench; files go to `<target>/overhead`.
///
/// # Errors
/// When an argument names no workload or a file cannot be written. A peer that fails is reported
/// where its figures would stand, and is an error of the run only under `--test`.
pub fn overhead(target: &Path) -> anyhow::Result<()> {
    let raw: Vec<String> = std::env::args().collect();
    if let [_, flag, case] = raw.as_slice()
        && flag == child::FLAG
    {
        return child::serve(case);
    }
    // `cargo test --all-targets` runs benches too, and only `cargo bench` adds `--bench`.
    let only_tested = raw.len() == 1;
    let mut arguments = Arguments::parse_from(raw);
    arguments.test |= only_tested;
    if arguments.list {
        for workload in workloads::ALL {
            println!("{:18} {}", workload.name(), workload.about());
        }
        return Ok(());
    }
    let chosen = choose(&arguments.names)?;
    let plan = plan(&arguments, &chosen, target);
    // Meaningless figures must not replace real ones.
    let folder = plan.pick("overhead-test", "overhead", "overhead");
    run(&chosen, &plan, &target.join(folder))
}

/// The workloads of these names, in the order of the list.
fn choose(names: &[String]) -> anyhow::Result<Vec<&'static dyn Workload>> {
    for name in names {
        if workloads::find(name).is_none() {
            let all: Vec<_> = workloads::ALL.iter().map(|workload| workload.name()).collect();
            bail!("no workload is called {name:?}; there are: {}", all.join(", "));
        }
    }
    let wanted = |name: &str| names.is_empty() || names.iter().any(|given| given == name);
    Ok(workloads::ALL.iter().copied().filter(|workload| wanted(workload.name())).collect())
}

/// Turns the arguments into what is measured.
fn plan(arguments: &Arguments, chosen: &[&dyn Workload], target: &Path) -> Plan {
    let (scale, rounds) = match (arguments.test, arguments.quick) {
        (true, _) => (Scale::Tiny, 1),
        (_, true) => (Scale::Quick, 5),
        _ => (Scale::Full, 5),
    };
    let rounds = arguments.repeat.unwrap_or(rounds).max(1);
    let calm = arguments.calm.unwrap_or(if scale == Scale::Full { 60 } else { 0 });
    let natives = chosen.iter().flat_map(|workload| workload.natives()).copied();
    let mut plan = Plan {
        scale,
        rounds,
        workers: arguments.workers,
        calm: Duration::from_secs(calm),
        points: Vec::new(),
        programs: native::compile(natives, &target.join("overhead-native")),
    };
    let lengths: BTreeSet<u64> = chosen.iter().flat_map(|workload| workload.lengths(&plan)).collect();
    plan.points = calibrate(&lengths.into_iter().collect::<Vec<_>>());
    plan
}

/// Measures, prints, writes.
fn run(chosen: &[&dyn Workload], plan: &Plan, folder: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(folder).with_context(|| format!("cannot make the folder {}", folder.display()))?;
    println!(
        "{} cores, {} samples of every case, {:?} samples; medians; files in {}",
        machine::cores(),
        plan.rounds,
        plan.scale,
        folder.display()
    );
    let (mut goals, mut failures) = (Vec::new(), 0);
    for workload in chosen {
        let start = Instant::now();
        let results = interleave::run(*workload, plan);
        let others = results.others();
        let records = results.records(workload.name());
        println!("\n## {}: {}\n\n{}", workload.name(), workload.about(), table::figures(&records));
        println!("{:.1} s; others used {others:.0} % of the machine", start.elapsed().as_secs_f64());
        if others > interleave::QUIET {
            println!("These figures are disturbed: repeat them when nothing else runs.");
        }
        print!("{}{}", table::failures(&results), table::absent(*workload, plan));
        failures += results.failures.len();
        record::write_json(&folder.join(workload.name()).with_extension("json"), &records)?;
        workload.plot(&records, folder).with_context(|| format!("cannot plot {}", workload.name()))?;
        let rows = workload.goals(plan, &results);
        goals.extend(rows.into_iter().map(|goal| (workload.name().to_owned(), goal)));
    }
    println!("\n## Goals\n\n{}", table::goals(&goals));
    if plan.scale == Scale::Tiny && failures > 0 {
        bail!("{failures} cases do not run; see above");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_workload_is_refused_with_the_names_there_are() {
        let error = choose(&["nosuch".to_owned()]).err().expect("there is no such workload");
        let text = error.to_string();
        assert!(text.contains("nosuch") && text.contains("mutex_curve"), "{text}");
    }

    #[test]
    fn cargos_own_flags_are_accepted() {
        let parse = |words: &[&str]| Arguments::try_parse_from(words);
        assert!(parse(&["overhead", "--bench"]).is_ok());
        assert!(parse(&["overhead", "--test", "--bench"]).is_ok());
        let some = parse(&["overhead", "--quick", "switch", "chain", "--bench"]);
        assert_eq!(some.expect("names may stand between flags").names, ["switch", "chain"]);
    }
}
