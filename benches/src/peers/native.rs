//! Rivals that are no crates: programs in C and C++ (`native/`), compiled by the bench when one of its
//! workloads wants them, with whatever compiler and library the machine has. Without those the rival is not
//! measured, which the run says, and goals against it are unknown.
//!
//! They are compiled for this very machine, so each run does it anew; and once, by the process that plans, not
//! by each sample.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, anyhow, bail, ensure};

use crate::lattice::{Lattice, Timing};
use crate::record::Case;

/// A rival that is compiled by the bench.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Native {
    /// The peer's name.
    pub(crate) peer: &'static str,
    /// What a machine must have for it, for people.
    needs: &'static str,
    compiler: &'static str,
    source: (&'static str, &'static str),
    /// What stands before the source, and behind it.
    flags: (&'static [&'static str], &'static [&'static str]),
}

/// OpenMP tasks of the GNU compiler.
pub(crate) const LIBGOMP: Native = Native {
    peer: "libgomp",
    needs: "gcc with OpenMP",
    compiler: "gcc",
    source: ("libgomp.c", include_str!("../../native/libgomp.c")),
    flags: (&["-fopenmp"], &[]),
};

/// The flow graph of oneTBB.
pub(crate) const ONETBB: Native = Native {
    peer: "onetbb",
    needs: "g++ and libtbb-dev",
    compiler: "g++",
    source: ("onetbb.cpp", include_str!("../../native/onetbb.cpp")),
    flags: (&["-std=c++17"], &["-ltbb"]),
};

/// What all of them include.
const HEADER: (&str, &str) = ("lattice.h", include_str!("../../native/lattice.h"));

/// The programs that were compiled, by the peers' names, or why one was not.
pub(crate) type Programs = BTreeMap<&'static str, Result<PathBuf, String>>;

/// Compiles all of `natives` in `folder`.
pub(crate) fn compile(natives: impl IntoIterator<Item = Native>, folder: &Path) -> Programs {
    let mut programs = Programs::new();
    for native in natives {
        programs
            .entry(native.peer)
            .or_insert_with(|| native.compile(folder).map_err(|error| format!("needs {} ({error:#})", native.needs)));
    }
    programs
}

impl Native {
    fn compile(&self, folder: &Path) -> anyhow::Result<PathBuf> {
        std::fs::create_dir_all(folder)?;
        for (name, text) in [HEADER, self.source] {
            std::fs::write(folder.join(name), text)?;
        }
        let mut command = Command::new(self.compiler);
        command.current_dir(folder).args(["-O3", "-march=native"]).args(self.flags.0);
        command.args([self.source.0, "-o", self.peer]).args(self.flags.1);
        let done = command.stdin(Stdio::null()).output().map_err(|error| match error.kind() {
            ErrorKind::NotFound => anyhow!("there is no {}", self.compiler),
            _ => error.into(),
        })?;
        let said = String::from_utf8_lossy(&done.stderr);
        let error = said.lines().find(|line| line.contains("error")).or(said.lines().next());
        ensure!(done.status.success(), "{}", error.unwrap_or("it says nothing").trim());
        Ok(folder.join(self.peer))
    }
}

/// Lets the program of `case` measure `lattice`, and then run it `rounds` times more, if it can.
pub(crate) fn measure(case: &Case, lattice: &Lattice, rounds: u32) -> anyhow::Result<Timing> {
    let program = case.program.as_deref().context("a native rival has a program")?;
    let mut command = Command::new(program);
    command.arg(lattice.shape.name());
    let numbers = [case.workers, rounds as usize, lattice.rows, lattice.columns, lattice.steps as usize];
    command.args(numbers.map(|number| number.to_string()));
    let done = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output();
    let done = done.with_context(|| format!("cannot run {}", program.display()))?;
    ensure!(done.status.success(), "{}: {}", program.display(), done.status);
    read(String::from_utf8(done.stdout)?.trim_end(), lattice, rounds)
}

/// Reads the answer of a program; see `native/lattice.h`.
fn read(line: &str, lattice: &Lattice, rounds: u32) -> anyhow::Result<Timing> {
    let unreadable = || format!("unreadable line {line:?}");
    let (checksum, times) = line.split_once(' ').with_context(unreadable)?;
    let times = times.split(' ').map(str::parse).collect::<Result<Vec<f64>, _>>().with_context(unreadable)?;
    let (timing, runs) = match times[..] {
        [work, all] => (Timing { work, all, run: None, again: None }, 1),
        [work, all, run, again] => (Timing { work, all, run: Some(run), again: Some(again) }, 1 + rounds),
        _ => bail!(unreadable()),
    };
    lattice.check(runs, checksum.parse().with_context(unreadable)?)?;
    Ok(timing)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calibrate::WorkPoint;
    use crate::lattice::Shape;

    #[test]
    fn a_rival_that_cannot_be_compiled_says_what_it_needs() {
        let folder = std::env::temp_dir().join(format!("proto-benches-{}", std::process::id()));
        let absent = Native { compiler: "no-such-compiler", ..ONETBB };
        let broken = Native { peer: "broken", source: ("broken.c", "#include <no-such-header.h>\n"), ..LIBGOMP };
        let programs = compile([absent, broken], &folder);
        std::fs::remove_dir_all(&folder).expect("the folder was made");
        let why = |peer| programs[peer].as_ref().expect_err("it cannot be compiled").as_str();
        assert_eq!(why("onetbb"), "needs g++ and libtbb-dev (there is no no-such-compiler)");
        assert!(why("broken").starts_with("needs gcc with OpenMP ("), "{}", why("broken"));
    }

    #[test]
    fn a_line_is_read_and_its_checksum_compared() {
        let point = WorkPoint { cycles: 0, steps: 3, ns: 0.0 };
        let lattice = Lattice::new(Shape::Grid, 12, &point);
        let (once, thrice) = (lattice.right_checksum(1), lattice.right_checksum(3));
        let timing = read(&format!("{once} 3.5 100"), &lattice, 2).expect("it is right");
        assert_eq!((timing.work, timing.all, timing.run), (3.5, 100.0, None));
        let timing = read(&format!("{thrice} 3.5 100 90 80"), &lattice, 2).expect("it is right");
        assert_eq!((timing.run, timing.again), (Some(90.0), Some(80.0)));
        assert!(read(&format!("{once} 3.5 100 90 80"), &lattice, 2).is_err(), "it has to run three times");
        assert!(read(&format!("{once} 3.5"), &lattice, 2).is_err(), "a time is missing");
    }
}
