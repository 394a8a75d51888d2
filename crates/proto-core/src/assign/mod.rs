//! Assigners: which ready work a free core runs next [design §4].
//!
//! | file | what lives there |
//! |---|---|
//! | `work` | [`Work`], a ready VP or an unstarted one, as an assigner sees it |
//! | `pool` | [`Pool`], stealable unstarted work of one core |
//! | `instance` | an assigner with its states for every core, type-erased |
//! | `ready_made` | [`Fifo`], [`Lifo`], [`Priority`], [`WorkStealing`], [`Locality`] |

pub(crate) mod instance;
pub(crate) mod pool;
mod ready_made;
pub(crate) mod work;

use std::fmt;

use proto_arch::topology::{CoreId, Topology};

pub use pool::Pool;
pub use ready_made::{Fifo, Lifo, Locality, Priority, WorkStealing};
pub use work::{Why, Work};

use crate::kernel::spin::SpinWord;
use crate::runtime::core::Core;
use instance::Instance;

/// Decides which ready work a free core runs.
///
/// Every controller has a `Core` of its own, without a lock; what they share is in `Shared`, behind [`Locked`]. Unstarted
/// work that other cores may take goes into this core's [`Pool`] ([`Cores::mine`]).
///
/// All methods are called by a controller, on its own stack, outside any environment's lock: an assigner may not make
/// requests. A started VP is given to the assigner on its home core and has to be assigned there; the runtime sends it home
/// otherwise. An assigner that panics is replaced by [`Fifo`] and named on standard error; the work it held is not lost. Work that an
/// assigner drops is run by the controller itself.
///
/// # Examples
///
/// The last to become ready runs first, without stealing:
///
/// ```
/// use proto_core::{Assigner, Cores, Locked, Runtime, Why, Work};
///
/// struct Newest;
/// impl Assigner for Newest {
///     type Core = Vec<Work>;
///     type Shared = ();
///     fn core(&self, _: &Cores<'_>) -> Vec<Work> { Vec::new() }
///     fn shared(&self) {}
///     fn ready(&self, core: &mut Vec<Work>, _: &Locked<()>, _: &Cores<'_>, work: Work, _: Why) { core.push(work) }
///     fn assign(&self, core: &mut Vec<Work>, _: &Locked<()>, _: &Cores<'_>) -> Option<Work> { core.pop() }
/// }
/// let runtime = Runtime::builder().controllers(1).assigner(Newest).build()?;
/// assert_eq!(runtime.run(|| 6 * 7)?, 42);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Unstarted work in the pools, so that a core which has found nothing may take it; new work goes to each core in turn:
///
/// ```
/// use std::collections::VecDeque;
///
/// use proto_core::{Assigner, CoreId, Cores, Locked, Runtime, Why, Work, scope};
///
/// struct InTurn;
/// impl Assigner for InTurn {
///     type Core = VecDeque<Work>;
///     /// How many have been dealt out.
///     type Shared = usize;
///
///     const NEW_WORK_IN_POOL: bool = false; // it would stay where it is born
///     const ONLY_WORK_UNASKED: bool = true; // what is resumed on an idle core may run at once
///
///     fn core(&self, _: &Cores<'_>) -> VecDeque<Work> { VecDeque::new() }
///     fn shared(&self) -> usize { 0 }
///     fn ready(&self, core: &mut VecDeque<Work>, _: &Locked<usize>, cores: &Cores<'_>, work: Work, _: Why) {
///         if let Err(stays) = cores.mine().push(work) { core.push_back(stays) }
///     }
///     fn assign(&self, core: &mut VecDeque<Work>, _: &Locked<usize>, cores: &Cores<'_>) -> Option<Work> {
///         core.pop_front().or_else(|| cores.mine().pop())
///     }
///     fn idle(&self, _: &mut VecDeque<Work>, _: &Locked<usize>, cores: &Cores<'_>) -> Option<Work> {
///         (0..cores.count()).find_map(|victim| cores.steal(victim))
///     }
///     fn place(&self, dealt: &Locked<usize>, cores: &Cores<'_>) -> Option<CoreId> {
///         let turn = dealt.with(|dealt| { *dealt += 1; *dealt });
///         Some(cores.place_of(turn % cores.count()))
///     }
/// }
/// let runtime = Runtime::builder().controllers(2).assigner(InTurn).build()?;
/// let sum = runtime.run(|| {
///     scope(|s| {
///         let vps: Vec<_> = (1..=10).map(|n| s.spawn(move || n)).collect();
///         vps.into_iter().filter_map(|vp| vp.join().ok()).sum::<u32>()
///     })
/// })?;
/// assert_eq!(sum, 55);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Assigner: Send + Sync + 'static {
    /// The state of one core. Only that core's controller touches it.
    type Core: Send + 'static;
    /// What all cores share.
    type Shared: Send + 'static;

    /// Whether new work goes straight into the pool of the core where it is born ([`Cores::mine`]), without a call: for assigners whose
    /// [`ready`](Assigner::ready) would do nothing else with it, and which leave [`place`](Assigner::place) alone. [`assign`](Assigner::assign)
    /// finds it there. A birth then costs one passage through one queue instead of two.
    const NEW_WORK_IN_POOL: bool = false;

    /// Whether a core with one piece of ready work always runs it: the controller may then do so without asking, when a timeline is resumed
    /// on a core that has nothing else, and this assigner hears of it only when it becomes ready the next time. For assigners that need not see
    /// each piece.
    const ONLY_WORK_UNASKED: bool = false;

    /// Makes the state of one core: the one that `cores` names as its own.
    fn core(&self, cores: &Cores<'_>) -> Self::Core;

    /// Makes the shared state.
    fn shared(&self) -> Self::Shared;

    /// Work has become ready on this core.
    fn ready(&self, core: &mut Self::Core, shared: &Locked<Self::Shared>, cores: &Cores<'_>, work: Work, why: Why);

    /// This core is free: what does it run? Must not look at other cores' pools (that is [`idle`](Assigner::idle)'s).
    fn assign(&self, core: &mut Self::Core, shared: &Locked<Self::Shared>, cores: &Cores<'_>) -> Option<Work>;

    /// This core has found nothing for a while: take something from elsewhere. Does nothing unless the assigner says otherwise.
    fn idle(&self, core: &mut Self::Core, shared: &Locked<Self::Shared>, cores: &Cores<'_>) -> Option<Work> {
        let _ = (core, shared, cores);
        None
    }

    /// Whether there is work in `shared` that any core may take. A core asks before it sleeps, and when it has taken something while others
    /// sleep: an assigner that keeps such work there and does not say so lets cores sleep beside it. (What is in the cores' [`Pool`]s is known.)
    ///
    /// # Examples
    ///
    /// ```
    /// use std::collections::VecDeque;
    ///
    /// use proto_core::{Assigner, Cores, Locked, Runtime, Why, Work, join};
    ///
    /// /// One queue for all cores of what may run on any of them.
    /// struct Common;
    /// impl Assigner for Common {
    ///     type Core = VecDeque<Work>;
    ///     type Shared = VecDeque<Work>;
    ///     fn core(&self, _: &Cores<'_>) -> VecDeque<Work> { VecDeque::new() }
    ///     fn shared(&self) -> VecDeque<Work> { VecDeque::new() }
    ///     fn ready(&self, core: &mut Self::Core, shared: &Locked<Self::Shared>, _: &Cores<'_>, work: Work, _: Why) {
    ///         if work.may_move() { shared.with(|queue| queue.push_back(work)) } else { core.push_back(work) }
    ///     }
    ///     fn assign(&self, core: &mut Self::Core, shared: &Locked<Self::Shared>, _: &Cores<'_>) -> Option<Work> {
    ///         core.pop_front().or_else(|| shared.with(VecDeque::pop_front))
    ///     }
    ///     fn has_shared_work(&self, shared: &Locked<Self::Shared>) -> bool {
    ///         shared.with(|queue| !queue.is_empty())
    ///     }
    /// }
    /// let runtime = Runtime::builder().controllers(2).assigner(Common).build()?;
    /// assert_eq!(runtime.run(|| join(|| 1, || 2))?, (1, 2));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    fn has_shared_work(&self, shared: &Locked<Self::Shared>) -> bool {
        let _ = shared;
        false
    }

    /// Where new work is sent that says nothing about its place, asked by the core where it was born; another core that is idle may have taken
    /// it before. `None` (unless the assigner says otherwise) leaves it with its creator's core.
    fn place(&self, shared: &Locked<Self::Shared>, cores: &Cores<'_>) -> Option<CoreId> {
        let _ = (shared, cores);
        None
    }
}

/// A value behind a spinlock, for what the cores of an assigner share.
///
/// ```
/// # use proto_core::Locked;
/// let shared = Locked::new(1);
/// shared.with(|n| *n += 1);
/// assert_eq!(shared.with(|n| *n), 2);
/// ```
pub struct Locked<T> {
    lock: SpinWord,
    value: std::cell::UnsafeCell<T>,
}

// SAFETY: the value is touched under the lock only, by one thread at a time.
unsafe impl<T: Send> Sync for Locked<T> {}

impl<T> Locked<T> {
    /// Wraps `value`.
    pub const fn new(value: T) -> Self {
        Locked { lock: SpinWord::new(), value: std::cell::UnsafeCell::new(value) }
    }

    /// Runs `f` on the value, alone. Keep it short: other cores spin meanwhile.
    ///
    /// # Panics
    ///
    /// If `f` does; the lock is free again then. Must not be nested on the same value: that would spin for ever.
    pub fn with<R>(&self, f: impl FnOnce(&mut T) -> R) -> R {
        struct Unlock<'a>(&'a SpinWord, crate::kernel::spin::Version);
        impl Drop for Unlock<'_> {
            fn drop(&mut self) {
                self.0.unlock(self.1);
            }
        }
        let _unlock = Unlock(&self.lock, self.lock.lock());
        // SAFETY: the lock is held until the end of this function.
        f(unsafe { &mut *self.value.get() })
    }
}

