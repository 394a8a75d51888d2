//! Sorts: std's result for every shape of input, and no element lost or doubled when a comparison panics.

mod common;

use std::cmp::Ordering;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{self, AtomicIsize, AtomicUsize};

use common::{Dice, on_1_2_4, sized, watched};
use proto_lang_tasks::{sort, sort_by, sort_by_key, sort_unstable, sort_unstable_by, sort_unstable_by_key};

const LEN: usize = sized(60_000, 9_000);

/// Inputs of so many elements: random, few values, sorted, nearly, backwards, saw teeth, two runs, all equal.
fn shapes(len: usize) -> Vec<(&'static str, Vec<u64>)> {
    let mut dice = Dice::new(len as u64);
    let sorted: Vec<u64> = (0..len as u64).collect();
    let mut nearly = sorted.clone();
    for _ in 0..len / 100 {
        let (a, b) = (dice.below(len as u64) as usize, dice.below(len as u64) as usize);
        nearly.swap(a, b);
    }
    vec![
        ("random", (0..len).map(|_| dice.next()).collect()),
        ("few values", (0..len).map(|_| dice.below(4)).collect()),
        ("nearly sorted", nearly),
        ("backwards", sorted.iter().rev().copied().collect()),
        ("saw teeth", sorted.iter().map(|n| n % 1000).collect()),
        ("two runs", sorted.iter().map(|n| n * 2 % len.max(1) as u64).collect()),
        ("one at the end", sorted.iter().map(|n| (n + 1) % len.max(1) as u64).collect()),
        ("all equal", vec![7; len]),
        ("sorted", sorted),
    ]
}

#[test]
fn every_shape_is_sorted_as_by_std() {
    on_1_2_4("sort", || {
        for len in [0, 1, 2, 20, 8_191, 8_193, LEN] {
            for (shape, input) in shapes(len) {
                let mut expected = input.clone();
                expected.sort_unstable();
                let (mut stable, mut unstable) = (input.clone(), input);
                sort(&mut stable);
                sort_unstable(&mut unstable);
                assert!(stable == expected, "stable: {shape}, {len}");
                assert!(unstable == expected, "unstable: {shape}, {len}");
            }
        }
    });
}

#[test]
fn equal_elements_keep_their_order() {
    on_1_2_4("stable", || {
        for (shape, input) in shapes(LEN) {
            let numbered: Vec<(u64, usize)> = input.iter().map(|n| n % 50).zip(0..).collect();
            let mut expected = numbered.clone();
            expected.sort_by_key(|(key, _)| *key);
            let mut sorted = numbered.clone();
            sort_by_key(&mut sorted, |(key, _)| *key);
            assert!(sorted == expected, "{shape}");
            let mut falling = numbered;
            sort_by(&mut falling, |a, b| b.0.cmp(&a.0));
            assert!(falling.is_sorted_by(|a, b| a.0 > b.0 || (a.0 == b.0 && a.1 < b.1)), "{shape}, falling");
        }
    });
}

#[test]
fn the_unstable_ones_take_comparisons_and_keys() {
    on_1_2_4("unstable", || {
        let mut strings: Vec<String> = shapes(LEN).swap_remove(0).1.iter().map(u64::to_string).collect();
        sort_unstable_by(&mut strings, |a, b| b.cmp(a));
        assert!(strings.is_sorted_by(|a, b| a >= b));
        sort_unstable_by_key(&mut strings, String::len);
        assert!(strings.is_sorted_by_key(String::len));
    });
}

#[test]
fn an_os_thread_may_sort() {
    watched("OS thread", || {
        for (shape, mut input) in shapes(LEN) {
            sort(&mut input);
            assert!(input.is_sorted(), "{shape}");
        }
    });
}

/// An element that counts how often it is there.
struct Element<'a> {
    value: u64,
    alive: &'a AtomicIsize,
}

impl Drop for Element<'_> {
    fn drop(&mut self) {
        assert_eq!(self.alive.fetch_sub(1, atomic::Ordering::Relaxed), 1, "an element was dropped twice");
    }
}

#[test]
fn a_comparison_that_panics_loses_and_doubles_nothing() {
    on_1_2_4("panics", || {
        let len = sized(20_000, 8_500);
        let values = shapes(len);
        let mut dice = Dice::new(3);
        for round in 0..sized(40, 2) {
            let values = &values[round % values.len()].1;
            let alive: Vec<AtomicIsize> = values.iter().map(|_| AtomicIsize::new(1)).collect();
            let mut elements: Vec<_> =
                values.iter().zip(&alive).map(|(&value, alive)| Element { value, alive }).collect();
            // Sometimes never.
            let bound = dice.below(20 * len as u64) as usize;
            let compared = AtomicUsize::new(0);
            let compare = |a: &Element<'_>, b: &Element<'_>| -> Ordering {
                if compared.fetch_add(1, atomic::Ordering::Relaxed) == bound {
                    resume_unwind(Box::new("on purpose"));
                }
                a.value.cmp(&b.value)
            };
            let outcome = catch_unwind(AssertUnwindSafe(|| match round % 2 {
                0 => sort_by(&mut elements, compare),
                _ => sort_unstable_by(&mut elements, compare),
            }));
            if outcome.is_ok() {
                assert!(elements.is_sorted_by_key(|element| element.value));
            }
            drop(elements);
            assert!(alive.iter().all(|alive| alive.load(atomic::Ordering::Relaxed) == 0), "an element was lost");
        }
    });
}
