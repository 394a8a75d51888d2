//! Lanes against an obvious model: a list of all accesses, in which one is granted when none before it overlaps that it does not go with.

use std::ops::Range;

use crate::{Fronts, LaneMode, LanePool, Lanes};

const MODES: [LaneMode; 3] = [LaneMode::together(0), LaneMode::together(1), LaneMode::alone(2)];

struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % n
    }

    /// Of 0..12, or all.
    fn range(&mut self) -> Range<usize> {
        let (a, b) = (self.below(13), self.below(13));
        if self.below(5) == 0 { Lanes::<()>::WHOLE } else { a.min(b)..a.max(b) }
    }
}

#[derive(Debug)]
struct Access {
    who: u32,
    range: Range<usize>,
    mode: LaneMode,
}

impl Access {
    fn waits_for(&self, before: &Access) -> bool {
        let overlap = self.range.start < before.range.end && before.range.start < self.range.end;
        overlap && !self.range.is_empty() && !before.range.is_empty() && !self.mode.goes_with(before.mode)
    }
}

#[test]
fn what_is_granted_is_what_waits_for_none_before() {
    for seed in 0..if cfg!(miri) { 5 } else { 500 } {
        let mut random = Random(seed);
        let (mut lanes, mut pool) = (Lanes::<()>::new(), LanePool::new());
        let mut here: Vec<Access> = Vec::new();
        let mut waits = std::collections::BTreeMap::new();
        for step in 0..80 {
            let granted: Vec<u32> = waits.iter().filter(|(_, waits)| **waits == 0).map(|(who, _)| *who).collect();
            if step < 50 && (random.below(3) > 0 || granted.is_empty()) {
                let access = Access { who: step, range: random.range(), mode: MODES[random.below(3)] };
                let mut more = Vec::new();
                let own = lanes.enter(&access.range, step, access.mode, &mut pool, |who| more.push(who));
                more.into_iter().for_each(|who| *waits.get_mut(&who).expect("who waits is here") += 1);
                waits.insert(step, own);
                here.push(access);
            } else if !granted.is_empty() {
                let who = granted[random.below(granted.len())];
                let at = here.iter().position(|access| access.who == who).expect("it has not left");
                let access = here.remove(at);
                waits.remove(&who);
                lanes.leave(&access.range, &mut pool, |who| *waits.get_mut(&who).expect("who waits is here") -= 1);
            }
            for (at, access) in here.iter().enumerate() {
                let is_free = !here[..at].iter().any(|before| access.waits_for(before));
                assert_eq!(waits[&access.who] == 0, is_free, "seed {seed}, step {step}: {access:?} in {here:?}");
            }
            assert_eq!(lanes.is_awaited(&Lanes::<()>::WHOLE), waits.values().any(|waits| *waits > 0));
        }
        while let Some(at) = here.iter().position(|access| waits[&access.who] == 0) {
            let access = here.remove(at);
            lanes.leave(&access.range, &mut pool, |who| *waits.get_mut(&who).expect("who waits is here") -= 1);
        }
        assert!(here.is_empty() && lanes.is_idle(&Lanes::<()>::WHOLE), "seed {seed}: {here:?} were never granted");
    }
}

#[test]
fn edges_lead_where_lanes_wait() {
    for seed in 0..if cfg!(miri) { 3 } else { 200 } {
        let mut random = Random(seed);
        let mut fronts = Fronts::new();
        let mut all: Vec<(Access, Vec<u32>)> = Vec::new();
        for who in 0..30 {
            let access = Access { who, range: random.range(), mode: MODES[random.below(3)] };
            let mut before = Vec::new();
            fronts.enter(&access.range, who, access.mode, |other| before.push(other));
            for other in &before {
                assert!(access.waits_for(&all[*other as usize].0), "seed {seed}: {access:?} after {other}");
            }
            all.push((access, before));
            // Whoever it has to wait for is before it, by one edge or by several.
            let mut reached = vec![false; all.len()];
            let mut open = all[who as usize].1.clone();
            while let Some(next) = open.pop() {
                if !std::mem::replace(&mut reached[next as usize], true) {
                    open.extend(&all[next as usize].1);
                }
            }
            for (before, _) in &all[..who as usize] {
                let waits = all[who as usize].0.waits_for(before);
                assert!(!waits || reached[before.who as usize], "seed {seed}: no way from {before:?} to {who}");
            }
        }
    }
}

#[test]
fn a_mark_is_kept_where_it_was_made() {
    let (mut lanes, mut pool) = (Lanes::new(), LanePool::new());
    for range in [2..4, 3..6] {
        lanes.enter(&range, 1, MODES[0], &mut pool, |_| ());
    }
    lanes.set_mark(&(2..4), Some(&"bad"));
    assert_eq!(
        [0..2, 2..3, 3..6, 4..6].map(|range| lanes.mark(&range).copied()),
        [None, Some("bad"), Some("bad"), None]
    );
    lanes.set_mark(&(3..6), None);
    assert_eq!([2..4, 3..6].map(|range| lanes.mark(&range).copied()), [Some("bad"), None]);
    assert_eq!(lanes.mark(&Lanes::<()>::WHOLE), Some(&"bad"));
}

#[test]
fn a_lane_is_small() {
    assert_eq!(size_of::<Lanes<Box<u32>>>(), 56, "there is one in every datum that is ordered");
}
