//! The machine as a tree: packages, memory, caches, cores, and how far two of them are apart.
//!
//! A [`Topology`] is a plain value. It comes from one of these sources, and looks the same whichever it was:
//!
//! | source | made by | where |
//! |---|---|---|
//! | hwloc | [`Topology::system`] | built with the feature `hwloc`, and libhwloc found by the build |
//! | sysfs | [`Topology::system`] | otherwise, from `/sys/devices/system` |
//! | flat | [`Topology::flat`], [`Topology::system`] | nothing else is known: processors side by side |
//! | synthetic | [`Topology::parse`] | `"4 packages × 10 cores × 2 threads"` |
//! | hwloc XML | [`Topology::from_hwloc_xml`] | a file that `lstopo` wrote on another machine |
//!
//! # Words
//!
//! A **core** is a hardware execution unit, on which one controller runs: a hardware thread where the hardware has several
//! threads per physical core. [`CoreId`] counts them in the order of the tree, so that neighbours in number are neighbours
//! in the machine. A **cpu** is the operating system's number for the same thing. What several cores share is a
//! [`Group`].
//!
//! # Files
//!
//! `draft.rs` turns what a source says into a consistent topology; `hwloc.rs`, `sysfs.rs`, `synthetic.rs` and `xml.rs` are
//! the sources; `distance.rs` is what schedulers ask; `tree.rs` prints.

mod cpus;
mod distance;
mod draft;
mod error;
#[cfg(hwloc_present)]
mod hwloc;
mod synthetic;
mod sysfs;
mod tree;
mod xml;

pub use distance::Distance;
pub use error::TopologyError;

use std::fmt;
use std::path::Path;

use draft::Draft;

/// A hardware execution unit, by its index in a [`Topology`].
///
/// # Examples
///
/// ```
/// use proto_arch::topology::{CoreId, Topology};
///
/// let machine = Topology::flat(4);
/// let last: CoreId = machine.core_ids().last().expect("there is at least one");
/// assert_eq!(last, CoreId::new(3));
/// assert_eq!(last.index(), machine.len() - 1);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CoreId(u32);

impl CoreId {
    /// The core with this index.
    #[must_use]
    pub const fn new(index: u32) -> Self {
        Self(index)
    }

    /// Its index, from 0 to [`Topology::len`] − 1.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for CoreId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// What a [`Group`] of cores shares, from the widest to the narrowest.
///
/// # Examples
///
/// ```
/// use proto_arch::topology::{Level, Topology};
///
/// let machine = Topology::parse("2 packages × 4 cores × 2 threads")?;
/// let count = |level| machine.groups(level).count();
/// assert_eq!(Level::ALL.map(count), [2, 2, 0, 0, 0, 8]);
/// assert_eq!((count(Level::NumaNode), count(Level::PhysicalCore)), (2, 8));
/// let cached = [Level::L3, Level::L2, Level::L1].into_iter().find(|&level| count(level) > 0);
/// assert_eq!(cached, None);
/// # Ok::<(), proto_arch::topology::TopologyError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Level {
    /// A package: what goes into a socket.
    Package,
    /// Memory that is near.
    NumaNode,
    /// A third-level cache (or fourth: what is beyond the third counts as the third if there is none).
    L3,
    /// A second-level cache.
    L2,
    /// A first-level data cache.
    L1,
    /// A physical core, whose hardware threads the members are.
    PhysicalCore,
}

impl Level {
    /// All of them, from the widest to the narrowest.
    pub const ALL: [Self; 6] = [Self::Package, Self::NumaNode, Self::L3, Self::L2, Self::L1, Self::PhysicalCore];
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Package => "package",
            Self::NumaNode => "NUMA node",
            Self::L3 => "L3",
            Self::L2 => "L2",
            Self::L1 => "L1",
            Self::PhysicalCore => "core",
        })
    }
}

/// Cores that share something.
///
/// # Examples
///
/// ```
/// use proto_arch::topology::{CoreId, Group, Level, Topology};
///
/// let machine = Topology::parse("2 packages × 3 cores")?;
/// let second: &Group = machine.groups(Level::Package).nth(1).expect("there are two");
/// assert_eq!(second.level(), Level::Package);
/// assert_eq!(second.members(), [3, 4, 5].map(CoreId::new));
/// assert_eq!(second.bytes(), None);
/// # Ok::<(), proto_arch::topology::TopologyError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    level: Level,
    /// Ascending, never empty.
    members: Vec<CoreId>,
    bytes: Option<u64>,
}

impl Group {
    /// What they share.
    #[must_use]
    pub fn level(&self) -> Level {
        self.level
    }

    /// The cores, ascending; at least one.
    #[must_use]
    pub fn members(&self) -> &[CoreId] {
        &self.members
    }

    /// Bytes of the cache or of the memory, where known.
    #[must_use]
    pub fn bytes(&self) -> Option<u64> {
        self.bytes
    }
}

