//! A stolen job and its owner: no result is read before it is there, and an owner that waits is woken.

use std::sync::Arc;

use loom::cell::UnsafeCell;
use loom::thread;

use crate::kernel::done::Done;

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

#[test]
fn the_owner_waits_exactly_if_it_is_woken() {
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
