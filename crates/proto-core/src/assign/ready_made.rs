//! The assigners that come with the runtime.

use std::collections::{BTreeMap, VecDeque};

use super::{Assigner, Cores, Locked, Why, Work};

/// First in, first out, each core for itself. Idle cores take unstarted work of others.
///
/// # Examples
///
/// ```
/// use std::sync::Mutex;
///
/// use proto_core::{Fifo, Runtime, scope};
///
/// let order = Mutex::new(Vec::new());
/// let runtime = Runtime::builder().controllers(1).assigner(Fifo).build()?;
/// runtime.run(|| {
///     scope(|s| {
///         for n in 0..3 {
///             let order = &order;
///             s.spawn(move || order.lock().unwrap().push(n));
///         }
///     })
/// })?;
/// assert_eq!(order.into_inner()?, [0, 1, 2]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Fifo;

/// Last in, first out, each core for itself. Idle cores take the oldest unstarted work of others.
///
/// A VP that yields goes behind all others: else it would only ever yield to itself.
///
/// # Examples
///
/// ```
/// use std::sync::Mutex;
///
/// use proto_core::{EnvCell, Lifo, Runtime, Waiters, scope, yield_now};
///
/// let (gate, order) = (EnvCell::new(Waiters::new()), Mutex::new(Vec::new()));
/// let runtime = Runtime::builder().controllers(1).assigner(Lifo).build()?;
/// runtime.run(|| {
///     scope(|s| {
///         for n in 0..3 {
///             let (gate, order) = (&gate, &order);
///             s.spawn(move || {
///                 gate.ask(|gate, caller, hidden| gate.push(caller, hidden), None).unwrap();
///                 order.lock().unwrap().push(n);
///             });
///             while gate.visit(|gate, _, hidden| gate.len(hidden)) != Some(n + 1) {
///                 yield_now();
///             }
///         }
///         // All become ready, the first of them first.
///         gate.update(|gate, _, hidden| while gate.resume_next((), hidden).is_ok() {});
///     })
/// })?;
/// assert_eq!(order.into_inner()?, [2, 1, 0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Lifo;

/// The highest priority first, first in first out within one. Each core for itself; idle cores take unstarted work of others.
///
/// # Examples
///
/// ```
/// use std::sync::Mutex;
///
/// use proto_core::{Priority, Runtime, VpBuilder, scope};
///
/// let order = Mutex::new(Vec::new());
/// let runtime = Runtime::builder().controllers(1).assigner(Priority).build()?;
/// runtime.run(|| {
///     scope(|s| {
///         for priority in [10, 90, 50] {
///             let order = &order;
///             let vp = VpBuilder::new().priority(priority); // all below the seed's, 128
///             s.spawn_with(vp, move || order.lock().unwrap().push(priority)).unwrap();
///         }
///     })
/// })?;
/// assert_eq!(order.into_inner()?, [90, 50, 10]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Priority;

/// The default: VPs that were resumed first in first out, then new ones, oldest first; an idle core takes half of another core's
/// unstarted work, beginning with its neighbour by number.
///
/// # Examples
///
/// ```
/// use proto_core::{Runtime, WorkStealing, join};
///
/// fn fibonacci(n: u32) -> u64 {
///     if n < 2 { return u64::from(n) }
///     let (a, b) = join(|| fibonacci(n - 1), || fibonacci(n - 2));
///     a + b
/// }
/// let runtime = Runtime::builder().controllers(2).assigner(WorkStealing).build()?;
/// assert_eq!(runtime.run(|| fibonacci(15))?, 610);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct WorkStealing;

/// As [`WorkStealing`], but an idle core asks the cores it shares a cache with first, then those of its package, then the others.
///
/// # Examples
///
/// ```
/// use proto_core::{Locality, Runtime, Topology};
///
/// // To be tried on a machine larger than this one.
/// let machine = Topology::parse("2 packages × 2 cores")?;
/// let runtime = Runtime::builder().topology(machine).controllers(4).assigner(Locality).build()?;
/// assert_eq!(runtime.run(|| proto_core::join(|| 1 + 1, || 2 + 2))?, (2, 4));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Locality;

/// Takes from the others in the order of `victims`.
fn steal_from(cores: &Cores<'_>, victims: impl IntoIterator<Item = usize>) -> Option<Work> {
    victims.into_iter().find_map(|victim| cores.steal(victim))
}

