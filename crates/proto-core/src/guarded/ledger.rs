//! The keeper of ranges: who reads and who writes which part of a slice.
//!
//! A sorted list of the pieces that are here, each with the count of readers that have a share in it. What is not listed
//! was taken for writing. Readers of 0..10 and of 5..15 make this of a whole:
//!
//! ```text
//!     0         5         10        15                  end
//!     ├─── 1 ───┼─── 2 ───┼─── 1 ───┼──────── 0 ────────┤        take(15..20)? yes      take(12..20)? not yet
//! ```
//!
//! The count of a piece holds for each of its indices: it is the number of shared tokens that cover the index. So pieces
//! are cut where a token begins or ends and joined when their counts are equal, and a token may come back whole, in
//! parts, or as a part of a bigger one. Each operation looks at every piece once at most; there are about twice as many
//! pieces as tokens out.

use std::ops::Range;

use super::number::Number;
use super::range::Piece;
use super::{RangeGrant, SharedRange};

/// Keeps the grant of a slice, or of a part of it, and gives out ranges: each to one writer or to any number of readers.
///
/// An environment holds this in the place of its [`RangeGrant`]. A range that cannot be given now is answered with
/// `None`: the environment then lets the requester wait, and tries again when something has come back.
///
/// # Examples
///
/// ```
/// use proto_core::{RangeGrant, RangeShares};
///
/// let mut shares = RangeShares::new(RangeGrant::new());
/// let one = shares.lend(0..10).expect("nobody writes");
/// let two = shares.lend(5..15).expect("readers may overlap");
/// assert!(shares.take(12..20).is_none());
///
/// shares.take_back(one);
/// let (left, right) = two.split_at(8);                // given back in parts
/// shares.take_back(right);
/// let writer = shares.take(12..20).expect("nobody reads this part any more");
/// assert!(shares.lend(19..21).is_none());
///
/// shares.take_back(left);
/// shares.put_back(writer);
/// assert!(shares.reclaim().is_ok());
/// ```
#[derive(Debug)]
#[must_use = "the grant inside is lost with it, and its range stays locked for ever"]
pub struct RangeShares {
    number: Number,
    /// What the grant covered that this was made of.
    start: usize,
    end: usize,
    /// What is here, in order, not overlapping, without empty ones, neighbours of equal count joined. `None` until
    /// something is given out, as a `const` constructor cannot allocate: then all of it is here and nobody reads.
    pieces: Option<Vec<Held>>,
}

/// Exclusive on behalf of the shared tokens that are out.
#[derive(Debug, Clone)]
struct Held {
    start: usize,
    end: usize,
    /// How many shared tokens cover an index of this piece: the same for each index.
    readers: u64,
}

impl RangeShares {
    /// A keeper of what `grant` covers, of which nothing is given out.
    pub const fn new(grant: RangeGrant) -> Self {
        let Piece { number, start, end } = grant.0;
        Self { number, start, end, pieces: None }
    }

    /// Gives `range` to a writer, if all of it is here and nobody reads any of it.
    ///
    /// # Panics
    ///
    /// If `range` ends before it starts.
    #[track_caller]
    pub fn take(&mut self, range: Range<usize>) -> Option<RangeGrant> {
        let span = self.covering(&range)?;
        if self.pieces()[span].iter().any(|piece| piece.readers > 0) {
            return None;
        }
        let span = self.cut(&range);
        self.pieces().drain(span);
        Some(RangeGrant(self.token(&range)))
    }

    /// Takes a writer's range back: the same as was taken, a part of it, or several joined.
    ///
    /// # Panics
    ///
    /// If another keeper gave it. It is lost then, and its range stays locked.
    #[track_caller]
    pub fn put_back(&mut self, grant: RangeGrant) {
        let Piece { number, start, end } = grant.0;
        assert!(
            self.number.is_same(number) && self.start <= start && end <= self.end,
            "grant {number:?} of {start}..{end} was given back to the keeper of {:?}, {}..{}, which did not give it",
            self.number,
            self.start,
            self.end,
        );
        self.number.learn(number);
        if start == end {
            return;
        }
        let pieces = self.pieces();
        let at = pieces.partition_point(|piece| piece.start < start);
        debug_assert!(at == 0 || pieces[at - 1].end <= start, "a range was here and given at once");
        debug_assert!(at == pieces.len() || end <= pieces[at].start, "a range was here and given at once");
        pieces.insert(at, Held { start, end, readers: 0 });
        self.join();
    }

