//! Tokens of ranges and their keeper.

use std::sync::Mutex;
use std::thread;

use super::super::{Grant, Guarded, RangeGrant, RangeShares};
use super::message;

#[test]
fn pieces_open_at_once_and_join_to_a_grant() {
    let cell: &Guarded<[u32]> = &Guarded::new([0; 6]);
    let (left, rest) = RangeGrant::new().split_at(2);
    let (middle, right) = rest.split_at(4);
    let mut opened = [cell.open_range(left), cell.open_range(middle), cell.open_range(right)];
    for (n, part) in (1..).zip(&mut opened) {
        assert_eq!(part.len(), 2);
        part.fill(n);
    }
    let [left, middle, right] = opened.map(|part| part.close());
    let (right, left) = right.join(left).expect_err("these do not touch");
    let whole = middle.join(right).expect("neighbours").join(left).expect("neighbours, the other way round");
    let grant = whole.into_grant().expect("that is all");
    assert_eq!(*cell.open(grant), [1, 1, 2, 2, 3, 3]);
}

#[test]
fn pieces_of_an_unborn_grant_marry_one_cell() {
    let cell: &Guarded<[u8]> = &Guarded::new([0; 2]);
    let other: &Guarded<[u8]> = &Guarded::new([0; 2]);
    let (left, right) = RangeGrant::new().split_at(1);
    let left = cell.open_range(left).close();
    assert!(message(|| drop(other.open_range(left))).contains("not been opened yet"));
    assert_eq!(cell.open_range(right).len(), 1);
    message(|| drop(cell.open_range(RangeGrant::new())));
    message(|| drop(cell.open(Grant::new())));
}

#[test]
fn foreign_pieces_do_not_join() {
    let (left, _right) = RangeGrant::new().split_at(1);
    let (_left, right) = RangeGrant::new().split_at(1);
    let (left, right) = left.join(right).expect_err("they touch, but are of different cells");
    assert!(RangeGrant::new().join(RangeGrant::new()).is_err(), "unborn grants may get different numbers");
    assert!(left.into_grant().is_err() && right.into_grant().is_err());
}

#[test]
fn ranges_beyond_the_slice_are_refused() {
    let cell: &Guarded<[u8]> = &Guarded::new([0; 4]);
    let (head, tail) = RangeGrant::new().split_at(5);
    assert!(message(|| drop(cell.open_range(head))).contains("0..5 exceeds a slice of 4"));
    assert!(message(|| drop(cell.open_range(tail))).contains("5.. exceeds a slice of 4"));
    message(|| drop(RangeGrant::new().split_at(3).1.split_at(2)));
    message(|| drop(RangeGrant::new().split_at(3).0.split_at(4)));
}

#[test]
fn empty_ranges_open_as_nothing_anywhere() {
    let cell: &Guarded<[u8]> = &Guarded::new([1, 2]);
    let (whole, none) = RangeGrant::new().split_at(usize::MAX);
    let (none_too, whole) = whole.split_at(0);
    let opened = cell.open_range(whole);
    assert!(cell.open_range(none_too).is_empty());
    message(|| drop(cell.open_range(none)));
    assert_eq!(*opened, [1, 2]);
    assert!(Box::<Guarded<[u8]>>::from(vec![]).is_empty());
}

#[test]
fn zero_sized_elements_have_ranges() {
    let cell: Box<Guarded<[()]>> = vec![(); 5].into();
    let (left, right) = RangeGrant::new().split_at(2);
    assert_eq!((cell.open_range(left).len(), cell.open_range(right).len()), (2, 3));
    let longest: &Guarded<[()]> = &Guarded::new([(); usize::MAX]);
    assert_eq!(longest.open_range(RangeGrant::new()).len(), usize::MAX);
}

