//! Claims: accesses that are told before they are granted, and that open a cell while they are held.
//!
//! A [`Grant`](super::Grant) is a value that is handed from one to the next. A language that lets a timeline say first what it will touch, and lets it run when it
//! may, has an object for each such access anyway: this is it. A claim says a range, and holds the right to it or nothing; the [`Keeper`] of the datum gives
//! that right and takes it back, in place. It is one kind for values and slices, for readers and writers.
//!
//! ```text
//!              Keeper::take                        Keeper::put
//!   nothing ───────────────▶ held alone, or shared ────────────▶ nothing
//!                                 │  ▲
//!                                 ▼  │
//!                         borrowed: opens its cell
//! ```
//!
//! In the words of the module's invariant: a claim that is held alone is an exclusive token of its range, one that is held shared a shared token; its range
//! does not change. A keeper of a whole datum is the exclusive token while nobody holds it alone, and counts the shared ones. A keeper draws its own number, which
//! only its claims have. A claim is *borrowed* for as long as what it opens is: so there is nothing to be closed.

use std::ops::Range;
use std::ptr::NonNull;

use super::number::Number;
use super::range::{END, Piece};
use super::{Guarded, RangeGrant, RangeShares, SharedRange};

/// An access to a datum, or to a range of one: what is wanted, and, while it is held, the right to it. See [`Keeper`].
///
/// A claim that is dropped while it is held leaves its range locked for ever.
#[derive(Debug)]
pub struct Claim {
    number: Number,
    start: usize,
    end: usize,
    held: Held,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Held {
    No,
    Shared,
    Alone,
}

impl Claim {
    /// A claim to a range, which is not held; `0..usize::MAX` is all of a datum.
    #[inline]
    #[must_use]
    pub const fn new(range: Range<usize>) -> Claim {
        Claim { number: Number::UNBORN, start: range.start, end: range.end, held: Held::No }
    }

    /// What it claims.
    #[inline]
    #[must_use]
    pub const fn range(&self) -> Range<usize> {
        self.start..self.end
    }

    /// Whether it is held.
    #[inline]
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.held != Held::No
    }

    /// The value, or the part of it that is claimed, for reading and writing.
    ///
    /// # Panics
    ///
    /// If the claim is not held alone, or was taken from the keeper of another cell; or if its range is not within the value.
    #[inline]
    #[track_caller]
    pub fn write<'a, T: Claimed + ?Sized>(&'a mut self, cell: &'a Guarded<T>) -> &'a mut T {
        assert!(self.held == Held::Alone, "a claim that is not held alone opens nothing for writing");
        let mut value = self.open(cell);
        // SAFETY: the claim is an exclusive token of the cell's number that covers `value`; both are borrowed for as long.
        unsafe { value.as_mut() }
    }

    /// The value, or the part of it that is claimed, for reading.
    ///
    /// # Panics
    ///
    /// If the claim is not held, or was taken from the keeper of another cell; or if its range is not within the value.
    #[inline]
    #[track_caller]
    pub fn read<'a, T: Claimed + Sync + ?Sized>(&'a mut self, cell: &'a Guarded<T>) -> &'a T {
        assert!(self.held != Held::No, "a claim that is not held opens nothing");
        let value = self.open(cell);
        // SAFETY: the claim is a token of the cell's number that covers `value`; both are borrowed for as long. `T: Sync`, as there may be
        // other shared ones in other threads.
        unsafe { value.as_ref() }
    }

    #[inline]
    #[track_caller]
    fn open<T: Claimed + ?Sized>(&mut self, cell: &Guarded<T>) -> NonNull<T> {
        self.number = cell.admit(self.number);
        T::part(cell, self.start, self.end)
    }
}

/// What a [`Claim`] opens: any sized value, as a whole; and slices, in ranges.
#[expect(private_bounds, reason = "it is sealed")]
pub trait Claimed: Part {}
impl<T: Part + ?Sized> Claimed for T {}

trait Part {
    /// Where the range lies. Makes no reference.
    fn part(cell: &Guarded<Self>, start: usize, end: usize) -> NonNull<Self>;
}

impl<T> Part for T {
    #[inline]
    #[track_caller]
    fn part(cell: &Guarded<T>, start: usize, end: usize) -> NonNull<T> {
        assert!(start == 0 && end == END, "a claim of {start}..{end} opens a slice, and no other value");
        cell.pointer()
    }
}

impl<T> Part for [T] {
    #[inline]
    #[track_caller]
    fn part(cell: &Guarded<[T]>, start: usize, end: usize) -> NonNull<[T]> {
        cell.part(start, end)
    }
}

