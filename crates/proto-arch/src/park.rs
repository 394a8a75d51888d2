//! Sleeping and waking of one OS thread: a token in one word, on a futex.
//!
//! Same meaning as [`std::thread::park`]: [`Parker::unpark`] leaves a token, [`Parker::park`] waits for it and
//! takes it. The difference is that a `Parker` is a value: it can lie in a static, in a shared structure, or one per
//! purpose, so that two users of a thread never eat each other's tokens.
//!
//! # States
//!
//! ```text
//!                park (token there: takes it, no system call)
//!          ┌───────────────◄───────────────┐
//!        EMPTY ──────── unpark ───────► NOTIFIED
//!          │                               ▲
//!          └── park ──► PARKED ── unpark ──┘   (only this edge costs a wake-up)
//! ```
//!
//! `park` and `park_timeout` may be called by one thread at a time, `unpark` by any.
//!
//! # The dangerous race
//!
//! An `unpark` between `park`'s announcement and its sleep must not be lost. The kernel closes it: `FUTEX_WAIT` sleeps
//! only if the word still reads `PARKED` under the kernel's own lock, and `unpark` swaps the word *before* it asks for
//! the wake-up.
//!
//! What the parking thread does before it calls `park` (announce, barrier, scan again) is the caller's protocol.

use std::fmt;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::time::{Duration, Instant};

const EMPTY: u32 = 0;
const NOTIFIED: u32 = 1;
/// `EMPTY - 1`, so that one `fetch_sub` does "take the token or announce the sleep".
const PARKED: u32 = u32::MAX;

/// A place where one thread at a time sleeps until others wake it.
///
/// # Examples
///
/// ```
/// use proto_arch::park::Parker;
///
/// static READY: Parker = Parker::new();
///
/// let sleeper = std::thread::spawn(|| READY.park());
/// READY.unpark(); // before or after it sleeps: the token waits
/// sleeper.join().expect("the sleeper ends");
/// ```
pub struct Parker {
    state: AtomicU32,
}

impl Parker {
    /// A parker without a token.
    #[must_use]
    pub const fn new() -> Self {
        Self { state: AtomicU32::new(EMPTY) }
    }

    /// Sleeps until there is a token, and takes it. Returns at once if it is there already.
    ///
    /// Never wakes spuriously. Everything before the [`unpark`](Self::unpark) that left the token happens before the
    /// return. At most one thread may be in `park` or [`park_timeout`](Self::park_timeout) at a time; a second one
    /// may sleep for ever.
    pub fn park(&self) {
        // Acquire: pairs with the Release swap in `unpark`, whose token this may take.
        if self.state.fetch_sub(1, Acquire) == NOTIFIED {
            return;
        }
        loop {
            futex::wait(&self.state, PARKED, None);
            if self.take_token() {
                return;
            }
            // Woken by a signal or by a stale wake-up of another user of this address: sleep again.
        }
    }

    /// Like [`park`](Self::park), but gives up after `timeout`. Returns whether it took a token.
    ///
    /// # Examples
    ///
    /// ```
    /// use proto_arch::park::Parker;
    /// use std::time::Duration;
    ///
    /// let parker = Parker::new();
    /// assert!(!parker.park_timeout(Duration::from_millis(1)));
    /// parker.unpark();
    /// assert!(parker.park_timeout(Duration::from_secs(1)), "the token was there");
    /// ```
    pub fn park_timeout(&self, timeout: Duration) -> bool {
        // Acquire: as in `park`.
        if self.state.fetch_sub(1, Acquire) == NOTIFIED {
            return true;
        }
        // A time too far to be represented is no deadline.
        let deadline = Instant::now().checked_add(timeout);
        loop {
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                // The word is PARKED or, by a token that came just now, NOTIFIED: both become EMPTY.
                // Acquire: pairs with `unpark` in the second case.
                return self.state.swap(EMPTY, Acquire) == NOTIFIED;
            }
            futex::wait(&self.state, PARKED, left);
            if self.take_token() {
                return true;
            }
        }
    }

    /// Leaves a token, and wakes the thread that waits for it. Two tokens are one.
    #[inline]
    pub fn unpark(&self) {
        // Release: what the waker wrote is seen by the one who takes the token (the Acquire operations above). It is a
        // swap even if a token is there already: the taker must then see what *this* waker wrote, too.
        if self.state.swap(NOTIFIED, Release) == PARKED {
            // The sleeper may have gone on and freed the parker by now; the kernel then finds no one at the address,
            // which is harmless: nothing is read from it.
            futex::wake_one(&raw const self.state);
        }
    }

    fn take_token(&self) -> bool {
        // Acquire: pairs with the Release swap in `unpark`. A failure reads nothing that anybody uses.
        self.state.compare_exchange(NOTIFIED, EMPTY, Acquire, std::sync::atomic::Ordering::Relaxed).is_ok()
    }
}

impl Default for Parker {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Parker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Acquire is stronger than a report needs; it spares an argument.
        let state = match self.state.load(Acquire) {
            EMPTY => "empty",
            NOTIFIED => "notified",
            _ => "parked",
        };
        f.debug_tuple("Parker").field(&state).finish()
    }
}

/// The two system calls.
mod futex {
    use super::{AtomicU32, Duration};
    use std::ptr;

    /// Sleeps while `word` reads `expected`, at most `timeout`; may return early for no reason.
    pub(super) fn wait(word: &AtomicU32, expected: u32, timeout: Option<Duration>) {
        let timespec = timeout.map(|timeout| libc::timespec {
            tv_sec: libc::time_t::try_from(timeout.as_secs()).unwrap_or(libc::time_t::MAX),
            tv_nsec: libc::c_long::from(timeout.subsec_nanos()),
        });
        let timespec = timespec.as_ref().map_or(ptr::null(), ptr::from_ref);
        // SAFETY: the arguments are those of FUTEX_WAIT: an aligned word that outlives the call, and a null or valid
        // timeout that does. Any return value, also an error, is "look again" to the caller.
        unsafe {
            libc::syscall(
                libc::SYS_futex,
                ptr::from_ref(word),
                libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG,
                expected,
                timespec,
            )
        };
    }

    /// Wakes one thread that sleeps at the address.
    pub(super) fn wake_one(word: *const AtomicU32) {
        // SAFETY: FUTEX_WAKE takes the address as a key and never reads through it, so it may dangle.
        unsafe { libc::syscall(libc::SYS_futex, word, libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG, 1) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::thread;

    #[test]
    fn a_token_left_before_is_taken_without_sleeping() {
        let parker = Parker::new();
        parker.unpark();
        parker.unpark();
        parker.park();
        assert!(!parker.park_timeout(Duration::ZERO), "two tokens must count as one");
    }

    #[test]
    fn a_timeout_without_a_token_says_so_and_leaves_the_parker_usable() {
        let parker = Parker::new();
        assert!(!parker.park_timeout(Duration::from_millis(1)));
        parker.unpark();
        assert!(parker.park_timeout(Duration::MAX), "the token must be found");
    }

    #[test]
    fn no_wake_up_is_lost_between_two_threads() {
        let rounds = if cfg!(miri) { 20 } else { 20_000 };
        let pair = Arc::new((Parker::new(), Parker::new()));
        let other = {
            let pair = Arc::clone(&pair);
            thread::spawn(move || {
                for _ in 0..rounds {
                    pair.0.park();
                    pair.1.unpark();
                }
            })
        };
        for _ in 0..rounds {
            pair.0.unpark();
            pair.1.park();
        }
        other.join().expect("the other thread ends");
    }
}
