//! What the tests share: runtimes of several sizes, and waiting for something without a clock.

#![allow(dead_code, reason = "every test file uses another part")]

use std::cell::RefCell;
use std::time::{Duration, Instant};

use proto_core::{Cancelled, Runtime};
use proto_lang_mutex::thread::{self, JoinHandle, Thread};

proto_lang_mutex::thread_local! {
    /// In a test's seed: the runtime that it runs in.
    static HERE: RefCell<Option<Runtime>> = const { RefCell::new(None) };
}

/// A runtime with so many controllers, left to the scheduler of the system.
pub(crate) fn runtime(controllers: usize) -> Runtime {
    Runtime::builder().controllers(controllers).pin(false).build().expect("a runtime needs threads and stacks only")
}

/// Runs `test` on one, two and four controllers.
pub(crate) fn on_1_2_4(test: impl Fn() + Send + Sync) {
    for controllers in [1, 2, 4] {
        let runtime = runtime(controllers);
        let seed = || {
            HERE.set(Some(runtime.clone()));
            test();
        };
        runtime.run(seed).expect("the process ends well");
    }
}

/// Gives the core up until `what` holds.
pub(crate) fn until(mut what: impl FnMut() -> bool) {
    while !what() {
        thread::yield_now();
    }
}

/// Gives the core up until `thread` waits in a construct. For the seed of [`on_1_2_4`].
#[track_caller]
pub(crate) fn until_waits(thread: &Thread) {
    let runtime = HERE.with_borrow(Clone::clone).expect("this is the seed of a test");
    let name = thread.vp().name();
    until(|| {
        let waits = proto_core::blocking(|| runtime.waits());
        assert!(!thread.vp().has_ended(), "it has ended instead of waiting");
        waits.iter().any(|wait| wait.vp == name)
    });
}

/// Starts `f`, cancels it when it waits, and checks that this has ended it.
#[track_caller]
pub(crate) fn cancelled_in_a_wait<T: Send + 'static>(f: impl FnOnce() -> T + Send + 'static) {
    let waits = thread::spawn(f);
    until_waits(waits.thread());
    is_cancelled(waits);
}

/// Cancels a thread and checks that this has ended it.
#[track_caller]
pub(crate) fn is_cancelled<T>(thread: JoinHandle<T>) {
    thread.cancel().unwrap();
    assert!(thread.join().err().expect("it is cancelled").is::<Cancelled>());
}

/// The end of a wait that is to be in vain.
pub(crate) fn soon() -> Instant {
    Instant::now() + Duration::from_millis(1)
}

/// The end of a wait that is not.
pub(crate) fn much_later() -> Instant {
    Instant::now() + Duration::from_secs(600)
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
