//! The constructs that the lineage's thread language had beside threads and locks: *singleton*, *atomic*, *transaction*.
//!
//! They are built of this crate's own locks. The locks of a transaction are made when a number is first used, and go when nobody uses
//! it any more; the table of them is held for a look-up only, never while a section runs.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, PoisonError};

use proto_core::vp_local;

use crate::sync::{Mutex, MutexGuard, OnceLock, RawLock};
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
/// fn config() -> &'static str {
///     static READ: Singleton<String> = Singleton::new();
///     READ.run(|| "read once".to_owned())
/// }
/// assert_eq!(config(), config());
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

static ISOLATION: RawLock = RawLock::new();

vp_local! {
    /// How many `atomic`s the timeline is in.
    static ISOLATED: Cell<usize> = Cell::new(0);
    /// The transactions that the timeline is in, in the order it entered them.
    static ENTERED: RefCell<Vec<u64>> = RefCell::new(Vec::new());
}

/// Runs `f` in isolation: of all closures given to `atomic` in the program, one runs at a time.
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
/// use std::cell::Cell;
/// let counted = proto_lang_mutex::atomic(|| 1 + proto_lang_mutex::atomic(|| 1));
/// assert_eq!(counted, 2);
/// ```
#[track_caller]
pub fn atomic<R>(f: impl FnOnce() -> R) -> R {
    struct Leave<'a> {
        depth: &'a Cell<usize>,
        grant: Option<proto_core::Grant>,
    }
    impl Drop for Leave<'_> {
        fn drop(&mut self) {
            self.depth.set(self.depth.get() - 1);
            if let Some(grant) = self.grant.take() {
                ISOLATION.give(grant, false);
            }
        }
    }
    ISOLATED.with(|depth| {
        let grant = match depth.get() {
            0 => Some(ISOLATION.take_binding().unwrap_or_else(|ended| time::failed(ended)).grant),
            _ => None,
        };
        depth.set(depth.get() + 1);
        let _leave = Leave { depth, grant };
        f()
    })
}

/// Transactions were nested against their order.
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

/// Runs `f` in the exclusive section `number`: of all closures given to that number in the program, one runs at a time.
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
    ENTERED.with(|entered| {
        if let Some(&inside) = entered.borrow().last()
            && inside >= number
        {
            return Err(OutOfOrder { inside, wanted: number });
        }
        let section = Section::of(number);
        let guard = section.lock.lock().unwrap_or_else(PoisonError::into_inner);
        entered.borrow_mut().push(number);
        // Drops in reverse order: the number, the guard, the use of the section.
        let _inside = Inside { entered, _guard: guard };
        Ok(f())
    })
}

struct Inside<'a> {
    entered: &'a RefCell<Vec<u64>>,
    _guard: MutexGuard<'a, ()>,
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        self.entered.borrow_mut().pop();
    }
}

type Table = BTreeMap<u64, Arc<Mutex<()>>>;

static SECTIONS: Mutex<Table> = Mutex::new(BTreeMap::new());

/// The use of an exclusive section.
struct Section {
    number: u64,
    lock: Arc<Mutex<()>>,
}

impl Section {
    fn of(number: u64) -> Section {
        let mut sections = SECTIONS.lock_binding();
        Section { number, lock: Arc::clone(sections.entry(number).or_default()) }
    }
}

impl Drop for Section {
    fn drop(&mut self) {
        let mut sections = SECTIONS.lock_binding();
        // The table's and this one: uses are made and dropped under the table's lock.
        if Arc::strong_count(&self.lock) == 2 {
            sections.remove(&self.number);
        }
    }
}
