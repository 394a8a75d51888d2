//! The watchdog looks when it is needed, also if it fell asleep before.

mod common;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use common::lang::{Lock, sleep};
use common::{runtime, sized, watched};
use proto_core::scope;

/// A deadline that is far away does not make the watchdog deaf: a core that becomes crowded meanwhile gets its ticks.
#[test]
fn a_far_deadline_keeps_no_core_from_its_ticks() {
    watched("deaf", || {
        for _ in 0..sized(5, 1) {
            let runtime = runtime(1);
            let far = runtime.start(|| sleep(Duration::from_secs(3600))).unwrap();
            // So long that the watchdog has gone to sleep; if it has not, this shows nothing.
            std::thread::sleep(Duration::from_millis(30));
            runtime
                .run(|| {
                    let (lock, done) = (Lock::new(), AtomicBool::new(false));
                    scope(|s| {
                        // It makes requests that are answered at once, so only a tick lets the other one run.
                        s.spawn(|| {
                            while !done.load(Ordering::Relaxed) {
                                drop(lock.lock());
                            }
                        });
                        s.spawn(|| done.store(true, Ordering::Relaxed));
                    });
                })
                .unwrap();
            far.cancel().unwrap();
            assert!(far.wait().is_err(), "cancelled");
        }
    });
}
