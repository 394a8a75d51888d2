//! How many tasks, counted without a read-modify-write where they are made, are still to end.
//!
//! ```text
//!     OPEN ──close(out)──▶ closed, n to end ──end──▶ … ──end──▶ closed, none      the last end tells it
//!       └────close(out)──────────────────────────────────────▶ closed, none      `close` says so itself
//!     ▲                                                         │ reopen
//!     └─────────────────────────────────────────────────────────┘
//! ```
//!
//! The timeline that makes tasks counts them in a plain cell, and takes off again those that it runs itself; only the others' ends are
//! counted here, below OPEN. So while the count is open it says nothing about whether all have ended: a task may end before its making is
//! known here. `close` brings what was made elsewhere into the word, and from then on it is exact.
//!
//! # Who may call what
//!
//! The timeline that makes the tasks: `close`, `reopen`. Whoever has ended one of them: `end`, once for it. Whoever has one in hand
//! that has not ended: `more`, for another one. After an `end` that was not the last the tally may be gone.
//!
//! # Why it is right
//!
//! The word is OPEN minus the ends until `close` subtracts OPEN − out; from then on it is the number of those to end, all of them known. Each
//! change is a read-modify-write, so exactly one brings it to zero after `close`, or `close` itself does; and nobody has a task in hand
//! then, so nobody calls `more`. *Memory.* Each is AcqRel: whoever brings it to zero sees what all the others did before.

use crate::sync::{AtomicU64, Ordering, const_fn};

/// More than there are tasks at any time.
const OPEN: u64 = 1 << 62;

/// The word. See the head of the file.
#[derive(Debug)]
pub(crate) struct Tally(AtomicU64);

impl Tally {
    const_fn! {
        /// Open, with nothing made and nothing ended.
        pub(crate) fn new() -> Self {
            Self(AtomicU64::new(OPEN))
        }
    }

    /// Another one is to end here.
    pub(crate) fn more(&self) {
        // Relaxed: whoever ends it got it by a way of its own that orders it.
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// One has ended. `true`: it was the last, and somebody has to be told.
    #[must_use = "nobody else tells that all have ended"]
    pub(crate) fn end(&self) -> bool {
        // AcqRel: see the head.
        self.0.fetch_sub(1, Ordering::AcqRel) == 1
    }

    /// No more are made; `out` of them are, or were, run by others. `true`: all have ended.
    #[must_use = "if it says `false`, the last that ends says so"]
    pub(crate) fn close(&self, out: u64) -> bool {
        // AcqRel: see the head.
        self.0.fetch_sub(OPEN - out, Ordering::AcqRel) == OPEN - out
    }

    /// All have ended, and more will be made.
    pub(crate) fn reopen(&self) {
        // Relaxed: nobody has one in hand; those that are made later are handed over by ways of their own.
        self.0.store(OPEN, Ordering::Relaxed);
    }
}
