//! [`LazyLock`]: a value that is made when it is first looked at. A panic of who makes it poisons it, for the closure can run but once.

use std::fmt;
use std::ops::Deref;
use std::panic::{RefUnwindSafe, UnwindSafe};

use proto_core::{Grant, Guarded, SetOnce};

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
    value: SetOnce<T>,
    /// Taken, with the one grant of the cell, by the one whose turn it is.
    make: Guarded<Option<F>>,
}

impl<T: UnwindSafe, F: UnwindSafe> RefUnwindSafe for LazyLock<T, F> {}

impl<T, F: FnOnce() -> T> LazyLock<T, F> {
    /// A value that `f` will make.
    #[track_caller]
    pub const fn new(f: F) -> Self {
        LazyLock { value: SetOnce::poisoning(), make: Guarded::new(Some(f)) }
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
        this.value.get_or_make(|| this.make.open(Grant::new()).take().expect("the closure is run once")())
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
