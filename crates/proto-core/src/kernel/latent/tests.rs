//! The verbs one by one, and a stress with real barriers. The races are in `kernel/model/latent.rs`.

use std::sync::atomic::AtomicBool;

use super::*;

/// Entries are numbers; only their addresses matter to the list.
fn jobs(count: usize) -> Vec<NonNull<u64>> {
    (0..count).map(|number| NonNull::from(Box::leak(Box::new(number as u64)))).collect()
}

fn free(jobs: Vec<NonNull<u64>>) {
    for job in jobs {
        // SAFETY: leaked by `jobs`, freed once.
        drop(unsafe { Box::from_raw(job.as_ptr()) });
    }
}

fn list() -> LatentList<u64> {
    LatentList::new()
}

fn owner(list: &LatentList<u64>) -> Owner<'_, u64> {
    // SAFETY: each test uses the view in one thread.
    unsafe { list.owner() }
}

#[test]
fn pops_in_reverse_and_stops_at_the_base() {
    let (list, jobs) = (list(), jobs(3));
    let owner = owner(&list);
    for job in &jobs {
        owner.push(*job).expect("there is room");
    }
    assert_eq!(owner.pop(1), Popped::Mine(jobs[2]));
    assert_eq!(owner.pop(1), Popped::Mine(jobs[1]));
    assert_eq!(owner.pop(1), Popped::Empty);
    assert_eq!(owner.pop(0), Popped::Mine(jobs[0]));
    assert_eq!(owner.pop(0), Popped::Empty);
    free(jobs);
}

#[test]
fn thieves_get_the_oldest_of_what_was_published() {
    let (list, jobs) = (list(), jobs(5));
    let owner = owner(&list);
    for job in &jobs {
        owner.push(*job).expect("there is room");
    }
    assert_eq!(list.steal(), Steal::Empty, "nothing is public before the owner says so");
    assert!(list.looks_stealable() && !list.looks_public());
    assert!(owner.publish());
    assert_eq!(list.steal(), Steal::Taken(jobs[0]));
    assert_eq!(list.steal(), Steal::Taken(jobs[1]));
    assert_eq!(list.steal(), Steal::Taken(jobs[2]));
    assert_eq!(list.steal(), Steal::Empty);
    assert_eq!(owner.pop(0), Popped::Mine(jobs[4]));
    assert_eq!(owner.pop(0), Popped::Mine(jobs[3]));
    for index in [2, 1, 0] {
        assert_eq!(owner.pop(0), Popped::Stolen(jobs[index]));
    }
    assert!(!list.looks_stealable());
    free(jobs);
}

#[test]
fn an_owner_takes_published_entries_back() {
    let (list, jobs) = (list(), jobs(8));
    let owner = owner(&list);
    for job in &jobs {
        owner.push(*job).expect("there is room");
    }
    assert!(owner.publish());
    assert!(owner.publish());
    for index in (1..8).rev() {
        assert_eq!(owner.pop(0), Popped::Mine(jobs[index]));
    }
    assert_eq!(list.steal(), Steal::Empty, "the last one is private again");
    assert_eq!(owner.pop(0), Popped::Mine(jobs[0]));
    free(jobs);
}

#[test]
fn a_hard_theft_needs_no_help() {
    let (list, jobs) = (list(), jobs(4));
    let owner = owner(&list);
    assert_eq!(list.steal_hard(), Steal::Empty);
    for job in &jobs {
        owner.push(*job).expect("there is room");
    }
    assert_eq!(list.steal_hard(), Steal::Taken(jobs[0]));
    assert!(list.looks_public(), "the price was paid for half of them");
    assert_eq!(list.steal(), Steal::Taken(jobs[1]));
    assert_eq!(owner.pop(0), Popped::Mine(jobs[3]));
    assert_eq!(list.steal_hard(), Steal::Taken(jobs[2]));
    assert_eq!(list.steal_hard(), Steal::Empty);
    for index in [2, 1, 0] {
        assert_eq!(owner.pop(0), Popped::Stolen(jobs[index]));
    }
    free(jobs);
}

#[test]
fn touched_entries_are_skipped_by_pops_and_thieves() {
    let (list, jobs) = (list(), jobs(4));
    let owner = owner(&list);
    for job in &jobs {
        owner.push(*job).expect("there is room");
    }
    assert_eq!(owner.touch(0), Fate::Untaken);
    assert_eq!(owner.touch(2), Fate::Untaken);
    assert!(owner.publish());
    assert_eq!(list.steal(), Steal::Taken(jobs[1]));
    assert_eq!(owner.touch(1), Fate::Stolen);
    assert_eq!(owner.pop(0), Popped::Mine(jobs[3]));
    assert_eq!(owner.pop(0), Popped::Stolen(jobs[1]));
    assert_eq!(owner.pop(0), Popped::Empty);
    free(jobs);
}

#[test]
fn touching_the_newest_frees_its_slot() {
    let (list, jobs) = (list(), jobs(1));
    let owner = owner(&list);
    owner.push(jobs[0]).expect("there is room");
    assert_eq!(owner.touch(0), Fate::Untaken);
    assert_eq!(owner.head(), 0);
    free(jobs);
}

