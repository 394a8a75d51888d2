//! What trees of forks and trees of tasks are tried with.

use std::time::Duration;

use proto_core::{ProcessError, blocking, yield_now};

use super::lang::{Lock, sleep};
use super::{runtime, sized};

/// One of five ways to lose the core, for the first five numbers drawn; otherwise nothing.
pub fn wait_perhaps(drawn: u64, lock: &Lock) {
    match drawn {
        0 => yield_now(),
        1 => drop(lock.lock()),
        2 => sleep(Duration::from_micros(20)),
        3 => blocking(|| ()),
        4 => {
            let _held = lock.lock();
            yield_now();
        }
        _ => {}
    }
}

/// Repeats `work` without end in a process that is cancelled, each time a little later: it ends as cancelled, and nothing is waited for in vain.
pub fn cancel_some_time(work: impl Fn() + Copy + Send + 'static) {
    for round in 0..sized(150, 5) {
        let runtime = runtime(1 + round % 3);
        let process = runtime
            .start(move || {
                loop {
                    work();
                    sleep(Duration::from_micros(1));
                }
            })
            .unwrap();
        for _ in 0..round % 5 {
            std::thread::yield_now();
        }
        process.cancel().unwrap();
        assert!(matches!(process.wait().map(|_: ()| ()), Err(ProcessError::Cancelled)), "round {round}");
    }
}
