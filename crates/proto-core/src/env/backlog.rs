//! A queue of values in an environment, which grows without an allocation under the environment's lock.
//!
//! A queue that is full has to move into more memory. Here the memory is brought by a requester, who allocates it outside of the lock
//! [design rule 2], and the values move one by one: each push takes one value along.
//!
//! **Invariant**: `new` has room for all that is in `old` and as many pushes, so that `old` is empty before `new` is full. It holds when `new` is
//! brought (at least twice as large, and empty), each push takes one of `old` along, and a pop takes away only.
//!
//! **Tried.** To move all values at once: a million of them hold the lock for milliseconds. A chain of segments: a reader that lags
//! behind by n values is behind by n / 32 allocations, each of which is freed somewhere.

use std::collections::VecDeque;
use std::fmt;

/// A queue of values, first in, first out, for an environment whose handlers must not allocate.
///
/// [`push`](Backlog::push) gives the value back if there is no room. The handler then answers so, the requester makes a
/// backlog of [`more`](Backlog::more) room, and a second request lets the full one [grow](Backlog::grow) into it. Every step takes constant time, however many values
/// there are.
///
/// # Examples
///
/// ```
/// use proto_core::Backlog;
///
/// let mut values = Backlog::new();
/// assert_eq!(values.push("no room"), Err("no room"));
/// let room = Backlog::with_capacity(values.more()); // by the requester, outside of the lock
/// let left_over = values.grow(room);                // by a handler
/// drop(left_over);                                  // outside again
/// values.push("first").unwrap();
/// values.push("second").unwrap();
/// assert_eq!(values.pop(), Some("first"));
/// assert_eq!(values.len(), 1);
/// ```
///
/// A mailbox in which room is never short, though none is made under the lock:
///
/// ```
/// use proto_core::{Backlog, EnvCell};
///
/// fn put<T>(mailbox: &EnvCell<Backlog<T>>, mut value: T) {
///     while let Some(Err((back, more))) = mailbox.update(|values, _, _| {
///         values.push(value).map_err(|back| (back, values.more()))
///     }) {
///         let room = Backlog::with_capacity(more);
///         drop(mailbox.update(|values, _, _| values.grow(room)));
///         value = back;
///     }
/// }
/// let mailbox = EnvCell::new(Backlog::new());
/// (0..100).for_each(|n| put(&mailbox, n));
/// let taken = mailbox.update(|values, _, _| values.pop());
/// assert_eq!(taken, Some(Some(0)));
/// assert_eq!(mailbox.into_inner().map(|values| values.is_empty()), Some(false));
/// ```
pub struct Backlog<T> {
    /// The older values, on their way into `new`.
    old: VecDeque<T>,
    new: VecDeque<T>,
}

/// What the first growth gives room for.
const FIRST: usize = 4;

impl<T> Backlog<T> {
    /// A queue without values or room.
    pub const fn new() -> Self {
        Backlog { old: VecDeque::new(), new: VecDeque::new() }
    }

    /// A queue with room for at least `capacity` values.
    pub fn with_capacity(capacity: usize) -> Self {
        Backlog { old: VecDeque::new(), new: VecDeque::with_capacity(capacity) }
    }

    /// How many values there are.
    #[inline]
    pub fn len(&self) -> usize {
        self.old.len() + self.new.len()
    }

    /// Whether there are none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.new.is_empty() && self.old.is_empty()
    }

    /// Adds `value` as the last.
    ///
    /// # Errors
    ///
    /// Gives it back if there is no room.
    #[inline]
    pub fn push(&mut self, value: T) -> Result<(), T> {
        if self.new.len() == self.new.capacity() {
            return Err(value);
        }
        self.new.push_back(value);
        if let Some(along) = self.old.pop_back() {
            self.new.push_front(along);
        }
        Ok(())
    }

    /// Takes the first value.
    #[inline]
    pub fn pop(&mut self) -> Option<T> {
        if self.old.is_empty() { self.new.pop_front() } else { self.old.pop_front() }
    }

    /// The capacity of the backlog that a full one can [grow](Self::grow) into.
    pub fn more(&self) -> usize {
        self.new.capacity().saturating_mul(2).max(FIRST)
    }

    /// Grows into `room`, which is empty, if that is still needed. Gives what is not: drop it outside of the lock.
    pub fn grow(&mut self, room: Backlog<T>) -> Backlog<T> {
        let full = self.old.is_empty() && self.new.len() == self.new.capacity();
        if !full || room.new.capacity() < self.more() {
            return room;
        }
        let full = std::mem::replace(&mut self.new, room.new);
        Backlog { old: VecDeque::new(), new: std::mem::replace(&mut self.old, full) }
    }
}

impl<T> Default for Backlog<T> {
    fn default() -> Self {
        Backlog::new()
    }
}

impl<T> fmt::Debug for Backlog<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Backlog").field("len", &self.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::Backlog;

    /// Fewer where each step is interpreted.
    const MANY: usize = if cfg!(miri) { 2_000 } else { 100_000 };

    /// Pushes as a requester does, and says whether it took more room.
    fn push(backlog: &mut Backlog<usize>, value: usize) -> bool {
        let Err(value) = backlog.push(value) else { return false };
        let room = Backlog::with_capacity(backlog.more());
        drop(backlog.grow(room));
        backlog.push(value).expect("it has grown");
        true
    }

    #[test]
    fn values_keep_their_order_while_it_grows() {
        for pops_in_seven in 0..=7 {
            let mut backlog = Backlog::new();
            let (mut next_in, mut next_out) = (0, 0);
            for step in 0..MANY / 20 {
                push(&mut backlog, next_in);
                next_in += 1;
                if step % 7 < pops_in_seven {
                    assert_eq!(backlog.pop(), Some(next_out));
                    next_out += 1;
                }
                assert_eq!(backlog.len(), next_in - next_out);
            }
            while let Some(value) = backlog.pop() {
                assert_eq!(value, next_out);
                next_out += 1;
            }
            assert!(next_out == next_in && backlog.is_empty());
        }
    }

    #[test]
    fn it_grows_seldom_and_by_doubling() {
        let mut backlog = Backlog::new();
        let growths = (0..MANY).filter(|&value| push(&mut backlog, value)).count();
        assert!(growths <= 17, "it grew {growths} times for {MANY} values");
        // As many in as out: the room that is there is used again.
        let more = backlog.more();
        for value in 0..2 * MANY {
            assert!(backlog.pop().is_some());
            push(&mut backlog, value);
        }
        assert_eq!(backlog.more(), more);
    }

    #[test]
    fn room_that_is_not_needed_comes_back() {
        let mut backlog = Backlog::with_capacity(4);
        backlog.push(1).unwrap();
        let back = backlog.grow(Backlog::with_capacity(backlog.more()));
        assert!(back.more() >= 16, "another requester was first");
        while backlog.push(2).is_ok() {}
        let back = backlog.grow(Backlog::with_capacity(1));
        assert!(back.is_empty() && backlog.push(3).is_err(), "too small");
    }

    #[test]
    fn values_without_size_never_need_room() {
        let mut backlog = Backlog::new();
        (0..1_000).for_each(|_| backlog.push(()).unwrap());
        assert_eq!(backlog.len(), 1_000);
    }
}
