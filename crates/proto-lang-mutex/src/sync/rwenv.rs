//! The environment of an [`RwLock`](super::RwLock): many readers or one writer, in phases.
//!
//! # Fairness: phases
//!
//! ```text
//!   FREE ── read ──▶ READING(shares) ◀── the last of several readers: a writer if one waits
//!     └──── write ─▶ WRITING ──────────▶ all readers that wait now, else the next writer
//! ```
//!
//! A reader that arrives while a writer waits stands in line. So a writer waits for the readers that are inside and the
//! writers before it, with one phase of readers between two of those; a reader waits for one writer, and then for those
//! only that it arrives after. Nobody starves. Hence a timeline that reads must not read again: if a writer has come meanwhile
//! both wait for ever (std says the same of its own).
//!
//! # The dangerous race
//!
//! A writer that gives up (time, cancel) was the reason why readers stand in line. The wrapper says so with `GaveUp`, a release,
//! and those readers go in.
//!
//! Readers do not poison, as with std's: they cannot have left the data half changed.

use proto_core::{Caller, Grant, Hidden, Kind, RequestHandler, SharedGrant, Shares, Waiters};

pub(super) struct RwEnv {
    phase: Phase,
    poisoned: bool,
    readers: Waiters<(SharedGrant, bool)>,
    writers: Waiters<(Grant, bool)>,
}

enum Phase {
    Free(Grant),
    Reading(Shares),
    Writing,
}

/// May this timeline read? With `last` it waits for that, else it is asked to try again or told that it cannot.
pub(super) struct Read {
    pub(super) wait: bool,
    pub(super) last: bool,
}

/// May this timeline write?
pub(super) struct Write {
    pub(super) wait: bool,
    pub(super) last: bool,
}

/// As the reply, or nothing: the lock is not to be had now.
pub(super) struct Now<R>(pub(super) R);

/// A reader leaves.
pub(super) struct EndRead(pub(super) SharedGrant);

/// The writer leaves.
pub(super) struct EndWrite {
    pub(super) grant: Grant,
    pub(super) may_poison: bool,
}

/// The writer goes on as a reader.
pub(super) struct Downgrade(pub(super) Grant);

/// A writer that waited does not any more.
pub(super) struct GaveUp;

pub(super) struct SetPoisoned(pub(super) bool);
pub(super) struct IsPoisoned;

impl RwEnv {
    pub(super) const fn new() -> Self {
        RwEnv { phase: Phase::Free(Grant::new()), poisoned: false, readers: Waiters::new(), writers: Waiters::new() }
    }

    pub(super) fn is_poisoned(&self) -> bool {
        self.poisoned
    }

    /// Lets a reader in if that keeps the phases.
    fn try_read(&mut self, hidden: &Hidden<'_>) -> Option<SharedGrant> {
        if !self.writers.is_empty(hidden) {
            return None;
        }
        match std::mem::replace(&mut self.phase, Phase::Writing) {
            Phase::Writing => None,
            Phase::Free(grant) => {
                let mut shares = grant.share();
                let shared = shares.lend();
                self.phase = Phase::Reading(shares);
                Some(shared)
            }
            Phase::Reading(mut shares) => {
                let shared = shares.lend();
                self.phase = Phase::Reading(shares);
                Some(shared)
            }
        }
    }

    fn try_write(&mut self) -> Option<Grant> {
        match std::mem::replace(&mut self.phase, Phase::Writing) {
            Phase::Free(grant) => Some(grant),
            other => {
                self.phase = other;
                None
            }
        }
    }

    /// All readers that wait come to those inside, of whom there may be none.
    fn admit_readers(&mut self, mut shares: Shares, hidden: &mut Hidden<'_>) {
        loop {
            match self.readers.resume_next((shares.lend(), self.poisoned), hidden) {
                Ok(reader) => hidden.holds(&reader),
                Err((shared, _)) => {
                    shares.take_back(shared);
                    break;
                }
            }
        }
        self.phase = match shares.reclaim() {
            Ok(grant) => Phase::Free(grant),
            Err(shares) => Phase::Reading(shares),
        };
    }

    /// The next writer goes in; gives the grant back if none waits.
    fn admit_writer(&mut self, grant: Grant, hidden: &mut Hidden<'_>) -> Option<Grant> {
        match self.writers.resume_next((grant, self.poisoned), hidden) {
            Ok(writer) => {
                hidden.holds(&writer);
                self.phase = Phase::Writing;
                None
            }
            Err((grant, _)) => Some(grant),
        }
    }
}

impl RequestHandler<Now<Read>> for RwEnv {
    type Reply = Option<(SharedGrant, bool)>;
    #[inline]
    fn handle(&mut self, Now(read): Now<Read>, caller: Caller<'_, Self::Reply>, hidden: &mut Hidden<'_>) {
        let shared = self.try_read(hidden);
        if shared.is_some() {
            hidden.holds(&caller);
        } else if read.wait && !read.last && hidden.holder_runs_elsewhere() {
            return hidden.try_again(caller);
        }
        hidden.answer(caller, shared.map(|shared| (shared, self.poisoned)));
    }
}

