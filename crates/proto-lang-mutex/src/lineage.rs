//! The constructs that the lineage's thread language had beside threads and locks: *singleton*, *atomic*, *transaction*.
//!
//! They are built of this crate's own locks. Isolation and numbered sections are a process's: another program that runs on the same
//! runtime, or a library with a process of its own, has its own. OS threads share theirs with the virtual processors that they
//! create by themselves.
//!
//! The lock of a section is made when its number is first used. The table of them is held for a look-up only, never while a section
//! runs; when it is full, the locks that nobody uses go, and it gets room for as many as are left.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use proto_core::{Held, OrUnwind, RawLock, of_process, vp_local};

use crate::sync::{Mutex, OnceLock};
use crate::time;

/// Something that is done once; who comes meanwhile waits, and all get what it gave.
///
/// The shape of the lineage's *data singleton* (what is done is tied to the object); a `static` one is its *function
/// singleton*.
///
/// # Examples
///
/// ```
/// use proto_lang_mutex::Singleton;
///
/// static CONFIG: Singleton<String> = Singleton::new();
/// fn config() -> &'static str {
///     CONFIG.run(|| "read once".to_owned())
/// }
/// assert_eq!(CONFIG.get(), None);
/// assert_eq!(config(), config());
/// assert!(CONFIG.get().is_some());
/// ```
#[derive(Debug, Default)]
pub struct Singleton<T>(OnceLock<T>);

impl<T> Singleton<T> {
    /// Not done yet.
    #[track_caller]
    pub const fn new() -> Self {
        Singleton(OnceLock::new())
    }

    /// Runs `f`, unless that has been done; gives what it gave.
    ///
    /// # Panics
    ///
    /// If `f` does; the next one tries then. Unwinds if the calling virtual processor is cancelled.
    #[track_caller]
    pub fn run(&self, f: impl FnOnce() -> T) -> &T {
        self.0.get_or_init(f)
    }

    /// As [`run`](Self::run); `None`, and `f` has not run, if another timeline is doing it.
    ///
    /// # Panics
    ///
    /// As [`run`](Self::run).
    #[track_caller]
    pub fn try_run(&self, f: impl FnOnce() -> T) -> Option<&T> {
        self.0.try_get_or_init(f)
    }

    /// As [`run`](Self::run); `None`, and `f` has not run, if another timeline is doing it for all of `timeout`.
    ///
    /// # Panics
    ///
    /// As [`run`](Self::run).
    ///
    /// # Examples
    ///
    /// ```
    /// use proto_lang_mutex::Singleton;
    /// use std::time::Duration;
    ///
    /// let made = Singleton::new();
    /// made.run(|| {
    ///     assert_eq!(made.try_run(|| 1), None, "it is being done");
    ///     assert_eq!(made.run_timeout(Duration::from_millis(1), || 1), None);
    ///     2
    /// });
    /// assert_eq!((made.try_run(|| 1), made.run_timeout(Duration::ZERO, || 1)), (Some(&2), Some(&2)));
    /// ```
    #[track_caller]
    pub fn run_timeout(&self, timeout: Duration, f: impl FnOnce() -> T) -> Option<&T> {
        self.0.get_or_init_timeout(timeout, f)
    }

    /// What it gave, if it has been done.
    pub fn get(&self) -> Option<&T> {
        self.0.get()
    }
}

/// What a process has one of.
#[derive(Default)]
struct OfProcess {
    isolation: Mutex<()>,
    sections: Mutex<HashMap<u64, Arc<Mutex<()>>>>,
}

vp_local! {
    /// Whether the timeline is in an `atomic`.
    static ISOLATED: bool = false;
    /// The innermost transaction that the timeline is in.
    static INSIDE: Option<u64> = None;
}

/// Runs `f` in isolation: of all closures given to `atomic` in a process, one runs at a time.
///
/// The wait for it is *binding*: a cancel comes after `f`. Inside `f` another `atomic` simply runs. `f` may wait; everybody
/// who wants isolation waits with it. What `f` spawns or forks is another timeline: if that wants isolation it waits for the end of `f`, so `f`
/// must not wait for it.
///
/// # Panics
///
/// If `f` does; nothing is poisoned. Unwinds, after `f`, if the calling virtual processor was cancelled and waits again.
///
/// # Examples
///
/// ```
/// let counted = proto_lang_mutex::atomic(|| 1 + proto_lang_mutex::atomic(|| 1));
/// assert_eq!(counted, 2);
/// ```
#[track_caller]
pub fn atomic<R>(f: impl FnOnce() -> R) -> R {
    isolated(binding, f).expect("it waits until it has it")
}

/// As [`atomic`]; `None`, and `f` has not run, if another closure runs in isolation.
///
/// # Panics
///
/// If `f` does; nothing is poisoned. Unwinds, before `f`, if the calling virtual processor is cancelled.
///
/// # Examples
///
/// ```
/// use proto_lang_mutex::{atomic, thread, try_atomic};
/// let inside = || thread::spawn(|| try_atomic(|| 5)).join().unwrap();
/// assert_eq!((atomic(inside), inside()), (None, Some(5)));
/// ```
#[track_caller]
pub fn try_atomic<R>(f: impl FnOnce() -> R) -> Option<R> {
    isolated(|lock| lock.try_take().or_unwind(), f)
}

