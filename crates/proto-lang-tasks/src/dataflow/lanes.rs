//! The order of the accesses to one datum.
//!
//! A datum has one *lane*, or several if parts of it were declared: one for each stretch that no declared range cuts. In a lane the accesses stand in the
//! order of their declaration; those in front are *granted*: one alone, or several in a row that may go together.
//!
//! ```text
//!   declared:   write   read   read   write   concurrent …
//!   granted:    ─────
//!   then:               ───────────
//!   then:                             ─────
//! ```
//!
//! An access of a range stands in every lane of it. Who declares a range that begins or ends within a lane cuts that in two: both have what the one had.
//! An access that was granted is then granted in both, one that waits waits in both; so accesses are taken out by their range, not lane by lane. Lanes are never
//! joined again: there are at most as many as there are places where ranges begin or end.
//!
//! *Why not edges between tasks*: a reader after a thousand readers costs no thousand edges, and a writer after them none either: it is one entry, and what
//! has been granted is one count.
//!
//! All of this is touched only under the graph's lock.

use std::collections::VecDeque;
use std::ops::Range;

use proto_core::{Grant, RangeGrant, RangeShares, SharedGrant, SharedRange, Shares};
use smallvec::{SmallVec, smallvec};

use super::failure::TaskError;

/// What an access does; accesses of equal modes in a row go together, but for `Write`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    Read,
    Write,
    Concurrent,
    /// One at a time, in any order.
    Commutative,
    /// With the operation of this address.
    Reduce(usize),
}

impl Mode {
    /// What a task needs to run, or to be combined: the datum for itself, or not; `None`: nothing of it.
    #[inline]
    pub(super) fn needs(self, combining: bool) -> Option<bool> {
        match (self, combining) {
            (Mode::Read | Mode::Concurrent, false) => Some(false),
            (Mode::Write | Mode::Commutative, false) | (Mode::Reduce(_), true) => Some(true),
            _ => None,
        }
    }
}

/// An access that waits in a lane.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub(super) task: u32,
    pub(super) mode: Mode,
}

/// All of a datum that is not cut.
pub(super) const WHOLE: Range<usize> = 0..usize::MAX;

#[derive(Clone, Debug)]
struct Lane {
    end: usize,
    /// How many accesses are granted, and what they do.
    granted: u32,
    mode: Mode,
    queue: VecDeque<Entry>,
    poison: Option<TaskError>,
}

/// The lanes of a datum, in order; the first begins at 0, the last ends at `usize::MAX`.
#[derive(Debug)]
pub(super) struct Lanes(SmallVec<[Lane; 1]>);

impl Lanes {
    pub(super) fn new() -> Lanes {
        let lane = Lane { end: usize::MAX, granted: 0, mode: Mode::Read, queue: VecDeque::new(), poison: None };
        Lanes(smallvec![lane])
    }

    fn cut(&mut self, at: usize, more: &mut impl FnMut(u32)) {
        let lane = self.0.partition_point(|lane| lane.end < at);
        if at != 0 && self.0[lane].end != at {
            let mut left = self.0[lane].clone();
            left.queue.iter().for_each(|entry| more(entry.task));
            left.end = at;
            self.0.insert(lane, left);
        }
    }

    /// The lanes of a range, at whose ends others have been cut.
    #[inline]
    fn of(&mut self, range: &Range<usize>) -> impl Iterator<Item = &mut Lane> {
        let skipped = if range.start == 0 { 0 } else { self.0.partition_point(|lane| lane.end <= range.start) };
        let mut before = range.start;
        let end = range.end;
        self.0[skipped..].iter_mut().take_while(move |lane| std::mem::replace(&mut before, lane.end) < end)
    }

    /// An access comes last. Says in how many lanes it has to wait. `more` is told of each task that waits in one lane more than before.
    #[inline]
    pub(super) fn arrive(&mut self, range: &Range<usize>, entry: Entry, mut more: impl FnMut(u32)) -> u32 {
        if *range != WHOLE {
            self.cut(range.start, &mut more);
            self.cut(range.end, &mut more);
        }
        let mut waits = 0;
        for lane in self.of(range) {
            if lane.queue.is_empty() && lane.admits(entry.mode) {
                lane.mode = entry.mode;
                lane.granted += 1;
            } else {
                lane.queue.push_back(entry);
                waits += 1;
            }
        }
        waits
    }

