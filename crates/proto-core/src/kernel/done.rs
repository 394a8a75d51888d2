//! A job that another core runs, and its owner, which comes to wait for it: exactly one of them goes last.
//!
//! ```text
//!            owner: awaits               runner: finish
//!     OPEN ───────────────▶ AWAITED ───────────────────▶ DONE      the runner wakes the owner
//!       └──────────────────────────────────────────────▶ DONE      the owner does not wait
//!                             runner: finish
//! ```
//!
//! # Who may call what
//!
//! The timeline whose job it is: `is_done`, `awaits`, each as often as it likes, until one of them says that the job is done. Whoever
//! runs the job, once: `finish`; if that says `true`, it wakes the owner, else it touches nothing of the job any more, for the frame in
//! which the job lies may be gone.
//!
//! # Why it is right
//!
//! Both change the word by a read-modify-write. If the owner's exchange comes first, `finish` sees AWAITED; else the exchange fails and
//! sees DONE. *Memory.* Each is Release for the other's Acquire: the runner sees the key under which the owner waits, the owner the result.
//!
//! **Tried.** A state RUNNING, stored by the thief right after the theft, because "the owner learns of the theft by its list and only then
//! looks at the word": it may learn of it, and say AWAITED, before the thief's store, which then overwrote that. Nobody needs that state.

use crate::sync::{AtomicU32, Ordering, const_fn};

const OPEN: u32 = 0;
const AWAITED: u32 = 1;
const DONE: u32 = 2;

/// The word. See the head of the file.
#[derive(Debug)]
pub(crate) struct Done(AtomicU32);

impl Done {
    const_fn! {
        /// Of a job that has not been run.
        #[inline(always)]
        pub(crate) fn new() -> Self {
            Self(AtomicU32::new(OPEN))
        }
    }

    /// Whether the job has been run. Then the owner sees its result.
    #[inline]
    pub(crate) fn is_done(&self) -> bool {
        // Acquire: pairs with the Release of `finish`.
        self.0.load(Ordering::Acquire) == DONE
    }

    /// The owner waits from now on (`true`), unless the job is done (`false`).
    pub(crate) fn awaits(&self) -> bool {
        // AcqRel: Release gives the runner the owner's key, Acquire pairs with its `finish`.
        self.0.compare_exchange(OPEN, AWAITED, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// The job has been run. `true`: its owner waits.
    #[must_use = "an owner that waits has to be woken"]
    pub(crate) fn finish(&self) -> bool {
        // AcqRel: Release gives the owner the result, Acquire pairs with its `awaits`.
        self.0.swap(DONE, Ordering::AcqRel) == AWAITED
    }
}
