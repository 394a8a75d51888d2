//! The peers: one file per family, each the same workloads in that family's own words.
//!
//! Thread-shaped peers (OS threads with their locks, may's coroutines, our VPs) share the bodies of
//! the workloads and differ in three things: what runs a timeline ([`Host`]), the lock
//! ([`CountLock`], [`Turns`]) and the channel (a pair of closures). tokio's bodies are its own,
//! because they are `async`. So a difference between two figures is one between two peers and not
//! between two ways to write a loop.

pub(crate) mod chili;
pub(crate) mod corosensei;
pub(crate) mod crossbeam;
pub(crate) mod dataflow;
pub(crate) mod lace;
pub(crate) mod may;
pub(crate) mod native;
pub(crate) mod parking_lot;
pub(crate) mod proto;
pub(crate) mod pthread;
pub(crate) mod rayon;
pub(crate) mod ready;
pub(crate) mod spin;
pub(crate) mod std;
pub(crate) mod tasks;
pub(crate) mod tokio;

use ::std::sync::{Arc, OnceLock};
use ::std::time::{Duration, Instant};

/// What one timeline does, from its start to its end.
pub(crate) type Timeline = Box<dyn FnOnce() + Send>;

/// Something that runs timelines: OS threads, coroutines, VPs.
pub(crate) trait Host {
    /// Runs all of them to their ends; returns the time from the moment the first may start until
    /// the last has ended.
    fn run(&self, timelines: Vec<Timeline>) -> Duration;
}

/// A lock around a count.
pub(crate) trait CountLock: Default + Send + Sync + 'static {
    /// Locks, adds one, unlocks.
    fn add(&self);
}

/// No lock at all: what the machine itself costs.
#[derive(Debug, Default)]
pub(crate) struct NoLock;

impl CountLock for NoLock {
    #[inline]
    fn add(&self) {}
}

/// Two timelines taking turns by a mutex and a condition variable.
pub(crate) trait Turns: Default + Send + Sync + 'static {
    /// Waits until it is `mine`'s turn, then gives the turn to the other and tells it.
    fn pass(&self, mine: bool);
}

/// `rounds` round trips by [`Turns`].
pub(crate) fn take_turns<T: Turns>(rounds: u64) -> Vec<Timeline> {
    let turns = Arc::new(T::default());
    let timeline = |mine: bool| -> Timeline {
        let turns = Arc::clone(&turns);
        Box::new(move || {
            for _ in 0..rounds {
                turns.pass(mine);
            }
        })
    };
    vec![timeline(false), timeline(true)]
}

/// `rounds` round trips over two channels; `make` makes one channel's two ends.
pub(crate) fn ping_pong<S, R>(rounds: u64, make: impl Fn() -> (S, R)) -> Vec<Timeline>
where
    S: Fn(u64) + Send + 'static,
    R: Fn() -> u64 + Send + 'static,
{
    let ((send_there, receive_there), (send_back, receive_back)) = (make(), make());
    let ping = move || {
        for round in 0..rounds {
            send_there(round);
            assert_eq!(receive_back(), round, "the pong answers another ping");
        }
    };
    let pong = move || {
        for _ in 0..rounds {
            send_back(receive_there());
        }
    };
    vec![Box::new(ping), Box::new(pong)]
}

/// Where the first timeline of a ring leaves the time of its hops.
pub(crate) type Stopwatch = Arc<OnceLock<Duration>>;

/// A token that goes `laps` times around a ring of `length` channels.
///
/// The first timeline measures, from its first send to the last return of the token, so that the
/// start of a thousand threads is not counted as hops. It comes last in the list: all others are
/// started before it.
pub(crate) fn ring<S, R>(length: u64, laps: u64, make: impl Fn() -> (S, R)) -> (Vec<Timeline>, Stopwatch)
where
    S: Fn(u64) + Send + 'static,
    R: Fn() -> u64 + Send + 'static,
{
    let stopwatch = Stopwatch::default();
    let (mut sends, receives): (Vec<S>, Vec<R>) = (0..length).map(|_| make()).unzip();
    // Timeline i receives from channel i and sends to channel i + 1.
    sends.rotate_left(1);
    let mut pairs = sends.into_iter().zip(receives);
    let (send, receive) = pairs.next().expect("a ring has at least one channel");
    let pass_on = |(send, receive): (S, R)| -> Timeline {
        Box::new(move || {
            for _ in 0..laps {
                send(receive() + 1);
            }
        })
    };
    let mut timelines: Vec<Timeline> = pairs.map(pass_on).collect();
    let result = Arc::clone(&stopwatch);
    timelines.push(Box::new(move || {
        let start = Instant::now();
        let mut token = 0;
        for _ in 0..laps {
            send(token + 1);
            token = receive();
        }
        let elapsed = start.elapsed();
        assert_eq!(token, laps * length, "the token visits every timeline in every lap");
        result.set(elapsed).expect("only this timeline sets it");
    }));
    (timelines, stopwatch)
}

#[cfg(test)]
mod tests {
    use super::std::{CondvarTurns, Threads, channel};
    use super::*;

    #[test]
    fn a_ring_counts_every_hop() {
        let (timelines, stopwatch) = ring(5, 7, channel);
        Threads::free().run(timelines);
        assert!(stopwatch.get().is_some(), "the first timeline has stopped the watch");
    }

    #[test]
    fn a_ping_pong_ends_after_its_rounds() {
        Threads::free().run(ping_pong(100, channel));
        Threads::free().run(take_turns::<CondvarTurns>(100));
    }
}
