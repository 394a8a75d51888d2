//! Who besides the cores could still make progress: the ground of certain verdicts [design rule 10].
//!
//! A verdict is certain only in a closed program: no external handle, no call that blocks an auxiliary thread, and no attached OS thread
//! but those that stand in `wait()`. This counts the ones there are; the cores themselves are looked at (`report::verdict`).

use std::sync::atomic::{AtomicUsize, Ordering};

static OTHERS: AtomicUsize = AtomicUsize::new(0);

/// Somebody who could make progress has come: an OS thread attached, or left `wait()`; a handle was made; a blocking call began.
pub(crate) fn begin() {
    // ORDERING: AcqRel pairs with `anybody`: what the leaving ones had done is seen by the verdict.
    OTHERS.fetch_add(1, Ordering::AcqRel);
}

/// It has gone. If it was the last, sleeping cores have to look at the verdict again.
pub(crate) fn end() {
    // ORDERING: as above.
    if OTHERS.fetch_sub(1, Ordering::AcqRel) == 1 {
        crate::report::verdict::last_outsider_left();
    }
}

/// Whether there is anybody.
pub(crate) fn anybody() -> bool {
    // ORDERING: as above.
    OTHERS.load(Ordering::Acquire) > 0
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
