//! The asymmetric barrier: one side of a store-then-load protocol pays nothing, the other side pays for both.
//!
//! # The problem
//!
//! A frequent side *F* and a rare side *R* each write one variable and then read the other's, and at least one of the
//! two must see the other's write (Dekker's pattern: "I forked a task" against "I am going to sleep"). Both need a full
//! fence between their store and their load, and the fence costs *F* several nanoseconds each time.
//!
//! ```text
//!        F (often)                R (rarely)
//!        x = 1                    y = 1
//!        light()                  heavy()
//!        read y                   read x
//! ```
//!
//! # Why it is right
//!
//! `heavy` is `membarrier(PRIVATE_EXPEDITED)`: before it returns, every running thread of the process has executed a
//! full memory barrier at some point *p* between the call and the return (a thread that is not running passed one when
//! it was switched out). `light` is a compiler fence, so *F*'s store precedes its load in program order. Two cases:
//!
//! - *p* comes after *F*'s store: the barrier makes the store visible before `heavy` returns, so *R* reads `x == 1`.
//! - *p* comes before *F*'s store, hence before *F*'s load: *R*'s store, made before `heavy`, is visible to all that
//!   follows *p*, so *F* reads `y == 1`.
//!
//! Either way one of them sees the other. Where the kernel has no such call (or it is switched off), both sides are
//! `fence(SeqCst)` and the argument is the usual one. A model checker sees that second form; the first is no stronger
//! than it, because `heavy` acts as a fence inside each *F* that matters.
//!
//! # Which form, decided once
//!
//! [`heavy`] decides at its first call, before it does anything else; [`light`] fences fully until that decision is
//! "asymmetric". So there is never a compiler fence on one side and an ordinary fence on the other: a `light` that
//! omits its fence has seen the decision, and every `heavy` runs after the decision.
//! The environment variable `PROTO_MEMBARRIER=0` or [`force_symmetric`] decide against it.

use std::sync::OnceLock;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, compiler_fence, fence};

/// Whether `light` may leave its fence to `heavy`. Written once, after the decision in `DECISION`.
static LIGHT_IS_FREE: AtomicBool = AtomicBool::new(false);

/// The decision: `true` if the process is registered for `membarrier` and uses it.
static DECISION: OnceLock<bool> = OnceLock::new();

/// The frequent side's fence: between its store and its load.
///
/// A compiler fence behind one predictable branch where [`is_asymmetric`], else a full fence.
///
/// # Examples
///
/// ```
/// use proto_arch::barrier;
/// use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
///
/// static WORK: AtomicBool = AtomicBool::new(false);
/// static ASLEEP: AtomicBool = AtomicBool::new(false);
///
/// /// Often called.
/// fn post() -> bool {
///     WORK.store(true, Relaxed);
///     barrier::light();
///     ASLEEP.load(Relaxed) // true: somebody has to be woken
/// }
///
/// /// Rarely called.
/// fn may_sleep() -> bool {
///     ASLEEP.store(true, Relaxed);
///     barrier::heavy();
///     !WORK.load(Relaxed)
/// }
/// # assert!(may_sleep());
/// # assert!(post());
/// ```
#[inline(always)]
pub fn light() {
    // Relaxed: whoever reads a stale `false` executes a full fence, which is right against both forms of `heavy`; and
    // `true` is only ever written after the decision that all calls of `heavy` follow.
    if LIGHT_IS_FREE.load(Relaxed) {
        compiler_fence(SeqCst);
    } else {
        fence(SeqCst);
    }
}

/// The rare side's fence: between its store and its load.
///
/// Costs a fraction of a microsecond if the other threads of the process sleep, about ten microseconds if they run on
/// other processors (each is interrupted).
///
/// # Panics
///
/// If the kernel refuses the call after it had accepted it, as with a filter of system calls that was installed meanwhile: going on would lose
/// wake-ups.
///
/// # Examples
///
/// ```
/// use proto_arch::barrier;
/// use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
///
/// static CLOSED: AtomicBool = AtomicBool::new(false);
/// static BUSY: AtomicBool = AtomicBool::new(false);
///
/// /// Once: nobody begins anything after it has returned `true`.
/// fn close() -> bool {
///     CLOSED.store(true, Relaxed);
///     barrier::heavy();
///     !BUSY.load(Relaxed)
/// }
/// fn begin() -> bool {
///     BUSY.store(true, Relaxed);
///     barrier::light();
///     !CLOSED.load(Relaxed)
/// }
/// assert!(begin());
/// assert!(!close());
/// ```
pub fn heavy() {
    if is_asymmetric() {
        membarrier::everyone();
    } else {
        fence(SeqCst);
    }
}

