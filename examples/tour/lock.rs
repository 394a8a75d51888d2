//! What one shared lock costs, written once for any kind of timelines (see `index.rs` for how).
//!
//! Each timeline does some private work, takes the one lock, lets it go, and begins again. With no lock to pay for, the
//! work is done in (work ÷ cores); how much longer it takes is the lock's overhead.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::sync::Mutex;
use super::thread;
use crate::sides::{Load, STACK};
use crate::work::work;

/// How long the load takes, from before the first timeline is born until the last has ended.
///
/// # Errors
/// If a timeline could not be started or has panicked.
pub(crate) fn time(load: Load) -> Result<Duration, String> {
    let taken = Arc::new(Mutex::new(0_u64));
    let begin = Instant::now();
    let mut timelines = Vec::with_capacity(load.timelines);
    for _ in 0..load.timelines {
        let taken = Arc::clone(&taken);
        let timeline = thread::Builder::new()
            .stack_size(STACK)
            .spawn(move || {
                let mut done = 1;
                for _ in 0..load.rounds {
                    done = work(done, load.steps);
                    if load.locked {
                        *taken.lock().unwrap() += 1;
                    }
                }
            })
            .map_err(|error| error.to_string())?;
        timelines.push(timeline);
    }
    for timeline in timelines {
        timeline.join().map_err(|_| "a timeline panicked".to_owned())?;
    }
    let time = begin.elapsed();
    let expected = if load.locked { load.timelines as u64 * load.rounds } else { 0 };
    if *taken.lock().unwrap() != expected {
        return Err("the lock did not exclude: rounds are missing".to_owned());
    }
    Ok(time)
}
