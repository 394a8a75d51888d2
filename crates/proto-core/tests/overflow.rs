//! Stack overflow: a VP's is reported with its name; a null pointer and an OS thread's overflow look as they do without us.
//! Each in a child process: they end by a signal.

mod common;

use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Output};

use common::{build, runtime, watched};
use proto_core::{Runtime, VpBuilder, blocking, join};

/// Names the child's part in the environment.
const PART: &str = "PROTO_OVERFLOW_PART";

fn recurse(n: usize) -> usize {
    let ballast = std::hint::black_box([n; 64]);
    if n == usize::MAX { 0 } else { recurse(n + 1) + ballast[n % 64] }
}

fn child(part: &str) -> Output {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "the_child", "--nocapture", "--test-threads=1"])
        .env(PART, part)
        .output()
        .unwrap()
}

/// Does nothing unless it is run as a child.
#[test]
fn the_child() {
    let Ok(part) = std::env::var(PART) else { return };
    let runtime = match part.as_str() {
        "small" => Runtime::builder().controllers(1).stack_size(32 << 10).build().unwrap(),
        _ => build(Runtime::builder().controllers(2)),
    };
    match part.as_str() {
        "vp" | "small" => runtime
            .run(|| VpBuilder::new().name("digger").spawn(|| recurse(0)).unwrap().join().map(drop).map_err(drop))
            .unwrap()
            .unwrap(),
        "unnamed" => drop(runtime.run(|| VpBuilder::new().spawn(|| recurse(0)).unwrap().join().map_err(drop))),
        "task" => drop(runtime.run(|| join(|| (), || recurse(0)))),
        "null" => {
            // SAFETY: none: the fault is what is tested.
            drop(runtime.run(|| unsafe { std::hint::black_box(std::ptr::null::<u8>()).read_volatile() }));
        }
        "thread" => drop(std::thread::Builder::new().name("outsider".into()).spawn(|| recurse(0)).unwrap().join()),
        "blocking" => drop(runtime.run(|| blocking(|| recurse(0)))),
        other => panic!("no part is called {other}"),
    }
    unreachable!("the child has survived");
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn an_overflowing_vp_is_named() {
    watched("overflow", || {
        for (part, name) in [("vp", "'digger'"), ("small", "'digger'"), ("unnamed", "1:0.0"), ("task", "vp")] {
            let output = child(part);
            let text = text(&output);
            assert!(text.contains("overflow"), "{part}: {text}");
            assert!(text.contains(name), "{part}: the VP is not named: {text}");
            assert_eq!(output.status.signal(), Some(SIGABRT), "{part}: {:?}", output.status);
        }
    });
}

#[test]
fn a_null_pointer_looks_as_it_does_without_us() {
    watched("null pointer", || {
        let output = child("null");
        let text = text(&output);
        assert!(!text.contains("overflow"), "{text}");
        assert_eq!(output.status.signal(), Some(SIGSEGV), "SIGSEGV, not {:?}: {text}", output.status);
    });
}

#[test]
fn an_os_thread_that_overflows_still_gets_rusts_message() {
    watched("OS threads", || {
        for (part, name) in [("thread", "outsider"), ("blocking", "blocking")] {
            let output = child(part);
            let text = text(&output);
            assert!(text.contains("has overflowed its stack"), "{part}: {text}");
            assert!(text.contains(name), "{part}: {text}");
        }
        drop(runtime(1));
    });
}

const SIGABRT: i32 = 6;
const SIGSEGV: i32 = 11;
