//! What a program looks like that dies of a bad access, with and without the overflow report. Each case runs in a child
//! process: this test program, asked by an environment variable to misbehave.

#![cfg(not(miri))]

use std::fmt::Write as _;
use std::hint::black_box;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Output};
use std::{env, ptr, thread};

use proto_arch::fiber::{Backend, Fiber};
use proto_arch::overflow::{self, ReportLine};
use proto_arch::stack::{Guards, StackArena, StackOptions};

const CASE: &str = "PROTO_ARCH_OVERFLOW_CASE";
const BARE: &str = "PROTO_ARCH_OVERFLOW_BARE";

unsafe fn describe(owner: *const (), out: &mut ReportLine) {
    // SAFETY: the owners below are `'static` strings.
    let name = unsafe { *owner.cast::<&'static str>() };
    let _ = write!(out, "virtual processor '{name}'");
}

#[expect(unconditional_recursion, reason = "that is the point")]
fn recurse(depth: u64) -> u64 {
    let frame = black_box([depth; 16]);
    recurse(depth + 1) + frame[3]
}

fn big_frame() -> u8 {
    black_box([1_u8; 300 * 1024])[7]
}

fn null() {
    let address = black_box(ptr::null_mut::<u8>());
    // SAFETY: there is none: the case is about what this looks like.
    unsafe { address.write_volatile(1) };
}

fn on_fiber(guards: Guards, body: unsafe fn(*mut ())) {
    static NAME: &str = "worker/parse";
    let options = StackOptions { guards, ..StackOptions::with_size(64 * 1024) };
    let stack = StackArena::new(options).and_then(|arena| arena.take()).expect("stack");
    let owner: *const &str = &NAME;
    stack.set_owner(owner.cast());
    // SAFETY: the bodies need no argument and do not unwind.
    let fiber = unsafe { Fiber::new(Backend::Coroutine, stack, body, ptr::null_mut()) }.expect("fiber");
    let fiber: *const Fiber = &*fiber;
    // SAFETY: it is fresh.
    unsafe { Fiber::resume(fiber) };
}

/// Runs if the environment asks for it; the child does not survive any of the cases.
#[test]
fn misbehave_when_asked_to() {
    let Ok(case) = env::var(CASE) else { return };
    if env::var_os(BARE).is_none() {
        // SAFETY: `describe` formats a string.
        unsafe { overflow::install(describe) }.expect("install");
        // SAFETY: as above.
        unsafe { overflow::install(describe) }.expect("a second time changes nothing");
    }
    match case.as_str() {
        "recursion on a fiber" => on_fiber(Guards::Best, |_| {
            black_box(recurse(0));
        }),
        "recursion above a protected page" => on_fiber(Guards::Protected, |_| {
            black_box(recurse(0));
        }),
        "big frame on a fiber" => on_fiber(Guards::Best, |_| {
            black_box(big_frame());
        }),
        "null on a fiber" => on_fiber(Guards::Best, |_| null()),
        "null on a thread" => null(),
        "wild pointer into a guard" => {
            let stack = StackArena::new(StackOptions::default()).and_then(|arena| arena.take()).expect("stack");
            let wild = ptr::with_exposed_provenance_mut::<u8>(black_box(stack.limit() - 1));
            // SAFETY: there is none: the case is about what this looks like.
            unsafe { wild.write_volatile(1) };
        }
        "recursion on a thread" => {
            let thread = thread::Builder::new().name("deep".to_owned()).spawn(|| recurse(0));
            let _ = thread.expect("thread").join();
        }
        "a signal from outside" => {
            // SAFETY: no precondition.
            unsafe { libc::raise(libc::SIGSEGV) };
        }
        "recursion on a fiber of a foreign thread" => {
            extern "C" fn foreign(_: *mut libc::c_void) -> *mut libc::c_void {
                overflow::ensure_alt_stack().expect("alternate stack");
                overflow::ensure_alt_stack().expect("a second time changes nothing");
                on_fiber(Guards::Best, |_| {
                    black_box(recurse(0));
                });
                ptr::null_mut()
            }
            let mut id = 0;
            // SAFETY: the function takes no argument and lives for ever.
            let result = unsafe { libc::pthread_create(&raw mut id, ptr::null(), foreign, ptr::null_mut()) };
            assert_eq!(result, 0);
            // SAFETY: the thread was made above and is joined once.
            unsafe { libc::pthread_join(id, ptr::null_mut()) };
        }
        other => panic!("no such case: {other}"),
    }
}

fn child(case: &str, bare: bool) -> Output {
    let mut command = Command::new(env::current_exe().expect("this program"));
    command.args(["--exact", "misbehave_when_asked_to", "--nocapture", "--test-threads=1"]);
    command.env(CASE, case).env("RUST_BACKTRACE", "0");
    if bare {
        command.env(BARE, "1");
    }
    command.output().expect("the child runs")
}

fn is_reported(case: &str) {
    let output = child(case, false);
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.signal(), Some(libc::SIGABRT), "{case}: {output:?}");
    let expected =
        "proto-runtime: virtual processor 'worker/parse' overflowed its 64 KiB stack (guard page touched at 0x";
    assert!(text.contains(expected), "{case}: {text}");
    assert!(text.contains("give it a larger one with `stack_size`\n"), "{case}: {text}");
}

fn looks_as_without_us(case: &str) {
    let (with, without) = (child(case, false), child(case, true));
    assert_eq!(with.status, without.status, "{case}");
    // Thread numbers differ from run to run.
    let lines = |output: &Output| {
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        text.split(|c: char| c.is_ascii_digit()).map(str::to_owned).collect::<String>()
    };
    assert_eq!(lines(&with), lines(&without), "{case}");
    assert!(!lines(&with).contains("proto-runtime"), "{case}: {with:?}");
}

#[test]
fn an_overflow_names_the_owner_and_the_remedy() {
    is_reported("recursion on a fiber");
    is_reported("recursion above a protected page");
    is_reported("big frame on a fiber");
}

#[test]
fn a_foreign_thread_with_an_alternate_stack_reports_too() {
    is_reported("recursion on a fiber of a foreign thread");
}

#[test]
fn a_null_pointer_looks_as_without_us() {
    looks_as_without_us("null on a fiber");
    looks_as_without_us("null on a thread");
    let output = child("null on a fiber", false);
    assert_eq!(output.status.signal(), Some(libc::SIGSEGV), "{output:?}");
}

#[test]
fn a_wild_pointer_into_a_guard_is_no_overflow() {
    looks_as_without_us("wild pointer into a guard");
}

#[test]
fn a_signal_sent_by_somebody_looks_as_without_us() {
    looks_as_without_us("a signal from outside");
}

#[test]
fn an_overflowing_thread_still_gets_the_message_of_rust() {
    looks_as_without_us("recursion on a thread");
    let output = child("recursion on a thread", false);
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains("thread 'deep'") && text.contains("has overflowed its stack"), "{text}");
}