    /// A granted access is over. `granted` is told of each that is granted in a lane now.
    #[inline]
    pub(super) fn leave(&mut self, range: &Range<usize>, mut granted: impl FnMut(Entry)) {
        for lane in self.of(range) {
            lane.granted -= 1;
            while let Some(&next) = lane.queue.front().filter(|next| lane.admits(next.mode)) {
                lane.queue.pop_front();
                lane.mode = next.mode;
                lane.granted += 1;
                granted(next);
            }
        }
    }

    /// Whether nobody has or awaits any of it.
    pub(super) fn is_idle(&mut self, range: &Range<usize>) -> bool {
        self.of(range).all(|lane| lane.granted == 0 && lane.queue.is_empty())
    }

    /// Why what is there is not what it should be.
    #[inline]
    pub(super) fn poison(&mut self, range: &Range<usize>) -> Option<TaskError> {
        self.of(range).find_map(|lane| lane.poison.clone())
    }

    #[inline]
    pub(super) fn set_poison(&mut self, range: &Range<usize>, poison: Option<&TaskError>) {
        for lane in self.of(range).filter(|lane| lane.poison.is_some() || poison.is_some()) {
            lane.poison = poison.cloned();
        }
    }
}

impl Lane {
    #[inline]
    fn admits(&self, mode: Mode) -> bool {
        self.granted == 0 || (self.mode == mode && mode != Mode::Write)
    }
}

/// The right to touch a datum, or a range of one, while its task has it.
#[derive(Debug)]
pub(super) enum Token {
    None,
    Whole(Grant),
    Shared(SharedGrant),
    Range(RangeGrant),
    SharedRange(SharedRange),
}

/// Keeps what of a datum no task has.
#[derive(Debug)]
pub(super) enum Keeper {
    /// Nobody reads; `None`: somebody writes.
    Whole(Option<Grant>),
    Shared(Shares),
    Ranges(RangeShares),
}

impl Keeper {
    /// `None`: it is with somebody.
    #[inline]
    pub(super) fn take(&mut self, exclusive: bool, range: &Range<usize>) -> Option<Token> {
        if let Keeper::Ranges(ranges) = self {
            return match exclusive {
                true => ranges.take(range.clone()).map(Token::Range),
                false => ranges.lend(range.clone()).map(Token::SharedRange),
            };
        }
        if exclusive {
            return self.whole().map(Token::Whole);
        }
        if let Keeper::Whole(whole) = self {
            *self = Keeper::Shared(whole.take()?.share());
        }
        let Keeper::Shared(shares) = self else { return None };
        Some(Token::Shared(shares.lend()))
    }

    fn whole(&mut self) -> Option<Grant> {
        match std::mem::replace(self, Keeper::Whole(None)) {
            Keeper::Shared(shares) => match shares.reclaim() {
                Ok(grant) => Some(grant),
                Err(shares) => {
                    *self = Keeper::Shared(shares);
                    None
                }
            },
            Keeper::Whole(grant) => grant,
            Keeper::Ranges(_) => unreachable!("ranges are taken as such"),
        }
    }

    #[inline]
    pub(super) fn put(&mut self, token: Token) {
        match (self, token) {
            (_, Token::None) => {}
            (this @ Keeper::Whole(_), Token::Whole(grant)) => *this = Keeper::Whole(Some(grant)),
            (Keeper::Shared(shares), Token::Shared(shared)) => shares.take_back(shared),
            (Keeper::Ranges(ranges), Token::Range(range)) => ranges.put_back(range),
            (Keeper::Ranges(ranges), Token::SharedRange(range)) => ranges.take_back(range),
            (this, token) => unreachable!("{this:?} has not given {token:?}"),
        }
    }
}
