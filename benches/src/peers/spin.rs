//! The floor of every hand-over between cores: two pinned threads spinning on one atomic. And what two such threads
//! make of a loop that is cut by hand.

use std::hint::spin_loop;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

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

/// Where two threads meet again and again, spinning.
#[derive(Debug, Default)]
pub(crate) struct Meeting(Alone);

impl Meeting {
    /// Waits until both have come as often.
    pub(crate) fn meet(&self) {
        // AcqRel: what one has done before a meeting, the other sees after it; pairs with the Acquire below.
        let came = self.0.0.fetch_add(1, Ordering::AcqRel);
        let both = came / 2 * 2 + 2;
        while self.0.0.load(Ordering::Acquire) < both {
            spin_loop();
        }
    }
}

/// What one of two threads does, to its result.
pub(crate) type Half<T> = Box<dyn FnOnce() -> T + Send>;

/// Runs both on the first two cores, beginning together; the time until both have ended, and their results.
pub(crate) fn both<T: Send + Sync + 'static>(halves: [Half<T>; 2]) -> (Duration, [T; 2]) {
    type Ends<T> = [OnceLock<(Instant, T)>; 2];
    let (meeting, ends) = (Arc::new(Meeting::default()), Arc::<Ends<T>>::default());
    let begin = Arc::new(OnceLock::new());
    let timeline = |(index, half): (usize, Half<T>)| -> Timeline {
        let (meeting, begin, ends) = (Arc::clone(&meeting), Arc::clone(&begin), Arc::clone(&ends));
        Box::new(move || {
            meeting.meet();
            begin.get_or_init(Instant::now);
            let result = half();
            assert!(ends[index].set((Instant::now(), result)).is_ok(), "only this timeline sets it");
        })
    };
    Threads::pinned(2).run(halves.into_iter().enumerate().map(timeline).collect());
    let ends = Arc::into_inner(ends).expect("both threads have ended");
    let [(first, a), (second, b)] = ends.map(|end| end.into_inner().expect("its timeline has ended"));
    (first.max(second) - *begin.get().expect("the first has begun"), [a, b])
}
