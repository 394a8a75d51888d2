//! What the tests share.
#![allow(dead_code, reason = "every test file uses another part")]

use std::any::Any;
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc;
use std::time::Duration;

use proto_core::Runtime;

/// `large` ordinarily, `small` under an interpreter, which is some hundred times slower.
pub(crate) const fn sized(large: usize, small: usize) -> usize {
    if cfg!(miri) { small } else { large }
}

/// A runtime with so many controllers, left to the scheduler of the system.
pub(crate) fn runtime(controllers: usize) -> Runtime {
    Runtime::builder().controllers(controllers).pin(false).build().expect("a runtime needs threads and stacks only")
}

/// Runs `f` on so many controllers.
pub(crate) fn in_runtime<T: Send>(controllers: usize, f: impl FnOnce() -> T + Send) -> T {
    runtime(controllers).run(f).expect("the process ends well")
}

/// What a panic says.
pub(crate) fn text(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| payload.downcast_ref::<String>().cloned()).expect("panics carry text")
}

/// Runs `test` on one, two and four controllers, and ends the program with a message if that takes longer than a minute.
pub(crate) fn on_1_2_4(name: &str, test: impl Fn() + Send + Sync) {
    watched(name, || {
        for controllers in [1, 2, 4] {
            runtime(controllers).run(&test).expect("the process ends well");
        }
    });
}

/// Runs `f`, and ends the program with a message if that takes longer than a minute: a hang fails, and says which test it is.
pub(crate) fn watched<T>(name: &str, f: impl FnOnce() -> T) -> T {
    let time = Duration::from_secs(if cfg!(miri) { 1800 } else { 60 });
    let (done, over) = mpsc::channel::<()>();
    let name = name.to_owned();
    let guard = std::thread::spawn(move || {
        if over.recv_timeout(time) == Err(mpsc::RecvTimeoutError::Timeout) {
            // Not by a macro, whose output the test harness keeps to itself.
            let _ = writeln!(std::io::stderr(), "HANG: {name} still runs after {time:?}");
            std::process::abort();
        }
    });
    let result = f();
    drop(done);
    guard.join().unwrap();
    result
}

/// The payload, a `T`, with which `f` panics.
#[track_caller]
pub(crate) fn panic_of<T: 'static, R>(f: impl FnOnce() -> R) -> T {
    match catch_unwind(AssertUnwindSafe(f)) {
        Ok(_) => panic!("no panic"),
        Err(payload) => *payload.downcast().expect("a payload of another type"),
    }
}

/// A small generator of numbers that look random; the same ones for the same seed.
#[derive(Clone, Debug)]
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Dice {
        Dice(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    pub(crate) fn below(&mut self, n: u64) -> u64 {
        // The low bits are the poor ones.
        (self.next() >> 11) % n.max(1)
    }
}

/// What the environment variable `name` says, else `otherwise`.
pub(crate) fn from_env<T: std::str::FromStr>(name: &str, otherwise: T) -> T {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

/// As many seeds as the environment variable `count` says, from `PROTO_SEED` on.
pub(crate) fn seeds(count: &str, otherwise: usize) -> std::ops::Range<u64> {
    let first = from_env("PROTO_SEED", 1);
    first..first + from_env(count, otherwise as u64)
}
