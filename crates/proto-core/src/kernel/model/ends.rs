//! The count of ends: it is found once that all have ended, and never before.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use loom::thread;

use crate::kernel::ends::{Ends, Of};
use crate::sync::{Asymmetric, Barrier, Ordering, fence};

/// The machine's barrier as it is between two light halves: nothing.
struct Lopsided;
impl Barrier for Lopsided {
    fn light() {}
    fn heavy() {
        fence(Ordering::SeqCst);
    }
}

/// A timeline ends on `core`. Whether that was found to be the end of all.
fn end<B: Barrier>(ends: &Ends<B>, core: usize) -> bool {
    ends.ended(Some(core), Of::Waited) && ends.all_over()
}

/// The seed ends on core 0, its child on core 1.
fn seed_and_child<B: Barrier + 'static>() {
    loom::model(|| {
        let ends = Arc::new(Ends::<B>::new(2));
        ends.born(None, Of::Waited);
        ends.born(Some(0), Of::Waited);
        let child = thread::spawn({
            let ends = Arc::clone(&ends);
            move || end(&ends, 1)
        });
        ends.close();
        let seed = end(&ends, 0);
        assert!(seed != child.join().unwrap(), "one of them finds that all have ended");
    });
}

#[test]
fn the_end_is_found_by_the_seed_or_by_the_last_child() {
    seed_and_child::<Asymmetric>();
}

#[test]
#[should_panic(expected = "one of them finds")]
fn without_the_childs_half_of_the_barrier_nobody_finds_the_end() {
    seed_and_child::<Lopsided>();
}

/// The seed has returned. Its two children end at the same time.
#[test]
fn of_two_last_ends_one_finds_the_end() {
    loom::model(|| {
        let ends = Arc::new(Ends::<Lopsided>::new(2));
        ends.born(None, Of::Waited);
        ends.born(Some(0), Of::Waited);
        ends.born(Some(0), Of::Waited);
        ends.close();
        assert!(!end(&ends, 0), "the children live");
        let other = thread::spawn({
            let ends = Arc::clone(&ends);
            move || end(&ends, 1)
        });
        let one = end(&ends, 0);
        assert!(one != other.join().unwrap(), "one of them finds that all have ended");
    });
}

/// The seed has returned. A child on core 1 has a child of its own, which ends on core 0 while its parent ends; a third looks.
#[test]
fn the_end_is_not_found_while_somebody_lives() {
    loom::model(|| {
        let ends = Arc::new(Ends::<Asymmetric>::new(2));
        let lives = Arc::new(AtomicU32::new(2));
        ends.born(None, Of::Waited);
        ends.born(Some(0), Of::Waited);
        ends.close();
        assert!(!end(&ends, 0), "the child lives");
        let seen = |over: bool, lives: &AtomicU32| {
            assert!(!over || lives.load(Relaxed) == 0, "the end is found while somebody lives");
            u32::from(over)
        };
        let child = thread::spawn({
            let (ends, lives) = (Arc::clone(&ends), Arc::clone(&lives));
            move || {
                ends.born(Some(1), Of::Waited);
                let grandchild = thread::spawn({
                    let (ends, lives) = (Arc::clone(&ends), Arc::clone(&lives));
                    move || {
                        lives.fetch_sub(1, Relaxed);
                        seen(end(&ends, 0), &lives)
                    }
                });
                lives.fetch_sub(1, Relaxed);
                seen(end(&ends, 1), &lives) + grandchild.join().unwrap()
            }
        });
        let looked = seen(ends.all_over(), &lives);
        assert_eq!(looked + child.join().unwrap(), 1, "the end is found once");
    });
}

/// A daemon and the last other timeline end at the same time: one of them, or both, finds that nobody is left.
#[test]
fn the_last_daemon_is_not_missed() {
    loom::model(|| {
        let ends = Arc::new(Ends::<Asymmetric>::new(2));
        ends.born(None, Of::Waited);
        ends.born(Some(0), Of::Daemons);
        let daemon = thread::spawn({
            let ends = Arc::clone(&ends);
            move || ends.ended(Some(1), Of::Daemons) && ends.all_ended(Of::Daemons)
        });
        ends.close();
        assert!(end(&ends, 0), "daemons are not waited for");
        let left = !ends.lingers();
        assert!(daemon.join().unwrap() || left, "nobody finds that all are gone");
    });
}

/// A daemon has another one on the other core, which ends before it: the daemons are not gone.
#[test]
fn a_daemon_that_lives_is_not_overlooked() {
    loom::model(|| {
        let ends = Arc::new(Ends::<Asymmetric>::new(2));
        ends.born(Some(0), Of::Daemons);
        let daemon = thread::spawn({
            let ends = Arc::clone(&ends);
            move || {
                ends.born(Some(1), Of::Daemons);
                let other = thread::spawn({
                    let ends = Arc::clone(&ends);
                    move || ends.ended(Some(0), Of::Daemons)
                });
                let _over = other.join().unwrap();
            }
        });
        assert!(ends.lingers(), "the first one lives");
        daemon.join().unwrap();
    });
}
