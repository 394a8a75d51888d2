//! The order of the accesses to one datum, and to ranges of it.
//!
//! A datum has one *lane*, or several if ranges of it were named: one for each stretch that no range cuts. In a lane the accesses stand in the order in
//! which they came; those in front are *granted*: one alone, or several in a row that may go together.
//!
//! ```text
//!   entered:   write   read   read   write   read …
//!   granted:   ─────
//!   then:              ───────────
//!   then:                            ─────
//! ```
//!
//! An access of a range stands in every lane of it. A range that begins or ends within a lane cuts that in two: both have what the one had.
//! An access that was granted is then granted in both, one that waits waits in both; so accesses leave by their range, not lane by lane. Lanes are never
//! joined again: there are at most as many as there are places where ranges begin or end.
//!
//! *Why not edges between those who come*: a reader after a thousand readers costs no thousand edges, and a writer after them none either: it is one entry, and
//! what has been granted is one count. (Who wants the edges, to keep them, has [`Fronts`](super::Fronts).)
//!
//! Lanes are state of an environment: nothing here waits or wakes. What waits in a lane lies there if it is one or two, else in a [`LanePool`] that
//! the lanes of an environment share: so what another core has made is mostly found in the lines of memory that have to be fetched anyway. (Measured, with a
//! dataflow's tasks: a queue elsewhere cost a third of a task's end.)

use std::ops::Range;

/// How an access goes with others in a [lane](Lanes): a kind, and whether accesses of that kind go together.
///
/// # Examples
///
/// ```
/// use proto_core::LaneMode;
///
/// const READ: LaneMode = LaneMode::together(0);
/// const ADD: LaneMode = LaneMode::together(1);
/// const WRITE: LaneMode = LaneMode::alone(2);
/// assert!(READ.goes_with(READ) && !READ.goes_with(ADD) && !WRITE.goes_with(WRITE));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneMode(u32);

impl LaneMode {
    const ALONE: u32 = 1 << 31;

    /// Those of this kind go together, with no others.
    ///
    /// # Panics
    ///
    /// If `kind` has the highest bit set.
    #[must_use]
    pub const fn together(kind: u32) -> LaneMode {
        assert!(kind & LaneMode::ALONE == 0, "a kind of accesses is a number below 2³¹");
        LaneMode(kind)
    }

    /// Each goes alone.
    #[must_use]
    pub const fn alone(kind: u32) -> LaneMode {
        LaneMode(kind | LaneMode::ALONE)
    }

    /// Whether the two may have the same at once.
    #[inline]
    #[must_use]
    pub const fn goes_with(self, other: LaneMode) -> bool {
        self.0 == other.0 && self.0 & LaneMode::ALONE == 0
    }
}

/// An access that waits in a lane.
#[derive(Clone, Copy, Debug)]
struct Entry {
    who: u32,
    mode: LaneMode,
}

/// Nobody, no place of a pool.
const NONE: u32 = u32::MAX;

/// Where accesses wait that find no room in their [`Lanes`].
///
/// All lanes whose accesses an environment orders share one. It grows with what waits at a time, and is never smaller again.
#[derive(Debug)]
pub struct LanePool {
    /// An access, and the place of the next one of its lane; or a free place and the next one of those.
    places: Vec<(Entry, u32)>,
    free: u32,
}

