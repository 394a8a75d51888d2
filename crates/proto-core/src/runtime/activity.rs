//! Who besides the cores could still make progress: the ground of certain verdicts [design rule 10].
//!
//! A verdict is certain only in a closed program: no external handle, no call that blocks an auxiliary thread, and no attached OS thread
//! but those that stand in `wait()`. This counts the ones there are; the cores themselves are looked at (`report::verdict`).
//!
//! **The dangerous race** is somebody who comes while a verdict is being found: the waits would be read, and ended, of timelines that the
//! newcomer starts or wakes meanwhile. So nobody comes in while one is found. The judge says that it judges, then looks whether somebody
//! is there; a newcomer counts itself, then looks whether somebody judges, and waits for that to end. Both orders are sequentially consistent, so one
//! of the two sees the other.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The count, and the door that is closed while a verdict is found.
#[derive(Debug)]
struct Outsiders {
    count: AtomicUsize,
    closed: AtomicBool,
    /// Held by who closes the door; a newcomer that finds it closed waits here.
    door: Mutex<()>,
}

static OTHERS: Outsiders = Outsiders::new();

impl Outsiders {
    const fn new() -> Outsiders {
        Outsiders { count: AtomicUsize::new(0), closed: AtomicBool::new(false), door: Mutex::new(()) }
    }

    fn door(&self) -> MutexGuard<'_, ()> {
        self.door.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin(&self) {
        // ORDERING: SeqCst, with the load below, pairs with the store and load in `while_nobody`: see the head. A pair of Release and Acquire
        // would let both read the old values.
        self.count.fetch_add(1, Ordering::SeqCst);
        // ORDERING: SeqCst, as above.
        if self.closed.load(Ordering::SeqCst) {
            drop(self.door());
        }
    }

    /// Whether it was the last.
    fn end(&self) -> bool {
        // ORDERING: AcqRel pairs with `anybody` and `while_nobody`: what the leaving ones had done is seen by the verdict.
        self.count.fetch_sub(1, Ordering::AcqRel) == 1
    }

    fn anybody(&self) -> bool {
        // ORDERING: Acquire pairs with `end`.
        self.count.load(Ordering::Acquire) > 0
    }

    fn while_nobody(&self, f: impl FnOnce()) {
        /// Opens the door, also if `f` panics.
        struct Closed<'a>(&'a AtomicBool);
        impl Drop for Closed<'_> {
            fn drop(&mut self) {
                // ORDERING: Relaxed: a newcomer that still sees it closed takes the lock, which orders all that was done.
                self.0.store(false, Ordering::Relaxed);
            }
        }
        let _door = self.door();
        // ORDERING: SeqCst, with the load below: see `begin`.
        self.closed.store(true, Ordering::SeqCst);
        let _closed = Closed(&self.closed);
        // ORDERING: SeqCst, as above; and Acquire pairs with `end`.
        if self.count.load(Ordering::SeqCst) == 0 {
            f();
        }
    }
}

/// Somebody who could make progress has come: an OS thread attached, or left `wait()`; a handle was made; a blocking call began; a cancel
/// is being sent. Waits while a verdict is found, so not for who holds what a verdict needs.
pub(crate) fn begin() {
    OTHERS.begin();
}

/// It has gone. If it was the last, sleeping cores have to look at the verdict again.
pub(crate) fn end() {
    if OTHERS.end() {
        crate::report::verdict::last_outsider_left();
    }
}

/// Whether there is anybody, at this moment.
pub(crate) fn anybody() -> bool {
    OTHERS.anybody()
}

/// Runs `f` unless there is somebody, and lets nobody come until it has returned. One at a time.
pub(crate) fn while_nobody(f: impl FnOnce()) {
    OTHERS.while_nobody(f);
}

/// Counts as somebody until it is dropped.
#[derive(Debug)]
pub(crate) struct Somebody(());

impl Somebody {
    pub(crate) fn new() -> Somebody {
        begin();
        Somebody(())
    }
}

impl Drop for Somebody {
    fn drop(&mut self) {
        end();
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::mpsc;

    use super::Outsiders;

    #[test]
    fn nobody_comes_in_while_a_verdict_is_found() {
        let others = Outsiders::new();
        let found = AtomicBool::new(false);
        let (judging, judges) = mpsc::channel();
        std::thread::scope(|s| {
            s.spawn(|| {
                others.while_nobody(|| {
                    judging.send(()).unwrap();
                    // The newcomer has counted itself and comes no further, however long this takes.
                    while !others.anybody() {
                        std::thread::yield_now();
                    }
                    (0..100).for_each(|_| std::thread::yield_now());
                    found.store(true, Ordering::Relaxed);
                });
            });
            judges.recv().unwrap();
            others.begin();
            assert!(found.load(Ordering::Relaxed), "a newcomer passed by a judge");
        });
    }

    #[test]
    fn nothing_is_judged_while_somebody_is_there() {
        let others = Outsiders::new();
        others.begin();
        others.while_nobody(|| panic!("judged with somebody there"));
        assert!(others.end(), "it was the last");
        let mut judged = false;
        others.while_nobody(|| judged = true);
        assert!(judged, "nobody is left");
    }

    #[test]
    fn of_a_judge_and_a_newcomer_one_sees_the_other() {
        for _ in 0..if cfg!(miri) { 10 } else { 2000 } {
            let others = Outsiders::new();
            // What both would touch at once if neither saw the other.
            let inside = AtomicBool::new(false);
            std::thread::scope(|s| {
                s.spawn(|| {
                    others.while_nobody(|| {
                        assert!(
                            !inside.swap(true, Ordering::Relaxed),
                            "a newcomer is at work in the middle of a verdict"
                        );
                        inside.store(false, Ordering::Relaxed);
                    });
                });
                others.begin();
                assert!(!inside.swap(true, Ordering::Relaxed), "a newcomer came in the middle of a verdict");
                inside.store(false, Ordering::Relaxed);
                others.end();
            });
        }
    }
}
