//! A lock of ours held over a nested parallel wait, while the waiter's core gets work that wants the same lock: the program that deadlocks
//! pools which nest jobs on the waiting stack (rayon-rs/rayon#592). Here nothing runs on top of a waiting stack, so it finishes.

mod common;

use std::sync::atomic::{AtomicUsize, Ordering};

use common::lang::{Gate, Lock};
use common::programs::locks_over_forks;
use common::{runtime, sized, watched};
use proto_core::{join, scope, yield_now};

#[test]
fn holder_waits_in_join_while_its_core_gets_work_that_wants_the_lock() {
    watched("lock over join", || {
        for controllers in [1, 2, 3] {
            locks_over_forks(&runtime(controllers), sized(200, 4));
        }
    });
}

#[test]
fn latent_task_that_wants_the_joiners_lock_waits_as_a_vp() {
    watched("latent task wants the lock", || {
        for controllers in [1, 2] {
            let runtime = runtime(controllers);
            for _ in 0..sized(50, 2) {
                let lock = Lock::new();
                let entered = AtomicUsize::new(0);
                runtime
                    .run(|| {
                        join(
                            || {
                                let held = lock.lock();
                                // Another core, or this one, may run `b` meanwhile: it waits for the lock on its own stack.
                                for _ in 0..10 {
                                    yield_now();
                                }
                                drop(held);
                            },
                            || {
                                let _held = lock.lock();
                                entered.fetch_add(1, Ordering::Relaxed);
                            },
                        )
                    })
                    .unwrap();
                assert_eq!(entered.into_inner(), 1, "the second closure did not get the lock");
            }
        }
    });
}

/// A tree of joins in which each leaf takes the one lock, and each inner node holds its level's lock over its join.
fn tree(depth: usize, one: &Lock, levels: &[Lock], leaves: &AtomicUsize) {
    if depth == 0 {
        let _held = one.lock();
        yield_now();
        leaves.fetch_add(1, Ordering::Relaxed);
        return;
    }
    // Locks are taken from the root down, so the program itself has no deadlock.
    let _held = levels[depth].lock();
    join(|| tree(depth - 1, one, levels, leaves), || tree(depth - 1, one, levels, leaves));
}

#[test]
fn a_tree_of_joins_whose_leaves_share_a_lock_finishes() {
    watched("tree of joins", || {
        for controllers in [1, 2, 4] {
            let depth = sized(9, 3);
            let one = Lock::new();
            let levels: Vec<Lock> = (0..=depth).map(|_| Lock::new()).collect();
            let leaves = AtomicUsize::new(0);
            runtime(controllers).run(|| tree(depth, &one, &levels, &leaves)).unwrap();
            assert_eq!(leaves.into_inner(), 1 << depth);
        }
    });
}

#[test]
fn a_lock_is_held_over_the_end_of_a_scope_whose_vps_wait_for_others() {
    watched("lock over scope", || {
        for controllers in [1, 2] {
            let (lock, locked, entered) = (Lock::new(), Gate::new(), AtomicUsize::new(0));
            runtime(controllers)
                .run(|| {
                    scope(|outer| {
                        // Wants the lock while its holder stands at the end of a scope, or goes there.
                        outer.spawn(|| {
                            locked.pass();
                            drop(lock.lock());
                            entered.fetch_add(1, Ordering::Relaxed);
                        });
                        outer.spawn(|| {
                            let _held = lock.lock();
                            locked.open();
                            scope(|inner| {
                                // Until the other one waits for the lock, so the scope does not end before.
                                inner.spawn(|| {
                                    while lock.waiting() == 0 {
                                        yield_now();
                                    }
                                });
                                inner.spawn(yield_now);
                            });
                            assert_eq!(lock.waiting(), 1, "who wants the lock of a waiting scope waits");
                        });
                    });
                })
                .unwrap();
            assert_eq!(entered.into_inner(), 1);
        }
    });
}