    /// Lends `range` to a reader, if none of it is given to a writer.
    ///
    /// # Panics
    ///
    /// If `range` ends before it starts, or if 2⁶⁴ readers have a share in some index.
    #[track_caller]
    pub fn lend(&mut self, range: Range<usize>) -> Option<SharedRange> {
        self.covering(&range)?;
        let span = self.cut(&range);
        for piece in &mut self.pieces()[span] {
            // Should this panic in the middle, some counts are too high: locked for writers, not unsound.
            piece.readers = piece.readers.checked_add(1).expect("too many shared tokens of one range");
        }
        self.join();
        Some(SharedRange(self.token(&range)))
    }

    /// Takes a reader's range back: the same as was lent, a part of it, or several joined.
    ///
    /// # Panics
    ///
    /// If another keeper lent it, or lent some of it. It is lost then, and its range stays locked for writers.
    #[track_caller]
    pub fn take_back(&mut self, shared: SharedRange) {
        let Piece { number, start, end } = shared.0;
        let range = start..end;
        let lent_here = self.number.is_same(number)
            && match self.covering(&range) {
                Some(span) => self.pieces()[span].iter().all(|piece| piece.readers > 0),
                None => false,
            };
        assert!(
            lent_here,
            "shared token {number:?} of {start}..{end} was given back to the keeper of {:?}, {}..{}, which did not lend it",
            self.number, self.start, self.end,
        );
        self.number.learn(number);
        let span = self.cut(&range);
        for piece in &mut self.pieces()[span] {
            piece.readers -= 1;
        }
        self.join();
    }

    /// Gives the grant back that this was made of, if all of it is here and nobody reads.
    ///
    /// # Errors
    ///
    /// Itself, unchanged, if something is given out.
    pub fn reclaim(self) -> Result<RangeGrant, Self> {
        let Self { number, start, end, .. } = self;
        let complete = match self.pieces.as_deref() {
            None => true,
            Some([piece]) => piece.start == start && piece.end == end && piece.readers == 0,
            Some(pieces) => pieces.is_empty() && start == end,
        };
        if complete { Ok(RangeGrant(Piece { number, start, end })) } else { Err(self) }
    }

    fn pieces(&mut self) -> &mut Vec<Held> {
        let Self { start, end, .. } = *self;
        self.pieces.get_or_insert_with(|| if start == end { Vec::new() } else { vec![Held { start, end, readers: 0 }] })
    }

    /// A token of this number. The caller has accounted for it.
    fn token(&mut self, range: &Range<usize>) -> Piece {
        // Born before it is told apart: an unborn token could marry a cell that its keeper knows nothing of.
        self.number = self.number.born();
        Piece { number: self.number, start: range.start, end: range.end }
    }

    /// Which of the pieces that are here hold `range`; `None` if some of it is not here. Nothing of nothing is missing.
    #[track_caller]
    fn covering(&mut self, range: &Range<usize>) -> Option<Range<usize>> {
        let Range { start, end } = *range;
        assert!(start <= end, "a range must not end before it starts: {start}..{end}");
        let pieces = self.pieces();
        let first = pieces.partition_point(|piece| piece.end <= start);
        let mut last = first;
        let mut reached = start;
        while reached < end {
            let piece = pieces.get(last).filter(|piece| piece.start <= reached)?;
            reached = piece.end;
            last += 1;
        }
        Some(first..last)
    }

    /// Cuts the pieces at both ends of `range`, which is here, and says which ones are exactly it.
    fn cut(&mut self, range: &Range<usize>) -> Range<usize> {
        if range.is_empty() {
            return 0..0;
        }
        let pieces = self.pieces();
        for index in [range.start, range.end] {
            let at = pieces.partition_point(|piece| piece.end <= index);
            if let Some(piece) = pieces.get_mut(at).filter(|piece| piece.start < index) {
                let left = Held { end: index, ..piece.clone() };
                piece.start = index;
                pieces.insert(at, left);
            }
        }
        let first = pieces.partition_point(|piece| piece.end <= range.start);
        let last = pieces.partition_point(|piece| piece.end <= range.end);
        first..last
    }

    /// Joins neighbours of equal count.
    fn join(&mut self) {
        self.pieces().dedup_by(|right, left| {
            let joins = left.end == right.start && left.readers == right.readers;
            if joins {
                left.end = right.end;
            }
            joins
        });
    }
}
