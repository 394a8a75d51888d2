//! Spawning at the limits of the system: an error that says what to do, never a hang.

mod common;

use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

use common::lang::Gate;
use common::{runtime, watched};
use proto_core::{JoinError, ProcessError, Runtime, RuntimeError, SpawnError, VpBuilder, scope};

#[test]
fn a_stack_that_is_too_large_is_an_error() {
    watched("too large", || {
        let runtime = runtime(1);
        for size in [(2 << 30) + 1, 1 << 40, usize::MAX] {
            let error = runtime.run(move || VpBuilder::new().stack_size(size).spawn(|| ()).map(drop)).unwrap();
            assert_eq!(error, Err(SpawnError::StackSize(size)));
            let error = Runtime::builder().stack_size(size).build().map(drop).unwrap_err();
            assert!(matches!(error, RuntimeError::StackSize(_)), "{error}");
        }
    });
}

#[test]
fn a_runtime_without_controllers_is_an_error() {
    for count in [0, 70_000] {
        let error = Runtime::builder().controllers(count).build().map(drop).unwrap_err();
        assert!(matches!(error, RuntimeError::Controllers(_)), "{error}");
    }
}

/// An error drops the closure, in a scope too, and the scope ends.
#[test]
fn a_scope_ends_though_a_spawn_failed() {
    watched("failed in a scope", || {
        let dropped = AtomicUsize::new(0);
        struct Told<'a>(&'a AtomicUsize);
        impl Drop for Told<'_> {
            fn drop(&mut self) {
                self.0.fetch_add(1, Ordering::Relaxed);
            }
        }
        runtime(1)
            .run(|| {
                scope(|s| {
                    let told = Told(&dropped);
                    let error = s.spawn_with(VpBuilder::new().stack_size(1 << 40), move || drop(told));
                    assert!(error.is_err());
                });
            })
            .unwrap();
        assert_eq!(dropped.into_inner(), 1, "the closure was dropped");
    });
}

/// Names the child in the environment.
const CHILD: &str = "PROTO_NO_MEMORY";
/// VPs of one MiB of stack.
const COUNT: usize = 4096;

/// Does nothing unless it is run as a child, with little address space.
#[test]
fn the_child() {
    if std::env::var_os(CHILD).is_none() {
        return;
    }
    let runtime = Runtime::builder().controllers(2).pin(false).stack_size(1 << 20).build().unwrap();
    let gate = Gate::new();
    let (ran, refused) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let outcome = runtime.run(|| {
        scope(|s| {
            // Several times what the address space has room for, all at once.
            let vps: Vec<_> = (0..COUNT)
                .map(|_| {
                    s.spawn(|| {
                        ran.fetch_add(1, Ordering::Relaxed);
                        gate.pass();
                    })
                })
                .collect();
            // All that got a stack hold it until every VP has one or an error.
            while ran.load(Ordering::Relaxed) + vps.iter().filter(|vp| vp.is_finished()).count() < COUNT {
                proto_core::yield_now();
            }
            gate.open();
            for vp in vps {
                match vp.join() {
                    Ok(()) => {}
                    Err(JoinError::NeverRan) => drop(refused.fetch_add(1, Ordering::Relaxed)),
                    Err(other) => panic!("{other}"),
                }
            }
        });
    });
    let (ran, refused) = (ran.into_inner(), refused.into_inner());
    println!("{ran} ran, {refused} did not");
    assert_eq!(ran + refused, COUNT, "each VP ran or said that it did not");
    match (refused, outcome) {
        (0, Ok(())) => {}
        (_, Err(ProcessError::Failed(text))) => {
            assert!(text.contains("did not get a stack"), "{text}");
            println!("REFUSED: {text}");
        }
        (refused, other) => panic!("{refused} were refused, yet: {other:?}"),
    }
    // The runtime goes on.
    assert_eq!(runtime.run(|| 1).unwrap(), 1);
}

#[test]
fn without_memory_for_stacks_vps_end_with_an_error() {
    watched("no memory", || {
        let exe = std::env::current_exe().unwrap();
        let output = Command::new("sh")
            .arg("-c")
            .arg("ulimit -v 1200000; exec \"$0\" --exact the_child --nocapture --test-threads=1")
            .arg(exe)
            .env(CHILD, "1")
            .output()
            .unwrap();
        let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{text}");
        assert!(text.contains("REFUSED"), "the limit was reached: {text}");
    });
}