/// Whether [`light`] is free and [`heavy`] a system call. The first call of this or of [`heavy`] decides, for good.
///
/// # Examples
///
/// ```
/// use proto_arch::barrier;
///
/// let heavy = if barrier::is_asymmetric() { "a system call" } else { "a fence" };
/// println!("the rare side pays {heavy}");
/// # assert_eq!(barrier::is_asymmetric(), barrier::is_asymmetric());
/// ```
pub fn is_asymmetric() -> bool {
    *DECISION.get_or_init(|| {
        let switched_off = std::env::var_os("PROTO_MEMBARRIER").is_some_and(|value| value == "0");
        let decision = !switched_off && membarrier::register();
        // Relaxed: see `light`.
        LIGHT_IS_FREE.store(decision, Relaxed);
        decision
    })
}

/// Makes both sides fence fully, for tests and comparisons. Returns whether that is how it is now: `false` if the
/// decision had fallen otherwise before.
///
/// # Examples
///
/// ```
/// use proto_arch::barrier;
///
/// // Before anything has fenced: how does the program do without?
/// if barrier::force_symmetric() {
///     assert!(!barrier::is_asymmetric());
/// }
/// ```
pub fn force_symmetric() -> bool {
    !*DECISION.get_or_init(|| false)
}

#[cfg(not(miri))]
mod membarrier {
    fn call(command: libc::c_int) -> libc::c_long {
        // SAFETY: membarrier(command, flags = 0, cpu = 0) reads and writes no memory of ours.
        unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) }
    }

    /// Asks the kernel to serve `everyone` for this process. False if it cannot.
    pub(super) fn register() -> bool {
        call(libc::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) == 0
    }

    /// A full barrier in each running thread of the process.
    pub(super) fn everyone() {
        let result = call(libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED);
        // It fails only if the process is not registered, and `register` succeeded. A system-call filter installed
        // since then would turn the lost barrier into a lost wake-up somewhere else: stop here instead.
        assert_eq!(result, 0, "proto-arch: the kernel refuses membarrier after it had accepted it");
    }
}

#[cfg(miri)]
mod membarrier {
    pub(super) fn register() -> bool {
        false
    }
    pub(super) fn everyone() {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;
    use std::sync::atomic::AtomicU32;
    use std::thread;

    #[test]
    fn one_of_two_sides_always_sees_the_other() {
        let rounds = if cfg!(miri) { 10 } else { 3_000 };
        let (x, y) = (AtomicU32::new(0), AtomicU32::new(0));
        let (start, end) = (Barrier::new(2), Barrier::new(2));
        thread::scope(|scope| {
            let frequent = scope.spawn(|| {
                let mut seen = Vec::with_capacity(rounds);
                for round in 1..=rounds as u32 {
                    start.wait();
                    x.store(round, Relaxed);
                    light();
                    seen.push(y.load(Relaxed) == round);
                    end.wait();
                }
                seen
            });
            let mut seen = Vec::with_capacity(rounds);
            for round in 1..=rounds as u32 {
                start.wait();
                y.store(round, Relaxed);
                heavy();
                seen.push(x.load(Relaxed) == round);
                end.wait();
            }
            let frequent = frequent.join().expect("the frequent side ends");
            for (round, (f, r)) in frequent.into_iter().zip(seen).enumerate() {
                assert!(f || r, "round {round}: neither side saw the other");
            }
        });
    }

    #[test]
    fn the_decision_does_not_change() {
        let first = is_asymmetric();
        assert_eq!(force_symmetric(), !first, "too late to force");
        assert_eq!(is_asymmetric(), first);
    }
}
