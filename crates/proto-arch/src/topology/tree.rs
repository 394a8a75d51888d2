//! A topology as a tree for people.
//!
//! ```text
//! 4 cores (sysfs, this machine)
//! └─ package, NUMA node 24 GiB, L3 32 MiB
//!    ├─ core, L2 1 MiB, L1 48 KiB: cpus 0–1
//!    └─ core, L2 1 MiB, L1 48 KiB: cpus 2–3
//! ```
//!
//! Groups with the same members share a line; [`FOLD`] or more leaves of the same form side by side, too.

use std::fmt;

use super::cpus::to_list;
use super::{CoreId, Group, Level, Topology};

/// From this number on, equal leaves are counted instead of listed.
const FOLD: usize = 5;

struct Node<'a> {
    /// Groups with the same members, widest first. Empty for the root.
    groups: Vec<&'a Group>,
    members: Vec<CoreId>,
    children: Vec<Node<'a>>,
}

impl fmt::Display for Topology {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plural = if self.len() == 1 { "" } else { "s" };
        let here = if self.is_this_system() { ", this machine" } else { "" };
        write!(f, "{} core{plural} ({}{here})", self.len(), self.source)?;
        let root = Node::of(self, Vec::new(), self.core_ids().collect(), &Level::ALL);
        root.write_children(self, f, &mut String::new())
    }
}

impl<'a> Node<'a> {
    fn of(machine: &'a Topology, groups: Vec<&'a Group>, members: Vec<CoreId>, levels: &[Level]) -> Self {
        let mut node = Self { groups, members, children: Vec::new() };
        let Some((&level, deeper)) = levels.split_first() else {
            return node;
        };
        let inside: Vec<&Group> =
            machine.groups(level).filter(|group| node.members.binary_search(&group.members[0]).is_ok()).collect();
        let is_whole = |group: &&Group| group.members == node.members;
        match inside.as_slice() {
            // Not the root's: its line is about the whole.
            [only] if is_whole(only) && !node.groups.is_empty() => {
                node.groups.push(only);
                Self::of(machine, node.groups, node.members, deeper)
            }
            // A cache that is not there, or a group that crosses this one.
            inside
                if inside.is_empty()
                    || inside.iter().map(|group| group.members.len()).sum::<usize>() != node.members.len() =>
            {
                Self::of(machine, node.groups, node.members, deeper)
            }
            inside => {
                node.children =
                    inside.iter().map(|group| Self::of(machine, vec![group], group.members.clone(), deeper)).collect();
                node
            }
        }
    }

    /// `core, L2 1 MiB`. A core is named first: it is what a leaf is.
    fn label(&self) -> String {
        let text = |group: &&Group| match group.bytes {
            Some(bytes) => format!("{} {}", group.level, Bytes(bytes)),
            None => group.level.to_string(),
        };
        let (cores, others): (Vec<&Group>, Vec<&Group>) =
            self.groups.iter().partition(|group| group.level == Level::PhysicalCore);
        cores.iter().chain(&others).map(text).collect::<Vec<_>>().join(", ")
    }

    fn cpus(&self, machine: &Topology) -> Vec<usize> {
        let mut cpus: Vec<usize> = self.members.iter().map(|core| machine.cpu(*core)).collect();
        cpus.sort_unstable();
        cpus
    }

    fn write_children(&self, machine: &Topology, f: &mut fmt::Formatter<'_>, indent: &mut String) -> fmt::Result {
        let first = self.children.first();
        let alike = self.children.iter().all(|child| {
            child.children.is_empty()
                && first
                    .is_some_and(|first| first.members.len() == child.members.len() && first.label() == child.label())
        });
        if let (Some(first), true) = (first, alike && self.children.len() >= FOLD) {
            let threads = match first.members.len() {
                1 => String::new(),
                threads => format!(" of {threads} threads"),
            };
            let (count, label, cpus) = (self.children.len(), first.label(), to_list(&self.cpus(machine)));
            return write!(f, "\n{indent}└─ {count} × {label}{threads}: cpus {cpus}");
        }
        for (index, child) in self.children.iter().enumerate() {
            let is_last = index + 1 == self.children.len();
            write!(f, "\n{indent}{} {}", if is_last { "└─" } else { "├─" }, child.label())?;
            if child.children.is_empty() {
                let plural = if child.members.len() == 1 { "" } else { "s" };
                write!(f, ": cpu{plural} {}", to_list(&child.cpus(machine)))?;
            }
            let depth = indent.len();
            indent.push_str(if is_last { "   " } else { "│  " });
            child.write_children(machine, f, indent)?;
            indent.truncate(depth);
        }
        Ok(())
    }
}

/// Bytes in the largest unit that leaves no long fraction.
struct Bytes(u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (unit, name) = match self.0 {
            bytes if bytes >= 1 << 30 => (1_u64 << 30, "GiB"),
            bytes if bytes >= 1 << 20 => (1 << 20, "MiB"),
            bytes if bytes >= 1 << 10 => (1 << 10, "KiB"),
            _ => (1, "B"),
        };
        if self.0.is_multiple_of(unit) {
            write!(f, "{} {name}", self.0 / unit)
        } else {
            write!(f, "{:.1} {name}", self.0 as f64 / unit as f64)
        }
    }
}
