//! The two ways in which sets of processors are written: lists (`0-3,8`) and masks (`0x00000001,0xffffffff`).

use super::draft::MAX_CORES;

/// A list as in sysfs: `0-3,8`. None if it is malformed.
pub(super) fn from_list(text: &str) -> Option<Vec<usize>> {
    let text = text.trim();
    let mut cpus = Vec::new();
    if text.is_empty() {
        return Some(cpus);
    }
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (usize, usize) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        if first > last || last - first >= MAX_CORES {
            return None;
        }
        cpus.extend(first..=last);
    }
    Some(cpus)
}

/// The list of ascending numbers, for people: `0–3, 8`.
pub(super) fn to_list(cpus: &[usize]) -> String {
    let mut ranges: Vec<(usize, usize)> = Vec::new();
    for &cpu in cpus {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == cpu => *last = cpu,
            _ => ranges.push((cpu, cpu)),
        }
    }
    let text = |&(first, last): &(usize, usize)| {
        if first == last { first.to_string() } else { format!("{first}–{last}") }
    };
    ranges.iter().map(text).collect::<Vec<_>>().join(", ")
}

/// A mask as in hwloc's XML: words of 32 bits, the highest first, an empty one meaning 0. None if it is malformed.
pub(super) fn from_mask(text: &str) -> Option<Vec<usize>> {
    let mut cpus = Vec::new();
    for (index, word) in text.trim().rsplit(',').enumerate() {
        let digits = word.trim().trim_start_matches("0x");
        let word = if digits.is_empty() { 0 } else { u32::from_str_radix(digits, 16).ok()? };
        cpus.extend((0..32).filter(|bit| word >> bit & 1 == 1).map(|bit| index * 32 + bit));
    }
    Some(cpus)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_and_masks() {
        assert_eq!(from_list("0-2,8\n"), Some(vec![0, 1, 2, 8]));
        assert_eq!(from_list(""), Some(vec![]));
        for wrong in ["x", "1-", "3-1", "0-99999999999"] {
            assert_eq!(from_list(wrong), None, "{wrong}");
        }
        assert_eq!(to_list(&[0, 1, 2, 8]), "0–2, 8");
        assert_eq!(from_mask("0x00000003"), Some(vec![0, 1]));
        assert_eq!(from_mask("0x00000001,,0x80000000"), Some(vec![31, 64]));
        assert_eq!(from_mask("0xzz"), None);
    }
}