#[test]
fn cells_made_of_vectors_own_their_elements() {
    #[repr(align(64))]
    #[derive(Debug, PartialEq)]
    struct Wide(Box<u8>);

    let cell: Box<Guarded<[Wide]>> = (0..3).map(|n| Wide(Box::new(n))).collect::<Vec<_>>().into();
    let mut last = cell.open_range(RangeGrant::new().split_at(2).1);
    assert_eq!(std::ptr::from_ref(&last[0]).addr() % 64, 0);
    last[0] = Wide(Box::new(9));
    let _ = last.close();
    assert_eq!(*cell.into_boxed_slice(), [Wide(Box::new(0)), Wide(Box::new(1)), Wide(Box::new(9))]);
    drop(Box::<Guarded<[Wide]>>::from(vec![Wide(Box::new(1))].into_boxed_slice()));

    let shared: std::sync::Arc<Guarded<[u8]>> = Box::<Guarded<[u8]>>::from(vec![1, 2]).into();
    assert_eq!(shared.len(), 2);
}

#[test]
fn overlapping_readers_return_in_parts_and_joined() {
    let cell: &Guarded<[usize]> = &Guarded::new(std::array::from_fn::<_, 20, _>(|n| n));
    let mut shares = RangeShares::new(RangeGrant::new());
    let one = cell.open_shared_range(shares.lend(0..10).expect("free"));
    let two = cell.open_shared_range(shares.lend(5..15).expect("free"));
    assert_eq!(one[9], two[4]);
    assert!(shares.take(14..16).is_none(), "14 is being read");
    let mut writer = cell.open_range(shares.take(15..20).expect("nobody reads this"));
    writer.fill(0);
    assert!(shares.lend(15..16).is_none(), "15 is being written");

    let (left, right) = two.close().split_at(12);
    shares.take_back(right);
    assert!(shares.take(11..13).is_none() && shares.take(12..15).is_some());
    assert_eq!(one[9], 9, "the other reader's part is untouched");
    let both = one.close();
    shares.take_back(left);
    let more = shares.lend(10..11).expect("free");
    shares.take_back(both.join(more).expect("neighbours"));
    assert!(shares.take(0..12).is_some());
}

#[test]
fn keeper_returns_its_grant_when_everything_is_back() {
    let shares = const { RangeShares::new(RangeGrant::new()) };
    let mut shares = RangeShares::new(shares.reclaim().expect("nothing was given out"));
    let writer = shares.take(3..5).expect("free");
    let reader = shares.lend(5..usize::MAX).expect("free");
    let mut shares = shares.reclaim().expect_err("two are out");
    shares.take_back(reader);
    let (one, two) = writer.split_at(4);
    shares.put_back(two);
    let mut shares = shares.reclaim().expect_err("one is out");
    shares.put_back(one);
    assert!(shares.reclaim().expect("all is back").into_grant().is_ok());
}

#[test]
fn foreign_tokens_are_refused_by_the_keeper() {
    let (left, right) = RangeGrant::new().split_at(10);
    let (mut left, mut right) = (RangeShares::new(left), RangeShares::new(right));
    assert!(left.take(9..11).is_none() && left.lend(10..11).is_none() && right.lend(0..1).is_none());
    let (of_left, of_right) = (left.lend(8..10).expect("free"), right.lend(10..12).expect("free"));
    let both = of_left.join(of_right).expect("neighbours of one cell");
    assert!(message(|| left.take_back(both)).contains("did not lend it"));
    assert!(left.take(7..9).is_none(), "a refused token must not have lowered a count");

    let writer = right.take(20..30).expect("free");
    assert!(message(|| left.put_back(writer)).contains("did not give it"));
    let mut other = RangeShares::new(RangeGrant::new());
    message(|| other.put_back(RangeGrant::new()));
    let of_other = other.lend(0..1).expect("free");
    message(|| left.take_back(of_other));
    message(|| assert!(other.take(std::ops::Range { start: 3, end: 2 }).is_none()));
}

#[test]
fn empty_ranges_are_lent_and_taken_at_any_time() {
    let mut shares = RangeShares::new(RangeGrant::new());
    let all = shares.take(0..usize::MAX).expect("free");
    let (none, none_too) = (shares.take(4..4).expect("nothing"), shares.lend(4..4).expect("nothing"));
    shares.put_back(none);
    shares.take_back(none_too);
    shares.put_back(all);
    assert!(shares.reclaim().is_ok());
}

