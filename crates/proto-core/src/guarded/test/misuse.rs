//! Exclusive grants: swapped, doubled, lost, kept in statics, across moves, panics and threads.

use std::cell::Cell;
use std::mem;
use std::rc::Rc;
use std::sync::Mutex;
use std::sync::atomic::AtomicUsize;
use std::thread;

use super::super::{Frozen, Grant, Guarded, Opened, OpenedShared, RangeGrant, SharedGrant, SharedRange};
use super::{meet, message};

#[test]
fn grant_opens_its_cell_again_and_again() {
    let cell = Guarded::new(0);
    let mut grant = Grant::new();
    for round in 0..10 {
        let mut opened = cell.open(grant);
        assert_eq!(*opened, round, "the last write must be seen");
        *opened += 1;
        grant = opened.close();
    }
    assert_eq!(cell.into_inner(), 10);
}

#[test]
fn swapped_grants_are_refused_and_harm_no_cell() {
    let (a, b) = (Guarded::new('a'), Guarded::new('b'));
    let (of_a, of_b) = (a.open(Grant::new()).close(), b.open(Grant::new()).close());
    assert!(message(|| drop(b.open(of_a))).contains("another cell"));
    assert_eq!(*b.open(of_b), 'b', "the cell that refused must still open with its own grant");
}

#[test]
fn married_grant_does_not_marry_a_second_cell() {
    let (a, b) = (Guarded::new('a'), Guarded::new('b'));
    let grant = a.open(Grant::new()).close();
    assert!(message(|| drop(b.open(grant))).contains("not been opened yet"));
    assert_eq!(*b.open(Grant::new()), 'b', "a refused grant must not have married the cell");
}

#[test]
fn second_unborn_grant_is_refused_while_open_and_after() {
    let cell = Guarded::new(1);
    let mut opened = cell.open(Grant::new());
    assert!(message(|| drop(cell.open(Grant::new()))).contains("belongs to grant"));
    *opened = 2;
    let grant = opened.close();
    assert!(message(|| drop(cell.open(Grant::new()))).contains("keep the one that `close` returned"));
    assert_eq!(*cell.open(grant), 2);
}

#[test]
fn refusal_is_reported_at_the_callers_line() {
    let location = std::sync::Arc::new(Mutex::new(None));
    let seen = location.clone();
    let cell = Guarded::new(0);
    let _open = cell.open(Grant::new());
    let hook = std::panic::take_hook();
    let this = thread::current().id();
    std::panic::set_hook(Box::new(move |info| {
        if thread::current().id() == this {
            *seen.lock().unwrap() = info.location().map(|at| (at.file().to_owned(), at.line()));
        } else {
            hook(info);
        }
    }));
    let line = line!() + 1;
    message(|| drop(cell.open(Grant::new())));
    drop(std::panic::take_hook());
    let blamed = location.lock().unwrap().take().expect("the hook ran");
    assert_eq!(blamed, (file!().to_owned(), line), "somebody else than the caller is blamed");
}

#[test]
fn grant_and_cell_work_from_statics() {
    static CELL: Guarded<Vec<u32>> = Guarded::new(Vec::new());
    static FREE: Mutex<Option<Grant>> = Mutex::new(Some(Grant::new()));
    thread::scope(|s| {
        for n in 0..4 {
            s.spawn(move || {
                let grant = loop {
                    match FREE.lock().unwrap().take() {
                        Some(grant) => break grant,
                        None => thread::yield_now(),
                    }
                };
                let mut opened = CELL.open(grant);
                opened.push(n);
                *FREE.lock().unwrap() = Some(opened.close());
            });
        }
    });
    let grant = FREE.lock().unwrap().take().expect("everybody gave it back");
    assert_eq!(CELL.open(grant).iter().sum::<u32>(), 6);
}

#[test]
fn moved_and_swapped_cells_keep_their_grant() {
    let mut a = Box::new(Guarded::new("a"));
    let mut b = Guarded::new("b");
    let of_a = a.open(Grant::new()).close();
    let of_b = b.open(Grant::new()).close();
    mem::swap(&mut *a, &mut b);
    assert_eq!(*b.open(of_a), "a");
    let moved = *a;
    assert_eq!(*moved.open(of_b), "b");
}

#[test]
fn grant_of_a_dropped_cell_opens_no_other_in_its_place() {
    let mut place = Some(Guarded::new(1));
    let old = place.as_ref().expect("just made").open(Grant::new()).close();
    place = Some(Guarded::new(2));
    let new = place.as_ref().expect("just made");
    assert!(message(|| drop(new.open(old))).contains("another cell"));
    assert_eq!(*new.open(Grant::new()), 2);
}

