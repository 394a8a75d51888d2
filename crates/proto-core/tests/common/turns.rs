//! Whose turn it was, and how long the others waited for theirs.

use std::sync::Mutex;

use proto_core::{Event, Hooks};

/// Notes the order of assignments.
#[derive(Default)]
pub struct Assignments(Mutex<Vec<String>>);

impl Hooks for Assignments {
    fn event(&self, event: &Event) {
        if let Event::Assigned { vp, .. } = event {
            self.0.lock().unwrap().push(vp.to_string());
        }
    }
}

impl Assignments {
    /// Fails unless the VP that `is_it` knows by its name, always ready, was assigned `turns` times, each at most 64 assignments after the
    /// one before.
    pub fn assert_one_in_64(&self, turns: usize, is_it: impl Fn(&str) -> bool) {
        let all = self.0.lock().unwrap();
        let its: Vec<usize> = (0..all.len()).filter(|&index| is_it(&all[index])).collect();
        assert!(its.len() >= turns, "{} assignments", its.len());
        let longest = its.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap();
        assert!(longest <= 64, "ready work waited for {longest} assignments of its core");
    }
}
