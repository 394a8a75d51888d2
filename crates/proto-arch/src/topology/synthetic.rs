//! A machine from a description: `4 packages × 10 cores × 2 threads`, or hwloc's `pack:4 l3:1 core:10 pu:1`.
//!
//! ```text
//! description = ours | hwloc
//! ours        = count word { joint count word }      joint = "×" | "x" | "*" | ","
//! hwloc       = word ":" count { word ":" count }
//! ```
//!
//! Each count is per unit of the level before it. Cores are numbered from the inside out: the threads of a core are
//! neighbours, and cpu *n* is core *n*.

use super::draft::{Draft, MAX_CORES};
use super::{Level, Source, Topology, TopologyError};

/// A step inwards: how many of what per unit of the step before.
struct Step {
    what: Unit,
    count: usize,
    /// Where its word is, for errors.
    at: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Unit {
    Level(Level),
    Thread,
}

pub(super) fn parse(text: &str) -> Result<Topology, TopologyError> {
    let steps = Parser { text, at: 0 }.steps()?;
    check_order(text, &steps)?;
    build(text, &steps)
}

fn error<T>(text: &str, at: usize, problem: impl Into<String>) -> Result<T, TopologyError> {
    Err(TopologyError::Description { text: text.to_owned(), at, problem: problem.into() })
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Parser<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn skip_blanks(&mut self) {
        self.at = self.text.len() - self.rest().trim_start().len();
    }

    /// The longest start of the rest that consists of such characters.
    fn take(&mut self, of: impl Fn(char) -> bool) -> &'a str {
        let rest = self.rest();
        let end = rest.find(|c| !of(c)).unwrap_or(rest.len());
        self.at += end;
        &rest[..end]
    }

    fn steps(mut self) -> Result<Vec<Step>, TopologyError> {
        let mut steps = Vec::new();
        self.skip_blanks();
        let is_hwloc = self.rest().starts_with(|c: char| c.is_ascii_alphabetic());
        loop {
            let step = if is_hwloc { self.hwloc_step() } else { self.step() };
            steps.push(step?);
            self.skip_blanks();
            if self.rest().is_empty() {
                return Ok(steps);
            }
            if !is_hwloc {
                self.joint()?;
            }
        }
    }

    fn step(&mut self) -> Result<Step, TopologyError> {
        let count = self.count()?;
        self.skip_blanks();
        let (what, at) = self.word()?;
        Ok(Step { what, count, at })
    }

    fn hwloc_step(&mut self) -> Result<Step, TopologyError> {
        let (what, at) = self.word()?;
        if !self.rest().starts_with(':') {
            return error(self.text, self.at, "expected `:` and a number, as in `core:10`");
        }
        self.at += 1;
        let count = self.count()?;
        if self.rest().starts_with('(') {
            return error(self.text, self.at, "attributes in parentheses are not supported");
        }
        Ok(Step { what, count, at })
    }

    fn joint(&mut self) -> Result<(), TopologyError> {
        let mut chars = self.rest().chars();
        match chars.next() {
            Some(joint @ ('×' | 'x' | 'X' | '*' | ',')) => {
                self.at += joint.len_utf8();
                self.skip_blanks();
                Ok(())
            }
            _ => error(self.text, self.at, "expected `×`, `x`, `*` or `,` before the next level"),
        }
    }

    fn count(&mut self) -> Result<usize, TopologyError> {
        let at = self.at;
        let digits = self.take(|c| c.is_ascii_digit());
        match digits.parse() {
            Ok(0) => error(self.text, at, "a level needs at least one unit"),
            Ok(count) if count <= MAX_CORES => Ok(count),
            Ok(_) => error(self.text, at, format!("more than {MAX_CORES}")),
            Err(_) if digits.is_empty() => error(self.text, at, "expected a number"),
            Err(_) => error(self.text, at, format!("more than {MAX_CORES}")),
        }
    }

    /// The word of a level; two words for `NUMA nodes` and `L3 caches`.
    fn word(&mut self) -> Result<(Unit, usize), TopologyError> {
        let at = self.at;
        let word = self.take(|c| c.is_ascii_alphanumeric()).to_ascii_lowercase();
        let what = match word.trim_end_matches('s') {
            "package" | "pack" | "socket" => Unit::Level(Level::Package),
            "numa" | "numanode" | "node" => Unit::Level(Level::NumaNode),
            "l3" | "l3cache" => Unit::Level(Level::L3),
            "l2" | "l2cache" => Unit::Level(Level::L2),
            "l1" | "l1cache" | "l1d" => Unit::Level(Level::L1),
            "core" => Unit::Level(Level::PhysicalCore),
            "thread" | "pu" => Unit::Thread,
            "" => {
                return error(self.text, at, "expected of what: packages, numa, l3, l2, l1, cores or threads");
            }
            other => {
                let problem =
                    format!("unknown level `{other}`; there are packages, numa, l3, l2, l1, cores and threads");
                return error(self.text, at, problem);
            }
        };
        let after_word = self.at;
        self.skip_blanks();
        let second = self.take(|c| c.is_ascii_alphabetic()).to_ascii_lowercase();
        let belongs = match what {
            Unit::Level(Level::NumaNode) => matches!(second.as_str(), "node" | "nodes"),
            Unit::Level(Level::L3 | Level::L2 | Level::L1) => {
                matches!(second.as_str(), "cache" | "caches")
            }
            _ => false,
        };
        if !belongs {
            self.at = after_word;
        }
        Ok((what, at))
    }
}

/// From the outside in, and each level once. Packages and NUMA nodes may go either way.
fn check_order(text: &str, steps: &[Step]) -> Result<(), TopologyError> {
    let rank = |what| match what {
        Unit::Level(Level::Package | Level::NumaNode) => 0,
        Unit::Level(level) => level as usize,
        Unit::Thread => Level::ALL.len(),
    };
    for (index, step) in steps.iter().enumerate() {
        if steps[..index].iter().any(|earlier| earlier.what == step.what) {
            return error(text, step.at, "this level is there twice");
        }
        if index > 0 && rank(steps[index - 1].what) > rank(step.what) {
            return error(text, step.at, "levels go from the outside in, and this one is wider than the one before");
        }
    }
    Ok(())
}

fn build(text: &str, steps: &[Step]) -> Result<Topology, TopologyError> {
    let mut total = 1_usize;
    for step in steps {
        total *= step.count; // each factor is at most MAX_CORES, and so is the product so far
        if total > MAX_CORES {
            return error(text, step.at, format!("that makes more than {MAX_CORES} cores"));
        }
    }
    let mut draft = Draft::new(Source::Synthetic);
    draft.cpus = (0..total).collect();
    let mut units = 1;
    for step in steps {
        units *= step.count;
        if let Unit::Level(level) = step.what {
            let each = total / units;
            for unit in 0..units {
                draft.add(level, (unit * each..(unit + 1) * each).collect(), None);
            }
        }
    }
    draft.build()
}