/// The others by number, beginning behind this core.
fn ring(cores: &Cores<'_>) -> impl Iterator<Item = usize> + use<> {
    let (index, count) = (cores.index(), cores.count());
    (1..count).map(move |step| (index + step) % count)
}

/// Local queue for what has to stay here, pool for what may move; they take turns, so that neither starves. Up to this many resumed VPs
/// in a row, …
const RESUMED_IN_A_ROW: u32 = 31;
/// … and up to this many new ones, for no longer than a millisecond, and only while each comes to its end: many new VPs end without ever
/// waiting, and who waits for one of them after the other then finds most of them over. (One new one at a time: each of a million joins
/// suspends, 40 % slower. A row of new ones that do wait: a core starts work that others are about to take, and keeps it for good; a program of
/// eight timelines on two cores was 30 % slower.)
const NEW_IN_A_ROW: u32 = 16;

/// A core's part of `WorkStealing` and `Locality`.
#[derive(Debug, Default)]
pub struct Queues {
    stay: VecDeque<Work>,
    /// How many resumed VPs were assigned in a row.
    row: u32,
    /// How many new ones may still be, and when the first was.
    new_left: u32,
    new_since: u32,
    /// The other cores, nearest first. Empty until first needed.
    order: Vec<usize>,
}

impl Queues {
    fn put(&mut self, cores: &Cores<'_>, work: Work) {
        if work.is_started() {
            self.stay.push_back(work);
        } else if let Err(work) = cores.mine().push(work) {
            self.stay.push_back(work);
        }
    }

    #[inline]
    fn take(&mut self, cores: &Cores<'_>) -> Option<Work> {
        if self.new_left > 0 {
            self.new_left -= 1;
            if let Some(work) = self.take_more_new(cores) {
                return Some(work);
            }
        }
        if self.row < RESUMED_IN_A_ROW {
            if let Some(work) = self.stay.pop_front() {
                self.row += 1;
                return Some(work);
            }
        }
        self.row = 0;
        match cores.mine().pop() {
            Some(work) => {
                (self.new_left, self.new_since) = (NEW_IN_A_ROW - 1, cores.coarse_millis());
                Some(work)
            }
            None => self.stay.pop_front(),
        }
    }

    /// In a row of new work: the next one.
    fn take_more_new(&mut self, cores: &Cores<'_>) -> Option<Work> {
        let goes_on = cores.last_has_ended() && cores.coarse_millis() == self.new_since;
        let work = if goes_on { cores.mine().pop() } else { None };
        if work.is_none() {
            self.new_left = 0;
        }
        work
    }
}

impl Assigner for WorkStealing {
    const NEW_WORK_IN_POOL: bool = true;
    const ONLY_WORK_UNASKED: bool = true;

    type Core = Queues;
    type Shared = ();

    fn core(&self, _: &Cores<'_>) -> Queues {
        Queues::default()
    }

    fn shared(&self) {}

    #[inline]
    fn ready(&self, core: &mut Queues, _: &Locked<()>, cores: &Cores<'_>, work: Work, _: Why) {
        core.put(cores, work);
    }

    #[inline]
    fn assign(&self, core: &mut Queues, _: &Locked<()>, cores: &Cores<'_>) -> Option<Work> {
        core.take(cores)
    }

    fn idle(&self, _: &mut Queues, _: &Locked<()>, cores: &Cores<'_>) -> Option<Work> {
        steal_from(cores, ring(cores))
    }
}

impl Assigner for Locality {
    const NEW_WORK_IN_POOL: bool = true;
    const ONLY_WORK_UNASKED: bool = true;

    type Core = Queues;
    type Shared = ();

    fn core(&self, cores: &Cores<'_>) -> Queues {
        let order = cores.core.others().collect();
        Queues { order, ..Queues::default() }
    }

    fn shared(&self) {}

    fn ready(&self, core: &mut Queues, _: &Locked<()>, cores: &Cores<'_>, work: Work, _: Why) {
        core.put(cores, work);
    }

    fn assign(&self, core: &mut Queues, _: &Locked<()>, cores: &Cores<'_>) -> Option<Work> {
        core.take(cores)
    }

    fn idle(&self, core: &mut Queues, _: &Locked<()>, cores: &Cores<'_>) -> Option<Work> {
        steal_from(cores, core.order.iter().copied())
    }
}

impl Assigner for Fifo {
    const ONLY_WORK_UNASKED: bool = true;

