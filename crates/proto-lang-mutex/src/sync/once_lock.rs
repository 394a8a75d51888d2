//! [`OnceLock`]: a value that is set once. [`Once`] decides who sets it; the value lies in a cell of the standard library, which
//! is read without a lock, and where nobody ever waits, for one timeline at a time sets it.

use std::fmt;
use std::time::Duration;

use super::Once;

/// A value that is set once, as [`std::sync::OnceLock`]. Reading it takes no lock.
///
/// # Examples
///
/// ```
/// use proto_lang_mutex::sync::OnceLock;
///
/// static HOME: OnceLock<String> = OnceLock::new();
/// assert_eq!(HOME.get(), None);
/// assert_eq!(HOME.get_or_init(|| "here".to_owned()), "here");
/// assert_eq!(HOME.set("there".to_owned()), Err("there".to_owned()));
/// ```
pub struct OnceLock<T> {
    once: Once,
    value: std::sync::OnceLock<T>,
}

impl<T> OnceLock<T> {
    /// Without a value.
    #[track_caller]
    pub const fn new() -> Self {
        OnceLock { once: Once::new(), value: std::sync::OnceLock::new() }
    }

    /// The value, if it is set.
    #[inline]
    pub fn get(&self) -> Option<&T> {
        self.value.get()
    }

    /// The value, if it is set.
    pub fn get_mut(&mut self) -> Option<&mut T> {
        self.value.get_mut()
    }

    /// Sets the value.
    ///
    /// # Errors
    ///
    /// Gives `value` back if there is one already, or if another timeline was setting one: that is there then.
    #[track_caller]
    pub fn set(&self, value: T) -> Result<(), T> {
        let Some(turn) = self.once.begin(true) else {
            return Err(value);
        };
        let set = self.value.set(value);
        turn.done();
        set
    }

    /// The value; `f` makes it if there is none. Others that ask meanwhile wait.
    ///
    /// # Panics
    ///
    /// If `f` does; there is no value then, and the next one tries. Unwinds if the calling virtual processor is cancelled.
    #[inline]
    #[track_caller]
    pub fn get_or_init(&self, f: impl FnOnce() -> T) -> &T {
        match self.value.get() {
            Some(value) => value,
            None => self.init(f),
        }
    }

    #[cold]
    #[track_caller]
    fn init(&self, f: impl FnOnce() -> T) -> &T {
        if let Some(turn) = self.once.begin(true) {
            // Nobody else sets it while this is the one whose turn it is; so this takes no time.
            let _ = self.value.set(f());
            turn.done();
        }
        self.value.get().expect("what has been done was the setting of the value")
    }

    /// Waits until the value is set.
    ///
    /// # Panics
    ///
    /// Unwinds if the calling virtual processor is cancelled.
    #[track_caller]
    pub fn wait(&self) -> &T {
        self.once.wait_force();
        self.value.get().expect("what has been done was the setting of the value")
    }

    /// As [`wait`](Self::wait), for at most `timeout`.
    ///
    /// # Panics
    ///
    /// As [`wait`](Self::wait).
    #[track_caller]
    pub fn wait_timeout(&self, timeout: Duration) -> Option<&T> {
        self.once.wait_timeout(timeout);
        self.value.get()
    }

    /// The value, if it was set.
    pub fn into_inner(self) -> Option<T> {
        self.value.into_inner()
    }

    /// Takes the value out: it may be set again.
    pub fn take(&mut self) -> Option<T> {
        self.once = Once::new();
        self.value.take()
    }
}

impl<T> Default for OnceLock<T> {
    #[track_caller]
    fn default() -> Self {
        OnceLock::new()
    }
}

impl<T> From<T> for OnceLock<T> {
    #[track_caller]
    fn from(value: T) -> Self {
        let lock = OnceLock::new();
        let _ = lock.set(value);
        lock
    }
}

impl<T: Clone> Clone for OnceLock<T> {
    fn clone(&self) -> Self {
        self.get().cloned().map_or_else(OnceLock::new, OnceLock::from)
    }
}

impl<T: PartialEq> PartialEq for OnceLock<T> {
    fn eq(&self, other: &Self) -> bool {
        self.get() == other.get()
    }
}

impl<T: Eq> Eq for OnceLock<T> {}

impl<T: fmt::Debug> fmt::Debug for OnceLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("OnceLock").field(&self.get()).finish()
    }
}
