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
//! All of this is touched only under the graph's lock. What waits in a lane lies there if it is one or two, else in the graph's [`Pool`]: so
//! what another core has made is mostly found in the lines of memory that have to be fetched anyway. (Measured: a queue elsewhere cost a third of a task's end.)

use std::ops::Range;

use proto_core::{Grant, RangeGrant, RangeShares, SharedGrant, SharedRange, Shares};

use super::access::Reduction;
use super::failure::TaskError;

/// What an access does: a small number, or the address of a reduction's operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mode(usize);

/// The same in four bytes, of which there are some in every datum: the operations of a graph are numbered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Brief(u32);

impl Mode {
    pub(super) const READ: Mode = Mode(0);
    pub(super) const CONCURRENT: Mode = Mode(1);
    /// One at a time, in any order.
    pub(super) const COMMUTATIVE: Mode = Mode(2);
    pub(super) const INOUT: Mode = Mode(3);
    /// What was there before does not count.
    pub(super) const OUTPUT: Mode = Mode(4);

    pub(super) fn reduce<T>(operation: &Reduction<T>) -> Mode {
        // An operation is two words, so its address is none of the numbers above.
        Mode(std::ptr::from_ref(operation).addr())
    }

    #[inline]
    pub(super) fn reduces(self) -> bool {
        self.0 > Mode::OUTPUT.0
    }

    /// Whether tasks that do this may have it at once.
    #[inline]
    pub(super) fn shares(self) -> bool {
        self.0 <= Mode::CONCURRENT.0
    }

    /// What a task needs to run, or to be combined: the datum for itself, or not; `None`: nothing of it.
    #[inline]
    pub(super) fn needs(self, combining: bool) -> Option<bool> {
        (self.reduces() == combining).then_some(!self.shares())
    }
}

impl Brief {
    /// Whether one granted access of this mode keeps all others out.
    #[inline]
    fn excludes_all(self) -> bool {
        (Mode::INOUT.0..=Mode::OUTPUT.0).contains(&(self.0 as usize))
    }
}

/// An access that waits in a lane.
#[derive(Clone, Copy, Debug)]
struct Entry {
    task: u32,
    mode: Brief,
}

/// No task, no place of a pool.
const NONE: u32 = u32::MAX;

/// Where accesses wait that find no room in their lanes, and the operations of the graph's reductions.
#[derive(Debug)]
pub(super) struct Pool {
    /// An access, and the place of the next one of its lane; or a free place and the next one of those.
    places: Vec<(Entry, u32)>,
    free: u32,
    operations: Vec<Mode>,
}

impl Pool {
    pub(super) fn new() -> Pool {
        Pool { places: Vec::new(), free: NONE, operations: Vec::new() }
    }

    #[inline]
    fn brief(&mut self, mode: Mode) -> Brief {
        if !mode.reduces() {
            return Brief(mode.0 as u32);
        }
        let number = self.operations.iter().position(|&known| known == mode).unwrap_or_else(|| {
            self.operations.push(mode);
            self.operations.len() - 1
        });
        Brief((Mode::OUTPUT.0 + 1 + number) as u32)
    }

    fn put(&mut self, entry: Entry) -> u32 {
        let place = self.free;
        match self.places.get_mut(place as usize) {
            Some(free) => self.free = std::mem::replace(free, (entry, NONE)).1,
            None => {
                self.places.push((entry, NONE));
                return self.places.len() as u32 - 1;
            }
        }
        place
    }

    fn take(&mut self, place: u32) -> (Entry, u32) {
        let taken = std::mem::replace(&mut self.places[place as usize].1, self.free);
        self.free = place;
        (self.places[place as usize].0, taken)
    }
}

/// Accesses that wait in a lane, the oldest first: two in the lane itself, where whoever lets them go looks anyway, others in the pool.
#[derive(Debug)]
struct Queue {
    /// No task: no access; then the second is none either.
    near: [Entry; 2],
    first: u32,
    last: u32,
}

impl Queue {
    const NOBODY: Entry = Entry { task: NONE, mode: Brief(0) };
    const EMPTY: Queue = Queue { near: [Queue::NOBODY; 2], first: NONE, last: NONE };

    #[inline]
    fn is_empty(&self) -> bool {
        self.near[0].task == NONE
    }

    #[inline]
    fn push(&mut self, entry: Entry, pool: &mut Pool) {
        if let Some(near) = self.near.iter_mut().find(|near| near.task == NONE) {
            *near = entry;
            return;
        }
        let place = pool.put(entry);
        match self.first {
            NONE => self.first = place,
            _ => pool.places[self.last as usize].1 = place,
        }
        self.last = place;
    }

    #[inline]
    fn first(&self) -> Option<Entry> {
        Some(self.near[0]).filter(|first| first.task != NONE)
    }

    #[inline]
    fn pop(&mut self, pool: &mut Pool) {
        self.near = [self.near[1], Queue::NOBODY];
        if self.first != NONE {
            (self.near[1], self.first) = pool.take(self.first);
        }
    }

