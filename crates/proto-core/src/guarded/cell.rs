//! The cell: a value and the number of its spouse.
//!
//! Who may call what: everything through `&self` needs a token, everything through `&mut self` or `self` needs none,
//! because the borrow already says that no guard lives. The one race, two tokens marrying the cell at once, is decided
//! in [`marry`].

use proto_arch::cache;
use std::cell::UnsafeCell;
use std::fmt;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use super::number::Number;
use super::{Frozen, Grant, Opened, OpenedShared, SharedGrant};

/// A value that only the holder of its [`Grant`] can reach.
///
/// The cell holds no lock and does not wait: it turns a token into access and access back into a token. Who gets the
/// token, and when, is the business of the environment that keeps it. The cell marries the first unborn grant that opens
/// it and refuses every other, so a mistake in a handler ends in a deadlock or a panic, never in two `&mut` to one value.
///
/// Opening and closing costs one load and one compare. Moving a cell is harmless: the marriage moves with it.
///
/// # Examples
///
/// A lock, with a standard mutex in the place of an environment. (It spins; an environment would suspend the caller.)
///
/// ```
/// #![forbid(unsafe_code)]
/// use proto_core::{Grant, Guarded};
/// use std::sync::Mutex;
///
/// struct Lock<T> { free: Mutex<Option<Grant>>, value: Guarded<T> }
///
/// impl<T> Lock<T> {
///     const fn new(value: T) -> Self {
///         Lock { free: Mutex::new(Some(Grant::new())), value: Guarded::new(value) }
///     }
///     fn with<R>(&self, f: impl FnOnce(&mut T) -> R) -> R {
///         let grant = loop {
///             if let Some(grant) = self.free.lock().unwrap().take() { break grant }
///             std::thread::yield_now();
///         };
///         let mut opened = self.value.open(grant);
///         let result = f(&mut opened);
///         *self.free.lock().unwrap() = Some(opened.close());
///         result
///     }
/// }
///
/// static COUNTER: Lock<u32> = Lock::new(0);
/// std::thread::scope(|s| {
///     for _ in 0..4 { s.spawn(|| COUNTER.with(|n| *n += 1)); }
/// });
/// assert_eq!(COUNTER.with(|n| *n), 4);
/// ```
///
/// What was opened cannot outlive the cell:
///
/// ```compile_fail,E0597
/// # use proto_core::{Grant, Guarded};
/// let escaped = {
///     let cell = Guarded::new(1);
///     cell.open(Grant::new())
/// };
/// drop(escaped);
/// ```
///
/// and a value that must stay on its thread keeps its cell there:
///
/// ```compile_fail,E0277
/// # use proto_core::Guarded;
/// # use std::rc::Rc;
/// static CELL: Guarded<Option<Rc<u32>>> = Guarded::new(None);
/// ```
// The layout is fixed because `slice` makes cells of slices by hand and views `[T]` as `[MaybeUninit<T>]`.
#[repr(C)]
pub struct Guarded<T: ?Sized> {
    /// 0 while single, then the bare number of the spouse. Written once, by the exchange in [`marry`].
    pub(super) spouse: AtomicU64,
    /// # Safety
    ///
    /// The invariant that every `unsafe` of this folder stands on: as long as the cell is shared, its value is touched
    /// at index *i* (a value that is no slice is touched at every index) only by the holder of a token that covers *i*
    /// and whose bare number is `spouse`: written and read by an exclusive one, only read by a shared or frozen one. By
    /// the invariant of the module, no two conflicting ones exist.
    pub(super) value: UnsafeCell<T>,
}

// SAFETY: sharing the cell lets another thread that gets a token reach `&mut T`, and so move the value there: that needs
// `T: Send`. `&T` in two threads at once comes only from the shared and frozen forms, which ask for `T: Sync`
// themselves. Accesses of several threads are ordered as said at the module ("why access is sound"). `spouse` is atomic.
unsafe impl<T: ?Sized + Send> Sync for Guarded<T> {}

impl<T> Guarded<T> {
    /// A cell around `value`, not married yet.
    pub const fn new(value: T) -> Self {
        Self { spouse: AtomicU64::new(0), value: UnsafeCell::new(value) }
    }

