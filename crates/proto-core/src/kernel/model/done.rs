//! A stolen job and its owner: no result is read before it is there, and an owner that waits is woken.

use std::sync::Arc;

use loom::cell::UnsafeCell;
use loom::thread;

use crate::kernel::done::Done;
use crate::sync::model::{Half, Of, without};

/// What a frame holds: the word, the owner's key, the job's result.
struct Frame {
    done: Done,
    key: UnsafeCell<u32>,
    result: UnsafeCell<u32>,
}

// SAFETY: the cells are handed over by `done`; loom checks it.
unsafe impl Sync for Frame {}
// SAFETY: as above.
unsafe impl Send for Frame {}

impl Frame {
    /// Runs the job. The key that was found, if the owner waits.
    fn run(&self) -> Option<u32> {
        // SAFETY: loom checks that nobody else is at the result.
        self.result.with_mut(|result| unsafe { *result = 7 });
        // SAFETY: loom checks that the owner's write happened before.
        self.done.finish().then(|| self.key.with(|key| unsafe { *key }))
    }

    /// Comes for the result. Whether the owner has to wait.
    fn comes(&self) -> bool {
        if self.done.is_done() {
            return false;
        }
        // SAFETY: loom checks that nobody else is at the key.
        self.key.with_mut(|key| unsafe { *key = 5 });
        self.done.awaits()
    }

    fn result(&self) -> u32 {
        // SAFETY: loom checks that the runner's write happened before.
        self.result.with(|result| unsafe { *result })
    }
}

fn owner_and_runner() {
    loom::model(|| {
        let frame = Arc::new(Frame { done: Done::new(), key: UnsafeCell::new(0), result: UnsafeCell::new(0) });
        let runner = thread::spawn({
            let frame = Arc::clone(&frame);
            move || frame.run()
        });
        let waits = frame.comes();
        if !waits {
            assert_eq!(frame.result(), 7);
        }
        let woken = runner.join().unwrap();
        assert_eq!(woken, waits.then_some(5), "an owner waits, and nobody wakes it");
    });
}

#[test]
fn the_owner_waits_exactly_if_it_is_woken() {
    owner_and_runner();
}

#[test]
#[should_panic(expected = "Causality violation")]
fn without_the_runners_release_the_owner_does_not_see_the_result() {
    without(Half::Release, Of::Swaps, owner_and_runner);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn without_the_owners_acquire_it_does_not_see_the_result() {
    without(Half::Acquire, Of::Loads, owner_and_runner);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn without_the_acquire_of_an_owner_that_comes_late_it_does_not_see_the_result() {
    without(Half::Acquire, Of::FailedExchanges, owner_and_runner);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn without_the_owners_release_the_runner_does_not_see_the_key() {
    without(Half::Release, Of::Exchanges, owner_and_runner);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn without_the_runners_acquire_it_does_not_see_the_key() {
    without(Half::Acquire, Of::Swaps, owner_and_runner);
}
