//! The standard library: OS threads, `Mutex`, `Condvar`, `sync_channel`.
//!
//! [`Threads`] also runs the timelines of the other peers that are libraries for OS threads. Pinned,
//! where the workload says on which cores; free otherwise, because the kernel's own placement is
//! what a program gets.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Barrier, Condvar, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::{CountLock, Host, Timeline, Turns};
use crate::machine;

/// A host that gives each timeline an OS thread of its own.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Threads {
    /// Timeline `i` is pinned to core `i % cores`; `None`: the kernel places.
    cores: Option<usize>,
}

impl Threads {
    /// Threads the kernel places.
    pub(crate) fn free() -> Self {
        Self { cores: None }
    }

    /// Threads pinned to the first `cores` cores in turn.
    pub(crate) fn pinned(cores: usize) -> Self {
        Self { cores: Some(cores) }
    }
}

impl Host for Threads {
    fn run(&self, timelines: Vec<Timeline>) -> Duration {
        let cores = self.cores;
        // All threads exist before the first timeline starts: a thread takes longer to start than a
        // short timeline to run. Each notes its own end, so that joining is not counted.
        let gate = Arc::new(Barrier::new(timelines.len() + 1));
        let start = |(index, timeline): (usize, Timeline)| {
            let gate = Arc::clone(&gate);
            thread::spawn(move || {
                if let Some(cores) = cores {
                    machine::pin(index % cores);
                }
                gate.wait();
                let start = Instant::now();
                timeline();
                (start, Instant::now())
            })
        };
        let threads: Vec<JoinHandle<(Instant, Instant)>> = timelines.into_iter().enumerate().map(start).collect();
        gate.wait();
        let spans = threads.into_iter().map(|thread| thread.join().expect("a timeline panicked"));
        let (starts, ends): (Vec<_>, Vec<_>) = spans.unzip();
        let (start, end) = (starts.into_iter().min(), ends.into_iter().max());
        start.zip(end).map_or(Duration::ZERO, |(start, end)| end - start)
    }
}

/// `std::sync::Mutex` around a count.
#[derive(Debug, Default)]
pub(crate) struct MutexCount(Mutex<u64>);

impl CountLock for MutexCount {
    #[inline]
    fn add(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) += 1;
    }
}

/// `std::sync::Mutex` and `std::sync::Condvar` around whose turn it is.
#[derive(Debug, Default)]
pub(crate) struct CondvarTurns {
    turn: Mutex<bool>,
    changed: Condvar,
}

impl Turns for CondvarTurns {
    fn pass(&self, mine: bool) {
        let mut turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        while *turn != mine {
            turn = self.changed.wait(turn).unwrap_or_else(PoisonError::into_inner);
        }
        *turn = !mine;
        self.changed.notify_one();
    }
}

/// A channel with room for one value.
pub(crate) fn channel() -> (impl Fn(u64) + Send + 'static, impl Fn() -> u64 + Send + 'static) {
    let (sender, receiver) = sync_channel(1);
    (
        // The last value of a ring finds nobody, which is no mistake.
        move |value| {
            let _ = sender.send(value);
        },
        move || receiver.recv().expect("the sender outlives the last round"),
    )
}

/// Starts `count` empty threads, then joins them.
pub(crate) fn spawn(count: u64) -> Duration {
    let start = Instant::now();
    let threads: Vec<_> = (0..count).map(|_| thread::spawn(|| {})).collect();
    for thread in threads {
        thread.join().expect("an empty thread does not panic");
    }
    start.elapsed()
}

/// Starts `count` threads that park, calls `look` when all do, then lets them end.
pub(crate) fn park_all(count: u64, look: impl FnOnce()) {
    let parked = Arc::new(AtomicUsize::new(0));
    let start = |_| {
        let parked = Arc::clone(&parked);
        thread::spawn(move || {
            // Release: pairs with the Acquire below; a thread's stack is touched before it counts.
            parked.fetch_add(1, Ordering::Release);
            thread::park();
        })
    };
    let threads: Vec<_> = (0..count).map(start).collect();
    // Acquire: pairs with the Release above.
    while parked.load(Ordering::Acquire) < threads.len() {
        thread::yield_now();
    }
    look();
    for thread in threads {
        thread.thread().unpark();
        thread.join().expect("a parked thread does not panic");
    }
}