    /// `None` stands for one piece of work that lies in the pool, where it can be taken: its turn, if it is still there.
    type Core = VecDeque<Option<Work>>;
    type Shared = ();

    fn core(&self, _: &Cores<'_>) -> Self::Core {
        VecDeque::new()
    }

    fn shared(&self) {}

    fn ready(&self, core: &mut Self::Core, _: &Locked<()>, cores: &Cores<'_>, work: Work, _: Why) {
        core.push_back(cores.mine().push(work).err());
    }

    fn assign(&self, core: &mut Self::Core, _: &Locked<()>, cores: &Cores<'_>) -> Option<Work> {
        while let Some(turn) = core.pop_front() {
            if let Some(work) = turn.or_else(|| cores.mine().pop()) {
                return Some(work);
            }
        }
        // What was stolen in passing has no turn here.
        cores.mine().pop()
    }

    fn idle(&self, _: &mut Self::Core, _: &Locked<()>, cores: &Cores<'_>) -> Option<Work> {
        steal_from(cores, ring(cores))
    }
}

impl Assigner for Lifo {
    const ONLY_WORK_UNASKED: bool = true;

    type Core = VecDeque<Work>;
    type Shared = ();

    fn core(&self, _: &Cores<'_>) -> VecDeque<Work> {
        VecDeque::new()
    }

    fn shared(&self) {}

    fn ready(&self, core: &mut VecDeque<Work>, _: &Locked<()>, cores: &Cores<'_>, work: Work, why: Why) {
        if why == Why::Yielded {
            core.push_front(work);
        } else if let Err(work) = cores.mine().push(work) {
            core.push_back(work);
        }
    }

    fn assign(&self, core: &mut VecDeque<Work>, _: &Locked<()>, cores: &Cores<'_>) -> Option<Work> {
        // New work is newer than what waited; what yielded is at the front and comes last.
        cores.mine().pop_newest().or_else(|| core.pop_back())
    }

    fn idle(&self, _: &mut VecDeque<Work>, _: &Locked<()>, cores: &Cores<'_>) -> Option<Work> {
        steal_from(cores, ring(cores))
    }
}

/// A core's part of `Priority`.
#[derive(Debug, Default)]
pub struct ByPriority {
    own: BTreeMap<u8, VecDeque<Work>>,
    /// Whose turn it is among equals: what waited here, or new work.
    new_first: bool,
}

impl Assigner for Priority {
    const ONLY_WORK_UNASKED: bool = true;

    type Core = ByPriority;
    /// Unstarted work by priority: shared, because the highest of all cores has to be found.
    type Shared = BTreeMap<u8, VecDeque<Work>>;

    fn core(&self, _: &Cores<'_>) -> ByPriority {
        ByPriority::default()
    }

    fn shared(&self) -> Self::Shared {
        BTreeMap::new()
    }

    fn ready(&self, core: &mut ByPriority, shared: &Locked<Self::Shared>, _: &Cores<'_>, work: Work, _: Why) {
        let priority = work.priority();
        if work.may_move() {
            shared.with(|queues| queues.entry(priority).or_default().push_back(work));
        } else {
            core.own.entry(priority).or_default().push_back(work);
        }
    }

    fn assign(&self, core: &mut ByPriority, shared: &Locked<Self::Shared>, _: &Cores<'_>) -> Option<Work> {
        let own = highest(&core.own);
        core.new_first = !core.new_first;
        let new_first = core.new_first;
        let newer = |new: Option<u8>| new.is_some() && (new > own || (new == own && new_first));
        shared
            .with(|queues| if newer(highest(queues)) { take_highest(queues) } else { None })
            .or_else(|| take_highest(&mut core.own))
    }

    fn idle(&self, core: &mut ByPriority, shared: &Locked<Self::Shared>, cores: &Cores<'_>) -> Option<Work> {
        self.assign(core, shared, cores)
    }

    fn has_shared_work(&self, shared: &Locked<Self::Shared>) -> bool {
        shared.with(|queues| !queues.is_empty())
    }
}

fn highest(queues: &BTreeMap<u8, VecDeque<Work>>) -> Option<u8> {
    queues.last_key_value().map(|(priority, _)| *priority)
}

fn take_highest(queues: &mut BTreeMap<u8, VecDeque<Work>>) -> Option<Work> {
    let mut entry = queues.last_entry()?;
    let work = entry.get_mut().pop_front();
    if entry.get().is_empty() {
        entry.remove();
    }
    work
}
