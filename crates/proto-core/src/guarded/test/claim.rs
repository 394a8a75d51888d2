//! Claims: what is given when, and what is refused.

use super::message;
use crate::{Claim, Guarded, Keeper};

fn whole() -> Claim {
    Claim::new(0..usize::MAX)
}

#[test]
fn one_has_it_alone_or_several_share_it() {
    let (cell, mut keeper) = (Guarded::new(1), Keeper::whole());
    let [mut a, mut b, mut c] = [(); 3].map(|()| whole());
    for round in 0..3 {
        assert!(keeper.take(&mut a, true) && a.is_held());
        assert!(!keeper.take(&mut b, true) && !keeper.take(&mut b, false) && !b.is_held());
        *a.write(&cell) += 1;
        keeper.put(&mut a);
        assert!(keeper.take(&mut b, false) && keeper.take(&mut c, false) && !keeper.take(&mut a, true));
        assert_eq!((b.read(&cell), c.read(&cell)), (&(round + 2), &(round + 2)));
        keeper.put(&mut b);
        assert!(!keeper.take(&mut a, true), "one reads still");
        keeper.put(&mut c);
        // What is not held is put back without harm.
        keeper.put(&mut c);
    }
}

#[test]
fn ranges_are_given_each_by_itself() {
    let cells: Box<Guarded<[u32]>> = vec![0; 10].into();
    let mut keeper = Keeper::ranges();
    let [mut left, mut right, mut over, mut all] = [0..4, 4..10, 2..6, 0..usize::MAX].map(Claim::new);
    assert!(keeper.take(&mut left, true) && keeper.take(&mut right, false));
    assert!(!keeper.take(&mut over, false) && !keeper.take(&mut all, false));
    left.write(&cells).fill(1);
    keeper.put(&mut left);
    assert!(keeper.take(&mut over, false) && !keeper.take(&mut all, true));
    assert_eq!((over.read(&cells), right.read(&cells).len()), (&[1, 1, 0, 0][..], 6));
    keeper.put(&mut over);
    keeper.put(&mut right);
    assert!(keeper.take(&mut all, true));
    all.write(&cells)[9] = 2;
    keeper.put(&mut all);
    assert_eq!(*cells.into_boxed_slice(), [1, 1, 1, 1, 0, 0, 0, 0, 0, 2]);
}

#[test]
fn what_is_not_held_opens_nothing() {
    let cell = Guarded::new(1);
    assert!(message(|| _ = whole().write(&cell)).contains("not held"));
    assert!(message(|| _ = whole().read(&cell)).contains("not held"));
    let (mut keeper, mut shared) = (Keeper::whole(), whole());
    assert!(keeper.take(&mut shared, false));
    assert!(message(|| _ = shared.write(&cell)).contains("not held alone"));
    keeper.put(&mut shared);
    assert!(message(|| _ = shared.read(&cell)).contains("not held"));
}

#[test]
fn a_claim_opens_one_cell_and_goes_back_to_one_keeper() {
    let (cell, other) = (Guarded::new(1), Guarded::new(2));
    let (mut keeper, mut stranger) = (Keeper::whole(), Keeper::whole());
    let [mut claim, mut its] = [(); 2].map(|()| whole());
    assert!(keeper.take(&mut claim, true) && stranger.take(&mut its, true));
    *claim.write(&cell) += 1;
    assert!(message(|| _ = claim.write(&other)).contains("belongs to another cell"));
    assert!(message(|| _ = its.write(&cell)).contains("belongs to grant"));
    assert!(message(|| stranger.put(&mut claim)).contains("did not give it"));
    // It is lost: locked for ever, and nobody else has it.
    assert!(!claim.is_held() && !keeper.take(&mut claim, true));
}

#[test]
fn misuse_of_a_keeper_is_named() {
    let mut keeper = Keeper::whole();
    let mut claim = whole();
    assert!(keeper.take(&mut claim, false));
    assert!(message(|| _ = keeper.take(&mut claim, false)).contains("held twice"));
    assert!(message(|| _ = Keeper::whole().take(&mut Claim::new(0..3), true)).contains("0..3 was claimed"));
    let (cell, mut part) = (Guarded::new(1), Claim::new(0..3));
    assert!(Keeper::ranges().take(&mut part, true));
    assert!(message(|| _ = part.write(&cell)).contains("opens a slice"));
    let cells: &Guarded<[u8]> = &Guarded::new([0; 2]);
    let mut long = Claim::new(1..3);
    assert!(Keeper::ranges().take(&mut long, true));
    assert!(message(|| _ = long.write(cells)).contains("exceeds a slice of 2"));
}

#[test]
fn what_one_thread_writes_the_next_one_reads() {
    use std::sync::Mutex;
    let (cell, keeper) = (Guarded::new(0), Mutex::new(Keeper::whole()));
    std::thread::scope(|s| {
        for _ in 0..2 {
            s.spawn(|| {
                let (mut claim, mut done) = (whole(), 0);
                while done < 20 {
                    if keeper.lock().unwrap().take(&mut claim, true) {
                        *claim.write(&cell) += 1;
                        keeper.lock().unwrap().put(&mut claim);
                        done += 1;
                    }
                    std::thread::yield_now();
                }
            });
        }
    });
    assert_eq!(cell.into_inner(), 40);
}
