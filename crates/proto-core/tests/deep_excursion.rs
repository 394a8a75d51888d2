//! A VP that goes deep once does not keep the memory of its stack for ever: its core gives it back when it has nothing better to do.
//!
//! In a process of its own: what is resident is a number of the process.
#![cfg(not(miri))]

mod common;

use std::sync::atomic::{AtomicUsize, Ordering};

use common::lang::Gate;
use common::watched;
use proto_core::{Runtime, scope, yield_now};

const VPS: usize = 64;
const DEPTH: usize = 1 << 20;

fn resident() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: usize = statm.split(' ').nth(1).unwrap().parse().unwrap();
    pages * 4096
}

/// Touches at least `depth` bytes of the stack.
#[inline(never)]
fn descend(depth: usize) -> u8 {
    let frame = std::hint::black_box([1u8; 2048]);
    if depth <= frame.len() {
        return frame[depth % 2048];
    }
    descend(depth - frame.len()).wrapping_add(std::hint::black_box(&frame)[depth % 2048])
}

#[test]
fn the_memory_of_a_deep_excursion_is_given_back() {
    watched("deep excursion", || {
        let runtime = Runtime::builder().controllers(1).pin(false).stack_size(4 << 20).build().unwrap();
        let before = resident();
        let deepest = AtomicUsize::new(0);
        runtime
            .run(|| {
                let gate = Gate::new();
                scope(|s| {
                    for _ in 0..VPS {
                        s.spawn(|| {
                            std::hint::black_box(descend(DEPTH));
                            gate.pass();
                        });
                    }
                    // Each on a stack of its own: none is used twice.
                    while gate.waiting() < VPS {
                        yield_now();
                    }
                    deepest.store(resident(), Ordering::Relaxed);
                    gate.open();
                });
            })
            .unwrap();
        let grown = deepest.into_inner().saturating_sub(before);
        assert!(grown >= VPS * DEPTH / 2, "they went deep: {grown} bytes");
        // The core trims its stacks some at a time, between one work and the next.
        while resident().saturating_sub(before) > grown / 4 {
            runtime.run(yield_now).unwrap();
            std::thread::yield_now();
        }
        // And they are used again.
        runtime.run(|| scope(|s| (0..VPS).for_each(|_| drop(s.spawn(|| descend(DEPTH)))))).unwrap();
    });
}