/// As [`atomic`]; `None`, and `f` has not run, if others run in isolation for all of `timeout`.
///
/// # Panics
///
/// As [`try_atomic`].
///
/// # Examples
///
/// ```
/// use proto_lang_mutex::{atomic, atomic_timeout, thread};
/// use std::time::Duration;
/// let soon = || thread::spawn(|| atomic_timeout(Duration::from_millis(1), || 5)).join().unwrap();
/// assert_eq!((atomic(soon), soon()), (None, Some(5)));
/// ```
#[track_caller]
pub fn atomic_timeout<R>(timeout: Duration, f: impl FnOnce() -> R) -> Option<R> {
    isolated(|lock| lock.take(time::after(timeout)).in_time(), f)
}

#[track_caller]
fn isolated<R>(take: impl FnOnce(&RawLock) -> Option<Held>, f: impl FnOnce() -> R) -> Option<R> {
    if ISOLATED.with(|isolated| *isolated) {
        return Some(f());
    }
    let process = of_process::<OfProcess>();
    let _alone = process.isolation.lock_by_way(take)?;
    Some(ISOLATED.scope(true, f))
}

/// Transactions were nested against their order.
///
/// # Examples
///
/// ```
/// use proto_lang_mutex::{OutOfOrder, transaction, try_transaction};
///
/// let wrong: OutOfOrder = transaction(7, || try_transaction(7, || ())).unwrap_err();
/// assert_eq!((wrong.inside, wrong.wanted), (7, 7));
/// eprintln!("{wrong}");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfOrder {
    /// The number of the innermost transaction that the timeline is in.
    pub inside: u64,
    /// The number of the one that it wanted to enter.
    pub wanted: u64,
}

impl fmt::Display for OutOfOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let OutOfOrder { inside, wanted } = self;
        write!(f, "transaction {wanted} entered inside transaction {inside}: numbers must rise from the outside in")
    }
}

impl std::error::Error for OutOfOrder {}

/// What `f` gave; or `None`, if it was not its turn in time.
type Entered<R> = Result<Option<R>, OutOfOrder>;

/// Runs `f` in the exclusive section `number`: of all closures given to that number in a process, one runs at a
/// time.
///
/// Sections may be nested if their numbers rise from the outside in; so no two timelines can wait for each other's.
///
/// # Panics
///
/// If the timeline is in a section of the same or a higher number, naming both. If `f` does; nothing is poisoned. Unwinds if the
/// calling virtual processor is cancelled while it waits.
///
/// # Examples
///
/// ```
/// use proto_lang_mutex::transaction;
/// let both = transaction(1, || transaction(7, || "inside both"));
/// assert_eq!(both, "inside both");
/// ```
#[track_caller]
pub fn transaction<R>(number: u64, f: impl FnOnce() -> R) -> R {
    match enter(number, |lock| lock.take(None).in_time(), f) {
        Ok(result) => result.expect("it waits until it has it"),
        Err(error) => panic!("{error}"),
    }
}

/// As [`transaction`]; `None`, and `f` has not run, if another closure runs in the section.
///
/// # Errors
///
/// [`OutOfOrder`]; then `f` has not run.
///
/// # Panics
///
/// If `f` does. Unwinds, before `f`, if the calling virtual processor is cancelled.
///
/// # Examples
///
/// ```
/// use proto_lang_mutex::{OutOfOrder, thread, transaction, try_transaction};
/// let wrong = transaction(7, || try_transaction(1, || ()));
/// assert_eq!(wrong, Err(OutOfOrder { inside: 7, wanted: 1 }));
/// let other = transaction(7, || thread::spawn(|| try_transaction(7, || ())).join().unwrap());
/// assert_eq!(other, Ok(None));
/// ```
#[track_caller]
pub fn try_transaction<R>(number: u64, f: impl FnOnce() -> R) -> Entered<R> {
    enter(number, |lock| lock.try_take().or_unwind(), f)
}

/// As [`transaction`]; `None`, and `f` has not run, if others run in the section for all of `timeout`.
///
/// # Errors
///
/// As [`try_transaction`].
///
/// # Panics
///
/// As [`try_transaction`].
///
/// # Examples
///
/// ```
/// use proto_lang_mutex::{thread, transaction, transaction_timeout};
/// use std::time::Duration;
/// let soon = || thread::spawn(|| transaction_timeout(3, Duration::from_millis(1), || 5)).join().unwrap();
/// assert_eq!((transaction(3, soon), soon()), (Ok(None), Ok(Some(5))));
/// ```
#[track_caller]
pub fn transaction_timeout<R>(number: u64, timeout: Duration, f: impl FnOnce() -> R) -> Result<Option<R>, OutOfOrder> {
    enter(number, |lock| lock.take(time::after(timeout)).in_time(), f)
}

#[track_caller]
fn enter<R>(number: u64, take: impl FnOnce(&RawLock) -> Option<Held>, f: impl FnOnce() -> R) -> Entered<R> {
    if let Some(inside) = INSIDE.with(|inside| *inside)
        && inside >= number
    {
        return Err(OutOfOrder { inside, wanted: number });
    }
    let section = section(number);
    let alone = section.lock_by_way(take);
    Ok(alone.map(|_alone| INSIDE.scope(Some(number), f)))
}

#[track_caller]
fn binding(lock: &RawLock) -> Option<Held> {
    Some(lock.take_binding().or_unwind())
}

/// The lock of the section `number`.
fn section(number: u64) -> Arc<Mutex<()>> {
    let process = of_process::<OfProcess>();
    let mut sections = process.sections.lock_by_way(binding).expect("it waits until it has it");
    if sections.len() == sections.capacity() {
        sections.retain(|_, section| Arc::strong_count(section) > 1);
        let used = sections.len();
        sections.reserve(used + 1);
    }
    Arc::clone(sections.entry(number).or_default())
}