#[test]
fn a_suspending_timeline_leaves_the_others_entries() {
    let (list, jobs) = (list(), jobs(6));
    let owner = owner(&list);
    for job in &jobs {
        owner.push(*job).expect("there is room");
    }
    assert!(owner.publish());
    for job in &jobs[..3] {
        assert_eq!(list.steal(), Steal::Taken(*job));
    }
    let mut seen = Vec::new();
    owner.detach_from(2, |job, fate| seen.push((job, fate)));
    assert_eq!(
        seen,
        [(jobs[2], Fate::Stolen), (jobs[3], Fate::Untaken), (jobs[4], Fate::Untaken), (jobs[5], Fate::Untaken)]
    );
    assert_eq!(owner.head(), 2);
    assert_eq!(owner.pop(0), Popped::Stolen(jobs[1]));
    free(jobs);
}

#[test]
fn a_full_list_says_no_and_recovers() {
    let (list, jobs) = (list(), jobs(1));
    let owner = owner(&list);
    for _ in 0..CAPACITY {
        owner.push(jobs[0]).expect("there is room");
    }
    assert_eq!(owner.push(jobs[0]), Err(Full));
    assert!(owner.publish());
    assert_eq!(list.steal(), Steal::Taken(jobs[0]));
    assert_eq!(owner.pop(0), Popped::Mine(jobs[0]));
    owner.push(jobs[0]).expect("one was popped");
    free(jobs);
}

#[test]
fn every_entry_is_run_once_whoever_runs_it() {
    // A recursive owner, one thief that asks nicely and one that does not.
    let rounds = if cfg!(miri) { 20 } else { 30_000 };
    let depth = 6;
    let list = list();
    let done = AtomicBool::new(false);
    let asked = AtomicBool::new(false);
    let stolen = AtomicU64::new(0);
    let numbers = jobs(depth);
    let mut mine = 0;
    let mut lost = 0;
    std::thread::scope(|scope| {
        for hard in [false, true] {
            let (list, done, asked, stolen) = (&list, &done, &asked, &stolen);
            scope.spawn(move || {
                while !done.load(Ordering::Relaxed) {
                    let theft = if hard { list.steal_hard() } else { list.steal() };
                    match theft {
                        Steal::Taken(_) => {
                            stolen.fetch_add(1, Ordering::Relaxed);
                        }
                        Steal::Empty => asked.store(true, Ordering::Relaxed),
                    }
                    std::thread::yield_now();
                }
            });
        }
        let owner = owner(&list);
        for round in 0..rounds {
            for number in &numbers {
                owner.push(*number).expect("there is room");
                if asked.swap(false, Ordering::Relaxed) {
                    owner.publish();
                }
            }
            if round % 7 == 0 {
                owner.detach_from(0, |_, fate| match fate {
                    Fate::Untaken => mine += 1,
                    Fate::Stolen => lost += 1,
                });
            }
            loop {
                match owner.pop(0) {
                    Popped::Mine(_) => mine += 1,
                    Popped::Stolen(_) => lost += 1,
                    Popped::Empty => break,
                }
            }
        }
        done.store(true, Ordering::Relaxed);
    });
    let stolen = stolen.load(Ordering::Relaxed);
    assert_eq!(lost, stolen, "the owner and the thieves disagree about who ran what");
    assert_eq!(mine + lost, rounds * depth as u64, "an entry was lost or doubled");
    free(numbers);
}

#[test]
fn a_join_finds_its_entry_under_what_was_left_on_it() {
    let (list, jobs) = (list(), jobs(4));
    let owner = owner(&list);
    for job in &jobs {
        owner.push(*job).expect("there is room");
    }
    assert_eq!(owner.pop_own(jobs[1]), Own::Covered(2));
    assert_eq!(owner.head(), 4, "nothing has left the list");
    let mut left = Vec::new();
    owner.detach_from(2, |job, fate| left.push((job, fate)));
    assert_eq!(left, [(jobs[2], Fate::Untaken), (jobs[3], Fate::Untaken)]);
    assert_eq!(owner.pop_own(jobs[1]), Own::Mine);
    assert!(owner.publish());
    assert_eq!(list.steal(), Steal::Taken(jobs[0]));
    assert_eq!(owner.pop_own(jobs[0]), Own::Stolen);
    assert_eq!(owner.pop_own(jobs[0]), Own::Stolen, "what is not there was stolen");
    assert_eq!((owner.head(), owner.pop(0)), (0, Popped::Empty));
    free(jobs);
}

#[test]
fn a_scope_takes_its_own_entries_only() {
    let (list, jobs) = (list(), jobs(5));
    let owner = owner(&list);
    for job in &jobs {
        owner.push(*job).expect("there is room");
    }
    let wanted = |job: NonNull<u64>| job == jobs[2] || job == jobs[4];
    assert_eq!(owner.pop_if(wanted), Newest::Mine(jobs[4]));
    assert_eq!(owner.pop_if(wanted), Newest::Other);
    assert_eq!(owner.find(0, wanted), Some(2));
    assert_eq!(owner.find(3, wanted), None);
    assert_eq!(owner.touch(3), Fate::Untaken);
    assert_eq!(owner.pop_if(wanted), Newest::Mine(jobs[2]), "a hole is no entry");
    assert_eq!((owner.pop_if(wanted), owner.find(0, wanted)), (Newest::Other, None));
    assert!(owner.holds(1, jobs[1]) && !owner.holds(2, jobs[2]) && !owner.holds(0, jobs[1]));
    while owner.publish() {
        assert!(matches!(list.steal(), Steal::Taken(_)));
    }
    assert_eq!(owner.pop_if(|_| unreachable!("what was stolen is not looked into")), Newest::Empty);
    assert_eq!(owner.head(), 0);
    free(jobs);
}
