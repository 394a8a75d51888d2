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

fn is_child() -> bool {
    std::env::var_os(CHILD).is_some()
}

/// Runs a test of this program as a child, with little address space. What it wrote.
///
/// The stacks take all of that, up to the last MiB; so the child's allocator is told to have 16 MiB in hand, for all threads, from the start: what is
/// small is not what the test is about, and Rust aborts where there is no room for it.
fn with_little_memory(test: &str) -> String {
    let exe = std::env::current_exe().unwrap();
    let output = Command::new("sh")
        .arg("-c")
        .arg(format!("ulimit -v 1200000; exec \"$0\" --exact {test} --nocapture --test-threads=1"))
        .arg(exe)
        .env(CHILD, "1")
        .envs([("MALLOC_ARENA_MAX", "1"), ("MALLOC_TOP_PAD_", "16777216"), ("MALLOC_TRIM_THRESHOLD_", "1073741824")])
        .output()
        .unwrap();
    let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{text}");
    text
}

/// Does nothing unless it is run as a child.
#[test]
fn the_child() {
    if !is_child() {
        return;
    }
    let runtime = Runtime::builder().controllers(2).pin(false).stack_size(1 << 20).build().unwrap();
    let gate = Gate::new();
    let (ran, refused) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let outcome = runtime.run(|| {
        scope(|s| {
            // Several times what the address space has room for, all at once.
            let mut vps = Vec::new();
            for _ in 0..COUNT {
                let vp = s.spawn_with(VpBuilder::new(), || {
                    ran.fetch_add(1, Ordering::Relaxed);
                    gate.pass();
                });
                match vp {
                    Ok(vp) => vps.push(vp),
                    // The limit is known by now.
                    Err(SpawnError::NoStack { .. }) => drop(refused.fetch_add(1, Ordering::Relaxed)),
                    Err(other) => panic!("{other}"),
                }
            }
            // All that got a stack hold it until every VP has one or an error.
            while ran.load(Ordering::Relaxed) + vps.iter().filter(|vp| vp.is_finished()).count() < vps.len() {
                proto_core::yield_now();
            }
            gate.open();
            for vp in vps {
                match vp.join() {
                    Ok(()) => {}
                    Err(JoinError::NeverRan(why)) => {
                        assert!(why.contains("use smaller stacks, or raise the limit"), "the remedy is named: {why}");
                        refused.fetch_add(1, Ordering::Relaxed);
                    }
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
        let text = with_little_memory("the_child");
        assert!(text.contains("REFUSED"), "the limit was reached: {text}");
    });
}

/// VPs with large stacks in a scope of an OS thread, which nobody joins: says how many ran, and how the scope ended.
fn fill_a_scope(gate: &Gate) -> (usize, Result<(), String>) {
    let ran = AtomicUsize::new(0);
    let large = || VpBuilder::new().stack_size(1 << 20);
    let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        scope(|s| {
            let mut vps = Vec::new();
            // Until the limit is known, and met again.
            let error = loop {
                let vp = s.spawn_with(large(), || {
                    ran.fetch_add(1, Ordering::Relaxed);
                    gate.pass();
                });
                match vp {
                    Ok(vp) => vps.push(vp),
                    Err(error) => break error,
                }
                assert!(vps.len() < 1 << 20, "there is no limit");
                // Not far ahead of those that take the stacks: what has not begun needs memory, too.
                let begun = || ran.load(Ordering::Relaxed) + vps.iter().filter(|vp| vp.is_finished()).count();
                while begun() + 64 < vps.len() {
                    std::thread::yield_now();
                }
            };
            let SpawnError::NoStack { bytes, why } = &error else { panic!("{error}") };
            assert_eq!(*bytes, 1 << 20);
            assert!(why.contains("use smaller stacks, or raise the limit"), "the remedy is named: {error}");
            while ran.load(Ordering::Relaxed) + vps.iter().filter(|vp| vp.is_finished()).count() < vps.len() {
                std::thread::yield_now();
            }
            gate.open();
        });
    }));
    let ended = ended.map_err(|payload| payload.downcast_ref::<String>().cloned().expect("a text"));
    (ran.into_inner(), ended)
}

/// Does nothing unless it is run as a child. VPs of an OS thread belong to no process that anybody asks how it went.
#[test]
fn the_child_without_a_process() {
    if !is_child() {
        return;
    }
    let gate = Gate::new();
    let (ran, ended) = fill_a_scope(&gate);
    println!("{ran} ran; the scope: {ended:?}");
    let text = ended.expect_err("a scope does not end well if closures of it did not run");
    assert!(text.contains("never ran") && text.contains("raise the limit"), "{text}");
    // The stacks are back.
    let again = VpBuilder::new().stack_size(1 << 20).spawn(|| 5).expect("a stack is free");
    assert_eq!(again.join().unwrap(), 5);
    println!("REFUSED");
}

#[test]
fn without_memory_for_stacks_spawn_fails_and_scopes_of_os_threads_panic() {
    watched("no memory, no process", || {
        let text = with_little_memory("the_child_without_a_process");
        assert!(text.contains("REFUSED"), "the limit was reached: {text}");
        let said =
            text.lines().filter(|line| line.starts_with("proto-runtime: ") && line.contains("did not get a stack"));
        assert!(said.count() > 0, "said on standard error: {text}");
    });
}
