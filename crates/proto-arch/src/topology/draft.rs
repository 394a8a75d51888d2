//! From what a source says to a consistent topology.
//!
//! Sources name groups by the operating system's numbers, in any order, with gaps. [`Draft::build`] orders the cores like
//! the tree, drops what is empty or contradicts itself, and adds what every machine has (a package, memory, physical
//! cores).

use super::{Core, CoreId, Group, Level, Source, Topology, TopologyError};

/// More than any machine has; keeps a wrong description from filling the memory.
pub(super) const MAX_CORES: usize = 1 << 16;

/// What a source has found.
#[derive(Debug)]
pub(super) struct Draft {
    pub(super) cpus: Vec<usize>,
    pub(super) groups: Vec<DraftGroup>,
    pub(super) source: Source,
}

#[derive(Debug)]
pub(super) struct DraftGroup {
    pub(super) level: Level,
    pub(super) cpus: Vec<usize>,
    pub(super) bytes: Option<u64>,
}

impl Draft {
    pub(super) fn new(source: Source) -> Self {
        Self { cpus: Vec::new(), groups: Vec::new(), source }
    }

    /// Cores side by side. `cpus` is not empty.
    pub(super) fn flat(cpus: Vec<usize>) -> Topology {
        let draft = Self { cpus, ..Self::new(Source::Flat) };
        draft.build().expect("a flat machine with a core is consistent")
    }

    /// What `keep` leaves of a topology.
    pub(super) fn of(topology: &Topology, keep: impl Fn(usize) -> bool) -> Self {
        let cpus =
            |members: &mut dyn Iterator<Item = usize>| -> Vec<usize> { members.filter(|cpu| keep(*cpu)).collect() };
        Self {
            cpus: cpus(&mut topology.cores.iter().map(|core| core.cpu)),
            groups: topology
                .groups
                .iter()
                .map(|group| DraftGroup {
                    level: group.level,
                    cpus: cpus(&mut group.members.iter().map(|core| topology.cpu(*core))),
                    bytes: group.bytes,
                })
                .collect(),
            source: topology.source.clone(),
        }
    }

    pub(super) fn add(&mut self, level: Level, cpus: Vec<usize>, bytes: Option<u64>) {
        self.groups.push(DraftGroup { level, cpus, bytes });
    }

    pub(super) fn build(mut self) -> Result<Topology, TopologyError> {
        self.cpus.sort_unstable();
        self.cpus.dedup();
        if self.cpus.is_empty() || self.cpus.len() > MAX_CORES {
            return Err(TopologyError::Size { cores: self.cpus.len() });
        }
        // Per cpu (by its rank in `self.cpus`) and level the draft group it is in: the first that names it.
        let mut within = vec![[None; Level::ALL.len()]; self.cpus.len()];
        self.groups.sort_by_key(|group| group.cpus.iter().min().copied());
        for (number, group) in self.groups.iter().enumerate() {
            for cpu in &group.cpus {
                if let Ok(rank) = self.cpus.binary_search(cpu) {
                    within[rank][group.level as usize].get_or_insert(number);
                }
            }
        }
        // What every machine has. Numbers beyond the draft's groups are new groups: one for all, or one for each.
        let common = self.groups.len();
        for (rank, levels) in within.iter_mut().enumerate() {
            let package = levels[Level::Package as usize].get_or_insert(common);
            let package = *package;
            levels[Level::NumaNode as usize].get_or_insert(common + 1 + package);
            levels[Level::PhysicalCore as usize].get_or_insert(2 * common + 2 + rank);
        }
        let mut order: Vec<usize> = (0..self.cpus.len()).collect();
        order.sort_by_key(|&rank| (within[rank], rank));

        let mut topology = Topology { cores: Vec::with_capacity(order.len()), groups: Vec::new(), source: self.source };
        for &rank in &order {
            topology.cores.push(Core { cpu: self.cpus[rank], group_of: [None; Level::ALL.len()] });
        }
        for level in Level::ALL {
            let mut index_of = std::collections::HashMap::new();
            for (id, &rank) in order.iter().enumerate() {
                let Some(number) = within[rank][level as usize] else {
                    continue;
                };
                let index = *index_of.entry(number).or_insert_with(|| {
                    topology.groups.push(Group {
                        level,
                        members: Vec::new(),
                        bytes: self.groups.get(number).and_then(|group| group.bytes),
                    });
                    topology.groups.len() - 1
                });
                topology.groups[index].members.push(CoreId(id as u32));
                topology.cores[id].group_of[level as usize] = Some(index as u32);
            }
        }
        Ok(topology)
    }
}
