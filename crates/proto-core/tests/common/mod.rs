//! What several test programs use. Each takes what it needs.
#![allow(dead_code, unreachable_pub, reason = "every test program is a crate of its own and uses a part of this")]

pub mod assigners;
pub mod cancelling;
pub mod desk;
pub mod lang;
pub mod programs;
pub mod trees;
pub mod turns;

use std::io::Write;
use std::sync::{Mutex, MutexGuard, PoisonError, mpsc};
use std::time::Duration;

use proto_core::{Builder, Runtime};

/// Until this is dropped, no other test of the program that asks for it runs: whether a verdict is certain is a matter of the whole program.
pub fn alone() -> MutexGuard<'static, ()> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    // A test that failed leaves nothing behind that concerns the next one.
    ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs `f`, and ends the program with a message if that takes longer than a minute: a hang fails, and says which test it is.
pub fn watched<T>(name: &str, f: impl FnOnce() -> T) -> T {
    within(Duration::from_secs(60), name, f)
}

/// Runs `f`, and ends the program with a message if that takes longer than `time`.
pub fn within<T>(time: Duration, name: &str, f: impl FnOnce() -> T) -> T {
    // An interpreter is some hundred times slower.
    let time = if cfg!(miri) { time * 30 } else { time };
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

/// `large` ordinarily, `small` under Miri, which is some hundred times slower.
pub const fn sized(large: usize, small: usize) -> usize {
    if cfg!(miri) { small } else { large }
}

/// A runtime with that many controllers, not pinned.
pub fn runtime(controllers: usize) -> Runtime {
    build(Runtime::builder().controllers(controllers))
}

/// Builds a small one: many exist at once.
pub fn build(builder: Builder) -> Runtime {
    builder.pin(false).stack_size(64 << 10).build().unwrap()
}

/// A small generator of numbers that look random; the same ones for the same seed.
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Self {
        Dice(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) % n.max(1)
    }
}
