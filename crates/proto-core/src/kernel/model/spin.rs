//! Two lockers exclude each other, and the second sees what the first wrote.

use std::sync::Arc;

use loom::cell::UnsafeCell;

use crate::kernel::spin::SpinWord;
use crate::sync::model::{Half, Of, without};

struct Environment {
    word: SpinWord,
    state: UnsafeCell<u32>,
}

// SAFETY: `state` is only touched between `lock` and `unlock`; that this excludes is what the model checks.
unsafe impl Sync for Environment {}

impl Environment {
    fn pass(&self) {
        let version = self.word.lock();
        // SAFETY: loom reports the access if another thread is inside.
        self.state.with_mut(|state| unsafe { *state += 1 });
        self.word.unlock(version);
    }
}

fn passes() {
    loom::model(|| {
        let environment = Arc::new(Environment { word: SpinWord::new(), state: UnsafeCell::new(0) });
        // Two only: two waiters would yield to one another for ever while the model keeps the holder off.
        let other = {
            let environment = Arc::clone(&environment);
            loom::thread::spawn(move || {
                environment.pass();
                environment.pass();
            })
        };
        environment.pass();
        other.join().expect("the other locker panicked");
        // SAFETY: the other thread has ended.
        assert_eq!(environment.state.with(|state| unsafe { *state }), 3);
    });
}

#[test]
fn a_pass_is_exclusive_and_seen_by_the_next() {
    passes();
}

#[test]
#[should_panic(expected = "Causality violation")]
fn without_the_release_of_an_unlock_a_pass_is_not_seen_by_the_next() {
    without(Half::Release, Of::Swaps, passes);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn without_the_acquire_of_a_lock_it_does_not_see_the_pass_before() {
    without(Half::Acquire, Of::Swaps, passes);
}

#[test]
fn try_lock_excludes_as_well() {
    loom::model(|| {
        let environment = Arc::new(Environment { word: SpinWord::new(), state: UnsafeCell::new(0) });
        let other = {
            let environment = Arc::clone(&environment);
            loom::thread::spawn(move || environment.pass())
        };
        let before = environment.word.try_lock();
        if let Some(version) = before {
            // SAFETY: loom reports the access if another thread is inside.
            environment.state.with_mut(|state| unsafe { *state += 1 });
            assert!(!environment.word.changed_since(version), "nobody passes while it is held");
            environment.word.unlock(version);
        }
        other.join().expect("the locker panicked");
        let version = environment.word.lock();
        // SAFETY: the word is held.
        let seen = environment.state.with(|state| unsafe { *state });
        assert_eq!(seen, 1 + u32::from(before.is_some()));
        environment.word.unlock(version);
    });
}
