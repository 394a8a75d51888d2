//! The tokens of a range of indices: exclusive and shared ones, which split at any index and join with a neighbour.
//!
//! A token covers `start..end`; an end of `usize::MAX` means *to the end*, however long the slice is, so that a token
//! can be made before, and without knowing, the slice it will open. Splitting keeps, for every index, how many tokens
//! cover it, and so does joining: that is all the invariant of the module asks.

use std::ops::Range;

use super::Grant;
use super::number::Number;

/// The end of a range that goes as far as the slice does. No slice has an element of this index.
pub(super) const END: usize = usize::MAX;

/// What the two kinds of range token are made of. Not `Clone`: it is copied nowhere but in [`split`](Self::split_at).
#[derive(Debug)]
pub(super) struct Piece {
    pub(super) number: Number,
    pub(super) start: usize,
    pub(super) end: usize,
}

impl Piece {
    fn split_at(mut self, index: usize) -> (Self, Self) {
        let Self { start, end, .. } = self;
        assert!(start <= index && index <= end, "cannot split a token of {start}..{end} at {index}");
        // Born before it is told apart: two unborn halves could marry two numbers.
        self.number = self.number.born();
        let right = Self { number: self.number, start: index, end };
        self.end = index;
        (self, right)
    }

    fn join(mut self, other: Self) -> Result<Self, (Self, Self)> {
        if !self.number.is_same(other.number) {
            return Err((self, other));
        }
        if self.end == other.start {
            self.end = other.end;
        } else if other.end == self.start {
            self.start = other.start;
        } else {
            return Err((self, other));
        }
        self.number.learn(other.number);
        Ok(self)
    }
}

/// The right to a range of a [`Guarded`](super::Guarded) slice: whoever has it may open that range, and nobody else.
///
/// It is a [`Grant`] that can be cut: at any index, as often as wanted, and put together again. The whole of it
/// *is* a grant ([`into_grant`](Self::into_grant)) and may come from one (`From`).
///
/// # Examples
///
/// ```
/// use proto_core::{Guarded, RangeGrant};
///
/// let cell: &Guarded<[u32]> = &Guarded::new([0; 8]);
/// let (left, right) = RangeGrant::new().split_at(3);
/// let (mut left, mut right) = (cell.open_range(left), cell.open_range(right));
/// std::thread::scope(|s| {
///     s.spawn(|| left.fill(1));
///     right.fill(2);
/// });
/// let whole = left.close().join(right.close()).expect("they are neighbours");
/// assert_eq!(*cell.open_range(whole), [1, 1, 1, 2, 2, 2, 2, 2]);
/// ```
///
/// ```compile_fail,E0599
/// # use proto_core::RangeGrant;
/// let grant = RangeGrant::new();
/// let twin = grant.clone();
/// ```
#[derive(Debug)]
#[must_use = "a grant that is dropped leaves its range locked for ever"]
pub struct RangeGrant(
    /// Exclusive.
    pub(super) Piece,
);

impl RangeGrant {
    /// An unborn grant of every index: it, or the first of its pieces, will marry the first cell it opens.
    #[expect(clippy::new_without_default, reason = "two defaults are never equal: a grant is made on purpose")]
    pub const fn new() -> Self {
        Self(Piece { number: Number::UNBORN, start: 0, end: END })
    }

    /// The indices it covers. An end of `usize::MAX` means to the end of the slice.
    #[must_use]
    pub const fn range(&self) -> Range<usize> {
        self.0.start..self.0.end
    }

    /// Cuts it in two, before `index`. Either may be empty.
    ///
    /// # Panics
    ///
    /// If `index` is outside of the range, its end excepted.
    #[track_caller]
    pub fn split_at(self, index: usize) -> (Self, Self) {
        let (left, right) = self.0.split_at(index);
        (Self(left), Self(right))
    }

