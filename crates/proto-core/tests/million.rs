//! Large numbers: a million VPs one after another, a hundred thousand and more suspended at once. Optimised builds only: in others they
//! take too long.
#![cfg(not(debug_assertions))]

mod common;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use common::lang::Gate;
use common::{runtime, within};
use proto_core::{Runtime, VpBuilder, scope};

const LIMIT: Duration = Duration::from_secs(900);

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

/// As many at once as the machine has memory for by far, and each is resumed and ends.
#[test]
fn two_hundred_thousand_are_suspended_at_once() {
    within(LIMIT, "suspended at once", || {
        let count = 200_000;
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
