//! This machine from the files of the Linux kernel, below `/sys/devices/system`.
//!
//! Older kernels call `core_cpus_list` `thread_siblings_list` and `package_cpus_list` `core_siblings_list`. Whatever is
//! missing (containers hide some of it) is left out; the draft fills in what every machine has.

use std::fs;
use std::path::Path;

use super::draft::Draft;
use super::{Level, Source, Topology, cpus};

/// None if not even the list of processors can be read.
pub(super) fn read(root: &Path) -> Option<Topology> {
    let mut draft = Draft::new(Source::Sysfs);
    draft.cpus = read_list(&root.join("cpu/online"))?;
    for cpu in draft.cpus.clone() {
        let cpu_dir = root.join(format!("cpu/cpu{cpu}"));
        let topology = cpu_dir.join("topology");
        let mut group = |level, names: [&str; 2]| {
            let list = names.iter().find_map(|name| read_list(&topology.join(name)));
            if let Some(list) = list.filter(|list| is_first(list, cpu)) {
                draft.add(level, list, None);
            }
        };
        group(Level::PhysicalCore, ["core_cpus_list", "thread_siblings_list"]);
        group(Level::Package, ["package_cpus_list", "core_siblings_list"]);
        for index in 0.. {
            let cache = cpu_dir.join(format!("cache/index{index}"));
            let Some(kind) = read_word(&cache.join("type")) else {
                break;
            };
            let level = match read_word(&cache.join("level")).as_deref() {
                Some("1") => Level::L1,
                Some("2") => Level::L2,
                Some("3") => Level::L3,
                _ => continue,
            };
            let list = read_list(&cache.join("shared_cpu_list")).filter(|list| is_first(list, cpu));
            if let (true, Some(list)) = (kind != "Instruction", list) {
                draft.add(level, list, read_word(&cache.join("size")).and_then(|size| bytes(&size)));
            }
        }
    }
    for node in read_list(&root.join("node/online")).unwrap_or_default() {
        let node = root.join(format!("node/node{node}"));
        // A node without processors is memory only.
        if let Some(list) = read_list(&node.join("cpulist")).filter(|list| !list.is_empty()) {
            draft.add(Level::NumaNode, list, memory(&node.join("meminfo")));
        }
    }
    draft.build().ok()
}

/// Each group is named by all its members; the first counts.
fn is_first(list: &[usize], cpu: usize) -> bool {
    list.first() == Some(&cpu)
}

fn read_word(path: &Path) -> Option<String> {
    Some(fs::read_to_string(path).ok()?.trim().to_owned())
}

fn read_list(path: &Path) -> Option<Vec<usize>> {
    cpus::from_list(&fs::read_to_string(path).ok()?)
}

/// `1024K` and the like.
fn bytes(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(['K', 'M', 'G']);
    let shift = match &text[digits.len()..] {
        "" => 0,
        "K" => 10,
        "M" => 20,
        "G" => 30,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(1 << shift)
}

/// From the line `Node 0 MemTotal:  24567890 kB`.
fn memory(meminfo: &Path) -> Option<u64> {
    let text = fs::read_to_string(meminfo).ok()?;
    let line = text.lines().find(|line| line.contains("MemTotal:"))?;
    let kibibytes: u64 = line.split_whitespace().nth_back(1)?.parse().ok()?;
    kibibytes.checked_mul(1024)
}
