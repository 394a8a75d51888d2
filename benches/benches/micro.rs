//! `cargo bench --bench micro`: the micro-operations under criterion, for the statistics that the
//! medians of `overhead` do not give (confidence intervals, change since the last run).
//!
//! `overhead` judges the goals. This bench is for the work between two of its runs: it tells whether
//! a change of a few percent to one operation is real.

use std::hint::black_box;
use std::time::{Duration, Instant};

use corosensei::Coroutine;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};

/// The bare switch there and back.
fn switch(criterion: &mut Criterion) {
    let mut coroutine = Coroutine::<(), (), ()>::new(|yielder, ()| {
        loop {
            yielder.suspend(());
        }
    });
    criterion.bench_function("switch/corosensei", |bencher| bencher.iter(|| coroutine.resume(())));
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
    group.bench_function("parking_lot", |bencher| bencher.iter(|| *black_box(&lock).lock() += 1));
    let lock = std::sync::Mutex::new(0_u64);
    group.bench_function("std", |bencher| {
        bencher.iter(|| *black_box(&lock).lock().expect("no holder panics") += 1);
    });
    {
        let runtime = runtime();
        let lock = proto_lang_mutex::Mutex::new(0_u64);
        let pair = || *black_box(&lock).lock().expect("no holder panics") += 1;
        group.bench_function("proto", |bencher| bencher.iter_custom(|n| on_vp(&runtime, n, pair)));
    }
    group.finish();
}

/// Opening a guarded value by its grant and closing it: what every lock of every language adds to
/// the two passes through its environment.
fn guarded(criterion: &mut Criterion) {
    let value = proto_core::Guarded::new(0_u64);
    let mut kept = Some(proto_core::Grant::new());
    criterion.bench_function("guarded/open+close", |bencher| {
        bencher.iter(|| {
            let grant = kept.take().expect("the last round left its grant");
            let mut opened = black_box(&value).open(grant);
            *opened += 1;
            kept = Some(opened.close());
        });
    });
}

/// A fork that nobody takes, with its join; and a task that is spawned and run in a scope of a thousand.
fn forks(criterion: &mut Criterion) {
    let runtime = runtime();
    let join = || {
        proto_lang_tasks::join(|| black_box(1), || black_box(2));
    };
    criterion.bench_function("join", |bencher| bencher.iter_custom(|n| on_vp(&runtime, n, join)));
    let scope = || {
        proto_lang_tasks::scope(|s| {
            for n in 0..1_000 {
                s.spawn(move || {
                    black_box(n);
                });
            }
        });
    };
    let mut group = criterion.benchmark_group("scope");
    group.throughput(Throughput::Elements(1_000));
    group.bench_function("spawn", |bencher| bencher.iter_custom(|n| on_vp(&runtime, n, scope)));
    group.finish();
}

/// One controller, so that nothing but the measured VP runs.
fn runtime() -> proto_core::Runtime {
    let builder = proto_core::Runtime::builder().controllers(1).pin(true);
    builder.build().expect("a runtime needs threads and stacks only")
}

/// The time of `count` calls of `operation` on a VP.
fn on_vp(runtime: &proto_core::Runtime, count: u64, operation: impl Fn() + Sync) -> Duration {
    let process = runtime.run(|| {
        let start = Instant::now();
        for _ in 0..count {
            operation();
        }
        start.elapsed()
    });
    process.expect("the operation neither panics nor waits for ever")
}

criterion_group!(micro, switch, mutex, guarded, forks);
criterion_main!(micro);
