//! [`LazyLock`]: the core's lazy value in std's shape.

use std::fmt;
use std::ops::Deref;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::time::Duration;

use proto_core::Lazy;

use crate::time;

/// A value that is made when it is first looked at, as [`std::sync::LazyLock`]. After that looking takes no lock.
///
/// The closure can run but once, so a panic in it poisons the value for good. A cancel does not: it waits until the closure has come to
/// its end.
///
/// # Examples
///
/// ```
/// use proto_lang_mutex::sync::LazyLock;
///
/// static WORDS: LazyLock<Vec<&str>> = LazyLock::new(|| "made when first used".split(' ').collect());
/// assert_eq!(WORDS.len(), 4);
/// ```
///
/// Made ahead of its first use, or looked at without waiting long for whoever makes it:
///
/// ```
/// use proto_lang_mutex::sync::LazyLock;
/// use std::time::Duration;
///
/// let lazy = LazyLock::new(|| 6 * 7);
/// assert_eq!(LazyLock::force(&lazy), &42);
/// assert_eq!(LazyLock::force_timeout(&lazy, Duration::ZERO), Some(&42));
/// ```
pub struct LazyLock<T, F = fn() -> T>(Lazy<T, F>);

impl<T: UnwindSafe, F: UnwindSafe> RefUnwindSafe for LazyLock<T, F> {}

impl<T, F: FnOnce() -> T> LazyLock<T, F> {
    /// A value that `f` will make.
    #[track_caller]
    pub const fn new(f: F) -> Self {
        LazyLock(Lazy::new(f, "LazyLock instance has previously been poisoned"))
    }

    /// The value; makes it if nobody has yet. The same as dereferencing.
    ///
    /// # Panics
    ///
    /// If the closure does, now or before. Unwinds if the calling virtual processor is cancelled while it waits for another that makes
    /// the value.
    #[inline]
    #[track_caller]
    pub fn force(this: &Self) -> &T {
        this.0.force()
    }

    /// As [`force`](Self::force); `None` if another timeline is making the value.
    ///
    /// # Panics
    ///
    /// As [`force`](Self::force).
    ///
    /// # Examples
    ///
    /// ```
    /// use proto_lang_mutex::LazyLock;
    /// let lazy = LazyLock::new(|| 5);
    /// assert_eq!(LazyLock::try_force(&lazy), Some(&5));
    /// ```
    #[track_caller]
    pub fn try_force(this: &Self) -> Option<&T> {
        Self::force_timeout(this, Duration::ZERO)
    }

    /// As [`force`](Self::force); `None` if another timeline is making the value for all of `timeout`.
    ///
    /// # Panics
    ///
    /// As [`force`](Self::force).
    #[track_caller]
    pub fn force_timeout(this: &Self, timeout: Duration) -> Option<&T> {
        this.0.force_until(time::after(timeout))
    }
}

impl<T, F: FnOnce() -> T> Deref for LazyLock<T, F> {
    type Target = T;

    #[inline]
    #[track_caller]
    fn deref(&self) -> &T {
        LazyLock::force(self)
    }
}

impl<T: Default> Default for LazyLock<T> {
    #[track_caller]
    fn default() -> Self {
        LazyLock::new(T::default)
    }
}

impl<T: fmt::Debug, F> fmt::Debug for LazyLock<T, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_tuple("LazyLock");
        match self.0.get() {
            Some(value) => shown.field(value),
            None => shown.field(&format_args!("<not made>")),
        };
        shown.finish()
    }
}
