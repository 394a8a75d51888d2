//! The environment of an [`RwLock`](super::RwLock): many readers or one writer, in phases; and the requests to it.
//!
//! # Fairness: phases
//!
//! ```text
//!   free ── read ──▶ reading(shares) ◀── the last of several readers: a writer if one waits
//!     └──── write ─▶ writing ──────────▶ all readers that wait now, else the next writer
//! ```
//!
//! A reader that arrives while a writer waits stands in line. So a writer waits for the readers that are inside and the
//! writers before it, with one phase of readers between two of those; a reader waits for one writer, and then for those
//! only that it arrives after. Nobody starves. Hence a timeline that reads must not read again: if a writer has come meanwhile
//! both wait for ever (std says the same of its own).
//!
//! # The dangerous race
//!
//! A writer that gives up (time, cancel) was the reason why readers stand in line. So it sends a release when it has, and those readers
//! go in.
//!
//! Readers do not poison, as with std's: they cannot have left the data half changed.

use std::time::Instant;

use proto_core::{Caller, Downgrade, Ended, EnvCell, Grant, Hidden, Lender, PanicMark, SharedGrant, Shares, Waiters};

struct RwEnv {
    /// What readers share, none or many of them; gone while one writes.
    shares: Option<Shares>,
    poisoned: bool,
    readers: Waiters<(SharedGrant, bool)>,
    writers: Waiters<(Grant, bool)>,
}

impl RwEnv {
    /// Lets a reader in if that keeps the phases.
    fn try_read(&mut self, hidden: &Hidden<'_>) -> Option<(SharedGrant, bool)> {
        let shares = self.shares.as_mut().filter(|_| self.writers.is_empty(hidden))?;
        Some((shares.lend(), self.poisoned))
    }

    /// Lets a writer in if nobody is inside.
    fn try_write(&mut self) -> Option<(Grant, bool)> {
        let grant = self.shares.take()?.reclaim().map_err(|shares| self.shares = Some(shares)).ok()?;
        Some((grant, self.poisoned))
    }

    /// All readers that wait come to those inside, unless one writes.
    fn admit_readers(&mut self, hidden: &mut Hidden<'_>) {
        while !self.readers.is_empty(hidden)
            && let Some(shares) = &mut self.shares
        {
            match self.readers.resume_next((shares.lend(), self.poisoned), hidden) {
                Ok(reader) => hidden.holds(&reader),
                Err((shared, _)) => return shares.take_back(shared),
            }
        }
    }

    /// The next writer goes in, unless somebody is inside.
    fn admit_writer(&mut self, hidden: &mut Hidden<'_>) {
        if !self.writers.is_empty(hidden)
            && let Some(held) = self.try_write()
        {
            match self.writers.resume_next(held, hidden) {
                Ok(writer) => hidden.holds(&writer),
                Err((grant, _)) => self.shares = Some(grant.share()),
            }
        }
    }

    /// Somebody left who kept others from going in, and did not write.
    fn move_on(&mut self, hidden: &mut Hidden<'_>) {
        self.admit_writer(hidden);
        if self.writers.is_empty(hidden) {
            self.admit_readers(hidden);
        }
    }
}

/// `caller` goes in if it has `got` in, and is told either way.
fn tell<G>(got: Option<(G, bool)>, caller: Caller<'_, Option<(G, bool)>>, hidden: &mut Hidden<'_>) {
    if got.is_some() {
        hidden.holds(&caller);
    }
    hidden.answer(caller, got);
}

/// The lock without data. Whoever gets in is told whether they are poisoned.
#[derive(Debug)]
pub struct RawRwLock(EnvCell<RwEnv>);

impl RawRwLock {
    #[track_caller]
    pub(super) const fn new() -> Self {
        let (readers, writers) = (Waiters::new(), Waiters::new());
        RawRwLock(EnvCell::new(RwEnv { shares: Some(Grant::new().share()), poisoned: false, readers, writers }))
    }

    #[track_caller]
    pub(super) fn read(&self, deadline: Option<Instant>) -> Result<(SharedGrant, bool), Ended> {
        self.0.ask_adaptive(
            |last, env, caller, hidden| {
                let got = env.try_read(hidden);
                env.readers.hold_or_push(got, last, caller, hidden);
            },
            deadline,
        )
    }

    #[track_caller]
    pub(super) fn try_read(&self) -> Result<Option<(SharedGrant, bool)>, Ended> {
        self.0.ask(|env, caller, hidden| tell(env.try_read(hidden), caller, hidden), None)
    }

    #[track_caller]
    pub(super) fn write(&self, deadline: Option<Instant>) -> Result<(Grant, bool), Ended> {
        let held = self.0.ask_adaptive(
            |last, env, caller, hidden| {
                let got = env.try_write();
                env.writers.hold_or_push(got, last, caller, hidden);
            },
            deadline,
        );
        held.inspect_err(|_| _ = self.0.update(|env, _, hidden| env.move_on(hidden)))
    }

    #[track_caller]
    pub(super) fn try_write(&self) -> Result<Option<(Grant, bool)>, Ended> {
        self.0.ask(|env, caller, hidden| tell(env.try_write(), caller, hidden), None)
    }

    pub(super) fn is_poisoned(&self) -> bool {
        self.0.visit(|env, _, _| env.poisoned).unwrap_or(true)
    }

    pub(super) fn set_poisoned(&self, poisoned: bool) {
        self.0.update(|env, _, _| env.poisoned = poisoned);
    }

    pub(super) fn get_poisoned(&mut self) -> bool {
        self.0.get_mut().is_none_or(|env| env.poisoned)
    }
}

impl Lender<SharedGrant> for RawRwLock {
    fn take_back(&self, shared: SharedGrant, _: PanicMark) {
        self.0.update(|env, caller, hidden| {
            hidden.released(caller);
            env.shares.as_mut().expect("nobody writes while somebody reads").take_back(shared);
            env.move_on(hidden);
        });
    }
}

impl Lender<Grant> for RawRwLock {
    fn take_back(&self, grant: Grant, since: PanicMark) {
        let poison = since.panicked();
        self.0.update(|env, caller, hidden| {
            hidden.released(caller);
            env.poisoned |= poison;
            env.shares = Some(grant.share());
            env.admit_readers(hidden);
            env.admit_writer(hidden);
        });
    }
}

impl Downgrade for RawRwLock {
    fn downgrade(&self, grant: Grant) -> SharedGrant {
        let mut shares = grant.share();
        let shared = shares.lend();
        self.0.update(|env, _, hidden| {
            env.shares = Some(shares);
            env.admit_readers(hidden);
        });
        shared
    }
}