    /// Joins it with its neighbour on either side.
    ///
    /// # Errors
    ///
    /// Both, if they are of different cells or do not touch.
    pub fn join(self, other: Self) -> Result<Self, (Self, Self)> {
        self.0.join(other.0).map(Self).map_err(|(one, two)| (Self(one), Self(two)))
    }

    /// The grant of the whole cell.
    ///
    /// # Errors
    ///
    /// Itself, if it does not cover every index.
    ///
    /// # Examples
    ///
    /// ```
    /// use proto_core::{Guarded, RangeGrant};
    ///
    /// let cell: &Guarded<[u32]> = &Guarded::new([1, 2, 3]);
    /// let (head, tail) = RangeGrant::new().split_at(2);
    /// assert_eq!((head.range(), tail.range()), (0..2, 2..usize::MAX));
    /// let head = head.into_grant().expect_err("it is a part");
    /// let whole = head.join(tail).expect("they touch");
    /// let grant = whole.into_grant().expect("it is all there is");
    /// assert_eq!(*cell.open(grant), [1, 2, 3]);
    /// ```
    pub fn into_grant(self) -> Result<Grant, Self> {
        if self.0.start == 0 && self.0.end == END { Ok(Grant { number: self.0.number }) } else { Err(self) }
    }
}

/// Every index of the grant's cell.
impl From<Grant> for RangeGrant {
    fn from(grant: Grant) -> Self {
        Self(Piece { number: grant.number, start: 0, end: END })
    }
}

/// The right to read a range of a [`Guarded`](super::Guarded) slice, until it is given back to the
/// [`RangeShares`](super::RangeShares) that lent it: in one piece or in several.
///
/// ```compile_fail,E0599
/// # use proto_core::{RangeGrant, RangeShares};
/// let shared = RangeShares::new(RangeGrant::new()).lend(0..3).unwrap();
/// let twin = shared.clone();
/// ```
///
/// # Examples
///
/// ```
/// use proto_core::{Guarded, RangeGrant, RangeShares, SharedRange};
///
/// let cell: &Guarded<[u32]> = &Guarded::new([1, 2, 3, 4]);
/// let mut shares = RangeShares::new(RangeGrant::new());
/// let all: SharedRange = shares.lend(0..4).expect("nobody writes");
/// let (left, right) = all.split_at(3);
/// assert_eq!((left.range(), right.range()), (0..3, 3..4));
/// let (left, right) = (cell.open_shared_range(left), cell.open_shared_range(right));
/// assert_eq!(left.iter().sum::<u32>() + right[0], 10);
/// let all = left.close().join(right.close()).expect("they touch");
/// shares.take_back(all);
/// assert!(shares.reclaim().is_ok());
/// ```
#[derive(Debug)]
#[must_use = "a shared token that is dropped leaves its range locked for writers for ever"]
pub struct SharedRange(
    /// Shared, never unborn.
    pub(super) Piece,
);

impl SharedRange {
    /// The indices it covers. An end of `usize::MAX` means to the end of the slice.
    #[must_use]
    pub const fn range(&self) -> Range<usize> {
        self.0.start..self.0.end
    }

    /// Cuts it in two, before `index`. Either may be empty.
    ///
    /// # Panics
    ///
    /// If `index` is outside of the range, its end excepted.
    #[track_caller]
    pub fn split_at(self, index: usize) -> (Self, Self) {
        let (left, right) = self.0.split_at(index);
        (Self(left), Self(right))
    }

    /// Joins it with its neighbour on either side.
    ///
    /// # Errors
    ///
    /// Both, if they are of different cells or do not touch.
    pub fn join(self, other: Self) -> Result<Self, (Self, Self)> {
        self.0.join(other.0).map(Self).map_err(|(one, two)| (Self(one), Self(two)))
    }
}

// The tokens of whole cells are as small as an answer can be; see `Option` too.
const _: () = assert!(size_of::<Option<Grant>>() == 8);
const _: () = assert!(size_of::<Option<RangeGrant>>() == 8 + 2 * size_of::<usize>());