/// Random requests and returns, split and joined at random, against a plain count per index.
#[test]
fn keeper_agrees_with_a_count_per_index() {
    const LEN: usize = 12;
    let cell: &Guarded<[u64]> = &Guarded::new([0; LEN]);
    let mut shares = RangeShares::new(RangeGrant::new());
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    };
    let (mut writers, mut readers) = (Vec::<RangeGrant>::new(), Vec::new());
    for _ in 0..if cfg!(miri) { 300 } else { 20_000 } {
        let start = random(LEN);
        let range = start..start + random(LEN - start + 1);
        let written = range.clone().any(|i| writers.iter().any(|w| w.range().contains(&i)));
        let read = range.clone().any(|i| readers.iter().any(|r: &super::super::SharedRange| r.range().contains(&i)));
        match random(6) {
            0 => match shares.take(range.clone()) {
                Some(grant) => {
                    assert!(!written && !read, "{range:?} was taken while used");
                    let mut opened = cell.open_range(grant);
                    opened.iter_mut().for_each(|n| *n += 1);
                    writers.push(opened.close());
                }
                None => assert!(written || read, "{range:?} was refused while free"),
            },
            1 => match shares.lend(range.clone()) {
                Some(shared) => {
                    assert!(!written, "{range:?} was lent while written");
                    readers.push(cell.open_shared_range(shared).close());
                }
                None => assert!(written, "{range:?} was refused while not written"),
            },
            2 if !writers.is_empty() => shares.put_back(writers.swap_remove(random(writers.len()))),
            3 if !readers.is_empty() => shares.take_back(readers.swap_remove(random(readers.len()))),
            4 if !writers.is_empty() => {
                let writer = writers.swap_remove(random(writers.len()));
                let at = writer.range().start + random(writer.range().len() + 1);
                let (left, right) = writer.split_at(at);
                writers.extend([left, right]);
            }
            5 if readers.len() > 1 => {
                let (one, two) =
                    (readers.swap_remove(random(readers.len())), readers.swap_remove(random(readers.len())));
                match one.join(two) {
                    Ok(joined) => {
                        let at = joined.range().start + random(joined.range().len() + 1);
                        let (left, right) = joined.split_at(at);
                        readers.extend([left, right]);
                    }
                    Err((one, two)) => readers.extend([one, two]),
                }
            }
            _ => {}
        }
    }
    writers.into_iter().for_each(|writer| shares.put_back(writer));
    readers.into_iter().for_each(|reader| shares.take_back(reader));
    assert!(shares.reclaim().is_ok(), "all was given back");
}

#[test]
fn threads_write_their_ranges_and_read_each_others() {
    static CELL: Guarded<[usize; 16]> = Guarded::new([0; 16]);
    static KEEPER: Mutex<RangeShares> = Mutex::new(RangeShares::new(RangeGrant::new()));
    let rounds = if cfg!(miri) { 3 } else { 200 };
    thread::scope(|s| {
        for id in 0..3 {
            s.spawn(move || {
                let cell: &Guarded<[usize]> = &CELL;
                for round in 0..rounds {
                    let start = (id * 3 + round) % 10;
                    let taken = KEEPER.lock().unwrap().take(start..start + 5);
                    if let Some(grant) = taken {
                        let mut opened = cell.open_range(grant);
                        opened.fill(id);
                        let grant = opened.close();
                        KEEPER.lock().unwrap().put_back(grant);
                    }
                    let lent = KEEPER.lock().unwrap().lend(start..start + 6);
                    if let Some(shared) = lent {
                        let opened = cell.open_shared_range(shared);
                        assert!(opened.iter().all(|&n| n < 3));
                        let shared = opened.close();
                        KEEPER.lock().unwrap().take_back(shared);
                    }
                }
            });
        }
    });
}