impl<T> fmt::Debug for Locked<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Locked").finish_non_exhaustive()
    }
}

/// The other controllers, nearest first; equally near ones in ring order, so that not all ask the same one first. Controllers beyond
/// the machine's cores count as doubles of those.
pub(crate) fn nearest(topology: &Topology, places: &[CoreId], index: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (1..places.len()).map(|step| (index + step) % places.len()).collect();
    let place = |index: usize| CoreId::new(u32::try_from(places[index].index() % topology.len()).unwrap_or(0));
    order.sort_by_key(|&other| topology.distance(place(index), place(other)));
    order
}

/// The cores of the runtime, as an assigner sees them from one of them.
///
/// # Examples
///
/// A core that has nothing asks its nearest neighbour first, and lets what is born go first while that comes to an end:
///
/// ```
/// use std::collections::VecDeque;
///
/// use proto_core::{Assigner, Cores, Locked, Runtime, Topology, Why, Work};
///
/// struct Near;
/// struct Mine {
///     waited: VecDeque<Work>,
///     /// The other controllers, nearest first.
///     others: Vec<usize>,
///     /// When new work got its last turn.
///     since: u32,
/// }
/// impl Assigner for Near {
///     type Core = Mine;
///     type Shared = ();
///     fn core(&self, cores: &Cores<'_>) -> Mine {
///         let here = cores.place_of(cores.index());
///         let mut others: Vec<_> = (0..cores.count()).filter(|&other| other != cores.index()).collect();
///         others.sort_by_key(|&other| cores.topology().distance(here, cores.place_of(other)));
///         Mine { waited: VecDeque::new(), others, since: 0 }
///     }
///     fn shared(&self) {}
///     fn ready(&self, mine: &mut Mine, _: &Locked<()>, cores: &Cores<'_>, work: Work, _: Why) {
///         if let Err(stays) = cores.mine().push(work) { mine.waited.push_back(stays) }
///     }
///     fn assign(&self, mine: &mut Mine, _: &Locked<()>, cores: &Cores<'_>) -> Option<Work> {
///         let now = cores.coarse_millis();
///         if cores.last_has_ended() && mine.since == now {
///             if let Some(new) = cores.mine().pop() { return Some(new) }
///         }
///         mine.since = now;
///         mine.waited.pop_front().or_else(|| cores.mine().pop())
///     }
///     fn idle(&self, mine: &mut Mine, _: &Locked<()>, cores: &Cores<'_>) -> Option<Work> {
///         mine.others.iter().find_map(|&other| cores.steal(other))
///     }
/// }
/// let machine = Topology::parse("2 packages × 2 cores")?;
/// let runtime = Runtime::builder().topology(machine).controllers(4).assigner(Near).build()?;
/// assert_eq!(runtime.run(|| proto_core::join(|| 6, || 7))?, (6, 7));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Cores<'a> {
    pub(crate) core: &'a Core,
    pub(crate) instance: &'a Instance,
    /// Which victims' work is old enough to be taken: what their pools had been given when this core began to search.
    pub(crate) aged: Option<&'a [u64]>,
}

