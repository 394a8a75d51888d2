//! [`Once`]: something is done once, and others wait until it is done. A value without content, set by who does it.

use std::panic::{RefUnwindSafe, UnwindSafe};
use std::time::{Duration, Instant};

use proto_core::SetOnce;

use crate::time;

/// Something that is done once for the whole program, as [`std::sync::Once`].
///
/// # Examples
///
/// ```
/// use proto_lang_mutex::sync::Once;
///
/// static START: Once = Once::new();
/// let mut times = 0;
/// START.call_once(|| times += 1);
/// START.call_once(|| times += 1);
/// assert_eq!(times, 1);
/// ```
///
/// To wait for it without doing it:
///
/// ```
/// use proto_lang_mutex::sync::Once;
/// use proto_lang_mutex::thread;
/// use std::time::{Duration, Instant};
///
/// static START: Once = Once::new();
/// assert!(!START.wait_until(Instant::now()));
/// thread::scope(|s| {
///     s.spawn(|| START.wait());
///     s.spawn(|| START.wait_force()); // also if a first try panics
///     START.call_once_timeout(Duration::from_secs(1), || {});
/// });
/// assert!(START.is_completed());
/// ```
#[derive(Debug)]
pub struct Once(SetOnce<()>);

impl UnwindSafe for Once {}
impl RefUnwindSafe for Once {}

/// What [`Once::call_once_force`] tells its closure.
///
/// # Examples
///
/// ```
/// use proto_lang_mutex::sync::{Once, OnceState};
/// use std::panic::catch_unwind;
///
/// static START: Once = Once::new();
/// assert!(catch_unwind(|| START.call_once(|| panic!("at first"))).is_err());
/// START.call_once_force(|state: &OnceState| assert!(state.is_poisoned()));
/// assert!(START.is_completed());
/// ```
#[derive(Debug)]
pub struct OnceState {
    poisoned: bool,
}

impl OnceState {
    /// Whether the closure of an earlier call panicked.
    #[must_use]
    pub fn is_poisoned(&self) -> bool {
        self.poisoned
    }
}

impl Once {
    /// Not done yet.
    #[track_caller]
    pub const fn new() -> Self {
        Once(SetOnce::poisoning("Once instance has previously been poisoned"))
    }

    /// Runs `f` if no call has been completed yet. When this returns, one has.
    ///
    /// A closure that calls this on the same `Once` waits for itself.
    ///
    /// # Panics
    ///
    /// If the closure of an earlier call panicked; if `f` does, later calls do. Unwinds if the calling virtual processor is
    /// cancelled; then a later call runs its closure.
    #[inline]
    #[track_caller]
    pub fn call_once(&self, f: impl FnOnce()) {
        self.0.get_or_make(f);
    }

    /// As [`call_once`](Self::call_once), unless another call is under way: then `f` does not run. Whether a call has been completed.
    ///
    /// # Panics
    ///
    /// As [`call_once`](Self::call_once).
    ///
    /// # Examples
    ///
    /// ```
    /// let once = proto_lang_mutex::Once::new();
    /// once.call_once(|| assert!(!once.try_call_once(|| unreachable!("the other call is under way"))));
    /// assert!(once.try_call_once(|| unreachable!("it is completed")));
    /// ```
    #[track_caller]
    pub fn try_call_once(&self, f: impl FnOnce()) -> bool {
        self.call_once_timeout(Duration::ZERO, f)
    }

    /// As [`call_once`](Self::call_once), waiting for at most `timeout` for another call that is under way: then `f` does not run. Whether a
    /// call has been completed.
    ///
    /// # Panics
    ///
    /// As [`call_once`](Self::call_once).
    #[track_caller]
    pub fn call_once_timeout(&self, timeout: Duration, f: impl FnOnce()) -> bool {
        self.0.get_or_make_until(f, time::after(timeout)).is_some()
    }

    /// As [`call_once`](Self::call_once), also if an earlier call panicked.
    ///
    /// # Panics
    ///
    /// If `f` does; then later calls of `call_once` do. Unwinds if the calling virtual processor is cancelled.
    ///
    /// # Examples
    ///
    /// ```
    /// let once = proto_lang_mutex::Once::new();
    /// once.call_once_force(|state| assert!(!state.is_poisoned()));
    /// assert!(once.is_completed());
    /// ```
    #[inline]
    #[track_caller]
    pub fn call_once_force(&self, f: impl FnOnce(&OnceState)) {
        if let Some(turn) = self.0.turn(true) {
            f(&OnceState { poisoned: turn.is_poisoned() });
            turn.set(());
        }
    }

    /// Waits until a call has been completed, without making one.
    ///
    /// # Panics
    ///
    /// If the closure of a call panicked. Unwinds if the calling virtual processor is cancelled.
    #[track_caller]
    pub fn wait(&self) {
        self.0.wait(false, None);
    }

    /// As [`wait`](Self::wait), also beyond a call that panicked.
    ///
    /// # Panics
    ///
    /// Unwinds if the calling virtual processor is cancelled.
    #[track_caller]
    pub fn wait_force(&self) {
        self.0.wait(true, None);
    }

    /// As [`wait_force`](Self::wait_force), for at most `timeout`. Whether a call has been completed.
    ///
    /// # Panics
    ///
    /// As [`wait_force`](Self::wait_force).
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// let once = proto_lang_mutex::Once::new();
    /// assert!(!once.wait_timeout(Duration::from_millis(1)));
    /// once.call_once(|| {});
    /// assert!(once.wait_timeout(Duration::ZERO));
    /// ```
    #[track_caller]
    pub fn wait_timeout(&self, timeout: Duration) -> bool {
        self.0.wait(true, time::after(timeout)).is_some()
    }

    /// As [`wait_force`](Self::wait_force), until `deadline`. Whether a call has been completed.
    ///
    /// # Panics
    ///
    /// As [`wait_force`](Self::wait_force).
    #[track_caller]
    pub fn wait_until(&self, deadline: Instant) -> bool {
        self.0.wait(true, Some(deadline)).is_some()
    }

    /// Whether a call has been completed. Takes no lock.
    #[inline]
    pub fn is_completed(&self) -> bool {
        self.0.get().is_some()
    }
}

made_by_new!(Once);