impl LanePool {
    /// A pool without places.
    #[must_use]
    pub const fn new() -> LanePool {
        LanePool { places: Vec::new(), free: NONE }
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

impl Default for LanePool {
    fn default() -> Self {
        LanePool::new()
    }
}

/// Accesses that wait in a lane, the oldest first: two in the lane itself, others in the pool.
#[derive(Debug)]
struct Queue {
    /// No task: no access; then the second is none either.
    near: [Entry; 2],
    first: u32,
    last: u32,
}

impl Queue {
    const NOBODY: Entry = Entry { who: NONE, mode: LaneMode(0) };
    const EMPTY: Queue = Queue { near: [Queue::NOBODY; 2], first: NONE, last: NONE };

    #[inline]
    fn is_empty(&self) -> bool {
        self.near[0].who == NONE
    }

    #[inline]
    fn push(&mut self, entry: Entry, pool: &mut LanePool) {
        if let Some(near) = self.near.iter_mut().find(|near| near.who == NONE) {
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
        Some(self.near[0]).filter(|first| first.who != NONE)
    }

    #[inline]
    fn pop(&mut self, pool: &mut LanePool) {
        self.near = [self.near[1], Queue::NOBODY];
        if self.first != NONE {
            (self.near[1], self.first) = pool.take(self.first);
        }
    }

    /// Another queue of the same.
    fn twin(&self, pool: &mut LanePool, mut each: impl FnMut(Entry)) -> Queue {
        let mut twin = Queue { near: self.near, ..Queue::EMPTY };
        self.near.iter().filter(|near| near.who != NONE).for_each(|&near| each(near));
        let mut place = self.first;
        while let Some(&(entry, next)) = pool.places.get(place as usize) {
            each(entry);
            twin.push(entry, pool);
            place = next;
        }
        twin
    }
}

#[derive(Debug)]
struct Lane<M> {
    end: usize,
    /// How many accesses are granted, and how they go with others.
    granted: u32,
    mode: LaneMode,
    queue: Queue,
    mark: Option<M>,
}

impl<M> Lane<M> {
    #[inline]
    fn admits(&self, mode: LaneMode) -> bool {
        self.granted == 0 || self.mode.goes_with(mode)
    }
}

/// The order of the accesses to one datum, which may be a slice of which ranges are accessed.
///
/// Whoever wants access [enters](Lanes::enter): it is granted at once, or later, when those that came before and do not [go with](LaneMode::goes_with) it have
/// [left](Lanes::leave). An access of several lanes is granted in each of them by itself: whoever enters is told in how many it waits, and counts that down. It is named
/// by a number of the user's, any but `u32::MAX`. What was granted says nothing of who *may touch* the datum: that is for a [`Claim`](super::Claim).
///
/// A range may have a *mark* `M`, for what is to be said of the value there: that whoever should have written it has failed, for instance.
///
/// # Examples
///
/// ```
/// use proto_core::{LaneMode, LanePool, Lanes};
///
/// const READ: LaneMode = LaneMode::together(0);
/// const WRITE: LaneMode = LaneMode::alone(1);
/// let (mut lanes, mut pool) = (Lanes::<&str>::new(), LanePool::new());
/// assert_eq!(lanes.enter(&(0..10), 1, WRITE, &mut pool, |_| ()), 0);
/// // Where the second begins is a lane of its own: it waits in one of two.
/// assert_eq!(lanes.enter(&(5..15), 2, READ, &mut pool, |_| ()), 1);
/// assert_eq!(lanes.enter(&(12..20), 3, WRITE, &mut pool, |who| assert_eq!(who, 2)), 1);
///
/// lanes.set_mark(&(0..10), Some(&"half of it"));
/// let mut granted = Vec::new();
/// lanes.leave(&(0..10), &mut pool, |who| granted.push(who));
/// assert_eq!(granted, [2]);
/// assert_eq!((lanes.mark(&(5..15)), lanes.mark(&(12..20))), (Some(&"half of it"), None));
/// ```
#[derive(Debug)]
pub struct Lanes<M = ()> {
    /// The lanes in order: the first one begins at 0, the last one ends at `usize::MAX`.
    first: Lane<M>,
    /// A box, as few data have any.
    #[expect(clippy::box_collection, reason = "one word in every datum instead of three")]
    others: Option<Box<Vec<Lane<M>>>>,
}

impl<M> Lanes<M> {
    /// All of a datum, however long it is.
    pub const WHOLE: Range<usize> = 0..usize::MAX;

    /// A datum that nobody accesses, without a mark.
    #[must_use]
    pub const fn new() -> Lanes<M> {
        let first = Lane { end: usize::MAX, granted: 0, mode: LaneMode(0), queue: Queue::EMPTY, mark: None };
        Lanes { first, others: None }
    }

    /// The lanes of a range, at whose ends others may have been cut.
    fn of(&self, range: &Range<usize>) -> impl Iterator<Item = &Lane<M>> {
        let (range, mut start) = (range.clone(), 0);
        let all = std::iter::once(&self.first).chain(self.others.iter().flat_map(|others| &**others));
        all.filter(move |lane| {
            let begin = std::mem::replace(&mut start, lane.end);
            begin < range.end && lane.end > range.start
        })
    }

    /// Calls `f` with each lane of a range, at whose ends others have been cut.
    #[inline(always)]
    fn each(&mut self, range: &Range<usize>, mut f: impl FnMut(&mut Lane<M>)) {
        if self.others.is_none() && !range.is_empty() {
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

    /// `who` has left, with a granted access: `granted` is told of each that one is granted to in a lane now.
    #[inline]
    pub fn leave(&mut self, range: &Range<usize>, pool: &mut LanePool, mut granted: impl FnMut(u32)) {
        self.each(range, |lane| {
            lane.granted -= 1;
            while let Some(next) = lane.queue.first().filter(|next| lane.admits(next.mode)) {
                lane.queue.pop(pool);
                lane.mode = next.mode;
                lane.granted += 1;
                granted(next.who);
            }
        });
    }

    /// Whether nobody has or awaits any of it.
    #[must_use]
    pub fn is_idle(&self, range: &Range<usize>) -> bool {
        self.of(range).all(|lane| lane.granted == 0 && lane.queue.is_empty())
    }

    /// Whether somebody waits for some of it.
    #[must_use]
    pub fn is_awaited(&self, range: &Range<usize>) -> bool {
        self.of(range).any(|lane| !lane.queue.is_empty())
    }

    /// Whether any range may have a mark: if not, none has.
    #[inline]
    #[must_use]
    pub fn is_marked(&self) -> bool {
        self.others.is_some() || self.first.mark.is_some()
    }

    /// The mark of a range: the first one, if parts of it have different ones.
    #[inline]
    #[must_use]
    pub fn mark(&self, range: &Range<usize>) -> Option<&M> {
        if self.others.is_none() && !range.is_empty() {
            return self.first.mark.as_ref();
        }
        self.of(range).find_map(|lane| lane.mark.as_ref())
    }
}

impl<M: Clone> Lanes<M> {
    fn cut(&mut self, at: usize, pool: &mut LanePool, more: &mut impl FnMut(u32)) {
        if at == 0 {
            return;
        }
        let others = self.others.get_or_insert_default();
        let index = if self.first.end < at { 1 + others.partition_point(|lane| lane.end < at) } else { 0 };
        let lane = if index == 0 { &mut self.first } else { &mut others[index - 1] };
        if lane.end != at {
            let queue = lane.queue.twin(pool, |entry| more(entry.who));
            let right = Lane { end: lane.end, granted: lane.granted, mode: lane.mode, queue, mark: lane.mark.clone() };
            lane.end = at;
            others.insert(index, right);
        }
    }

    /// `who` comes last, with an access of `range`. Says in how many lanes that waits; nought: it is granted. `more` is told of each that waits in one lane more
    /// than before, since a lane was cut; it may be `who`, if that has entered before.
    ///
    /// An empty range is granted at once.
    #[inline]
    pub fn enter(
        &mut self,
        range: &Range<usize>,
        who: u32,
        mode: LaneMode,
        pool: &mut LanePool,
        mut more: impl FnMut(u32),
    ) -> u32 {
        debug_assert_ne!(who, NONE, "the highest number is nobody's");
        if *range != Self::WHOLE {
            self.cut(range.start, pool, &mut more);
            self.cut(range.end, pool, &mut more);
        }
        let mut waits = 0;
        self.each(range, |lane| {
            if lane.queue.is_empty() && lane.admits(mode) {
                lane.mode = mode;
                lane.granted += 1;
            } else {
                lane.queue.push(Entry { who, mode }, pool);
                waits += 1;
            }
        });
        waits
    }

    /// Gives a range a mark, or takes it away. Lanes that the range cuts are marked wholly: it should be one that has entered.
    #[inline]
    pub fn set_mark(&mut self, range: &Range<usize>, mark: Option<&M>) {
        self.each(range, |lane| {
            if lane.mark.is_some() || mark.is_some() {
                lane.mark = mark.cloned();
            }
        });
    }
}

impl<M> Default for Lanes<M> {
    fn default() -> Self {
        Lanes::new()
    }
}
