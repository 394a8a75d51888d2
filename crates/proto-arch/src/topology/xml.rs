//! A machine from the XML that hwloc writes, without libhwloc.
//!
//! Version 2 writes `<object type="L3Cache" cpuset="0x…">` nested in each other, memory as children of what it is near
//! to. Version 1 says `Socket` for a package and `<object type="Cache" depth="3">`. Both name the processors of each object
//! by a mask, so the nesting itself is not needed.

use super::draft::Draft;
use super::{Level, Source, Topology, TopologyError, cpus};

pub(super) fn parse(text: &str) -> Result<Topology, TopologyError> {
    let options = roxmltree::ParsingOptions {
        allow_dtd: true, // hwloc names one
        ..roxmltree::ParsingOptions::default()
    };
    let document = roxmltree::Document::parse_with_options(text, options)
        .map_err(|error| TopologyError::Xml { problem: error.to_string() })?;
    let problem = |problem: String| TopologyError::Xml { problem };
    if !document.root_element().has_tag_name("topology") {
        let name = document.root_element().tag_name().name();
        return Err(problem(format!("the outermost element is <{name}>, not <topology>")));
    }
    let mut draft = Draft::new(Source::HwlocXml);
    for object in document.descendants().filter(|node| node.has_tag_name("object")) {
        let attribute = |name| object.attribute(name).unwrap_or_default();
        let number = |name| object.attribute(name).and_then(|text| text.parse::<u64>().ok());
        let level = match (attribute("type"), attribute("depth")) {
            ("PU", _) => {
                let line = document.text_pos_at(object.range().start).row;
                let index = number("os_index").and_then(|index| usize::try_from(index).ok());
                let index = index.filter(|index| *index < super::draft::MAX_CORES);
                draft.cpus.push(index.ok_or_else(|| problem(format!("the PU in line {line} has no usable os_index")))?);
                continue;
            }
            ("Package" | "Socket", _) => Level::Package,
            ("NUMANode" | "Node", _) => Level::NumaNode,
            ("L3Cache", _) | ("Cache", "3") => Level::L3,
            ("L2Cache", _) | ("Cache", "2") => Level::L2,
            ("L1Cache", _) | ("Cache", "1") => Level::L1,
            ("Core", _) => Level::PhysicalCore,
            _ => continue,
        };
        if attribute("cache_type") == "2" {
            continue; // instructions
        }
        let mask = attribute("cpuset");
        let members = cpus::from_mask(mask).ok_or_else(|| problem(format!("“{mask}” is not a set of processors")))?;
        let bytes = number("cache_size").or_else(|| number("local_memory"));
        draft.add(level, members, bytes.filter(|bytes| *bytes > 0));
    }
    if draft.cpus.is_empty() {
        return Err(problem("there is no <object type=\"PU\"> in it".to_owned()));
    }
    draft.build()
}
