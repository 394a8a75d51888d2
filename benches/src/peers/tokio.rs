//! tokio: tasks on the multi-threaded scheduler (`workers` ≥ 1) or the current-thread one (0).
//!
//! Tasks keep their cooperative budget. Every body runs in spawned tasks: the thread that calls
//! `block_on` is no worker, and a body on it would be woken through a parked thread.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::runtime::{Builder, Runtime};
use tokio::sync::{Mutex, Notify, mpsc};
use tokio::task::{self, JoinHandle};

use super::Stopwatch;
use crate::calibrate::private_work;

/// What one task does.
type Body = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A runtime, and what its tasks can be made to do.
#[derive(Debug)]
pub(crate) struct Tasks(Runtime);

/// Waits for the ends of all tasks.
async fn join_all(tasks: Vec<JoinHandle<()>>) {
    for task in tasks {
        task.await.expect("a task panicked");
    }
}

impl Tasks {
    /// Tasks on `workers` workers; 0 means the current-thread scheduler.
    pub(crate) fn on(workers: usize) -> Self {
        let runtime = match workers {
            0 => Builder::new_current_thread().build(),
            _ => Builder::new_multi_thread().worker_threads(workers).build(),
        };
        Self(runtime.expect("a runtime without drivers needs threads only"))
    }

    /// Runs all bodies as tasks to their ends.
    fn run(&self, bodies: Vec<Body>) -> Duration {
        self.0.block_on(async {
            let start = Instant::now();
            let tasks: Vec<_> = bodies.into_iter().map(tokio::spawn).collect();
            join_all(tasks).await;
            start.elapsed()
        })
    }

    /// Two tasks yield to each other, `count` times each.
    pub(crate) fn yields(&self, count: u64) -> Duration {
        let body = || -> Body {
            Box::pin(async move {
                for _ in 0..count {
                    task::yield_now().await;
                }
            })
        };
        self.run(vec![body(), body()])
    }

    /// One task locks and unlocks `count` times.
    pub(crate) fn lock_alone(&self, count: u64) -> Duration {
        self.curve(1, count, 0)
    }

    /// `tasks` tasks lock `each` times, with `steps` of private work before every lock.
    pub(crate) fn curve(&self, tasks: u64, each: u64, steps: u32) -> Duration {
        let shared = Arc::new(Mutex::new(0_u64));
        let body = |seed| -> Body {
            let shared = Arc::clone(&shared);
            Box::pin(async move {
                let mut value = seed;
                for _ in 0..each {
                    if steps > 0 {
                        value = private_work(value, steps);
                    }
                    *shared.lock().await += 1;
                }
                std::hint::black_box(value);
            })
        };
        self.run((0..tasks).map(body).collect())
    }

    /// `rounds` round trips over two channels with room for one value each.
    pub(crate) fn ping_pong(&self, rounds: u64) -> Duration {
        let (send_there, mut receive_there) = mpsc::channel(1);
        let (send_back, mut receive_back) = mpsc::channel(1);
        let ping = async move {
            for round in 0..rounds {
                send_there.send(round).await.expect("the pong outlives the last round");
                assert_eq!(receive_back.recv().await, Some(round), "the pong answers another ping");
            }
        };
        let pong = async move {
            for _ in 0..rounds {
                let round = receive_there.recv().await.expect("the ping outlives the last round");
                // The last pong may find the ping already gone.
                let _ = send_back.send(round).await;
            }
        };
        self.run(vec![Box::pin(ping), Box::pin(pong)])
    }

    /// A token goes `laps` times around a ring of `length` unbounded channels; the same protocol as
    /// [`super::ring`].
    pub(crate) fn ring(&self, length: u64, laps: u64) -> Duration {
        let stopwatch = Stopwatch::default();
        let (mut sends, receives): (Vec<_>, Vec<_>) = (0..length).map(|_| mpsc::unbounded_channel::<u64>()).unzip();
        sends.rotate_left(1);
        let mut pairs = sends.into_iter().zip(receives);
        let (send, mut receive) = pairs.next().expect("a ring has at least one channel");
        let pass_on = |(send, mut receive): (mpsc::UnboundedSender<u64>, mpsc::UnboundedReceiver<_>)| {
            let body: Body = Box::pin(async move {
                for _ in 0..laps {
                    let token = receive.recv().await.expect("the sender outlives the last lap");
                    let _ = send.send(token + 1);
                }
            });
            body
        };
        let mut bodies: Vec<Body> = pairs.map(pass_on).collect();
        let result = Arc::clone(&stopwatch);
        bodies.push(Box::pin(async move {
            let start = Instant::now();
            let mut token = 0;
            for _ in 0..laps {
                let _ = send.send(token + 1);
                token = receive.recv().await.expect("the sender outlives the last lap");
            }
            let elapsed = start.elapsed();
            assert_eq!(token, laps * length, "the token visits every task in every lap");
            result.set(elapsed).expect("only this task sets it");
        }));
        self.run(bodies);
        *stopwatch.get().expect("the first task has ended")
    }

    /// One task spawns `count` empty ones, keeps their handles, and waits for all.
    pub(crate) fn spawn(&self, count: u64) -> Duration {
        let spawner: Body = Box::pin(async move {
            let tasks: Vec<_> = (0..count).map(|_| tokio::spawn(async {})).collect();
            join_all(tasks).await;
        });
        self.run(vec![spawner])
    }

    /// Starts `count` tasks that wait on a `Notify`, calls `look` when all do, then lets them end.
    pub(crate) fn wait_all(&self, count: u64, look: impl FnOnce()) {
        let (waiting, bell) = (Arc::new(AtomicU64::new(0)), Arc::new(Notify::new()));
        self.0.block_on(async {
            let start = |_| {
                let (waiting, bell) = (Arc::clone(&waiting), Arc::clone(&bell));
                tokio::spawn(async move {
                    let mut ring = std::pin::pin!(bell.notified());
                    ring.as_mut().enable();
                    // Release: pairs with the Acquire below; the task is on the list when it counts.
                    waiting.fetch_add(1, Ordering::Release);
                    ring.await;
                })
            };
            let tasks: Vec<_> = (0..count).map(start).collect();
            // Acquire: pairs with the Release above.
            while waiting.load(Ordering::Acquire) < count {
                std::thread::yield_now();
            }
            look();
            bell.notify_waiters();
            join_all(tasks).await;
        });
    }

    /// Computes for `period`, spawning and awaiting an empty task every `pause`.
    pub(crate) fn compute_and_fork(&self, period: Duration, pause: Duration) {
        let body: Body = Box::pin(async move {
            let end = Instant::now() + period;
            while Instant::now() < end {
                crate::workloads::idle::compute(pause, pause, || {});
                tokio::spawn(async {}).await.expect("an empty task does not panic");
            }
        });
        self.run(vec![body]);
    }
}