    /// Another queue of the same.
    fn twin(&self, pool: &mut Pool, mut each: impl FnMut(Entry)) -> Queue {
        let mut twin = Queue { near: self.near, ..Queue::EMPTY };
        self.near.iter().filter(|near| near.task != NONE).for_each(|&near| each(near));
        let mut place = self.first;
        while let Some(&(entry, next)) = pool.places.get(place as usize) {
            each(entry);
            twin.push(entry, pool);
            place = next;
        }
        twin
    }
}

/// All of a datum that is not cut.
pub(super) const WHOLE: Range<usize> = 0..usize::MAX;

#[derive(Debug)]
struct Lane {
    end: usize,
    /// How many accesses are granted, and what they do.
    granted: u32,
    mode: Brief,
    queue: Queue,
    poison: Option<TaskError>,
}

/// The lanes of a datum, in order; the first begins at 0, the last ends at `usize::MAX`.
#[derive(Debug)]
pub(super) struct Lanes {
    first: Lane,
    /// A box, as few data have any.
    #[expect(clippy::box_collection, reason = "one word in every datum instead of three")]
    others: Option<Box<Vec<Lane>>>,
}

impl Lanes {
    pub(super) fn new() -> Lanes {
        let first = Lane { end: usize::MAX, granted: 0, mode: Brief(0), queue: Queue::EMPTY, poison: None };
        Lanes { first, others: None }
    }

    fn cut(&mut self, at: usize, pool: &mut Pool, more: &mut impl FnMut(u32)) {
        if at == 0 {
            return;
        }
        let others = self.others.get_or_insert_default();
        let index = if self.first.end < at { 1 + others.partition_point(|lane| lane.end < at) } else { 0 };
        let lane = if index == 0 { &mut self.first } else { &mut others[index - 1] };
        if lane.end != at {
            let queue = lane.queue.twin(pool, |entry| more(entry.task));
            let right =
                Lane { end: lane.end, granted: lane.granted, mode: lane.mode, queue, poison: lane.poison.clone() };
            lane.end = at;
            others.insert(index, right);
        }
    }

    /// Calls `f` with each lane of a range, at whose ends others have been cut.
    #[inline(always)]
    fn each(&mut self, range: &Range<usize>, mut f: impl FnMut(&mut Lane)) {
        if *range == WHOLE && self.others.is_none() {
            return f(&mut self.first);
        }
        let mut start = 0;
        for lane in std::iter::once(&mut self.first).chain(self.others.iter_mut().flat_map(|others| &mut **others)) {
            if start >= range.end {
                return;
            }
            if lane.end > range.start {
                f(lane);
            }
            start = lane.end;
        }
    }

    /// An access comes last. Says in how many lanes it has to wait. `more` is told of each task that waits in one lane more than before.
    #[inline]
    pub(super) fn arrive(
        &mut self,
        range: &Range<usize>,
        task: u32,
        mode: Mode,
        pool: &mut Pool,
        mut more: impl FnMut(u32),
    ) -> u32 {
        if *range != WHOLE {
            self.cut(range.start, pool, &mut more);
            self.cut(range.end, pool, &mut more);
        }
        let entry = Entry { task, mode: pool.brief(mode) };
        let mut waits = 0;
        self.each(range, |lane| {
            if lane.queue.is_empty() && lane.admits(entry.mode) {
                lane.mode = entry.mode;
                lane.granted += 1;
            } else {
                lane.queue.push(entry, pool);
                waits += 1;
            }
        });
        waits
    }

    /// A granted access is over. `granted` is told of each task that one is granted to in a lane now.
    #[inline]
    pub(super) fn leave(&mut self, range: &Range<usize>, pool: &mut Pool, mut granted: impl FnMut(u32)) {
        self.each(range, |lane| {
            lane.granted -= 1;
            while let Some(next) = lane.queue.first().filter(|next| lane.admits(next.mode)) {
                lane.queue.pop(pool);
                lane.mode = next.mode;
                lane.granted += 1;
                granted(next.task);
            }
        });
    }

    /// Whether nobody has or awaits any of it.
    pub(super) fn is_idle(&mut self, range: &Range<usize>) -> bool {
        let mut idle = true;
        self.each(range, |lane| idle &= lane.granted == 0 && lane.queue.is_empty());
        idle
    }

    /// Whether somebody waits in a lane.
    pub(super) fn is_awaited(&mut self) -> bool {
        let mut awaited = false;
        self.each(&WHOLE, |lane| awaited |= !lane.queue.is_empty());
        awaited
    }

    /// Why what is there is not what it should be.
    #[inline]
    pub(super) fn poison(&mut self, range: &Range<usize>) -> Option<TaskError> {
        let mut poison = None;
        self.each(range, |lane| {
            if lane.poison.is_some() && poison.is_none() {
                poison.clone_from(&lane.poison);
            }
        });
        poison
    }

    #[inline]
    pub(super) fn set_poison(&mut self, range: &Range<usize>, poison: Option<&TaskError>) {
        self.each(range, |lane| {
            if lane.poison.is_some() || poison.is_some() {
                lane.poison = poison.cloned();
            }
        });
    }
}

impl Lane {
    #[inline]
    fn admits(&self, mode: Brief) -> bool {
        self.granted == 0 || (self.mode == mode && !mode.excludes_all())
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
    /// A box: it is large, and few data have it.
    Ranges(Box<RangeShares>),
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
