//! Large numbers: a million VPs one after another, and a million suspended at once. Optimised builds only: in others they take too long.
//!
//! The smallest stacks do: what a suspended VP costs is the page that it stands on, however large its stack may become.
#![cfg(not(debug_assertions))]

mod common;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use common::lang::Gate;
use common::{runtime, within};
use proto_core::{Runtime, VpBuilder, scope};

/// Some seconds, ordinarily. A machine may be very busy with others; but `ci/test.sh` ends a program after 240 seconds, without naming the test.
const LIMIT: Duration = Duration::from_secs(220);

#[test]
fn a_million_vps_are_born_and_joined() {
    for controllers in [1, 2] {
        within(LIMIT, "a million born and joined", || {
            let sum = runtime(controllers)
                .run(|| {
                    let vps: Vec<_> = (0..1_000_000usize).map(|n| VpBuilder::new().spawn(move || n).unwrap()).collect();
                    vps.into_iter().map(|vp| vp.join().unwrap()).sum::<usize>()
                })
                .unwrap();
            assert_eq!(sum, 499_999_500_000);
        });
    }
}

/// What a million take: some 4.4 KiB each, and as much again to spare.
const MEMORY_OF_A_MILLION: u64 = 9 << 30;

/// What the machine could give now, in bytes.
fn memory() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kib = line.and_then(|line| line.trim().trim_end_matches("kB").trim().parse().ok());
    kib.map_or(u64::MAX, |kib: u64| kib << 10)
}

/// All exist at the same time, each is resumed, and each ends.
#[test]
fn a_million_are_suspended_at_once() {
    within(LIMIT, "suspended at once", || {
        // On a smaller machine as many as it has memory for by far.
        let count = if memory() >= MEMORY_OF_A_MILLION { 1_000_000 } else { 200_000 };
        let runtime = Runtime::builder().controllers(2).pin(false).stack_size(32 << 10).build().unwrap();
        let gate = Gate::new();
        let (arrived, passed) = (AtomicUsize::new(0), AtomicUsize::new(0));
        runtime
            .run(|| {
                scope(|s| {
                    for _ in 0..count {
                        s.spawn(|| {
                            arrived.fetch_add(1, Ordering::Relaxed);
                            gate.pass();
                            passed.fetch_add(1, Ordering::Relaxed);
                        });
                    }
                    while arrived.load(Ordering::Relaxed) < count {
                        proto_core::yield_now();
                    }
                    // All stand in one queue, or are a few instructions before it; none has passed.
                    while gate.waiting() < count {
                        proto_core::yield_now();
                    }
                    assert_eq!(passed.load(Ordering::Relaxed), 0);
                    gate.open();
                });
            })
            .unwrap();
        assert_eq!(passed.into_inner(), count);
        // Their stacks are used again.
        runtime.run(|| scope(|s| (0..1000).for_each(|_| drop(s.spawn(|| ()))))).unwrap();
    });
}
