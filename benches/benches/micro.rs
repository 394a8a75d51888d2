//! `cargo bench --bench micro`: the micro-operations under criterion, for the statistics that the
//! medians of `overhead` do not give (confidence intervals, change since the last run).
//!
//! `overhead` judges the goals. This bench is for the work between two of its runs: it tells whether
//! a change of a few percent to one operation is real.

use std::hint::black_box;

use corosensei::Coroutine;
use criterion::{Criterion, criterion_group, criterion_main};

/// The bare switch there and back.
fn switch(criterion: &mut Criterion) {
    let mut coroutine = Coroutine::<(), (), ()>::new(|yielder, ()| {
        loop {
            yielder.suspend(());
        }
    });
    criterion.bench_function("switch/corosensei", |bencher| {
        bencher.iter(|| coroutine.resume(()))
    });
}

/// Lock, add one, unlock, with nobody else.
fn mutex(criterion: &mut Criterion) {
    // While a process has one thread, glibc leaves the lock prefix out.
    let _second = std::thread::spawn(|| {
        loop {
            std::thread::park();
        }
    });
    let mut group = criterion.benchmark_group("mutex");
    let lock = parking_lot::Mutex::new(0_u64);
    group.bench_function("parking_lot", |bencher| {
        bencher.iter(|| *black_box(&lock).lock() += 1)
    });
    let lock = std::sync::Mutex::new(0_u64);
    group.bench_function("std", |bencher| {
        bencher.iter(|| *black_box(&lock).lock().expect("no holder panics") += 1);
    });
    group.finish();
}

criterion_group!(micro, switch, mutex);
criterion_main!(micro);
