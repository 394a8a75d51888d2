//! [`LazyLock`]: a value that is made when it is first looked at. [`Once`] decides who makes it; see `once_lock` for the rest.

use std::fmt;
use std::ops::Deref;
use std::panic::{RefUnwindSafe, UnwindSafe};

use proto_core::{Grant, Guarded};

use super::Once;

/// A value that is made when it is first looked at, as [`std::sync::LazyLock`]. After that looking takes no lock.
///
/// # Examples
///
/// ```
/// use proto_lang_mutex::sync::LazyLock;
///
/// static WORDS: LazyLock<Vec<&str>> = LazyLock::new(|| "made when first used".split(' ').collect());
/// assert_eq!(WORDS.len(), 4);
/// ```
pub struct LazyLock<T, F = fn() -> T> {
    once: Once,
    value: std::sync::OnceLock<T>,
    /// Taken, with the one grant of the cell, by the one whose turn it is.
    make: Guarded<Option<F>>,
}

impl<T: UnwindSafe, F: UnwindSafe> RefUnwindSafe for LazyLock<T, F> {}

impl<T, F: FnOnce() -> T> LazyLock<T, F> {
    /// A value that `f` will make.
    #[track_caller]
    pub const fn new(f: F) -> Self {
        LazyLock { once: Once::new(), value: std::sync::OnceLock::new(), make: Guarded::new(Some(f)) }
    }

    /// The value; makes it if nobody has yet. The same as dereferencing.
    ///
    /// # Panics
    ///
    /// If the closure does, now or before. Unwinds if the calling virtual processor is cancelled. A cancelled closure is lost as
    /// one that panicked: it can run but once.
    #[inline]
    #[track_caller]
    pub fn force(this: &Self) -> &T {
        match this.value.get() {
            Some(value) => value,
            None => this.make(),
        }
    }

    #[cold]
    #[track_caller]
    fn make(&self) -> &T {
        self.once.call_once(|| {
            let mut make = self.make.open(Grant::new());
            let make = make.take().expect("the closure is run once");
            let _ = self.value.set(make());
        });
        self.value.get().expect("what has been done was the making of the value")
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
        match self.value.get() {
            Some(value) => shown.field(value),
            None => shown.field(&format_args!("<not made>")),
        };
        shown.finish()
    }
}
