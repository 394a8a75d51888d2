//! The tokens of a whole cell: exclusive, shared, frozen; and the keeper that counts the shared ones.
//!
//! All of this runs in handlers, where the environment is owned by one timeline: there is no atomic here but the counter
//! behind a number's birth. What each operation does to the invariant of the module is said there.

use super::number::Number;

/// The right to a [`Guarded`](super::Guarded) value: whoever has it may open the cell, and nobody else.
///
/// An environment keeps the grant of what it guards, gives it away with an answer, and gets it back with the request
/// that ends the access. It cannot be copied. It is *unborn* when made, and belongs for good to the first cell it opens.
/// A grant that is dropped is lost: its cell stays locked until it is dropped itself.
///
/// It is eight bytes wide, and so is `Option<Grant>`.
///
/// # Examples
///
/// ```
/// use proto_core::{Grant, Guarded};
///
/// let cell = Guarded::new(String::from("proto"));
/// let grant = Grant::new();               // unborn
/// let mut opened = cell.open(grant);      // married from here on
/// opened.push_str("-core");
/// let grant = opened.close();
/// assert_eq!(*cell.open(grant), "proto-core");
/// ```
///
/// ```compile_fail,E0599
/// # use proto_core::Grant;
/// let grant = Grant::new();
/// let twin = grant.clone();
/// ```
///
/// ```compile_fail,E0382
/// # use proto_core::{Grant, Guarded};
/// # let cell = Guarded::new(0);
/// let grant = Grant::new();
/// let one = cell.open(grant);
/// let two = cell.open(grant);
/// ```
#[derive(Debug)]
#[must_use = "a grant that is dropped leaves its cell locked for ever"]
pub struct Grant {
    /// Exclusive, every index.
    pub(super) number: Number,
}

impl Grant {
    /// An unborn grant: it will belong to the first cell it opens.
    #[expect(clippy::new_without_default, reason = "two defaults are never equal: a grant is made on purpose")]
    pub const fn new() -> Self {
        Self { number: Number::UNBORN }
    }

    /// Turns it into a keeper of shared grants, of which none is out yet.
    pub const fn share(self) -> Shares {
        Shares { number: self.number, out: 0 }
    }

    /// Gives up writing for the cell's whole life: from now on it can only be read, by everyone, at any time.
    ///
    /// There is no way back. Meant for what is set once: set the value, close, freeze what `close` returned.
    pub fn freeze(self) -> Frozen {
        Frozen { number: self.number.born() }
    }
}

/// The right to read a [`Guarded`](super::Guarded) value, for as long as it is not given back to the [`Shares`] that
/// lent it.
///
/// It cannot be copied, as it is counted. One that is dropped is missing for ever: the cell can be read, not written.
///
/// ```compile_fail,E0599
/// # use proto_core::Grant;
/// let shared = Grant::new().share().lend();
/// let twin = shared.clone();
/// ```
///
/// # Examples
///
/// ```
/// use proto_core::{Grant, Guarded, SharedGrant};
///
/// let cell = Guarded::new("read by many");
/// let mut shares = Grant::new().share();
/// let (one, two): (SharedGrant, SharedGrant) = (shares.lend(), shares.lend());
/// assert_eq!(*cell.open_shared(one), "read by many"); // dropped with its token: nobody writes any more
/// shares.take_back(two);
/// assert_eq!(shares.out(), 1);
/// assert!(shares.reclaim().is_err());
/// ```
#[derive(Debug)]
#[must_use = "a shared grant that is dropped leaves its cell locked for writers for ever"]
pub struct SharedGrant {
    /// Shared, every index.
    pub(super) number: Number,
}

