//! Environments of one timeline, and values of one process: each timeline and process has its own, whatever its memory was used for before.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use common::{runtime, sized, watched};
use proto_core::{Caller, Hidden, Kind, RequestHandler, VpBuilder, VpRef, of_process, scope, yield_now};

#[derive(Default)]
struct Count(usize);
struct Add;

impl RequestHandler<Add> for Count {
    type Reply = usize;
    const KIND: Kind = Kind::Release;
    fn handle(&mut self, _: Add, caller: Caller<'_, usize>, hidden: &mut Hidden<'_>) {
        self.0 += 1;
        hidden.answer(caller, self.0);
    }
}

/// Adds one to the count of `vp`, if that lives.
fn add(vp: VpRef) -> Option<usize> {
    vp.environment::<Count>().map(|count| count.release_asking(Add).unwrap())
}

#[test]
fn a_timeline_has_one_environment_of_a_type_and_takes_it_along() {
    watched("one environment", || {
        runtime(2)
            .run(|| {
                let vp = VpBuilder::new().spawn(|| (add(VpRef::current()), VpRef::current())).unwrap();
                let (first, vp) = vp.join().unwrap();
                assert_eq!(first, Some(1));
                while !vp.has_ended() {
                    yield_now();
                }
                assert_eq!(add(vp), None, "it has ended");
                let me = VpRef::current();
                scope(|s| (0..10).for_each(|_| drop(s.spawn(move || add(me)))));
                assert_eq!(add(me), Some(11));
            })
            .unwrap();
        let me = VpRef::current();
        assert_eq!((add(me), std::thread::spawn(|| add(VpRef::current())).join().unwrap()), (Some(1), Some(1)));
    });
}

#[test]
fn an_environment_made_while_its_timeline_ends_is_not_the_next_ones() {
    watched("made at the end", || {
        runtime(2)
            .run(|| {
                for _ in 0..sized(5000, 20) {
                    let vp = VpBuilder::new().spawn(|| add(VpRef::current())).unwrap();
                    // Its count is looked up, and maybe made, while it runs and ends.
                    while add(vp.vp()).is_some() {
                        yield_now();
                    }
                    assert!(vp.join().unwrap() >= Some(1));
                    let fresh = VpBuilder::new().spawn(|| add(VpRef::current())).unwrap();
                    assert_eq!(fresh.join().unwrap(), Some(1), "it counted on from another's");
                }
            })
            .unwrap();
    });
}

#[test]
fn a_process_has_its_own_values_and_they_go_with_it() {
    static ALIVE: AtomicUsize = AtomicUsize::new(0);
    struct Alive(AtomicUsize);
    impl Default for Alive {
        fn default() -> Self {
            ALIVE.fetch_add(1, Ordering::Relaxed);
            Alive(AtomicUsize::new(0))
        }
    }
    impl Drop for Alive {
        fn drop(&mut self) {
            ALIVE.fetch_sub(1, Ordering::Relaxed);
        }
    }
    watched("values of a process", || {
        let runtime = runtime(2);
        for _ in 0..3 {
            let times = runtime
                .run(|| {
                    scope(|s| {
                        (0..10).for_each(|_| drop(s.spawn(|| of_process::<Alive>().0.fetch_add(1, Ordering::Relaxed))))
                    });
                    of_process::<Alive>().0.load(Ordering::Relaxed)
                })
                .unwrap();
            assert_eq!(times, 10);
        }
        drop(runtime);
        assert_eq!(ALIVE.load(Ordering::Relaxed), 0, "a process left its value");
        // OS threads, and the VPs that they make by themselves, are at home in one process.
        let of_mine = of_process::<Alive>();
        let of_vps = VpBuilder::new().spawn(|| Arc::as_ptr(&of_process::<Alive>()).addr()).unwrap().join().unwrap();
        assert_eq!(Arc::as_ptr(&of_mine).addr(), of_vps);
    });
}
