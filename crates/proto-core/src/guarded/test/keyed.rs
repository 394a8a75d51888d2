//! Cells that open with one key.

use std::sync::Mutex;

use crate::guarded::{Key, Keyed};

#[test]
fn a_key_opens_what_it_keeps_and_nothing_else() {
    let (cell, mut one, mut two) = (Keyed::new(1), Key::new(), Key::new());
    *cell.open(&mut one) += 1;
    assert!(!cell.is_kept(&mut two));
    cell.release(&mut two);
    assert!(!cell.is_kept(&mut two), "a key releases only what it keeps");
    cell.release(&mut one);
    cell.release(&mut one);
    *cell.open(&mut two) += 1;
    assert!(!cell.is_kept(&mut one));
    assert_eq!(cell.into_inner(), 3);
}

#[test]
fn an_unborn_key_releases_nothing() {
    let (cell, mut unborn) = (Keyed::new(1), Key::new());
    cell.release(&mut unborn);
    *cell.open(&mut unborn) = 2;
    cell.release(&mut Key::new());
    assert_eq!(*cell.open(&mut unborn), 2);
}

#[test]
fn keys_that_pass_a_cell_on_see_each_others_writes() {
    const TURNS: u64 = if cfg!(miri) { 20 } else { 20_000 };
    let cell = Keyed::new(Vec::from([0_u64]));
    std::thread::scope(|s| {
        for _ in 0..2 {
            s.spawn(|| {
                let mut key = Key::new();
                let mut done = 0;
                while done < TURNS {
                    if cell.is_kept(&mut key) {
                        cell.open(&mut key)[0] += 1;
                        cell.release(&mut key);
                        done += 1;
                    } else {
                        std::thread::yield_now();
                    }
                }
            });
        }
    });
    assert_eq!(cell.into_inner(), [2 * TURNS]);
}

#[test]
fn a_key_is_handed_from_thread_to_thread() {
    const TURNS: u64 = if cfg!(miri) { 20 } else { 2_000 };
    let (cells, key) = ([Keyed::new(0_u64), Keyed::new(0)], Mutex::new(Key::new()));
    std::thread::scope(|s| {
        for _ in 0..3 {
            s.spawn(|| {
                for _ in 0..TURNS {
                    let mut key = key.lock().unwrap();
                    for cell in &cells {
                        *cell.open(&mut key) += 1;
                    }
                }
            });
        }
    });
    assert_eq!(cells.map(Keyed::into_inner), [3 * TURNS; 2]);
}
