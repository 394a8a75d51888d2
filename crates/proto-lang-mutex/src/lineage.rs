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
use std::sync::{Arc, PoisonError};

use proto_core::{of_process, vp_local};

use crate::sync::{Mutex, OnceLock};

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
/// who wants isolation waits with it.
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
    if ISOLATED.with(|isolated| *isolated) {
        return f();
    }
    let process = of_process::<OfProcess>();
    let _alone = process.isolation.lock_binding();
    ISOLATED.scope(true, f)
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
    match try_transaction(number, f) {
        Ok(result) => result,
        Err(error) => panic!("{error}"),
    }
}

/// As [`transaction`], with an error where the order of nesting is wrong.
///
/// # Errors
///
/// [`OutOfOrder`]; then `f` has not run.
///
/// # Panics
///
/// If `f` does. Unwinds if the calling virtual processor is cancelled while it waits.
///
/// # Examples
///
/// ```
/// use proto_lang_mutex::{OutOfOrder, transaction, try_transaction};
/// let wrong = transaction(7, || try_transaction(1, || ()));
/// assert_eq!(wrong, Err(OutOfOrder { inside: 7, wanted: 1 }));
/// ```
#[track_caller]
pub fn try_transaction<R>(number: u64, f: impl FnOnce() -> R) -> Result<R, OutOfOrder> {
    if let Some(inside) = INSIDE.with(|inside| *inside)
        && inside >= number
    {
        return Err(OutOfOrder { inside, wanted: number });
    }
    let section = section(number);
    let _alone = section.lock().unwrap_or_else(PoisonError::into_inner);
    Ok(INSIDE.scope(Some(number), f))
}

/// The lock of the section `number`.
fn section(number: u64) -> Arc<Mutex<()>> {
    let process = of_process::<OfProcess>();
    let mut sections = process.sections.lock_binding();
    if sections.len() == sections.capacity() {
        sections.retain(|_, section| Arc::strong_count(section) > 1);
        let used = sections.len();
        sections.reserve(used + 1);
    }
    Arc::clone(sections.entry(number).or_default())
}