impl RequestHandler<Now<Write>> for RwEnv {
    type Reply = Option<(Grant, bool)>;
    #[inline]
    fn handle(&mut self, Now(write): Now<Write>, caller: Caller<'_, Self::Reply>, hidden: &mut Hidden<'_>) {
        let grant = self.try_write();
        if grant.is_some() {
            hidden.holds(&caller);
        } else if write.wait && !write.last && hidden.holder_runs_elsewhere() {
            return hidden.try_again(caller);
        }
        hidden.answer(caller, grant.map(|grant| (grant, self.poisoned)));
    }
}

impl RequestHandler<Read> for RwEnv {
    type Reply = (SharedGrant, bool);
    fn handle(&mut self, _: Read, caller: Caller<'_, Self::Reply>, hidden: &mut Hidden<'_>) {
        match self.try_read(hidden) {
            Some(shared) => {
                hidden.holds(&caller);
                hidden.answer(caller, (shared, self.poisoned));
            }
            None => self.readers.push(caller, hidden),
        }
    }
}

impl RequestHandler<Write> for RwEnv {
    type Reply = (Grant, bool);
    fn handle(&mut self, _: Write, caller: Caller<'_, Self::Reply>, hidden: &mut Hidden<'_>) {
        match self.try_write() {
            Some(grant) => {
                hidden.holds(&caller);
                hidden.answer(caller, (grant, self.poisoned));
            }
            None => self.writers.push(caller, hidden),
        }
    }
}

impl RequestHandler<EndRead> for RwEnv {
    type Reply = ();
    const KIND: Kind = Kind::Release;
    fn handle(&mut self, EndRead(shared): EndRead, caller: Caller<'_, ()>, hidden: &mut Hidden<'_>) {
        hidden.released(&caller);
        let Phase::Reading(mut shares) = std::mem::replace(&mut self.phase, Phase::Writing) else {
            unreachable!("shared grants exist while somebody reads only")
        };
        shares.take_back(shared);
        match shares.reclaim() {
            Err(shares) => self.phase = Phase::Reading(shares),
            Ok(grant) => {
                if let Some(grant) = self.admit_writer(grant, hidden) {
                    self.admit_readers(grant.share(), hidden);
                }
            }
        }
        hidden.answer(caller, ());
    }
}

impl RequestHandler<EndWrite> for RwEnv {
    type Reply = ();
    const KIND: Kind = Kind::Release;
    fn handle(&mut self, end: EndWrite, caller: Caller<'_, ()>, hidden: &mut Hidden<'_>) {
        hidden.released(&caller);
        if end.may_poison && hidden.caller_panics() {
            self.poisoned = true;
        }
        self.admit_readers(end.grant.share(), hidden);
        if let Some(grant) = self.try_write()
            && let Some(grant) = self.admit_writer(grant, hidden)
        {
            self.phase = Phase::Free(grant);
        }
        hidden.answer(caller, ());
    }
}

impl RequestHandler<Downgrade> for RwEnv {
    type Reply = SharedGrant;
    const KIND: Kind = Kind::Binding;
    fn handle(&mut self, Downgrade(grant): Downgrade, caller: Caller<'_, SharedGrant>, hidden: &mut Hidden<'_>) {
        let mut shares = grant.share();
        let shared = shares.lend();
        self.admit_readers(shares, hidden);
        hidden.answer(caller, shared);
    }
}

impl RequestHandler<GaveUp> for RwEnv {
    type Reply = ();
    const KIND: Kind = Kind::Release;
    fn handle(&mut self, _: GaveUp, caller: Caller<'_, ()>, hidden: &mut Hidden<'_>) {
        if self.writers.is_empty(hidden) {
            match std::mem::replace(&mut self.phase, Phase::Writing) {
                Phase::Reading(shares) => self.admit_readers(shares, hidden),
                other => self.phase = other,
            }
        }
        hidden.answer(caller, ());
    }
}

impl RequestHandler<SetPoisoned> for RwEnv {
    type Reply = ();
    const KIND: Kind = Kind::Release;
    fn handle(&mut self, SetPoisoned(poisoned): SetPoisoned, caller: Caller<'_, ()>, hidden: &mut Hidden<'_>) {
        self.poisoned = poisoned;
        hidden.answer(caller, ());
    }
}

impl RequestHandler<IsPoisoned> for RwEnv {
    type Reply = bool;
    const KIND: Kind = Kind::Binding;
    fn handle(&mut self, _: IsPoisoned, caller: Caller<'_, bool>, hidden: &mut Hidden<'_>) {
        hidden.answer(caller, self.poisoned);
    }
}
