//! The readers-writer lock without data: many readers or one writer, in phases.
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

use super::Held;
use crate::ended::Ended;
use crate::env::{Caller, EnvCell, Hidden, Waiters};
use crate::guarded::{Downgrade, Grant, Lender, PanicMark, SharedGrant, Shares};

struct RwEnv {
    /// What readers share, none or many of them; gone while one writes.
    shares: Option<Shares>,
    poisoned: bool,
    readers: Waiters<Held<SharedGrant>>,
    writers: Waiters<Held>,
}

impl RwEnv {
    /// Lets a reader in if that keeps the phases.
    fn try_read(&mut self, hidden: &Hidden<'_>) -> Option<Held<SharedGrant>> {
        let shares = self.shares.as_mut().filter(|_| self.writers.is_empty(hidden))?;
        Some(Held { grant: shares.lend(), poisoned: self.poisoned })
    }

    /// Lets a writer in if nobody is inside.
    fn try_write(&mut self) -> Option<Held> {
        let grant = self.shares.take()?.reclaim().map_err(|shares| self.shares = Some(shares)).ok()?;
        Some(Held { grant, poisoned: self.poisoned })
    }

    /// All readers that wait come to those inside, unless one writes.
    fn admit_readers(&mut self, hidden: &mut Hidden<'_>) {
        while !self.readers.is_empty(hidden)
            && let Some(shares) = &mut self.shares
        {
            match self.readers.resume_next(Held { grant: shares.lend(), poisoned: self.poisoned }, hidden) {
                Ok(reader) => hidden.holds(&reader),
                Err(held) => return shares.take_back(held.grant),
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
                Err(held) => self.shares = Some(held.grant.share()),
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
fn tell<G>(got: Option<Held<G>>, caller: Caller<'_, Option<Held<G>>>, hidden: &mut Hidden<'_>) {
    if got.is_some() {
        hidden.holds(&caller);
    }
    hidden.answer(caller, got);
}

/// A readers-writer lock without data: many hold it to read, or one holds it to write.
///
/// It works in phases: readers that arrive while a writer waits let it go first, and after each writer all readers that wait by then
/// go in. Neither side starves. A timeline that reads must not ask for the lock again: with a writer in line both would wait for ever.
///
/// It keeps a flag *poisoned* as [`RawLock`](super::RawLock) does, which only writers set.
///
/// # Examples
///
/// ```
/// #![forbid(unsafe_code)]
/// use proto_core::{Guard, Guarded, Opened, OpenedShared, OrUnwind, RawRwLock};
///
/// pub struct RwLock<T> { lock: RawRwLock, data: Guarded<T> }
/// pub type Reader<'a, T> = Guard<'a, RawRwLock, OpenedShared<'a, T>, &'a Guarded<T>>;
/// pub type Writer<'a, T> = Guard<'a, RawRwLock, Opened<'a, T>, &'a Guarded<T>>;
///
/// impl<T: Sync> RwLock<T> {
///     pub const fn new(data: T) -> Self {
///         RwLock { lock: RawRwLock::new(), data: Guarded::new(data) }
///     }
///     pub fn read(&self) -> Reader<'_, T> {
///         Reader::open(&self.lock, &self.data, self.lock.read(None).or_unwind().grant)
///     }
///     pub fn write(&self) -> Writer<'_, T> {
///         Writer::open(&self.lock, &self.data, self.lock.write(None).or_unwind().grant)
///     }
/// }
///
/// static LIMITS: RwLock<(u32, u32)> = RwLock::new((0, 9));
/// let (one, two) = (LIMITS.read(), LIMITS.read());
/// assert_eq!(one.1, two.1);
/// drop((one, two));
/// LIMITS.write().1 = 10;
/// assert_eq!(*Writer::downgrade(LIMITS.write()), (0, 10));
/// ```
///
/// Without waiting, and the flag:
///
/// ```
/// use proto_core::{Lender, PanicMark, RawRwLock};
///
/// let mut lock = RawRwLock::new();
/// let reader = lock.read(None)?;
/// assert!(lock.try_write()?.is_none());
/// let other = lock.try_read()?.expect("no writer waits");
/// for reader in [reader, other] {
///     lock.take_back(reader.grant, PanicMark::now());
/// }
/// let writer = lock.try_write()?.expect("nobody is inside");
/// lock.take_back(writer.grant, PanicMark::now());
///
/// assert!(!lock.is_poisoned());
/// lock.set_poisoned(true);
/// assert!(lock.get_poisoned() && lock.read(None)?.poisoned);
/// # Ok::<(), proto_core::Ended>(())
/// ```
#[derive(Debug)]
pub struct RawRwLock(EnvCell<RwEnv>);

impl RawRwLock {
    /// A free lock. Reports name it by the place of this call.
    #[track_caller]
    #[expect(clippy::new_without_default, reason = "a lock is made on purpose: its place names it")]
    pub const fn new() -> Self {
        let (readers, writers) = (Waiters::new(), Waiters::new());
        RawRwLock(EnvCell::new(RwEnv { shares: Some(Grant::new().share()), poisoned: false, readers, writers }))
    }

    /// Waits until the lock may be read, until `deadline`; `None` waits for ever.
    ///
    /// # Errors
    ///
    /// See [`Ended`].
    #[track_caller]
    pub fn read(&self, deadline: Option<Instant>) -> Result<Held<SharedGrant>, Ended> {
        self.0.ask_adaptive(
            |last, env, caller, hidden| {
                let got = env.try_read(hidden);
                env.readers.hold_or_push(got, last, caller, hidden);
            },
            deadline,
        )
    }

    /// Reads if that is possible at once. It is not while a writer waits.
    ///
    /// # Errors
    ///
    /// See [`Ended`].
    #[track_caller]
    pub fn try_read(&self) -> Result<Option<Held<SharedGrant>>, Ended> {
        self.0.ask(|env, caller, hidden| tell(env.try_read(hidden), caller, hidden), None)
    }

    /// Waits until the lock may be written, until `deadline`; `None` waits for ever.
    ///
    /// # Errors
    ///
    /// See [`Ended`].
    #[track_caller]
    pub fn write(&self, deadline: Option<Instant>) -> Result<Held, Ended> {
        let held = self.0.ask_adaptive(
            |last, env, caller, hidden| {
                let got = env.try_write();
                env.writers.hold_or_push(got, last, caller, hidden);
            },
            deadline,
        );
        held.inspect_err(|_| _ = self.0.update(|env, _, hidden| env.move_on(hidden)))
    }

    /// Writes if that is possible at once.
    ///
    /// # Errors
    ///
    /// See [`Ended`].
    #[track_caller]
    pub fn try_write(&self) -> Result<Option<Held>, Ended> {
        self.0.ask(|env, caller, hidden| tell(env.try_write(), caller, hidden), None)
    }

    /// Whether a writer has panicked.
    pub fn is_poisoned(&self) -> bool {
        self.0.visit(|env, _, _| env.poisoned).unwrap_or(true)
    }

    /// Sets the flag that [`is_poisoned`](Self::is_poisoned) reads.
    pub fn set_poisoned(&self, poisoned: bool) {
        self.0.update(|env, _, _| env.poisoned = poisoned);
    }

    /// As [`is_poisoned`](Self::is_poisoned), of a lock that nobody else has.
    pub fn get_poisoned(&mut self) -> bool {
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
