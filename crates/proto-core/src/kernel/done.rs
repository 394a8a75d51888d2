//! A job that may be run elsewhere, and the one timeline that comes for its result: exactly one of them goes last.
//!
//! ```text
//!                 comes: awaits             runner: finish
//!      OPEN ──────────────────▶ AWAITED ──────────────────▶ DONE     the runner wakes who came
//!      │  ▲ │                      ▲
//!      │  │ └──────────────────────┼───────────────────────▶ DONE    the result waits for whoever comes
//!      │  │ regain                 │
//!  loosen │                        │ awaits
//!      ▼  │                        │
//!      LOOSE ──────────────────────┘
//!      │  │     comes: take                                           it runs the job itself, and nobody finishes it
//!      │  └──────────────────▶ TAKEN
//!      │ nobody comes: abandon (from OPEN and LOOSE)
//!      └──────────────────▶ ABANDONED ────────────────────▶ DONE     the runner drops the result
//! ```
//!
//! A join knows OPEN, AWAITED and DONE. A task of a scope that has a handle knows all of it; without one it is ABANDONED from the start. It
//! is LOOSE while it lies in the bundle that a timeline left behind when it suspended (`task::crew`): then it is on no latent list, whose
//! protocol would say whose it is.
//!
//! The upper bits say on which core the job runs, once somebody else has taken it: a hint for a core that looks for work while its
//! timeline waits for the job.
//!
//! # Who may call what
//!
//! The one timeline that wants the result: `is_done`, `take`, `awaits`, each as often as it likes, until one of them says that the job is
//! done or its own; or, instead of all that, `abandon` once. Whoever has the job in hand because it took it off a list:
//! `loosen` before it puts it into a bundle, `regain` when it takes it out of the bundle, else `runs_on`, and once, when it has run the job, `finish`. If that says
//! [`Left`](After::Left) it touches nothing of the job any more, for who came may have gone on.
//!
//! # Why it is right
//!
//! All change the word by a read-modify-write. If whoever comes is first, `finish` sees AWAITED; else its exchange fails and sees DONE. The
//! same with ABANDONED: exactly one of `finish` and `abandon` sees the other's mark, and drops the result. `take` and `regain` both
//! leave LOOSE, so one of them has the job. *Memory.* Each is Release for the others' Acquire: the runner sees the key under which
//! it is waited for, who comes sees the result, who takes a loose job sees what its maker wrote.
//!
//! **Tried.** A state RUNNING, stored by the thief right after the theft, because "the owner learns of the theft by its list and only then
//! looks at the word": it may learn of it, and say AWAITED, before the thief's store, which then overwrote that. (The hint is
//! or-ed in.)

use crate::sync::{AtomicU32, Ordering, const_fn};

const OPEN: u32 = 0;
const AWAITED: u32 = 1;
const DONE: u32 = 2;
const LOOSE: u32 = 3;
const TAKEN: u32 = 4;
const ABANDONED: u32 = 5;

/// The bits of the state; those above are the runner's core, plus one.
const STATE: u32 = 0x7;
const RUNNER_SHIFT: u32 = 3;

/// The word. See the head of the file.
#[derive(Debug)]
pub(crate) struct Done(AtomicU32);

/// What the runner has to do about who comes for the result.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use = "who waits has to be woken, and a result that nobody wants has to be dropped"]
pub(crate) enum After {
    /// Nothing, and it touches nothing of the job any more.
    Left,
    /// It wakes who waits.
    Wake,
    /// Nobody will come: it drops the result.
    Drop,
}

impl Done {
    const_fn! {
        /// Of a job that has not been run.
        #[inline(always)]
        pub(crate) fn new() -> Self {
            Self(AtomicU32::new(OPEN))
        }
    }

    const_fn! {
        /// Of a job whose result nobody comes for.
        #[inline(always)]
        pub(crate) fn of_nobody() -> Self {
            Self(AtomicU32::new(ABANDONED))
        }
    }

    /// Exchanges one of the states `from` for `to`. `Err`: the state that was found instead.
    fn change(&self, from: [u32; 2], to: u32) -> Result<(), u32> {
        // Relaxed: the exchange tells whether it was right.
        let mut seen = self.0.load(Ordering::Relaxed);
        loop {
            if seen & STATE != from[0] && seen & STATE != from[1] {
                // Acquire: pairs with the change that was found.
                return Err(self.0.load(Ordering::Acquire) & STATE);
            }
            // AcqRel: see *Memory* in the head.
            match self.0.compare_exchange(seen, seen & !STATE | to, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return Ok(()),
                Err(now) => seen = now,
            }
        }
    }

    /// Whether the job has been run. Then the caller sees its result.
    #[inline]
    pub(crate) fn is_done(&self) -> bool {
        // Acquire: pairs with the Release of `finish`.
        self.0.load(Ordering::Acquire) & STATE == DONE
    }

    /// The caller waits from now on (`true`), unless the job is done (`false`).
    pub(crate) fn awaits(&self) -> bool {
        self.change([OPEN, LOOSE], AWAITED).is_ok()
    }

    /// Takes a loose job, to be run by the caller. `false`: it is not loose.
    pub(crate) fn take(&self) -> bool {
        self.change([LOOSE, LOOSE], TAKEN).is_ok()
    }

    /// Nobody will come for the result. `true`: it is there, and the caller drops it.
    #[must_use = "a result that is there has to be dropped"]
    pub(crate) fn abandon(&self) -> bool {
        self.change([OPEN, LOOSE], ABANDONED) == Err(DONE)
    }

    /// The job goes into a bundle, out of which whoever wants its result may take it.
    pub(crate) fn loosen(&self) {
        // If somebody waits already, or nobody will, there is nobody to take it.
        let _ = self.change([OPEN, OPEN], LOOSE);
    }

    /// The job leaves its bundle. `true`: the caller has it; `false`: it was taken.
    #[must_use = "a job that was taken is not the caller's"]
    pub(crate) fn regain(&self) -> bool {
        self.change([LOOSE, LOOSE], OPEN) != Err(TAKEN)
    }

    /// The job is run on the core with this number.
    pub(crate) fn runs_on(&self, core: usize) {
        let runner = u32::try_from(core + 1).unwrap_or(0) << RUNNER_SHIFT;
        // Relaxed: a hint.
        self.0.fetch_or(runner, Ordering::Relaxed);
    }

    /// Where the job runs, if that is known.
    pub(crate) fn runner(&self) -> Option<usize> {
        // Relaxed: a hint.
        let runner = self.0.load(Ordering::Relaxed) >> RUNNER_SHIFT;
        (runner as usize).checked_sub(1)
    }

    /// The job has been run.
    pub(crate) fn finish(&self) -> After {
        // AcqRel: Release gives who comes the result, Acquire pairs with its `awaits` or `abandon`.
        match self.0.swap(DONE, Ordering::AcqRel) & STATE {
            AWAITED => After::Wake,
            ABANDONED => After::Drop,
            _ => After::Left,
        }
    }
}
