//! What the tests share: runtimes of several sizes, and waiting for something without a clock.

#![allow(dead_code, reason = "every test file uses another part")]

use proto_core::Runtime;
use proto_lang_mutex::thread;

/// A runtime with so many controllers, left to the scheduler of the system.
pub(crate) fn runtime(controllers: usize) -> Runtime {
    Runtime::builder().controllers(controllers).pin(false).build().expect("a runtime needs threads and stacks only")
}

/// Runs `test` on one, two and four controllers.
pub(crate) fn on_1_2_4(test: impl Fn() + Send + Sync) {
    for controllers in [1, 2, 4] {
        runtime(controllers).run(&test).expect("the process ends well");
    }
}

/// Gives the core up until `what` holds.
pub(crate) fn until(mut what: impl FnMut() -> bool) {
    while !what() {
        thread::yield_now();
    }
}

/// Rounds of a stress test; fewer where each step is slow.
pub(crate) const ROUNDS: usize = if cfg!(debug_assertions) { 300 } else { 3000 };

/// The text of a panic.
pub(crate) fn text(payload: &(dyn std::any::Any + Send)) -> &str {
    match payload.downcast_ref::<String>() {
        Some(text) => text,
        None => payload.downcast_ref::<&str>().copied().unwrap_or("no text"),
    }
}
