//! How far two cores are apart: what schedulers ask of a topology.

use super::{CoreId, Level, Topology};

/// How far two cores are apart, nearest first. What counts is the narrowest thing they share.
///
/// # Examples
///
/// ```
/// use proto_arch::topology::{Distance, Topology};
///
/// let machine = Topology::parse("2 packages × 2 L3 × 2 L2 × 2 cores × 2 threads")?;
/// let cores: Vec<_> = machine.core_ids().collect();
/// let from_first = |other: usize| machine.distance(cores[0], cores[other]);
/// assert_eq!(from_first(0), Distance::Same);
/// assert_eq!(from_first(1), Distance::SmtSibling);
/// assert_eq!(from_first(2), Distance::SharedL2);
/// assert_eq!(from_first(4), Distance::SharedL3);
/// assert_eq!(from_first(8), Distance::SamePackage);
/// assert_eq!(from_first(16), Distance::Remote); // `NearMemory` if the packages shared it
/// assert!(Distance::SamePackage < Distance::NearMemory && Distance::NearMemory < Distance::Remote);
/// # Ok::<(), proto_arch::topology::TopologyError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Distance {
    /// The same core.
    Same,
    /// Threads of one physical core.
    SmtSibling,
    /// They share a second-level cache, or one of the first level.
    SharedL2,
    /// They share a third-level cache.
    SharedL3,
    /// They share package and memory, but no cache.
    SamePackage,
    /// The same memory, different packages, or the other way round.
    NearMemory,
    /// Different packages and different memory.
    Remote,
}

impl Topology {
    /// How far two cores are apart.
    ///
    /// # Panics
    ///
    /// If a core is not of this topology.
    #[must_use]
    #[track_caller]
    pub fn distance(&self, a: CoreId, b: CoreId) -> Distance {
        if a == b {
            return Distance::Same;
        }
        let (of_a, of_b) = (&self.cores[a.index()].group_of, &self.cores[b.index()].group_of);
        let shared = |level: Level| {
            let level = level as usize;
            of_a[level].is_some() && of_a[level] == of_b[level]
        };
        if shared(Level::PhysicalCore) {
            Distance::SmtSibling
        } else if shared(Level::L2) || shared(Level::L1) {
            Distance::SharedL2
        } else if shared(Level::L3) {
            Distance::SharedL3
        } else {
            match (shared(Level::Package), shared(Level::NumaNode)) {
                (true, true) => Distance::SamePackage,
                (false, false) => Distance::Remote,
                _ => Distance::NearMemory,
            }
        }
    }

    /// All other cores, nearest first; those equally far in circular order from `from`, so that not every core looks at
    /// the same one first.
    ///
    /// # Panics
    ///
    /// If the core is not of this topology.
    ///
    /// # Examples
    ///
    /// ```
    /// use proto_arch::topology::{CoreId, Topology};
    ///
    /// let machine = Topology::parse("2 packages × 3 cores")?;
    /// let victims: Vec<usize> = machine.nearest(CoreId::new(1)).into_iter().map(CoreId::index).collect();
    /// assert_eq!(victims, [2, 0, 3, 4, 5]);
    /// # Ok::<(), proto_arch::topology::TopologyError>(())
    /// ```
    #[must_use]
    #[track_caller]
    pub fn nearest(&self, from: CoreId) -> Vec<CoreId> {
        let count = self.len();
        let mut others: Vec<CoreId> = (1..count).map(|step| CoreId(((from.index() + step) % count) as u32)).collect();
        others.sort_by_key(|core| self.distance(from, *core));
        others
    }
}
