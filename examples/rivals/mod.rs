//! What the examples on real input share: one program run as plain code, on our tasks, and on rayon; results compared, times in a table.
//!
//! A program is a closure that is told by a [`With`] whose verbs to use, and marks the end of each of its stages; `verbs.rs` has the
//! verbs of the three side by side. The sides take turns, so that what else happens on the machine hits all alike.
//!
//! This folder is no example by itself; `barnes_hut`, `tour` and `wordsort` include it as a module.

#[path = "../tour/show.rs"]
pub(crate) mod show;
mod table;
mod verbs;

use std::time::{Duration, Instant};

use proto_core::Runtime;
use rayon::ThreadPool;

/// Whose verbs a program uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum With {
    /// Nobody's: plain loops and calls.
    Plain,
    /// Those of `proto_lang_tasks`.
    Tasks,
    /// Those of rayon.
    Rayon,
}

/// When the stages of one run ended.
#[derive(Debug)]
pub(crate) struct Laps {
    last: Instant,
    stages: Vec<(&'static str, Duration)>,
}

impl Laps {
    pub(crate) fn new() -> Self {
        Self { last: Instant::now(), stages: Vec::new() }
    }

    /// The stage `name` began when the one before ended, and ends now.
    pub(crate) fn end(&mut self, name: &'static str) {
        let now = Instant::now();
        self.stages.push((name, now - self.last));
        self.last = now;
    }
}

/// A column of the table.
struct Side {
    place: Place,
    runs: Vec<Vec<(&'static str, Duration)>>,
}

enum Place {
    Thread,
    Runtime(Runtime),
    Pool(ThreadPool),
}

impl Side {
    /// Plain code, then ours and rayon on one core, then on all of them, if there are more.
    fn all() -> Result<Vec<Self>, String> {
        let machine = runtime(None)?;
        let cores = machine.controllers();
        let mut places = vec![Place::Thread];
        if cores > 1 {
            places.extend([Place::Runtime(runtime(Some(1))?), pool(1)?]);
        }
        places.extend([Place::Runtime(machine), pool(cores)?]);
        Ok(places.into_iter().map(|place| Self { place, runs: Vec::new() }).collect())
    }

    /// Above the column.
    fn name(&self) -> [String; 2] {
        let on = |count| show::counted(count, "core");
        match &self.place {
            Place::Thread => ["plain".to_owned(), "code".to_owned()],
            Place::Runtime(runtime) => ["tasks".to_owned(), on(runtime.controllers())],
            Place::Pool(pool) => ["rayon".to_owned(), on(pool.current_num_threads())],
        }
    }

    fn run<R: Send>(&mut self, program: &(impl Fn(With, &mut Laps) -> R + Sync)) -> Result<R, String> {
        let measured = |with| {
            let mut laps = Laps::new();
            let result = program(with, &mut laps);
            (result, laps.stages)
        };
        let (result, stages) = match &self.place {
            Place::Thread => measured(With::Plain),
            Place::Runtime(runtime) => runtime.run(|| measured(With::Tasks)).map_err(|error| error.to_string())?,
            Place::Pool(pool) => pool.install(|| measured(With::Rayon)),
        };
        self.runs.push(stages);
        Ok(result)
    }
}

/// A runtime on so many cores, or on all that this program may use.
///
/// # Errors
/// A sentence for the user.
pub(crate) fn runtime(cores: Option<usize>) -> Result<Runtime, String> {
    let builder = Runtime::builder();
    let builder = match cores {
        Some(cores) => builder.controllers(cores),
        None => builder,
    };
    builder.build().map_err(|error| format!("the runtime could not be started: {error}"))
}

fn pool(threads: usize) -> Result<Place, String> {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
    pool.map(Place::Pool).map_err(|error| format!("rayon's threads could not be started: {error}"))
}

/// Runs `program` on every side, `runs` times each, prints the times, and gives the result of the plain code.
///
/// # Errors
/// A sentence for the user: a side could not be started, or came to another result than the plain code.
pub(crate) fn compare<R, P>(runs: usize, program: P) -> Result<R, String>
where
    R: PartialEq + Send,
    P: Fn(With, &mut Laps) -> R + Sync,
{
    let mut sides = Side::all()?;
    let mut expected = None;
    for _ in 0..runs {
        for side in &mut sides {
            let result = side.run(&program)?;
            match &expected {
                None => expected = Some(result),
                Some(expected) if *expected == result => {}
                Some(_) => {
                    let [who, on] = side.name();
                    return Err(format!(
                        "{who} on {on} came to another result than plain code: a bug, please report it"
                    ));
                }
            }
        }
    }
    table::print(&sides, runs);
    expected.ok_or_else(|| "to compare, at least one run is needed".to_owned())
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[test]
    fn every_side_runs_the_program_with_its_own_verbs() {
        let seen = Mutex::new([0; 3]);
        let result = compare(2, |with, laps| {
            seen.lock().unwrap()[with as usize] += 1;
            laps.end("only stage");
            7
        });
        assert_eq!(result, Ok(7));
        let seen = seen.into_inner().unwrap();
        assert_eq!(seen[0], 2, "plain code runs once a round");
        assert!(seen[1] >= 2 && seen[1] == seen[2], "ours and rayon on as many sides: {seen:?}");
    }

    #[test]
    fn a_side_with_another_result_is_named() {
        let error = compare(1, |with, _| with == With::Rayon).expect_err("rayon says yes");
        assert!(error.starts_with("rayon on 1 core came to another result"), "{error}");
    }
}