#[test]
fn dropped_and_leaked_guards_leave_the_cell_locked_but_reachable_by_its_owner() {
    for leak in [false, true] {
        let mut cell = Guarded::new(vec![1]);
        let opened = cell.open(Grant::new());
        if leak {
            _ = mem::ManuallyDrop::new(opened);
        } else {
            drop(opened);
        }
        message(|| drop(cell.open(Grant::new())));
        cell.get_mut().push(2);
        assert_eq!(cell.into_inner(), [1, 2]);
    }
}

#[test]
fn value_is_dropped_once_with_its_cell() {
    let counted = Rc::new(());
    let cell = Guarded::new(counted.clone());
    let grant = cell.open(Grant::new()).close();
    assert_eq!(Rc::strong_count(&counted), 2);
    drop(cell);
    assert_eq!(Rc::strong_count(&counted), 1);
    let _ = grant;

    let frozen_cell = Guarded::new(std::sync::Arc::new(()));
    let seen = frozen_cell.frozen(Grant::new().freeze()).clone();
    drop(frozen_cell);
    assert_eq!(std::sync::Arc::strong_count(&seen), 1, "a frozen cell still drops its value");
}

#[test]
fn map_reaches_a_part_and_close_returns_the_whole() {
    let cell = Guarded::new((1, [2, 3]));
    let mut part = cell.open(Grant::new()).map(|pair| &mut pair.1[..]).map(|slice| &mut slice[1]);
    *part = 4;
    assert_eq!(*cell.open(part.close()), (1, [2, 4]));
}

#[test]
fn filter_map_returns_the_guard_when_there_is_no_part() {
    let cell = Guarded::new(vec![1]);
    let opened = cell.open(Grant::new());
    let mut opened = opened.filter_map(|v| v.get_mut(9)).expect_err("there is no tenth");
    opened.push(2);
    let second = opened.filter_map(|v| v.get_mut(1)).expect("there is a second now");
    assert_eq!(*second, 2);
}

#[test]
fn panic_in_map_loses_the_grant_but_nothing_else() {
    let mut cell = Guarded::new(1);
    let opened = cell.open(Grant::new());
    assert_eq!(
        message(|| drop(opened.map::<i32>(|n| {
            *n = 2;
            panic!("user")
        }))),
        "user"
    );
    message(|| drop(cell.open(Grant::new())));
    assert_eq!(*cell.get_mut(), 2);
}

#[test]
fn panic_in_map_from_leaves_the_guard_to_its_owner() {
    let cell = Guarded::new(1);
    let mut slot = Some(cell.open(Grant::new()));
    message(|| assert!(Opened::map_from::<i32>(&mut slot, |_| panic!("user")).is_none()));
    assert!(Opened::map_from::<i32>(&mut slot, |_| None).is_none());
    let grant = slot.take().expect("it stays in its slot").close();
    assert_eq!(*cell.open(grant), 1);
    assert!(Opened::map_from(&mut slot, |n| Some(n)).is_none(), "nothing comes out of an empty slot");
}

#[test]
fn part_may_live_outside_of_the_value() {
    let mut outside = 5;
    let cell = Guarded::new(&mut outside);
    let mut part = cell.open(Grant::new()).map(|reference| &mut **reference);
    *part += 1;
    let grant = part.close();
    let leaked = cell.open(grant).map(|_| Box::leak(Box::new([0_u8; 0])));
    let grant = leaked.close();
    assert_eq!(**cell.open(grant), 6);
}

#[test]
fn zero_sized_values_have_grants_of_their_own() {
    let (a, b) = (Guarded::new(()), Guarded::new(()));
    let of_a = a.open(Grant::new()).close();
    message(|| drop(b.open(of_a)));
    let cell: &Guarded<[()]> = &Guarded::new([(); 3]);
    assert_eq!(cell.open(Grant::new()).len(), 3);
}

#[test]
fn unsized_views_are_the_same_cell() {
    let array = Guarded::new([1_u8, 2, 3, 4]);
    let slice: &Guarded<[u8]> = &array;
    let mut opened = slice.open(Grant::new());
    opened[1..].fill(9);
    let grant = opened.close();
    assert_eq!(*array.open(grant), [1, 9, 9, 9]);
    message(|| drop(slice.open(Grant::new())));

    let text: &Guarded<dyn std::fmt::Display> = &Guarded::new(String::from("dyn"));
    assert_eq!(text.open(Grant::new()).to_string(), "dyn");
}

