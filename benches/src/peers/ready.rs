//! The reference for handing work to another core: an OS thread that stands ready, pinned to the second core, and a
//! caller pinned to the first who waits for its end spinning.
//!
//! The thread waits spinning on a flag, or parked, as a core of a runtime does that has had nothing to do for a
//! while.

use std::fmt;
use std::hint::spin_loop;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, Thread};

use crate::machine;

/// A thread that runs one closure after the other for the life of its process.
#[derive(Debug)]
pub(crate) struct Ready {
    shared: Arc<Shared>,
    thread: Thread,
    parks: bool,
}

/// What the caller and the thread share.
#[derive(Default)]
struct Shared {
    /// Set by the caller when there is a closure, cleared by the thread when there is its result.
    busy: AtomicBool,
    slot: Mutex<Slot>,
}

#[derive(Default)]
struct Slot {
    body: Option<Box<dyn FnOnce() -> u64 + Send>>,
    result: u64,
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("busy", &self.busy).finish_non_exhaustive()
    }
}

impl Shared {
    fn slot(&self) -> MutexGuard<'_, Slot> {
        self.slot.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn serve(&self, parks: bool) -> ! {
        machine::pin(1);
        loop {
            // Acquire: pairs with the Release in `join`.
            while !self.busy.load(Ordering::Acquire) {
                if parks {
                    thread::park();
                } else {
                    spin_loop();
                }
            }
            let body = self.slot().body.take().expect("the caller leaves a closure before it sets the flag");
            let result = body();
            self.slot().result = result;
            // Release: pairs with the Acquire in `join`.
            self.busy.store(false, Ordering::Release);
        }
    }
}

impl Ready {
    /// A thread that waits parked or spinning; pins the caller.
    pub(crate) fn pinned(parks: bool) -> Self {
        let shared = Arc::<Shared>::default();
        let served = Arc::clone(&shared);
        let thread = thread::spawn(move || served.serve(parks)).thread().clone();
        // Only now: a thread inherits where its parent may run, and could not choose another core.
        machine::pin(0);
        Self { shared, thread, parks }
    }

    /// Runs `first` here and `second` there.
    pub(crate) fn join(
        &mut self,
        first: impl FnOnce() -> u64,
        second: impl FnOnce() -> u64 + Send + 'static,
    ) -> (u64, u64) {
        self.shared.slot().body = Some(Box::new(second));
        // Release: pairs with the Acquire in `serve`.
        self.shared.busy.store(true, Ordering::Release);
        if self.parks {
            self.thread.unpark();
        }
        let first = first();
        // Acquire: pairs with the Release in `serve`.
        while self.shared.busy.load(Ordering::Acquire) {
            spin_loop();
        }
        (first, self.shared.slot().result)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ready_thread_gives_the_result_of_every_closure() {
        for parks in [false, true] {
            let mut other = Ready::pinned(parks);
            for n in 0..100 {
                assert_eq!(other.join(|| n, move || n + 1), (n, n + 1));
            }
        }
    }
}
