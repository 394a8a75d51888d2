//! Ours: virtual processors and the mutex language, in their shapes of `std::thread` and `std::sync`.
//!
//! Hooks are compiled in and off, stacks are 64 KiB with guards, controllers are pinned: what a
//! program gets that asks for nothing else. Placement is the default one, but where a workload is
//! about two cores ([`Vps::apart`]).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use proto_core::{CoreId, Runtime};
use proto_lang_mutex::{Builder, Condvar, JoinHandle, Mutex, sync_channel};

use super::{CountLock, Host, Timeline, Turns};

const STACK: usize = 64 * 1024;

/// A host whose timelines are VPs of one process.
#[derive(Debug)]
pub(crate) struct Vps {
    runtime: Runtime,
    /// The home of timeline `i` is core `i`; otherwise the assigner places.
    apart: bool,
}

impl Vps {
    /// VPs on `workers` controllers, placed as the default assigner does.
    pub(crate) fn on(workers: usize) -> Self {
        let builder = Runtime::builder().controllers(workers).pin(true).stack_size(STACK);
        let runtime = builder.build().expect("a runtime needs threads and stacks only");
        Self { runtime, apart: false }
    }

    /// The same with the home of every VP on another core.
    pub(crate) fn apart(workers: usize) -> Self {
        Self { apart: true, ..Self::on(workers) }
    }

    /// Runs `seed` as a process of its own.
    pub(crate) fn process<T: Send>(&self, seed: impl FnOnce() -> T + Send) -> T {
        self.runtime.run(seed).expect("no timeline panics and none waits for ever")
    }

    /// How timeline `index` is born.
    fn builder(&self, index: usize) -> Builder {
        let builder = Builder::new();
        if self.apart { builder.home(CoreId::new(u32::try_from(index).expect("few cores"))) } else { builder }
    }

    /// A VP alone on its core gives it away `count` times.
    pub(crate) fn switch(&self, count: u64) -> Duration {
        self.process(|| {
            let start = Instant::now();
            for _ in 0..count {
                yield_now();
            }
            start.elapsed()
        })
    }

    /// The seed starts `count` empty VPs, keeps their handles, and joins them.
    pub(crate) fn spawn(&self, count: u64) -> Duration {
        self.process(|| {
            let start = Instant::now();
            let vps: Vec<_> = (0..count).map(|_| proto_lang_mutex::spawn(|| {})).collect();
            vps.into_iter().for_each(join);
            start.elapsed()
        })
    }

    /// Starts `count` VPs that wait for a lock, calls `look` when all do, then lets them end.
    ///
    /// One controller: whenever the seed runs, every VP that has counted itself stands at the lock.
    pub(crate) fn wait_all(&self, count: u64, look: &(dyn Fn() + Sync)) {
        self.process(|| {
            let gate = Arc::new(Mutex::new(()));
            let waiting = Arc::new(AtomicU64::new(0));
            let closed = gate.lock().expect("no holder panics");
            let start = |_| {
                let (gate, waiting) = (Arc::clone(&gate), Arc::clone(&waiting));
                let vp = Builder::new().stack_size(STACK).spawn(move || {
                    // Relaxed: read on this same core only.
                    waiting.fetch_add(1, Ordering::Relaxed);
                    drop(gate.lock().expect("no holder panics"));
                });
                vp.expect("the arena has a stack for every VP")
            };
            let vps: Vec<_> = (0..count).map(start).collect();
            // Relaxed: see above.
            while waiting.load(Ordering::Relaxed) < count {
                yield_now();
            }
            look();
            drop(closed);
            vps.into_iter().for_each(join);
        });
    }

    /// Computes for `period`, starting and joining an empty VP every `pause`.
    pub(crate) fn compute_and_fork(&self, period: Duration, pause: Duration) {
        self.process(|| {
            crate::workloads::idle::compute(period, pause, || join(proto_lang_mutex::spawn(|| {})));
        });
    }
}

impl Host for Vps {
    fn run(&self, timelines: Vec<Timeline>) -> Duration {
        self.process(|| {
            let start = Instant::now();
            let begin =
                |(index, timeline)| self.builder(index).spawn(timeline).expect("the arena has a stack for every VP");
            let vps: Vec<_> = timelines.into_iter().enumerate().map(begin).collect();
            vps.into_iter().for_each(join);
            start.elapsed()
        })
    }
}

/// Waits for a VP's end.
fn join(vp: JoinHandle<()>) {
    vp.join().expect("a timeline panicked");
}

/// Yields to the other VPs of the core. Inlined, as a program's own call would be: each return after a switch is mispredicted.
#[inline(always)]
pub(crate) fn yield_now() {
    proto_lang_mutex::yield_now();
}

/// `proto_lang_mutex::Mutex` around a count.
#[derive(Debug, Default)]
pub(crate) struct MutexCount(Mutex<u64>);

impl CountLock for MutexCount {
    #[inline]
    fn add(&self) {
        *self.0.lock().expect("no holder panics") += 1;
    }
}

/// `proto_lang_mutex::Mutex` and `Condvar` around whose turn it is.
#[derive(Debug, Default)]
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
