//! A timeline that spawns tasks without end, and does not wait for them, needs no more memory than for some of them.

mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

use common::{runtime, sized, watched};
use proto_core::task_scope;

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

#[test]
fn a_spawner_without_end_goes_round_in_a_few_chunks() {
    watched("flat memory", || {
        let ran = AtomicUsize::new(0);
        // One controller: on several, one that the system lets stand still keeps what it has taken.
        let runtime = runtime(1);
        let spawn = |many: usize| {
            task_scope(|s| {
                for _ in 0..many {
                    s.spawn(|| {
                        ran.fetch_add(1, Ordering::Relaxed);
                    });
                }
            });
        };
        runtime.run(|| spawn(sized(20_000, 300))).unwrap();
        let before = NOW.load(Ordering::Relaxed);
        MOST.store(before, Ordering::Relaxed);
        runtime.run(|| spawn(sized(1_000_000, 300))).unwrap();
        let more = MOST.load(Ordering::Relaxed) - before;
        assert!(more < 1 << 20, "{more} bytes at a time, for tasks that end at once");
        assert_eq!(ran.into_inner(), sized(1_020_000, 600));
    });
}
