//! A panic that escapes from a fiber's entry ends the program with a line that says so. In a child process: this test
//! program, asked by an environment variable to panic.

#![cfg(not(miri))]

use std::os::unix::process::ExitStatusExt;
use std::process::Command;
use std::{env, ptr};

use proto_arch::fiber::{Backend, Fiber};
use proto_arch::stack::{StackArena, StackOptions};

const BACKEND: &str = "PROTO_ARCH_PANIC_BACKEND";

#[test]
fn panic_when_asked_to() {
    let backend = match env::var(BACKEND).as_deref() {
        Ok("coroutine") => Backend::Coroutine,
        Ok("thread") => Backend::Thread,
        _ => return,
    };
    unsafe fn entry(_: *mut ()) {
        panic!("on a fiber");
    }
    let arena = StackArena::new(StackOptions::default()).expect("arena");
    let stack = arena.take().expect("stack");
    // SAFETY: it does unwind, which is the case of this test: the program must abort.
    let fiber = unsafe { Fiber::new(backend, stack, entry, ptr::null_mut()) }.expect("fiber");
    let fiber: *const Fiber = &*fiber;
    // SAFETY: it is fresh.
    unsafe { Fiber::resume(fiber) };
}

#[test]
fn a_panic_that_escapes_from_an_entry_aborts_with_a_line() {
    for backend in ["coroutine", "thread"] {
        let output = Command::new(env::current_exe().expect("this program"))
            .args(["--exact", "panic_when_asked_to", "--nocapture"])
            .env(BACKEND, backend)
            .output()
            .expect("the child runs");
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.signal(), Some(libc::SIGABRT), "{backend}: {output:?}");
        let panic = text.find("on a fiber").expect("Rust's own message comes first");
        let ours = text.find("proto-runtime: a panic escaped from the entry of a fiber");
        assert!(ours.is_some_and(|ours| ours > panic), "{backend}: {text}");
    }
}