/// Keeps the right to a datum, and gives it to [claims](Claim): to one alone, or to any number that share it; if the datum is a slice, to each
/// range by itself.
///
/// An environment holds it. What cannot be given now is refused: the environment tries again when something has come back.
///
/// # Examples
///
/// ```
/// use proto_core::{Claim, Guarded, Keeper};
///
/// let (cell, mut keeper) = (Guarded::new(5), Keeper::whole());
/// let [mut one, mut two] = [(); 2].map(|()| Claim::new(0..usize::MAX));
/// assert!(keeper.take(&mut one, false) && keeper.take(&mut two, false));
/// assert_eq!(one.read(&cell), two.read(&cell));
/// keeper.put(&mut two);
/// assert!(!keeper.take(&mut two, true)); // not while somebody reads
/// keeper.put(&mut one);
/// assert!(keeper.take(&mut two, true));
/// *two.write(&cell) += 1;
/// ```
///
/// Ranges of a slice:
///
/// ```
/// use proto_core::{Claim, Guarded, Keeper};
///
/// let (cells, mut keeper): (&Guarded<[u32]>, _) = (&Guarded::new([0; 8]), Keeper::ranges());
/// let [mut left, mut right, mut middle] = [0..3, 3..8, 2..4].map(Claim::new);
/// assert!(keeper.take(&mut left, true) && keeper.take(&mut right, true));
/// std::thread::scope(|s| {
///     s.spawn(|| left.write(cells).fill(1));
///     right.write(cells).fill(2);
/// });
/// assert!(!keeper.take(&mut middle, false));
/// [left, right].iter_mut().for_each(|claim| keeper.put(claim));
/// assert!(keeper.take(&mut middle, false));
/// assert_eq!(middle.read(cells), [1, 2]);
/// ```
///
/// What was opened goes back before the right does:
///
/// ```compile_fail,E0499
/// # use proto_core::{Claim, Guarded, Keeper};
/// # let (cell, mut keeper, mut claim) = (Guarded::new(5), Keeper::whole(), Claim::new(0..usize::MAX));
/// assert!(keeper.take(&mut claim, true));
/// let value = claim.write(&cell);
/// keeper.put(&mut claim);
/// *value += 1;
/// ```
#[derive(Debug)]
pub struct Keeper {
    number: Number,
    /// How many claims hold all of it shared; or [`ALONE`].
    out: u32,
    /// Of a slice: it is in ranges. A box: it is large, and few data have it.
    ranges: Option<Box<RangeShares>>,
}

const ALONE: u32 = u32::MAX;

impl Keeper {
    /// A keeper of a datum that is claimed as a whole.
    #[must_use]
    pub const fn whole() -> Keeper {
        Keeper { number: Number::UNBORN, out: 0, ranges: None }
    }

    /// A keeper of a slice that is claimed in ranges.
    #[must_use]
    pub fn ranges() -> Keeper {
        Keeper { ranges: Some(Box::new(RangeShares::new(RangeGrant::new()))), ..Keeper::whole() }
    }

    /// Gives the right to what `claim` says, `alone` or shared, if that is here. `false`: somebody has it.
    ///
    /// # Panics
    ///
    /// If the claim is held already; if it is of a part, and this keeper keeps a whole; if 2³² − 1 others share it.
    #[inline]
    #[track_caller]
    pub fn take(&mut self, claim: &mut Claim, alone: bool) -> bool {
        assert!(claim.held == Held::No, "a claim that is held cannot be held twice");
        if self.ranges.is_some() {
            return self.take_range(claim, alone);
        }
        assert!(claim.start == 0 && claim.end == END, "{:?} was claimed of what is kept as a whole", claim.range());
        if self.out == ALONE || (alone && self.out != 0) {
            return false;
        }
        // Born before it is told apart.
        self.number = self.number.born();
        claim.number = self.number;
        if alone {
            self.out = ALONE;
            claim.held = Held::Alone;
        } else {
            assert!(self.out < ALONE - 1, "too many claims share one datum");
            self.out += 1;
            claim.held = Held::Shared;
        }
        true
    }

    #[track_caller]
    fn take_range(&mut self, claim: &mut Claim, alone: bool) -> bool {
        let ranges = self.ranges.as_mut().expect("it keeps ranges");
        let given = match alone {
            true => ranges.take(claim.range()).map(|given| (given.0, Held::Alone)),
            false => ranges.lend(claim.range()).map(|given| (given.0, Held::Shared)),
        };
        let Some((Piece { number, .. }, held)) = given else { return false };
        (claim.number, claim.held) = (number, held);
        true
    }

    /// Takes back what `claim` holds: it holds nothing afterwards. If it holds nothing, nothing happens.
    ///
    /// # Panics
    ///
    /// If another keeper gave it. It is lost then, and what it claims stays locked.
    #[inline]
    #[track_caller]
    pub fn put(&mut self, claim: &mut Claim) {
        let held = std::mem::replace(&mut claim.held, Held::No);
        if held == Held::No {
            return;
        }
        if let Some(ranges) = &mut self.ranges {
            let Claim { number, start, end, .. } = *claim;
            let piece = Piece { number, start, end };
            return match held {
                Held::Alone => ranges.put_back(RangeGrant(piece)),
                _ => ranges.take_back(SharedRange(piece)),
            };
        }
        let (mine, its) = (self.number, claim.number);
        assert!(
            mine.is_same(its),
            "a claim of {its:?} was given back to the keeper of {mine:?}, which did not give it"
        );
        self.number.learn(its);
        self.out = if held == Held::Alone { 0 } else { self.out - 1 };
    }
}

impl Default for Keeper {
    fn default() -> Self {
        Keeper::whole()
    }
}
