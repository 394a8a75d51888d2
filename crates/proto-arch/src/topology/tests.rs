use super::*;

fn parsed(text: &str) -> Topology {
    Topology::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn count(machine: &Topology, level: Level) -> usize {
    machine.groups(level).count()
}

/// What the fields of `Topology` promise.
fn is_consistent(machine: &Topology) {
    assert!(machine.len() > 0);
    for level in Level::ALL {
        let mut members: Vec<CoreId> = machine.groups(level).flat_map(|group| group.members().to_vec()).collect();
        let all = members.len();
        members.sort_unstable();
        members.dedup();
        assert_eq!(members.len(), all, "groups of {level} overlap in {machine}");
        if matches!(level, Level::Package | Level::NumaNode | Level::PhysicalCore) {
            assert_eq!(all, machine.len(), "a core without {level} in {machine}");
        }
        for group in machine.groups(level) {
            assert!(group.members().is_sorted());
            for core in group.members() {
                assert_eq!(machine.group_of(*core, level), Some(group));
            }
        }
    }
    for core in machine.core_ids() {
        assert_eq!(machine.core_of_cpu(machine.cpu(core)), Some(core));
    }
}

#[test]
fn descriptions_in_words() {
    for text in [
        "4 packages × 10 cores × 2 threads",
        "4 packages x 10 cores x 2 threads",
        "4 Packages*10 Cores*2 Threads",
        " 4 sockets, 10 cores, 2 PUs ",
        "4packages x10cores x2threads",
    ] {
        let machine = parsed(text);
        is_consistent(&machine);
        assert_eq!(machine.len(), 80, "{text}");
        assert_eq!(count(&machine, Level::Package), 4, "{text}");
        assert_eq!(count(&machine, Level::NumaNode), 4, "{text}");
        assert_eq!(count(&machine, Level::PhysicalCore), 40, "{text}");
        assert_eq!(*machine.source(), Source::Synthetic);
        assert!(!machine.is_this_system());
    }
    let machine = parsed("2 packages × 2 NUMA nodes × 2 L3 caches × 4 cores");
    is_consistent(&machine);
    assert_eq!((machine.len(), count(&machine, Level::NumaNode), count(&machine, Level::L3)), (32, 4, 8));
    assert_eq!(parsed("8 threads").len(), 8);
    assert_eq!(count(&parsed("8 threads"), Level::PhysicalCore), 8);
}

#[test]
fn descriptions_in_the_form_of_hwloc() {
    let machine = parsed("pack:4 l3:1 core:10 pu:1");
    is_consistent(&machine);
    assert_eq!(machine.len(), 40);
    assert_eq!((count(&machine, Level::Package), count(&machine, Level::L3)), (4, 4));
    assert_eq!(parsed("numa:2 pack:1 l2:3 core:1 pu:2").len(), 12);
}

#[test]
fn wrong_descriptions_say_where_and_what() {
    for (text, at, expected) in [
        ("", 0, "a number"),
        ("4 packages × x cores", 14, "a number"),
        ("4", 1, "of what"),
        ("4x10x2", 1, "unknown level `x10x2`"),
        ("4 boards", 2, "unknown level `board`"),
        ("0 cores", 0, "at least one"),
        ("2 cores 2 threads", 8, "expected `×`"),
        ("2 threads × 2 cores", 15, "from the outside in"),
        ("2 cores × 2 cores", 13, "twice"),
        ("9999999999999999999999 cores", 0, "more than 65536"),
        ("60000 packages × 60000 cores", 24, "more than 65536"),
        ("core:2 pu", 9, "`:`"),
        ("l3:2(size=3) pu:1", 4, "parentheses"),
    ] {
        let error = Topology::parse(text).expect_err(text);
        let TopologyError::Description { at: place, problem, .. } = &error else {
            panic!("{text}: {error:?}");
        };
        assert!(problem.contains(expected), "{text}: {error}");
        assert_eq!(*place, at, "{text}: {error}");
    }
}

#[test]
fn distances_follow_what_is_shared() {
    let machine = parsed("2 packages × 2 l3 × 2 l2 × 2 cores × 2 threads");
    let core = CoreId::new;
    let distances = [0, 1, 2, 4, 8, 16].map(|other| machine.distance(core(0), core(other)));
    assert_eq!(
        distances,
        [
            Distance::Same,
            Distance::SmtSibling,
            Distance::SharedL2,
            Distance::SharedL3,
            Distance::SamePackage,
            Distance::Remote
        ]
    );
    assert!(distances.is_sorted());
    let split = parsed("1 package × 2 numa × 2 cores");
    assert_eq!(split.distance(core(0), core(2)), Distance::NearMemory);
    for a in machine.core_ids() {
        for b in machine.core_ids() {
            assert_eq!(machine.distance(a, b), machine.distance(b, a));
        }
    }
}

#[test]
fn nearest_lists_all_others_in_order_and_not_all_the_same_first() {
    let machine = parsed("2 packages × 4 cores");
    for core in machine.core_ids() {
        let nearest = machine.nearest(core);
        assert_eq!(nearest.len(), 7);
        assert!(!nearest.contains(&core));
        assert!(nearest.is_sorted_by_key(|other| machine.distance(core, *other)));
    }
    let first: Vec<usize> = machine.core_ids().map(|core| machine.nearest(core)[0].index()).collect();
    assert_eq!(first, [1, 2, 3, 0, 5, 6, 7, 4]);
}

#[test]
fn a_restricted_machine_keeps_its_shape_and_cpu_numbers() {
    let machine = parsed("2 packages × 4 cores × 2 threads");
    let part = machine.restricted_to(&[3, 8, 9, 99]).expect("three of them are in it");
    is_consistent(&part);
    assert_eq!(part.core_ids().map(|core| part.cpu(core)).collect::<Vec<_>>(), [3, 8, 9]);
    assert_eq!(count(&part, Level::Package), 2);
    assert_eq!(part.distance(CoreId::new(1), CoreId::new(2)), Distance::SmtSibling);
    assert_eq!(machine.restricted_to(&[99]), None);
    assert_eq!(machine.restricted_to(&(0..16).collect::<Vec<_>>()).as_ref(), Some(&machine));
}

#[test]
fn trees_are_for_people() {
    assert_eq!(
        parsed("2 packages × 1 l3 × 2 cores × 2 threads").to_string(),
        "8 cores (synthetic)\n\
         ├─ package, NUMA node, L3\n\
         │  ├─ core: cpus 0–1\n\
         │  └─ core: cpus 2–3\n\
         └─ package, NUMA node, L3\n   \
            ├─ core: cpus 4–5\n   \
            └─ core: cpus 6–7"
    );
    assert_eq!(
        Topology::flat(6).to_string(),
        "6 cores (flat)\n\
         └─ package, NUMA node\n   \
            └─ 6 × core: cpus 0–5"
    );
    assert!(parsed("1 package × 10 cores × 2 threads").to_string().ends_with("└─ 10 × core of 2 threads: cpus 0–19"));
}

/// As `lstopo` writes it, shortened: two packages of two cores of two threads, numbered as Linux does.
const XML: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE topology SYSTEM "hwloc2.dtd">
<topology version="2.0">
 <object type="Machine" os_index="0" cpuset="0x000000ff" gp_index="1">
  <object type="Package" os_index="0" cpuset="0x00000033" gp_index="3">
   <object type="NUMANode" os_index="0" cpuset="0x00000033" local_memory="1073741824"/>
   <object type="L3Cache" cpuset="0x00000033" cache_size="33554432" depth="3" cache_type="0">
    <object type="Core" os_index="0" cpuset="0x00000011"><object type="PU" os_index="0" cpuset="0x00000001"/>
     <object type="PU" os_index="4" cpuset="0x00000010"/></object>
    <object type="Core" os_index="1" cpuset="0x00000022"><object type="PU" os_index="1" cpuset="0x00000002"/>
     <object type="PU" os_index="5" cpuset="0x00000020"/></object>
   </object>
  </object>
  <object type="Package" os_index="1" cpuset="0x000000cc" gp_index="4">
   <object type="NUMANode" os_index="1" cpuset="0x000000cc" local_memory="1073741824"/>
   <object type="Core" os_index="0" cpuset="0x00000044"><object type="PU" os_index="2" cpuset="0x00000004"/>
    <object type="PU" os_index="6" cpuset="0x00000040"/></object>
   <object type="Core" os_index="1" cpuset="0x00000088"><object type="PU" os_index="3" cpuset="0x00000008"/>
    <object type="PU" os_index="7" cpuset="0x00000080"/></object>
  </object>
 </object>
</topology>"#;

#[test]
fn xml_of_hwloc_is_read_without_it() {
    let machine = Topology::from_hwloc_xml(XML).expect("it is hwloc's");
    is_consistent(&machine);
    let cpus: Vec<usize> = machine.core_ids().map(|core| machine.cpu(core)).collect();
    assert_eq!(cpus, [0, 4, 1, 5, 2, 6, 3, 7], "neighbours in number are neighbours in the machine");
    let l3: Vec<&Group> = machine.groups(Level::L3).collect();
    assert_eq!((l3.len(), l3[0].bytes(), l3[0].members().len()), (1, Some(32 << 20), 4));
    assert_eq!(machine.groups(Level::NumaNode).next().and_then(Group::bytes), Some(1 << 30));
    assert_eq!(*machine.source(), Source::HwlocXml);
}

#[test]
fn version_1_of_the_xml_is_understood() {
    let text = r#"<topology><object type="Machine" cpuset="0x3"><object type="Socket" cpuset="0x3">
        <object type="Cache" depth="2" cpuset="0x3" cache_size="1024"><object type="Core" cpuset="0x3">
        <object type="PU" os_index="0" cpuset="0x1"/><object type="PU" os_index="1" cpuset="0x2"/>
        </object></object></object></object></topology>"#;
    let machine = Topology::from_hwloc_xml(text).expect("it is hwloc's");
    is_consistent(&machine);
    assert_eq!((machine.len(), count(&machine, Level::L2), count(&machine, Level::PhysicalCore)), (2, 1, 1));
}

#[test]
fn wrong_xml_says_what_is_wrong() {
    for (text, expected) in [
        ("pack:4", "not a topology in hwloc's XML"),
        ("<svg/>", "<svg>"),
        ("<topology/>", "no <object type=\"PU\">"),
        ("<topology>\n<object type=\"PU\"/></topology>", "line 2"),
        ("<topology><object type=\"Core\" cpuset=\"0xqq\"/></topology>", "0xqq"),
    ] {
        let error = Topology::from_hwloc_xml(text).expect_err(text).to_string();
        assert!(error.contains(expected), "{text}: {error}");
    }
    let error = Topology::from_hwloc_xml_file("/nonexistent/machine.xml").expect_err("no file");
    assert!(error.to_string().contains("/nonexistent/machine.xml"), "{error}");
}

#[cfg(not(miri))]
mod native {
    use super::*;
    use std::fs;

    #[test]
    fn this_machine_is_consistent_and_ours() {
        let machine = Topology::system();
        is_consistent(&machine);
        let mut cpus: Vec<usize> = machine.core_ids().map(|core| machine.cpu(core)).collect();
        cpus.sort_unstable();
        assert_eq!(cpus, crate::pin::usable_cpus());
        let expected = if cfg!(hwloc_present) { "hwloc" } else { "sysfs" };
        assert!(machine.source().to_string().starts_with(expected) || *machine.source() == Source::Flat, "{machine}");
    }

    #[test]
    #[cfg(hwloc_present)]
    fn hwloc_and_sysfs_agree() {
        let (Some(hwloc), Some(sysfs)) = (hwloc::read(), sysfs::read(Path::new("/sys/devices/system"))) else {
            return;
        };
        for level in [Level::Package, Level::L3, Level::L2, Level::PhysicalCore] {
            let members = |machine: &Topology| -> Vec<Vec<usize>> {
                let cpus = |group: &Group| group.members().iter().map(|core| machine.cpu(*core)).collect();
                machine.groups(level).map(cpus).collect()
            };
            assert_eq!(members(&hwloc), members(&sysfs), "{level}");
        }
    }

    #[test]
    fn sysfs_of_a_bigger_machine_is_read() {
        let root = std::env::temp_dir().join(format!("proto-arch-sysfs-{}", std::process::id()));
        let write = |path: &str, text: &str| {
            let path = root.join(path);
            fs::create_dir_all(path.parent().expect("a file in a folder")).expect("folder");
            fs::write(path, text).expect("file");
        };
        // Two packages of two cores of two threads, numbered as Linux does; the second package speaks the older dialect.
        write("cpu/online", "0-7\n");
        for cpu in 0..8 {
            let (package, first) = (cpu % 4 / 2, cpu % 4);
            let (core_file, package_file) =
                [("core_cpus_list", "package_cpus_list"), ("thread_siblings_list", "core_siblings_list")][package];
            let of_package = ["0-1,4-5", "2-3,6-7"][package];
            write(&format!("cpu/cpu{cpu}/topology/{core_file}"), &format!("{first},{}\n", first + 4));
            write(&format!("cpu/cpu{cpu}/topology/{package_file}"), of_package);
            for (index, (kind, level, shared)) in [
                ("Data", 1, format!("{first},{}", first + 4)),
                ("Instruction", 1, "0".into()),
                ("Unified", 3, of_package.into()),
            ]
            .into_iter()
            .enumerate()
            {
                let cache = format!("cpu/cpu{cpu}/cache/index{index}");
                write(&format!("{cache}/type"), kind);
                write(&format!("{cache}/level"), &level.to_string());
                write(&format!("{cache}/shared_cpu_list"), &shared);
                write(&format!("{cache}/size"), "32768K\n");
            }
        }
        write("node/online", "0-2");
        write("node/node0/cpulist", "0-1,4-5");
        write("node/node0/meminfo", "Node 0 MemTotal:       1048576 kB\nNode 0 MemFree: 1 kB\n");
        write("node/node1/cpulist", "2-3,6-7");
        write("node/node2/cpulist", "\n");
        let machine = sysfs::read(&root).expect("readable");
        fs::remove_dir_all(&root).expect("it is ours");
        is_consistent(&machine);
        let cpus: Vec<usize> = machine.core_ids().map(|core| machine.cpu(core)).collect();
        assert_eq!(cpus, [0, 4, 1, 5, 2, 6, 3, 7]);
        let counts = [Level::Package, Level::NumaNode, Level::L3, Level::L1, Level::PhysicalCore];
        assert_eq!(counts.map(|level| count(&machine, level)), [2, 2, 2, 4, 4]);
        assert_eq!(machine.groups(Level::L3).next().and_then(Group::bytes), Some(32 << 20));
        assert_eq!(machine.groups(Level::NumaNode).next().and_then(Group::bytes), Some(1 << 30));
        assert_eq!(sysfs::read(&root), None, "nothing is there any more");
    }
}
