//! What the tests of cancels share.

use std::ops::Deref;
use std::sync::atomic::{AtomicUsize, Ordering};

use proto_core::{JoinError, Runtime, VpBuilder, panicking, yield_now};

use super::{build, runtime, sized, watched};

/// Spawns `f`, cancels it once `ready` says so, and checks that it ended by that.
#[track_caller]
pub fn cancelled_when(ready: impl Fn() -> bool, f: impl FnOnce() + Send + 'static) {
    let vp = VpBuilder::new().spawn(f).unwrap();
    while !ready() {
        yield_now();
    }
    vp.cancel().unwrap();
    assert!(matches!(vp.join(), Err(JoinError::Cancelled)));
}

/// Runs `f` in runtimes of several sizes.
pub fn everywhere(name: &str, f: impl Fn(&Runtime) + Sync) {
    watched(name, || {
        for controllers in [1, 2, 3] {
            let runtime = runtime(controllers);
            for _ in 0..sized(20, 1) {
                f(&runtime);
            }
            f(&build(Runtime::builder().controllers(controllers).thread_per_vp(true)));
        }
    });
}

/// Counts drops, and those that were taken for a panic.
#[derive(Default)]
pub struct Drops {
    pub all: AtomicUsize,
    pub panicking: AtomicUsize,
}

impl Drops {
    /// How many there were.
    pub fn all(&self) -> usize {
        self.all.load(Ordering::Relaxed)
    }

    /// How many of them were taken for a panic.
    pub fn panicking(&self) -> usize {
        self.panicking.load(Ordering::Relaxed)
    }
}

/// Says that it was dropped: to a [`Drops`] that it borrows, or has a share of.
pub struct Witness<D: Deref<Target = Drops>>(pub D);

impl<D: Deref<Target = Drops>> Drop for Witness<D> {
    fn drop(&mut self) {
        self.0.all.fetch_add(1, Ordering::Relaxed);
        if panicking() {
            self.0.panicking.fetch_add(1, Ordering::Relaxed);
        }
    }
}
