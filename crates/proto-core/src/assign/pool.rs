//! Stealable unstarted work of one core.
//!
//! A queue behind a spinlock: the owner puts in and takes out (an exchange each), thieves take the oldest half. Two counters outside
//! the lock tell a thief how old the work is, without a clock at every spawn: `given` counts what was put in, `gone` what
//! was taken out, both in order. A thief notes `given` when it begins to search; what is still there 20 µs later and was counted
//! by that note is at least so old, and there is some while `gone` is below the note.
//!
//! Work is put in at the back and leaves at the front, for owner and thief alike.

use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use super::{Locked, Work};

/// The most that a thief takes at once.
const MOST: usize = 64;

/// Unstarted work of one core that other cores may take. See [`Cores`](super::Cores).
///
/// # Examples
///
/// The owner takes the newest while there is little, and else the oldest; thieves always take the oldest.
///
/// ```
/// use proto_core::{Assigner, Cores, Locked, Runtime, Why, Work};
///
/// struct Hot;
/// impl Assigner for Hot {
///     type Core = Vec<Work>;
///     type Shared = ();
///     fn core(&self, _: &Cores<'_>) -> Vec<Work> { Vec::new() }
///     fn shared(&self) {}
///     fn ready(&self, stays: &mut Vec<Work>, _: &Locked<()>, cores: &Cores<'_>, work: Work, _: Why) {
///         if let Err(work) = cores.mine().push(work) { stays.push(work) }
///     }
///     fn assign(&self, stays: &mut Vec<Work>, _: &Locked<()>, cores: &Cores<'_>) -> Option<Work> {
///         let pool = cores.mine();
///         match pool.len() {
///             _ if pool.is_empty() => stays.pop(),
///             1..=8 => pool.pop_newest(),
///             _ => pool.pop(),
///         }
///     }
///     fn idle(&self, _: &mut Vec<Work>, _: &Locked<()>, cores: &Cores<'_>) -> Option<Work> {
///         cores.steal((cores.index() + 1) % cores.count())
///     }
/// }
/// let runtime = Runtime::builder().controllers(2).assigner(Hot).build()?;
/// assert_eq!(runtime.run(|| proto_core::join(|| "left", || "right"))?, ("left", "right"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Pool {
    queue: Locked<VecDeque<Work>>,
    given: AtomicU64,
    gone: AtomicU64,
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool").field("len", &self.len()).finish()
    }
}

impl Pool {
    pub(crate) fn new() -> Self {
        Pool { queue: Locked::new(VecDeque::new()), given: AtomicU64::new(0), gone: AtomicU64::new(0) }
    }

    /// Puts work in, at the back.
    ///
    /// # Errors
    ///
    /// Gives back work that may not move: it would be lost to the core it has to run on.
    pub fn push(&self, work: Work) -> Result<(), Work> {
        if !work.may_move() {
            return Err(work);
        }
        self.queue.with(|queue| {
            queue.push_back(work);
            // ORDERING: Relaxed: written under the lock; read outside as a hint.
            self.given.store(self.given.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        });
        Ok(())
    }

    /// Takes the oldest out.
    pub fn pop(&self) -> Option<Work> {
        if self.is_empty() {
            return None;
        }
        self.queue.with(|queue| {
            let work = queue.pop_front()?;
            self.count_gone(1);
            Some(work)
        })
    }

    /// Takes the newest out.
    pub fn pop_newest(&self) -> Option<Work> {
        if self.is_empty() {
            return None;
        }
        self.queue.with(|queue| {
            let work = queue.pop_back()?;
            // Keeps `given - gone` the length and the ages of the rest right.
            self.given.store(self.given.load(Ordering::Relaxed) - 1, Ordering::Relaxed);
            Some(work)
        })
    }

    /// Under the lock.
    fn count_gone(&self, n: u64) {
        // ORDERING: Relaxed: as in `push`.
        self.gone.store(self.gone.load(Ordering::Relaxed) + n, Ordering::Relaxed);
    }

    /// How much work there is: a hint.
    pub fn len(&self) -> usize {
        // ORDERING: Relaxed: hints. `gone` first, so that the difference is not negative for long.
        let gone = self.gone.load(Ordering::Relaxed);
        usize::try_from(self.given.load(Ordering::Relaxed).saturating_sub(gone)).unwrap_or(usize::MAX)
    }

    /// Whether there is none: a hint.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What had been put in so far: for [`steal_half`](Pool::steal_half), later.
    pub(crate) fn given(&self) -> u64 {
        // ORDERING: Relaxed: a hint.
        self.given.load(Ordering::Relaxed)
    }

    /// Takes the oldest work that is old enough, and with it up to half of the rest, which goes into `mine`.
    pub(crate) fn steal_half(&self, given: u64, mine: &Pool) -> Option<Work> {
        let mut loot = self.steal_oldest(given);
        let first = loot.pop_front();
        for work in loot {
            // What was in a pool may be in another.
            let _ = mine.push(work);
        }
        first
    }

    /// Takes up to half of the work, the oldest first: what was there when `given` had been given.
    pub(crate) fn steal_oldest(&self, given: u64) -> VecDeque<Work> {
        // ORDERING: Relaxed: a hint, looked at again under the lock.
        if self.is_empty() || self.gone.load(Ordering::Relaxed) >= given {
            return VecDeque::new();
        }
        self.queue.with(|queue| {
            let old = usize::try_from(given.saturating_sub(self.gone.load(Ordering::Relaxed))).unwrap_or(usize::MAX);
            let take = queue.len().div_ceil(2).min(old).min(MOST);
            let loot: VecDeque<Work> = queue.drain(..take).collect();
            self.count_gone(loot.len() as u64);
            loot
        })
    }

    /// Takes everything out, in order.
    pub(crate) fn take_all(&self, into: &mut VecDeque<Work>) {
        if self.is_empty() {
            return;
        }
        self.queue.with(|queue| {
            self.count_gone(queue.len() as u64);
            into.append(queue);
        });
    }
}