    /// The value. Needs no grant: whoever owns the cell is alone with it.
    ///
    /// # Examples
    ///
    /// ```
    /// use proto_core::{Grant, Guarded};
    ///
    /// let mut cell = Guarded::new(String::from("proto"));
    /// drop(cell.open(Grant::new())); // the grant is lost, the value is not
    /// cell.get_mut().push_str("-core");
    /// assert_eq!(cell.into_inner(), "proto-core");
    /// ```
    pub fn into_inner(self) -> T {
        self.value.into_inner()
    }
}

impl<T: ?Sized> Guarded<T> {
    /// The value. Needs no grant: the borrow says that nobody else has the cell open.
    ///
    /// It also works when the grant was lost.
    pub const fn get_mut(&mut self) -> &mut T {
        self.value.get_mut()
    }

    /// Says that the caller is about to ask for the grant: the beginning of the value is fetched while the environment is asked. A hint.
    ///
    /// Between two cores that want one lock all the time this is a third to two thirds of an operation: lock and value lie in two lines of
    /// memory, and come one after the other else.
    ///
    /// # Examples
    ///
    /// ```
    /// use proto_core::{Guarded, PanicMark, RawLock};
    ///
    /// let (lock, cell) = (RawLock::new(), Guarded::new(1));
    /// cell.about_to_open();
    /// let mut value = cell.open(lock.lock().grant);
    /// *value += 1;
    /// lock.give(value.close(), PanicMark::now());
    /// ```
    #[inline(always)]
    pub fn about_to_open(&self) {
        cache::about_to_write(&raw const self.spouse);
    }

    /// Opens the cell for reading and writing, with the grant that is married to it.
    ///
    /// An unborn grant marries the cell if it is still single. That is the slow way, once in a cell's life; after it an
    /// opening is one load and one compare.
    ///
    /// # Panics
    ///
    /// If `grant` is not this cell's: it is married to another one, or it is unborn and the cell is married. Nobody has
    /// gained access then. The grant is gone, so what it is married to stays locked.
    #[inline]
    #[track_caller]
    pub fn open(&self, grant: Grant) -> Opened<'_, T> {
        let number = self.admit(grant.number);
        // SAFETY: the grant's number is the spouse's (`admit`) and it covers every index; it was given up to be here and
        // lies in the guard from now on.
        unsafe { Opened::new(self.pointer(), Grant { number }) }
    }

    /// Opens the cell for reading, with a shared grant that is married to it: any number of them at a time.
    ///
    /// # Panics
    ///
    /// If `shared` is not this cell's, like [`open`](Self::open).
    ///
    /// # Examples
    ///
    /// ```
    /// use proto_core::{Grant, Guarded};
    ///
    /// let cell = Guarded::new(7);
    /// let mut shares = Grant::new().share();
    /// let (one, two) = (cell.open_shared(shares.lend()), cell.open_shared(shares.lend()));
    /// assert_eq!(*one + *two, 14);
    /// shares.take_back(one.close());
    /// shares.take_back(two.close());
    /// let grant = shares.reclaim().expect("both came back");
    /// *cell.open(grant) += 1;
    /// ```
    ///
    /// A value that is not `Sync` cannot be shared:
    ///
    /// ```compile_fail,E0277
    /// # use proto_core::{Grant, Guarded};
    /// let cell = Guarded::new(std::cell::Cell::new(7));
    /// let opened = cell.open_shared(Grant::new().share().lend());
    /// ```
    #[inline]
    #[track_caller]
    pub fn open_shared(&self, shared: SharedGrant) -> OpenedShared<'_, T>
    where
        T: Sync,
    {
        let number = self.admit(shared.number);
        // SAFETY: the token's number is the spouse's (`admit`), it covers every index and is shared; it lies in the
        // guard from now on. `T: Sync`, as the other shared tokens may be in other threads.
        unsafe { OpenedShared::new(self.pointer(), SharedGrant { number }) }
    }

    /// The value of a cell whose grant was frozen, for as long as the cell lives.
    ///
    /// # Panics
    ///
    /// If `frozen` is not this cell's, like [`open`](Self::open).
    ///
    /// # Examples
    ///
    /// A cell that is set once: set it through the grant, then freeze that.
    ///
    /// ```
    /// use proto_core::{Grant, Guarded};
    ///
    /// let cell = Guarded::new(None);
    /// let mut opened = cell.open(Grant::new());
    /// *opened = Some("set once");
    /// let frozen = opened.close().freeze();
    /// let (one, two): (&Option<&str>, &Option<&str>) = (cell.frozen(frozen), cell.frozen(frozen));
    /// assert_eq!(one, two);
    /// ```
    ///
    /// ```compile_fail,E0277
    /// # use proto_core::{Grant, Guarded};
    /// let cell = Guarded::new(std::cell::Cell::new(7));
    /// let shared = cell.frozen(Grant::new().freeze());
    /// ```
    #[inline]
    #[track_caller]
    pub fn frozen(&self, frozen: Frozen) -> &T
    where
        T: Sync,
    {
        self.admit(frozen.number);
        // SAFETY: a frozen token's number is the spouse's (`admit`), so no exclusive token of that number exists or will
        // exist: nothing writes as long as the cell is shared. The reference borrows the cell. `T: Sync`, as copies of
        // the token may be in other threads.
        unsafe { self.pointer().as_ref() }
    }

    /// Lets a token in: panics unless its number is the spouse's, which it returns in the married state.
    #[inline]
    #[track_caller]
    pub(super) fn admit(&self, token: Number) -> Number {
        // `Relaxed`, though it reads what `marry` wrote in another thread perhaps. If `token` is married, the exchange
        // that married it happens before it came here, so the load sees it. If it is not, the load sees something else
        // than the token and `marry` decides. The data is ordered by the token's way here, not by this load.
        if self.spouse.load(Ordering::Relaxed) == token.raw() { token } else { marry(&self.spouse, token) }
    }

    /// Where the value lies.
    #[inline]
    pub(super) fn pointer(&self) -> NonNull<T> {
        // SAFETY: the address of a field of a live value is not null.
        unsafe { NonNull::new_unchecked(self.value.get()) }
    }
}

