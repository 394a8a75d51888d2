//! This machine from libhwloc, which knows more machines than we do.

use hwlocality::Topology as Hwloc;
use hwlocality::object::attributes::ObjectAttributes;
use hwlocality::object::types::ObjectType;

use super::draft::Draft;
use super::{Level, Source, Topology};

/// None if hwloc cannot tell (or is told by its environment variables to describe another machine).
pub(super) fn read() -> Option<Topology> {
    let hwloc = Hwloc::new().ok()?;
    if !hwloc.is_abi_compatible() || !hwloc.is_this_system() {
        return None;
    }
    draft(&hwloc).build().ok()
}

fn draft(hwloc: &Hwloc) -> Draft {
    let version = hwlocality::hwloc_api_version();
    let mut draft = Draft::new(Source::Hwloc(format!(
        "{}.{}.{}",
        version >> 16,
        version >> 8 & 0xff,
        version & 0xff
    )));
    draft.cpus = hwloc
        .objects_with_type(ObjectType::PU)
        .filter_map(|pu| pu.os_index())
        .collect();
    for (kind, level) in [
        (ObjectType::Package, Level::Package),
        (ObjectType::NUMANode, Level::NumaNode),
        (ObjectType::L3Cache, Level::L3),
        (ObjectType::L2Cache, Level::L2),
        (ObjectType::L1Cache, Level::L1),
        (ObjectType::Core, Level::PhysicalCore),
    ] {
        for object in hwloc.objects_with_type(kind) {
            let Some(set) = object.cpuset() else { continue };
            let members: Vec<usize> = set.iter_set().map(usize::from).collect();
            let bytes = match object.attributes() {
                Some(ObjectAttributes::Cache(cache)) => cache.size().map(u64::from),
                Some(ObjectAttributes::NUMANode(node)) => node.local_memory().map(u64::from),
                _ => None,
            };
            if !members.is_empty() {
                draft.add(level, members, bytes);
            }
        }
    }
    draft
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hwlocs_synthetic_machine_is_ours() {
        let text = "pack:4 l3:1 core:10 pu:1";
        let theirs = Hwloc::builder()
            .from_synthetic(text)
            .expect("understood")
            .build()
            .expect("built");
        let theirs = draft(&theirs).build().expect("consistent");
        let ours = Topology::parse(text).expect("understood");
        for level in [
            Level::Package,
            Level::NumaNode,
            Level::L3,
            Level::PhysicalCore,
        ] {
            let members = |machine: &Topology| -> Vec<Vec<usize>> {
                let cpus = |group: &super::super::Group| {
                    group
                        .members()
                        .iter()
                        .map(|core| machine.cpu(*core))
                        .collect()
                };
                machine.groups(level).map(cpus).collect()
            };
            assert_eq!(members(&theirs), members(&ours), "{level}");
        }
    }
}