/// Where a [`Topology`] comes from.
///
/// # Examples
///
/// ```
/// use proto_arch::topology::{Source, Topology};
///
/// let caches_are_known = |machine: &Topology| match machine.source() {
///     Source::Hwloc(_version) => true,
///     Source::Sysfs | Source::HwlocXml => true,
///     Source::Synthetic => true, // if they were named
///     Source::Flat | _ => false,
/// };
/// assert!(!caches_are_known(&Topology::flat(8)));
/// println!("from {}", Topology::from_os().source());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Source {
    /// libhwloc, with its version.
    Hwloc(String),
    /// The files of the Linux kernel.
    Sysfs,
    /// A number of processors and nothing else.
    Flat,
    /// A description.
    Synthetic,
    /// A file that hwloc wrote.
    HwlocXml,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Hwloc(version) => write!(f, "hwloc {version}"),
            Self::Sysfs => f.write_str("sysfs"),
            Self::Flat => f.write_str("flat"),
            Self::Synthetic => f.write_str("synthetic"),
            Self::HwlocXml => f.write_str("hwloc XML"),
        }
    }
}

/// A machine: its cores, and what they share.
///
/// # Examples
///
/// ```
/// use proto_arch::topology::{Distance, Level, Topology};
///
/// let machine = Topology::parse("4 packages × 10 cores × 2 threads")?;
/// assert_eq!(machine.len(), 80);
/// assert_eq!(machine.groups(Level::Package).count(), 4);
/// let cores: Vec<_> = machine.core_ids().collect();
/// assert_eq!(machine.distance(cores[0], cores[1]), Distance::SmtSibling);
/// assert!(machine.distance(cores[0], cores[2]) < machine.distance(cores[0], cores[79]));
/// # Ok::<(), proto_arch::topology::TopologyError>(())
/// ```
///
/// This machine, and a part of it:
///
/// ```
/// use proto_arch::pin;
/// use proto_arch::topology::{Level, Topology};
///
/// let machine = Topology::system();
/// println!("{machine}");
/// assert!(machine.is_this_system());
/// assert_eq!(machine.len(), Topology::from_os().len());
/// for core in machine.core_ids() {
///     let cpu = machine.cpu(core);
///     assert_eq!(machine.core_of_cpu(cpu), Some(core));
///     assert!(machine.group_of(core, Level::Package).is_some_and(|package| package.members().contains(&core)));
/// }
/// let one = machine.restricted_to(&pin::usable_cpus()[..1]).expect("it is one of them");
/// assert_eq!(one.len(), 1);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topology {
    /// invariant: some core at least.
    cores: Vec<Core>,
    /// Ordered by level, then by first member. The groups of one level do not overlap; packages, NUMA nodes and physical
    /// cores together hold every core each.
    groups: Vec<Group>,
    source: Source,
}

/// One hardware execution unit.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Core {
    cpu: usize,
    /// Per `Level` the index of its group in `Topology::groups`.
    group_of: [Option<u32>; Level::ALL.len()],
}

impl Topology {
    /// This machine, as far as this program may use it ([`usable_cpus`](crate::pin::usable_cpus)): from hwloc, else from
    /// sysfs, else flat. Takes milliseconds; keep it.
    #[must_use]
    pub fn system() -> Self {
        let usable = crate::pin::usable_cpus();
        Self::whole_system()
            .and_then(|machine| machine.restricted_to(usable))
            .unwrap_or_else(|| Draft::flat(usable.to_vec()))
    }

    /// As [`system`](Self::system), without hwloc: from sysfs, else flat. Tells the same of cores, caches, packages and NUMA nodes (a test compares
    /// them), in a fraction of a millisecond where hwloc takes three to fourteen, and its library a megabyte.
    #[must_use]
    pub fn from_os() -> Self {
        let usable = crate::pin::usable_cpus();
        sysfs::read(Path::new("/sys/devices/system"))
            .and_then(|machine| machine.restricted_to(usable))
            .unwrap_or_else(|| Draft::flat(usable.to_vec()))
    }

    /// This machine with the processors that this program may not use.
    fn whole_system() -> Option<Self> {
        #[cfg(hwloc_present)]
        if let Some(machine) = hwloc::read() {
            return Some(machine);
        }
        sysfs::read(Path::new("/sys/devices/system"))
    }

    /// `cores` cores side by side in one package, which share nothing but its memory.
    ///
    /// # Panics
    ///
    /// If `cores` is 0.
    ///
    /// # Examples
    ///
    /// ```
    /// use proto_arch::topology::{Distance, Topology};
    ///
    /// let machine = Topology::flat(64);
    /// let cores: Vec<_> = machine.core_ids().collect();
    /// assert_eq!(machine.distance(cores[0], cores[63]), Distance::SamePackage);
    /// assert!(!machine.is_this_system());
    /// ```
    #[must_use]
    #[track_caller]
    pub fn flat(cores: usize) -> Self {
        assert!(cores > 0, "a machine has a core at least");
        Draft::flat((0..cores).collect())
    }

