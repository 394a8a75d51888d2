//! The order of the accesses to one datum, as edges: who comes right after whom.
//!
//! It is the order of [`Lanes`](super::Lanes), told at once instead of as it happens: for who keeps it, to play it again and again.

use std::ops::Range;

use super::LaneMode;

/// The last accesses to each stretch of a datum: from them the edges of the next one.
///
/// # Examples
///
/// ```
/// use proto_core::{Fronts, LaneMode};
///
/// const READ: LaneMode = LaneMode::together(0);
/// const WRITE: LaneMode = LaneMode::alone(1);
/// let (mut fronts, mut edges) = (Fronts::new(), Vec::new());
/// for (who, range, mode) in [(1, 0..10, WRITE), (2, 0..5, READ), (3, 4..10, READ), (4, 0..4, WRITE), (5, 4..10, WRITE)] {
///     fronts.enter(&range, who, mode, |before| edges.push((before, who)));
/// }
/// edges.dedup();
/// assert_eq!(edges, [(1, 2), (1, 3), (2, 4), (2, 5), (3, 5)]);
/// ```
#[derive(Clone, Debug)]
pub struct Fronts(Vec<Front>);

/// Those that had the stretch last, all at once, and those before them.
#[derive(Clone, Debug)]
struct Front {
    end: usize,
    mode: LaneMode,
    last: Vec<u32>,
    before: Vec<u32>,
}

impl Fronts {
    /// A datum that nobody has accessed.
    #[must_use]
    pub fn new() -> Fronts {
        let mode = LaneMode::together(0);
        Fronts(Vec::from([Front { end: usize::MAX, mode, last: Vec::new(), before: Vec::new() }]))
    }

    /// `who` comes last. `after` is told of each after which it comes: of one of several stretches perhaps more than once.
    pub fn enter(&mut self, range: &Range<usize>, who: u32, mode: LaneMode, mut after: impl FnMut(u32)) {
        for at in [range.start, range.end] {
            let index = self.0.partition_point(|front| front.end < at);
            if at != 0 && self.0[index].end != at {
                let left = Front { end: at, ..self.0[index].clone() };
                self.0.insert(index, left);
            }
        }
        let first = self.0.partition_point(|front| front.end <= range.start);
        for front in self.0[first..].iter_mut().take_while(|front| front.end <= range.end) {
            if !front.mode.goes_with(mode) {
                front.mode = mode;
                front.before = std::mem::take(&mut front.last);
            }
            front.last.push(who);
            front.before.iter().for_each(|&before| after(before));
        }
    }
}

impl Default for Fronts {
    fn default() -> Self {
        Fronts::new()
    }
}
