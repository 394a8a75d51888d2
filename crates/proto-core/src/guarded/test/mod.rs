//! What safe code might do wrong, and what then happens. Run these under Miri as well (default and tree borrows).

mod claim;
mod keyed;
mod lanes;
mod misuse;
mod range;
mod share;

use std::panic::{AssertUnwindSafe, catch_unwind};

/// What `f` panics with.
fn message(f: impl FnOnce()) -> String {
    let payload = catch_unwind(AssertUnwindSafe(f)).expect_err("this must be refused");
    match payload.downcast::<String>() {
        Ok(message) => *message,
        Err(payload) => (*payload.downcast::<&str>().expect("panics carry text")).to_owned(),
    }
}

/// Does not return before `n` others called it on `at`: lets threads meet without sleeping.
fn meet(at: &std::sync::atomic::AtomicUsize, n: usize) {
    use std::sync::atomic::Ordering::Relaxed;
    // `Relaxed`, so that it makes no happens-before edge which would hide a race from Miri.
    at.fetch_add(1, Relaxed);
    while at.load(Relaxed) < n {
        std::thread::yield_now();
    }
}