    /// A machine from a description, for testing programs for machines one does not have.
    ///
    /// Levels go from the outside in, joined by `×`, `x`, `*` or `,`: `4 packages × 10 cores × 2 threads`. The words are
    /// `packages` (`sockets`), `numa` (`nodes`), `l3`, `l2`, `l1`, `cores`, `threads` (`pus`), in the singular or plural.
    /// hwloc's own form is understood, too: `pack:4 l3:1 core:10 pu:1`. Where no NUMA level is named, each package has its
    /// memory.
    ///
    /// # Errors
    ///
    /// [`TopologyError::Description`], with the place and what was expected there.
    pub fn parse(description: &str) -> Result<Self, TopologyError> {
        synthetic::parse(description)
    }

    /// A machine from the text of a file that hwloc exported (`lstopo machine.xml`), version 1 or 2. Needs no libhwloc.
    ///
    /// # Errors
    ///
    /// [`TopologyError::Xml`] if it is no XML, or not hwloc's.
    ///
    /// # Examples
    ///
    /// ```
    /// use proto_arch::topology::{Level, Topology};
    ///
    /// let machine = Topology::from_hwloc_xml(
    ///     r#"<topology version="2.0">
    ///       <object type="Machine" cpuset="0x3"><object type="Package" cpuset="0x3">
    ///         <object type="PU" os_index="0" cpuset="0x1"/>
    ///         <object type="PU" os_index="1" cpuset="0x2"/>
    ///       </object></object>
    ///     </topology>"#,
    /// )?;
    /// assert_eq!((machine.len(), machine.groups(Level::Package).count()), (2, 1));
    /// # Ok::<(), proto_arch::topology::TopologyError>(())
    /// ```
    pub fn from_hwloc_xml(text: &str) -> Result<Self, TopologyError> {
        xml::parse(text)
    }

    /// [`from_hwloc_xml`](Self::from_hwloc_xml) with the contents of a file.
    ///
    /// # Errors
    ///
    /// [`TopologyError::File`] if it cannot be read, otherwise as there.
    pub fn from_hwloc_xml_file(path: impl AsRef<Path>) -> Result<Self, TopologyError> {
        let path = path.as_ref();
        let text =
            std::fs::read_to_string(path).map_err(|source| TopologyError::File { path: path.to_owned(), source })?;
        Self::from_hwloc_xml(&text)
    }

    /// What is left of the machine with only these cpus (the operating system's numbers). None if none of them is in it.
    /// The remaining cores are numbered anew.
    #[must_use]
    pub fn restricted_to(&self, cpus: &[usize]) -> Option<Self> {
        Draft::of(self, |cpu| cpus.contains(&cpu)).build().ok()
    }

    /// The number of cores; at least 1.
    #[expect(clippy::len_without_is_empty, reason = "a machine is never empty")]
    #[must_use]
    pub fn len(&self) -> usize {
        self.cores.len()
    }

    /// All cores, in the order of the tree.
    pub fn core_ids(&self) -> impl ExactSizeIterator<Item = CoreId> + use<> {
        (0..self.cores.len() as u32).map(CoreId)
    }

    /// The operating system's number of a core.
    ///
    /// # Panics
    ///
    /// If the core is not of this topology.
    #[must_use]
    #[track_caller]
    pub fn cpu(&self, core: CoreId) -> usize {
        self.cores[core.index()].cpu
    }

    /// The core with this number of the operating system.
    #[must_use]
    pub fn core_of_cpu(&self, cpu: usize) -> Option<CoreId> {
        self.core_ids().find(|core| self.cpu(*core) == cpu)
    }

    /// The groups of a level, in the order of the tree.
    pub fn groups(&self, level: Level) -> impl Iterator<Item = &Group> + Clone {
        self.groups.iter().filter(move |group| group.level == level)
    }

    /// The group of a level that a core is in. Packages, NUMA nodes and physical cores hold every core; a cache may be
    /// missing.
    ///
    /// # Panics
    ///
    /// If the core is not of this topology.
    #[must_use]
    #[track_caller]
    pub fn group_of(&self, core: CoreId, level: Level) -> Option<&Group> {
        let index = self.cores[core.index()].group_of[level as usize]?;
        Some(&self.groups[index as usize])
    }

    /// Where this comes from.
    #[must_use]
    pub fn source(&self) -> &Source {
        &self.source
    }

    /// Whether it describes the machine the program runs on, so that its cpu numbers can be pinned to.
    #[must_use]
    pub fn is_this_system(&self) -> bool {
        matches!(self.source, Source::Hwloc(_) | Source::Sysfs)
    }
}

#[cfg(test)]
mod tests;
