//! Shared and frozen tokens of whole cells.

use std::sync::atomic::AtomicUsize;
use std::thread;

use super::super::{Grant, Guarded, OpenedShared, Shares};
use super::{meet, message};

#[test]
fn readers_overlap_and_the_writer_waits_for_the_last() {
    let cell = Guarded::new(5);
    let mut shares = cell.open(Grant::new()).close().share();
    let (one, two) = (cell.open_shared(shares.lend()), cell.open_shared(shares.lend()));
    assert_eq!((*one, *two, shares.out()), (5, 5, 2));
    shares.take_back(one.close());
    let mut shares = shares.reclaim().expect_err("one is still out");
    assert_eq!(*two, 5);
    shares.take_back(two.close());
    *cell.open(shares.reclaim().expect("all came back")) = 6;
    assert_eq!(cell.into_inner(), 6);
}

#[test]
fn foreign_share_is_refused_and_counts_nowhere() {
    let mut a = Grant::new().share();
    let mut b = Grant::new().share();
    let (of_a, of_b) = (a.lend(), b.lend());
    assert!(message(|| b.take_back(of_a)).contains("did not lend it"));
    assert!(b.reclaim().is_err(), "a foreign share must not lower the count");
    assert!(message(|| Grant::new().share().take_back(of_b)).contains("unborn"));
    assert!(a.reclaim().is_err(), "a lost share is missing for ever");
}

#[test]
fn dropped_share_keeps_writers_out_for_ever() {
    let mut shares = Grant::new().share();
    drop(shares.lend());
    let last = shares.lend();
    shares.take_back(last);
    assert_eq!(shares.out(), 1);
    assert!(shares.reclaim().is_err());
}

#[test]
fn shares_of_an_unmarried_grant_marry_for_the_family() {
    let cell = Guarded::new(1);
    let mut shares = Grant::new().share();
    let (one, two, unused) = (shares.lend(), shares.lend(), shares.lend());
    let (one, two) = (cell.open_shared(one), cell.open_shared(two));
    assert_eq!(*one + *two, 2);
    shares.take_back(unused);
    shares.take_back(one.close());
    shares.take_back(two.close());
    *cell.open(shares.reclaim().expect("all came back")) += 1;
    assert_eq!(cell.into_inner(), 2);
}

#[test]
fn never_lent_keeper_returns_an_unborn_grant() {
    let shares: Shares = const { Grant::new().share() };
    let cell = Guarded::new(1);
    let grant = shares.reclaim().expect("nothing is out");
    assert_eq!(*cell.open(grant), 1);
}

#[test]
fn of_two_families_exactly_one_marries() {
    for _ in 0..if cfg!(miri) { 6 } else { 300 } {
        let cell = Guarded::new(String::from("x"));
        let at = AtomicUsize::new(0);
        let mut families = [Grant::new().share(), Grant::new().share()];
        let shared: Vec<_> = families.iter_mut().flat_map(|shares| [shares.lend(), shares.lend()]).collect();
        let opened: Vec<bool> = thread::scope(|s| {
            let threads: Vec<_> = shared
                .into_iter()
                .map(|shared| {
                    let (cell, at) = (&cell, &at);
                    s.spawn(move || {
                        meet(at, 4);
                        assert_eq!(*cell.open_shared(shared), "x");
                    })
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().is_ok()).collect()
        });
        assert!(opened == [true, true, false, false] || opened == [false, false, true, true], "{opened:?}");
    }
}

/// Not needed for soundness that this is refused: the two cells are then guarded by the same tokens.
#[test]
fn family_that_married_two_cells_guards_both() {
    let (a, b) = (Guarded::new('a'), Guarded::new('b'));
    let mut shares = Grant::new().share();
    let (one, two) = (a.open_shared(shares.lend()), b.open_shared(shares.lend()));
    shares.take_back(one.close());
    let mut shares = shares.reclaim().expect_err("the other cell is still being read");
    assert_eq!(*two, 'b');
    shares.take_back(two.close());
    let grant = shares.reclaim().expect("all came back");
    let grant = a.open(grant).close();
    assert_eq!(*b.open(grant), 'b');
}

#[test]
fn frozen_cell_is_read_by_all_and_written_by_none() {
    let cell = Guarded::new(0);
    let mut opened = cell.open(Grant::new());
    *opened = 7;
    let frozen = opened.close().freeze();
    thread::scope(|s| {
        for _ in 0..3 {
            s.spawn(|| assert_eq!(*cell.frozen(frozen), 7));
        }
    });
    let first: &u32 = cell.frozen(frozen);
    message(|| drop(cell.open(Grant::new())));
    assert_eq!(*first, 7, "a refused writer must not have written");
}

#[test]
fn frozen_of_another_cell_is_refused() {
    let (a, b) = (Guarded::new('a'), Guarded::new('b'));
    let of_a = a.open(Grant::new()).close().freeze();
    assert_eq!(*a.frozen(of_a), 'a');
    assert!(message(|| _ = b.frozen(of_a)).contains("another cell"));
    assert_eq!(*b.open(Grant::new()), 'b');
}

#[test]
fn frozen_before_the_first_opening_marries_too() {
    let cell = Guarded::new(1);
    let frozen = Grant::new().freeze();
    let (one, two) = (cell.frozen(frozen), cell.frozen(frozen));
    assert!(std::ptr::eq(one, two));
    message(|| drop(cell.open(Grant::new())));
}

#[test]
fn shared_guards_map_and_filter() {
    let cell = Guarded::new((1, vec![2]));
    let mut shares = Grant::new().share();
    let part = cell.open_shared(shares.lend()).map(|pair| &pair.1);
    let part = part.filter_map(|v| v.get(3)).expect_err("there is no fourth");
    let part = part.filter_map(|v| v.first()).expect("there is a first");
    let mut slot = Some(part);
    message(|| assert!(OpenedShared::map_from::<i32>(&mut slot, |_| panic!("user")).is_none()));
    let part = OpenedShared::map_from(&mut slot, |n| Some(n)).expect("it stayed");
    assert_eq!(*part, 2);
    shares.take_back(part.close());
    assert!(shares.reclaim().is_ok());
}
