//! One sample, one process.
//!
//! Every sample is taken in a child process of the same binary, because peers have state that lasts
//! as long as their process and would colour the next one's figures: may fixes its number of workers
//! once, only the first of our runtimes pins its controllers, freed stacks stay resident, and idle
//! workers of one peer would take time from another. It also bounds the damage: a peer that hangs is
//! killed, one that crashes is reported, and the run goes on.
//!
//! The case goes down as an argument (JSON), the measures come back as one line of JSON on standard
//! output; whatever else a child prints goes to standard error.

use std::io::{Read as _, Write as _};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, bail};
use wait_timeout::ChildExt as _;

use crate::record::{Case, Measure};
use crate::workloads;

/// The argument that makes this binary a child.
pub(crate) const FLAG: &str = "--child";

/// Measures `case` in a child process and waits for its figures, at most `patience` long.
///
/// # Errors
/// When the child cannot be started, fails, hangs, or answers something else than measures.
pub(crate) fn sample(case: &Case, patience: Duration) -> anyhow::Result<Vec<Measure>> {
    let program = std::env::current_exe().context("cannot find this program's own file")?;
    let mut child = Command::new(program)
        .arg(FLAG)
        .arg(serde_json::to_string(case)?)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("cannot start a child process")?;
    let Some(status) = child.wait_timeout(patience)? else {
        child.kill()?;
        child.wait()?;
        bail!("no answer within {} s", patience.as_secs());
    };
    // Read only now: an answer is some kilobytes at most, far below the 64 KiB a pipe holds.
    let mut answer = String::new();
    child.stdout.take().context("no pipe")?.read_to_string(&mut answer)?;
    if !status.success() {
        let mut said = String::new();
        child.stderr.take().context("no pipe")?.read_to_string(&mut said)?;
        let said = said.lines().map(str::trim).filter(|line| !line.is_empty());
        bail!("{status}: {}", said.take(3).collect::<Vec<_>>().join(" | "));
    }
    serde_json::from_str(answer.trim()).with_context(|| format!("unreadable answer: {answer:?}"))
}

/// Is the child: measures the case and prints the measures.
pub(crate) fn serve(case: &str) -> anyhow::Result<()> {
    let case: Case = serde_json::from_str(case).context("unreadable case")?;
    let workload = workloads::find(&case.workload).context("no such workload")?;
    // A second thread for the life of the process. While there is only one, glibc leaves the lock
    // prefix out of its mutex, and pthread would seem three times faster than it is in any program
    // that needs a mutex.
    let _second = std::thread::spawn(|| {
        loop {
            std::thread::park();
        }
    });
    let measures = workload.measure(&case)?;
    let mut out = std::io::stdout().lock();
    serde_json::to_writer(&mut out, &measures)?;
    out.flush()?;
    drop(out);
    // Not a return: peers leave workers behind that must not delay the next sample.
    std::process::exit(0)
}
