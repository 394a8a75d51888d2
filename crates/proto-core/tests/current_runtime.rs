//! The runtime that a library finds itself in: the right one, and no more than found, so its owner can still end it.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use common::lang::Gate;
use common::{build, runtime, watched};
use proto_core::{Event, Fifo, Hooks, ProcessError, Runtime, RuntimeRef, SpawnError, available_parallelism, blocking};

fn name() -> Option<String> {
    Runtime::current().map(|found| found.name().to_owned())
}

#[test]
fn it_is_the_one_that_runs_the_caller() {
    watched("the right one", || {
        assert_eq!(name(), None);
        let outer = build(Runtime::builder().name("outer").controllers(2));
        outer
            .run(|| {
                assert_eq!(name().as_deref(), Some("outer"));
                assert_eq!(available_parallelism().get(), 2);
                // An OS thread again.
                assert_eq!(blocking(name), None);
                let inner = build(Runtime::builder().name("inner").controllers(3));
                let seen = inner.run(|| (name(), available_parallelism().get(), inner.cores()));
                let (seen, count, cores) = seen.unwrap();
                assert_eq!((seen.as_deref(), count), (Some("inner"), 3));
                assert_eq!(cores, inner.cores());
                assert_eq!(name().as_deref(), Some("outer"));
            })
            .unwrap();
        assert_eq!(name(), None);
    });
}

#[test]
fn what_it_starts_is_a_process_of_its_own() {
    watched("a process", || {
        let runtime = runtime(1);
        let gate = Arc::new(Gate::new());
        let process = runtime.run(|| {
            let here = Runtime::current().unwrap();
            assert_eq!(here.run(|| 5).unwrap(), 5, "the seed waits for it, and its core runs it");
            assert_eq!(here.process().assigner(Fifo).run(|| 6).unwrap(), 6);
            let gate = Arc::clone(&gate);
            here.start(move || gate.pass())
        });
        // The process that started it has ended, and it has not.
        let process = process.unwrap().unwrap();
        assert!(!process.has_ended());
        gate.open();
        process.wait().unwrap();
    });
}

fn found_in(runtime: &Runtime) -> RuntimeRef {
    runtime.run(|| Runtime::current().unwrap()).unwrap()
}

/// To see when the runtime lets it go.
struct Deaf;

impl Hooks for Deaf {
    fn event(&self, _: &Event) {}
}

#[test]
fn it_keeps_no_runtime_running_and_a_start_after_the_end_is_refused() {
    watched("refused", || {
        let deaf = Arc::new(Deaf);
        let runtime = build(Runtime::builder().controllers(2).hooks(deaf.clone()));
        let found = found_in(&runtime);
        // Shuts it down, although somebody refers to it.
        drop(runtime);
        let kept = Arc::new(());
        let of_closure = Arc::clone(&kept);
        let error = found.start(move || drop(of_closure)).unwrap_err();
        assert!(matches!(error, ProcessError::Spawn(SpawnError::Stopping)), "{error}");
        assert!(matches!(found.run(|| ()), Err(ProcessError::Spawn(SpawnError::Stopping))));
        assert!(matches!(found.process().assigner(Fifo).run(|| ()), Err(ProcessError::Spawn(SpawnError::Stopping))));
        assert_eq!(Arc::strong_count(&kept), 1, "the closure was dropped");
        // Its memory goes with the last reference: what was refused keeps nothing.
        assert_eq!(found.controllers(), 2);
        drop(found);
        while Arc::strong_count(&deaf) > 1 {
            // The controllers' threads are about to end.
            std::thread::yield_now();
        }
    });
}

/// The race of the head of `current.rs`: started before the end, or refused; never left behind.
#[test]
fn a_start_while_the_runtime_ends_is_run_or_refused() {
    watched("start against drop", || {
        for _ in 0..common::sized(200, 3) {
            let runtime = runtime(1);
            let found = found_in(&runtime);
            let started = Arc::new(AtomicUsize::new(0));
            let count = Arc::clone(&started);
            let starter = std::thread::spawn(move || {
                let outcome = found.start(move || count.fetch_add(1, Ordering::Relaxed)).map(|process| process.wait());
                match outcome {
                    Ok(Ok(_)) => true,
                    // Cancelled before it began, or not begun.
                    Ok(Err(ProcessError::Cancelled)) | Err(ProcessError::Spawn(SpawnError::Stopping)) => false,
                    other => panic!("{other:?}"),
                }
            });
            drop(runtime);
            let has_run = starter.join().unwrap();
            assert_eq!(started.load(Ordering::Relaxed), usize::from(has_run));
        }
    });
}
