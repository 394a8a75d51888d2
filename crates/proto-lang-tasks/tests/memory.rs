//! A producer of tasks without end needs no more memory than for some of them, whether it waits for them or not.
//!
//! `PROTO_TASKS` says how many tasks it makes (10⁷ in the deep run).

mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use common::{from_env, runtime, sized, watched};
use proto_core::{Event, Hooks, Runtime};
use proto_lang_tasks::{Data, dataflow, over, scope};

/// Counts the bytes that are allocated at a time, and the most there were.
struct Counting;

static NOW: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

// SAFETY: all is left to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let now = NOW.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        MOST.fetch_max(now, Ordering::Relaxed);
        // SAFETY: duty of the caller.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        NOW.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: duty of the caller.
        unsafe { System.dealloc(place, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// What `f` allocates at a time, at the most, beyond what is there before.
fn most(f: impl FnOnce()) -> usize {
    let before = NOW.load(Ordering::Relaxed);
    MOST.store(before, Ordering::Relaxed);
    f();
    MOST.load(Ordering::Relaxed) - before
}

/// As [`watched`], and no other of these tests allocates meanwhile.
fn alone(name: &str, test: impl FnOnce()) {
    static ALONE: Mutex<()> = Mutex::new(());
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    watched(name, test);
}

const MIB: usize = 1 << 20;

#[test]
fn a_scope_needs_memory_for_some_of_its_tasks() {
    alone("tasks of a scope", || {
        let tasks = from_env("PROTO_TASKS", sized(1_000_000, 300));
        for controllers in [1, 2] {
            let runtime = runtime(controllers);
            let ran = AtomicUsize::new(0);
            let spawn = || {
                scope(|s| (0..tasks).for_each(|_| s.spawn(|| _ = ran.fetch_add(1, Ordering::Relaxed))));
            };
            let more = most(|| runtime.run(spawn).unwrap());
            assert_eq!(ran.into_inner(), tasks);
            // On several cores one that the system lets stand still keeps what it has taken.
            let bound = if controllers == 1 { MIB } else { 4 * MIB };
            assert!(more < bound, "{more} bytes at a time, for tasks that end at once");
        }
    });
}

#[test]
fn a_dataflow_needs_memory_for_as_many_tasks_as_its_limit() {
    alone("tasks of a dataflow", || {
        let tasks = from_env("PROTO_TASKS", sized(200_000, 300));
        for controllers in [1, 2] {
            let runtime = runtime(controllers);
            let chains = 64;
            let mut sum = 0;
            let build = || {
                let data: Vec<Data<usize>> = (0..chains).map(|_| Data::new(0)).collect();
                dataflow(|df| {
                    for task in 0..tasks {
                        df.task().inout(&data[task % chains]).run(|x| *x += 1);
                    }
                });
                sum = data.into_iter().map(Data::into_inner).sum();
            };
            let more = most(|| runtime.run(build).unwrap());
            assert_eq!(sum, tasks);
            assert!(more < 4 * MIB, "{more} bytes at a time, for 4096 tasks in flight");
        }
    });
}

/// Who watches has loops cut in 64 pieces.
struct Watching;

impl Hooks for Watching {
    fn event(&self, _: &Event) {}
}

#[test]
fn results_of_a_loop_are_written_where_they_are_to_be() {
    type Large = [usize; 64];
    alone("map", || {
        let runtime = Runtime::builder().controllers(2).pin(false).hooks(Arc::new(Watching)).build().unwrap();
        let steps = sized(20_000, 640);
        let map = || {
            let results: Vec<Large> = over(0..steps).map(|step| [step; 64]);
            assert!(results.iter().enumerate().all(|(step, result)| *result == [step; 64]));
        };
        runtime.run(map).unwrap();
        let more = most(|| runtime.run(map).unwrap());
        let needed = steps * size_of::<Large>();
        assert!((needed..needed + MIB / 4).contains(&more), "{more} bytes at a time, for results of {needed}");
    });
}
