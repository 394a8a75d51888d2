//! The barrier without the kernel's help. A program of its own, because the decision is made once per program.

use proto_arch::barrier;
use std::sync::Barrier;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;

#[test]
fn one_of_two_sides_sees_the_other_with_full_fences() {
    assert!(barrier::force_symmetric(), "nobody has decided before");
    assert!(!barrier::is_asymmetric());
    let rounds = if cfg!(miri) { 10 } else { 3_000 };
    let (x, y, turn) = (AtomicU32::new(0), AtomicU32::new(0), Barrier::new(2));
    let side = |mine: &AtomicU32, other: &AtomicU32, fence: fn()| -> Vec<bool> {
        let round = |round| {
            turn.wait();
            mine.store(round, Relaxed);
            fence();
            let seen = other.load(Relaxed) == round;
            turn.wait();
            seen
        };
        (1..=rounds).map(round).collect()
    };
    let (light, heavy) = thread::scope(|scope| {
        let light = scope.spawn(|| side(&x, &y, barrier::light));
        let heavy = side(&y, &x, barrier::heavy);
        (light.join().expect("the frequent side ends"), heavy)
    });
    for (round, (light, heavy)) in light.into_iter().zip(heavy).enumerate() {
        assert!(light || heavy, "round {round}: neither side saw the other");
    }
}
