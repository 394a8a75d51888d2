//! The count of a scope's tasks: the owner goes on when the last one has ended, told by exactly one, and sees what all of them did.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use loom::cell::UnsafeCell;
use loom::thread;

use crate::kernel::tally::Tally;

/// The owner's station, and one of its crew.
struct Scope {
    owners: Tally,
    crews: Tally,
    /// What each of two tasks did.
    did: [UnsafeCell<u32>; 2],
    told: AtomicU32,
}

// SAFETY: the cells are handed over by the tallies; loom checks it.
unsafe impl Sync for Scope {}
// SAFETY: as above.
unsafe impl Send for Scope {}

impl Scope {
    fn new() -> Arc<Self> {
        Arc::new(Scope {
            owners: Tally::new(),
            crews: Tally::new(),
            did: [UnsafeCell::new(0), UnsafeCell::new(0)],
            told: AtomicU32::new(0),
        })
    }

    fn run(&self, task: usize) {
        // SAFETY: loom checks that nobody else is at it.
        self.did[task].with_mut(|did| unsafe { *did += 1 });
    }

    fn end_of_owners(&self) {
        if self.owners.end() {
            self.all_ran();
            self.told.fetch_add(1, Relaxed);
        }
    }

    fn end_of_crews(&self) {
        if self.crews.end() {
            self.end_of_owners();
        }
    }

    fn all_ran(&self) {
        for did in &self.did {
            // SAFETY: loom checks that all that was written happened before.
            assert_eq!(did.with(|did| unsafe { *did }), 1, "a task is missing");
        }
    }

    /// The owner waits for `out` tasks that others run; the threads are those.
    fn close(&self, out: u64, threads: [thread::JoinHandle<()>; 2]) {
        let all = self.owners.close(out);
        if all {
            self.all_ran();
        }
        for thread in threads {
            thread.join().unwrap();
        }
        self.all_ran();
        assert_eq!(self.told.load(Relaxed), u32::from(!all), "the owner is told exactly if it waits");
    }
}

fn on_a_thread(scope: &Arc<Scope>, does: fn(&Scope)) -> thread::JoinHandle<()> {
    let scope = Arc::clone(scope);
    thread::spawn(move || does(&scope))
}

#[test]
fn an_owner_and_two_tasks_that_end_elsewhere() {
    loom::model(|| {
        let scope = Scope::new();
        let threads = [0, 1].map(|task| {
            let scope = Arc::clone(&scope);
            thread::spawn(move || {
                scope.run(task);
                scope.end_of_owners();
            })
        });
        scope.close(2, threads);
    });
}

#[test]
fn a_task_of_the_crew_ends_before_or_after_the_shift_that_spawned_it() {
    loom::model(|| {
        let scope = Scope::new();
        // One task was stolen; it spawned the other, which was stolen in turn. The first one's own count is the lease of its shift.
        let spawner = on_a_thread(&scope, |scope| {
            scope.run(0);
            if scope.crews.close(1) {
                scope.end_of_owners();
            }
        });
        let spawned = on_a_thread(&scope, |scope| {
            scope.run(1);
            scope.end_of_crews();
        });
        scope.close(1, [spawner, spawned]);
    });
}

#[test]
fn a_bundle_is_counted_beside_its_tasks() {
    loom::model(|| {
        let scope = Scope::new();
        // The owner has made two tasks and left them in a bundle; one of them is stolen from the bundle's VP.
        scope.owners.more();
        let bundle = on_a_thread(&scope, |scope| {
            scope.run(0);
            scope.end_of_owners();
            // The lease.
            scope.end_of_owners();
        });
        let stolen = on_a_thread(&scope, |scope| {
            scope.run(1);
            scope.end_of_owners();
        });
        scope.close(2, [bundle, stolen]);
    });
}

#[test]
fn a_tally_is_used_again_after_its_last_end() {
    loom::model(|| {
        let scope = Scope::new();
        let other = on_a_thread(&scope, |scope| {
            scope.run(0);
            scope.end_of_owners_quietly();
        });
        let all = scope.owners.close(1);
        other.join().unwrap();
        assert_eq!(scope.told.load(Relaxed), u32::from(!all));
        scope.owners.reopen();
        let other = on_a_thread(&scope, |scope| {
            scope.run(1);
            scope.end_of_owners_quietly();
        });
        let again = scope.owners.close(1);
        other.join().unwrap();
        assert_eq!(scope.told.load(Relaxed), u32::from(!all) + u32::from(!again));
        scope.all_ran();
    });
}

impl Scope {
    fn end_of_owners_quietly(&self) {
        if self.owners.end() {
            self.told.fetch_add(1, Relaxed);
        }
    }
}