#[test]
fn of_two_unborn_grants_at_once_exactly_one_wins() {
    for _ in 0..if cfg!(miri) { 8 } else { 500 } {
        let cell = Guarded::new(Box::new(0));
        let at = AtomicUsize::new(0);
        let wins: usize = thread::scope(|s| {
            let open = || {
                meet(&at, 2);
                let mut won = 0;
                let opened = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| cell.open(Grant::new())));
                if let Ok(mut opened) = opened {
                    **opened += 1;
                    won += 1;
                }
                won
            };
            let other = s.spawn(open);
            open() + other.join().expect("refusals are caught")
        });
        assert_eq!(wins, 1, "a cell has one spouse");
        assert_eq!(*cell.into_inner(), 1);
    }
}

/// The function's argument is closed and used elsewhere while the function still runs: no `&mut` may be in the guard.
#[test]
fn token_may_be_used_while_the_closing_function_still_runs() {
    fn unlock(guard: Opened<'_, u64>, cell: &Guarded<u64>) -> Grant {
        let grant = guard.close();
        thread::scope(|s| {
            let write = s.spawn(|| {
                let mut opened = cell.open(grant);
                *opened += 1;
                opened.close()
            });
            write.join().expect("it only adds")
        })
    }
    fn unlock_shared(guard: OpenedShared<'_, u64>, mut shares: super::super::Shares, cell: &Guarded<u64>) {
        shares.take_back(guard.close());
        *cell.open(shares.reclaim().expect("it came back")) += 1;
    }
    let cell = Guarded::new(0);
    let grant = unlock(cell.open(Grant::new()), &cell);
    let mut shares = grant.share();
    let shared = cell.open_shared(shares.lend());
    unlock_shared(shared, shares, &cell);
    assert_eq!(cell.into_inner(), 2);
}

#[test]
fn guard_moves_to_another_thread_and_its_grant_comes_back() {
    let cell = Guarded::new(Cell::new(1));
    let opened = cell.open(Grant::new());
    let grant = thread::scope(|s| {
        let other = s.spawn(move || {
            opened.set(2);
            opened.close()
        });
        other.join().expect("it only sets")
    });
    assert_eq!(cell.open(grant).get(), 2);
}

#[test]
fn auto_traits_are_those_of_references() {
    /// `is_send::<T>()` prefers the inherent constant where its bound holds.
    macro_rules! is {
        ($type:ty: $bound:path) => {{
            #[allow(dead_code, reason = "used only where the bound does not hold")]
            trait No {
                const IS: bool = false;
            }
            impl<T: ?Sized> No for T {}
            struct Ask<T: ?Sized>(std::marker::PhantomData<T>);
            #[allow(dead_code, reason = "used only where the bound holds")]
            impl<T: ?Sized + $bound> Ask<T> {
                const IS: bool = true;
            }
            <Ask<$type>>::IS
        }};
    }
    type Neither = Rc<u32>;
    type SendOnly = Cell<u32>;
    type SyncOnly = std::sync::MutexGuard<'static, u32>;
    type Both = u32;

    assert!(is!(Guarded<SendOnly>: Sync) && is!(Guarded<SendOnly>: Send));
    assert!(!is!(Guarded<SyncOnly>: Sync) && !is!(Guarded<SyncOnly>: Send));
    assert!(!is!(Guarded<Neither>: Sync) && !is!(Guarded<Neither>: Send));
    assert!(is!(Opened<'static, SendOnly>: Send) && !is!(Opened<'static, SendOnly>: Sync));
    assert!(!is!(Opened<'static, SyncOnly>: Send) && is!(Opened<'static, SyncOnly>: Sync));
    assert!(!is!(OpenedShared<'static, SendOnly>: Send) && !is!(OpenedShared<'static, SendOnly>: Sync));
    assert!(is!(OpenedShared<'static, Both>: Send) && is!(OpenedShared<'static, Both>: Sync));
    assert!(is!(Grant: Send) && is!(SharedGrant: Send) && is!(RangeGrant: Send) && is!(SharedRange: Send));
    assert!(!is!(Grant: Clone) && !is!(SharedGrant: Clone) && !is!(RangeGrant: Clone) && !is!(SharedRange: Clone));
    assert!(!is!(super::super::Shares: Clone) && !is!(super::super::RangeShares: Clone) && is!(Frozen: Copy));
}

#[test]
fn debug_says_who_belongs_to_whom_and_not_the_value() {
    let cell = Guarded::new("secret");
    assert_eq!(format!("{cell:?} {:?}", Grant::new()), "Guarded { grant: single, .. } Grant { number: unborn }");
    let opened = cell.open(Grant::new());
    assert_eq!(format!("{opened:?}"), "Opened(\"secret\")");
    let grant = opened.close();
    let number = format!("{grant:?}").replace("Grant { number: ", "").replace(" }", "");
    assert_eq!(format!("{cell:?}"), format!("Guarded {{ grant: {number}, .. }}"));
}
