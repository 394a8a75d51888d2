//! The floor of every hand-over between cores: two pinned threads spinning on one atomic.

use std::hint::spin_loop;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::std::Threads;
use super::{Host as _, Timeline};

/// Alone on its cache lines, and on the neighbours the prefetcher fetches with them.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Alone(AtomicU64);

/// `rounds` round trips between the first two cores.
pub(crate) fn ping_pong(rounds: u64) -> Duration {
    let turn = Arc::new(Alone::default());
    let timeline = |mine: u64| -> Timeline {
        let turn = Arc::clone(&turn);
        Box::new(move || {
            for round in 0..rounds {
                // Acquire: pairs with the other side's Release. No data depend on it; a hand-over
                // that orders nothing would be no hand-over.
                while turn.0.load(Ordering::Acquire) != 2 * round + mine {
                    spin_loop();
                }
                turn.0.store(2 * round + mine + 1, Ordering::Release);
            }
        })
    };
    Threads::pinned(2).run(vec![timeline(0), timeline(1)])
}