/// Keeps a grant while readers have a share in it: lends shared grants, takes them back, counts.
///
/// An environment holds this in the place of its [`Grant`] while there are readers. It is sequential, like everything in
/// an environment.
///
/// # Examples
///
/// What an environment of a readers-writer lock keeps:
///
/// ```
/// use proto_core::{Grant, Shares, SharedGrant};
///
/// enum Lock { Free(Shares), Written }
///
/// impl Lock {
///     fn read(&mut self) -> Option<SharedGrant> {
///         match self {
///             Lock::Free(shares) => Some(shares.lend()),
///             Lock::Written => None,
///         }
///     }
///     fn write(&mut self) -> Option<Grant> {
///         match std::mem::replace(self, Lock::Written) {
///             Lock::Free(shares) => shares.reclaim().map_err(|shares| *self = Lock::Free(shares)).ok(),
///             Lock::Written => None,
///         }
///     }
/// }
///
/// let mut lock = Lock::Free(Grant::new().share());
/// let reader = lock.read().expect("nobody writes");
/// assert!(lock.write().is_none());
/// if let Lock::Free(shares) = &mut lock { shares.take_back(reader) }
/// assert!(lock.write().is_some());
/// ```
#[derive(Debug)]
#[must_use = "the grant inside is lost with it, and its cell stays locked for ever"]
pub struct Shares {
    /// Exclusive, every index, on behalf of the shares that are out.
    number: Number,
    /// At least the count of [`SharedGrant`]s of `number` that exist.
    out: u64,
}

impl Shares {
    /// Lends one more shared grant.
    ///
    /// # Panics
    ///
    /// If 2⁶⁴ are out.
    #[track_caller]
    pub fn lend(&mut self) -> SharedGrant {
        self.out = self.out.checked_add(1).expect("too many shared grants of one cell");
        // Born before it is told apart: an unborn shared grant could marry a cell that its keeper knows nothing of.
        self.number = self.number.born();
        SharedGrant { number: self.number }
    }

    /// Takes a shared grant back.
    ///
    /// # Panics
    ///
    /// If another keeper lent it. It is lost then, and the other keeper's cell stays locked for writers.
    #[track_caller]
    pub fn take_back(&mut self, shared: SharedGrant) {
        assert!(
            self.number.is_same(shared.number),
            "shared grant {:?} was given back to the keeper of {:?}, which did not lend it",
            shared.number,
            self.number,
        );
        self.out = self.out.checked_sub(1).expect("a shared grant that was not counted when it was lent");
        self.number.learn(shared.number);
    }

    /// How many shared grants are out, those that were dropped or leaked included.
    #[must_use]
    pub const fn out(&self) -> u64 {
        self.out
    }

    /// Gives the grant back, if no shared one is out.
    ///
    /// # Errors
    ///
    /// Itself, unchanged, if some are out.
    pub fn reclaim(self) -> Result<Grant, Self> {
        if self.out == 0 { Ok(Grant { number: self.number }) } else { Err(self) }
    }
}

/// The right to read a [`Guarded`](super::Guarded) value for the cell's whole life, and the promise that nobody writes.
///
/// It is read by [`Guarded::frozen`](super::Guarded::frozen), which has an example.
///
/// # Examples
///
/// ```
/// use proto_core::{Frozen, Grant, Guarded};
///
/// struct Limits { value: Guarded<[u32; 2]>, frozen: Frozen }
/// impl Limits {
///     fn new(low: u32, high: u32) -> Self {
///         let value = Guarded::new([0; 2]);
///         let mut opened = value.open(Grant::new());
///         *opened = [low, high];
///         let frozen = opened.close().freeze();
///         Limits { value, frozen }
///     }
///     fn high(&self) -> &u32 {
///         &self.value.frozen(self.frozen)[1]
///     }
/// }
/// let limits = Limits::new(2, 5);
/// std::thread::scope(|s| {
///     let other = s.spawn(|| limits.high());
///     assert_eq!(Ok(limits.high()), other.join().as_ref().copied().map_err(|_| ()));
/// });
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frozen {
    /// Never unborn. No exclusive token of this number exists, nor any keeper of one.
    pub(super) number: Number,
}