impl fmt::Debug for Cores<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cores").field("index", &self.index()).field("count", &self.count()).finish_non_exhaustive()
    }
}

impl<'a> Cores<'a> {
    /// Which controller this is, from 0.
    #[inline]
    pub fn index(&self) -> usize {
        self.core.index
    }

    /// How many controllers there are.
    pub fn count(&self) -> usize {
        self.core.shared().places.len()
    }

    /// Where a controller runs, in the topology.
    ///
    /// # Panics
    ///
    /// If there is no controller of this number.
    pub fn place_of(&self, index: usize) -> CoreId {
        self.core.shared().places[index]
    }

    /// The machine.
    pub fn topology(&self) -> &'a Topology {
        &self.core.shared().topology
    }

    /// This core's pool: unstarted work that others may take.
    #[inline]
    pub fn mine(&self) -> &'a Pool {
        &self.instance.pools[self.core.index]
    }

    /// Whether the work that ran last on this core came to its end: it did not suspend, or yield.
    #[inline]
    pub fn last_has_ended(&self) -> bool {
        self.core.last_ended.get()
    }

    /// A coarse clock: milliseconds, for assigners that limit how long something goes on. It is moved on while any core is busy, up to some
    /// milliseconds late.
    #[inline]
    pub fn coarse_millis(&self) -> u32 {
        crate::runtime::watchdog::coarse_ms()
    }

    /// Takes unstarted work from another core's pool: the oldest, and with it up to half of the rest into this core's pool.
    /// Only work that has lain there for about 20 µs can be taken: a core that can start its own work sooner keeps it
    /// [design rule 7].
    pub fn steal(&self, victim: usize) -> Option<Work> {
        if victim == self.core.index {
            return self.mine().pop();
        }
        let given = match self.aged {
            Some(aged) => *aged.get(victim)?,
            None => u64::MAX,
        };
        self.instance.pools[victim].steal_half(given, self.mine())
    }
}
