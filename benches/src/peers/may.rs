//! may: stackful coroutines on pinned workers, in its default configuration (32 KiB stacks, 1 000 of
//! them pooled) but for the number of workers.
//!
//! may reads that number once per process, which is one of the reasons why every sample has its own
//! process. `go!` hides an `unsafe` of may's: its coroutines move between OS threads, so code on
//! them must not use thread-locals. The bodies here use none.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use may::coroutine::{self, JoinHandle};
use may::go;
use may::sync::{Condvar, Mutex, mpsc};

use super::{CountLock, Host, Timeline, Turns};

/// A host whose timelines are coroutines.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Coroutines(());

impl Coroutines {
    /// Coroutines on `workers` workers; the first call of a process decides.
    pub(crate) fn on(workers: usize) -> Self {
        may::config().set_workers(workers);
        // Starts the scheduler, so that no sample pays for it.
        join(go!(|| {}));
        Self(())
    }
}

impl Host for Coroutines {
    fn run(&self, timelines: Vec<Timeline>) -> Duration {
        let start = Instant::now();
        let coroutines: Vec<_> = timelines.into_iter().map(|timeline| go!(timeline)).collect();
        coroutines.into_iter().for_each(join);
        start.elapsed()
    }
}

/// Waits for a coroutine's end.
fn join(coroutine: JoinHandle<()>) {
    coroutine.join().expect("a timeline panicked");
}

/// Yields to the other coroutines.
pub(crate) fn yield_now() {
    coroutine::yield_now();
}

/// `may::sync::Mutex` around a count.
#[derive(Debug, Default)]
pub(crate) struct MutexCount(Mutex<u64>);

impl CountLock for MutexCount {
    #[inline]
    fn add(&self) {
        *self.0.lock().expect("no holder panics") += 1;
    }
}

/// `may::sync::Mutex` and `may::sync::Condvar` around whose turn it is.
#[derive(Default)]
pub(crate) struct CondvarTurns {
    turn: Mutex<bool>,
    changed: Condvar,
}

impl Turns for CondvarTurns {
    fn pass(&self, mine: bool) {
        let mut turn = self.turn.lock().expect("no holder panics");
        while *turn != mine {
            turn = self.changed.wait(turn).expect("no holder panics");
        }
        *turn = !mine;
        self.changed.notify_one();
    }
}

/// may has no bounded channel; its unbounded one.
pub(crate) fn channel() -> (impl Fn(u64) + Send + 'static, impl Fn() -> u64 + Send + 'static) {
    let (sender, receiver) = mpsc::channel();
    (
        // The last value of a ring finds nobody, which is no mistake.
        move |value| {
            let _ = sender.send(value);
        },
        move || receiver.recv().expect("the sender outlives the last round"),
    )
}

/// One coroutine starts `count` empty ones and joins them, 1 000 at a time: beyond its pool every
/// coroutine costs may three system calls.
pub(crate) fn spawn(count: u64) -> Duration {
    const FLIGHT: u64 = 1_000;
    let start = Instant::now();
    join(go!(move || {
        for _ in 0..count / FLIGHT {
            let flight: Vec<_> = (0..FLIGHT).map(|_| go!(|| {})).collect();
            flight.into_iter().for_each(join);
        }
    }));
    start.elapsed()
}

/// Starts `count` coroutines that park, calls `look` when all do, then lets them end.
pub(crate) fn park_all(count: u64, look: impl FnOnce()) {
    let parked = Arc::new(AtomicU64::new(0));
    let start = |_| {
        let parked = Arc::clone(&parked);
        go!(move || {
            // Release: pairs with the Acquire below; a stack is touched before it counts.
            parked.fetch_add(1, Ordering::Release);
            coroutine::park();
        })
    };
    let coroutines: Vec<_> = (0..count).map(start).collect();
    // Acquire: pairs with the Release above.
    while parked.load(Ordering::Acquire) < count {
        std::thread::yield_now();
    }
    look();
    for coroutine in coroutines {
        coroutine.coroutine().unpark();
        join(coroutine);
    }
}

/// Computes for `period`, starting and joining an empty coroutine every `pause`.
pub(crate) fn compute_and_fork(period: Duration, pause: Duration) {
    join(go!(move || {
        crate::workloads::idle::compute(period, pause, || join(go!(|| {})));
    }));
}