/// What an opening does when the token is not plainly the spouse: a marriage, or a mistake of the language.
#[cold]
#[track_caller]
fn marry(spouse: &AtomicU64, token: Number) -> Number {
    let current = spouse.load(Ordering::Relaxed);
    if token.is_married() {
        match current {
            0 => panic!("grant {token:?} belongs to another cell, this one has not been opened yet; {LOST}"),
            _ => panic!("grant {token:?} belongs to another cell, this one to grant #{current}; {LOST}"),
        }
    }
    if token.is_unborn() && current != 0 {
        already_married(current);
    }
    let token = token.born().married();
    // `Relaxed` in both cases; pairs with itself and with the load in `admit`. The value of the cell needs no edge from
    // here: what its maker wrote happens before the cell was shared, and whoever wrote it since gave the token on.
    match spouse.compare_exchange(0, token.bare(), Ordering::Relaxed, Ordering::Relaxed) {
        Ok(_) => token,
        // Tokens of one number may come here in several threads; then they are shared, or cover different indices.
        Err(current) if current == token.bare() => token,
        Err(current) => already_married(current),
    }
}

/// What became of the token: said with every refusal.
const LOST: &str = "a handler or wrapper gave it to the wrong cell, and what it belongs to now stays locked";

#[track_caller]
fn already_married(current: u64) -> ! {
    panic!(
        "a new grant cannot open a cell that belongs to grant #{current} already: \
         keep the one that `close` returned instead of making another"
    )
}

impl<T: Default> Default for Guarded<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

impl<T> From<T> for Guarded<T> {
    fn from(value: T) -> Self {
        Self::new(value)
    }
}

/// Shows whose cell it is, not the value: that may be open elsewhere.
impl<T: ?Sized> fmt::Debug for Guarded<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // `Relaxed`: only for people to read.
        let spouse = match self.spouse.load(Ordering::Relaxed) {
            0 => "single".to_owned(),
            number => format!("#{number}"),
        };
        f.debug_struct("Guarded").field("grant", &format_args!("{spouse}")).finish_non_exhaustive()
    }
}
