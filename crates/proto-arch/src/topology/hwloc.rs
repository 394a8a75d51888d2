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
    let mut draft = Draft::new(Source::Hwloc(format!("{}.{}.{}", version >> 16, version >> 8 & 0xff, version & 0xff)));
    draft.cpus = hwloc.objects_with_type(ObjectType::PU).filter_map(|pu| pu.os_index()).collect();
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
    use super::super::Group;
    use super::*;
    use hwlocality::topology::export::xml::XMLExportFlags;

    const LEVELS: [Level; 4] = [Level::Package, Level::NumaNode, Level::L3, Level::PhysicalCore];

    fn synthetic(text: &str) -> Hwloc {
        let builder = Hwloc::builder().from_synthetic(text).expect("understood");
        builder.build().expect("built")
    }

    fn members(machine: &Topology, level: Level) -> Vec<Vec<usize>> {
        let cpus = |group: &Group| group.members().iter().map(|core| machine.cpu(*core)).collect();
        machine.groups(level).map(cpus).collect()
    }

    #[test]
    fn hwlocs_synthetic_machine_is_ours() {
        let text = "numa:4 pack:1 l3:1 core:10 pu:1";
        let theirs = draft(&synthetic(text)).build().expect("consistent");
        let ours = Topology::parse(text).expect("understood");
        for level in LEVELS {
            assert_eq!(members(&theirs, level), members(&ours, level), "{level}");
        }
    }

    #[test]
    fn hwlocs_xml_is_read_as_hwloc_means_it() {
        let hwloc = synthetic("numa:2 pack:2 l3:1 l2:4 core:1 pu:2");
        let xml = hwloc.export_xml(XMLExportFlags::empty()).expect("exported").to_string();
        let theirs = draft(&hwloc).build().expect("consistent");
        let ours = Topology::from_hwloc_xml(&xml).expect("understood");
        for level in LEVELS {
            assert_eq!(members(&theirs, level), members(&ours, level), "{level}");
        }
        assert_eq!(
            theirs.groups(Level::L3).next().and_then(Group::bytes),
            ours.groups(Level::L3).next().and_then(Group::bytes)
        );
    }
}
