//! [`OnceLock`]: a value that is set once. A panic of who was to set it leaves that to the next one.

use std::time::{Duration, Instant};

use proto_core::SetOnce;

use crate::time;

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
///
/// To wait for whoever sets it, and to have it to oneself:
///
/// ```
/// use proto_lang_mutex::sync::OnceLock;
/// use proto_lang_mutex::thread;
/// use std::time::{Duration, Instant};
///
/// let mut port = OnceLock::new();
/// assert_eq!(port.wait_until(Instant::now()), None);
/// thread::scope(|s| {
///     let reader = s.spawn(|| *port.wait());
///     port.get_or_init_timeout(Duration::from_secs(1), || 80);
///     assert_eq!(reader.join().unwrap(), 80);
/// });
/// assert_eq!(port.wait_timeout(Duration::ZERO), Some(&80));
/// *port.get_mut().unwrap() = 443;
/// assert_eq!(port.take(), Some(443));
/// assert_eq!(port.into_inner(), None);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OnceLock<T>(SetOnce<T>);

impl<T> OnceLock<T> {
    /// Without a value.
    #[track_caller]
    pub const fn new() -> Self {
        OnceLock(SetOnce::new())
    }

    /// The value, if it is set.
    #[inline]
    pub fn get(&self) -> Option<&T> {
        self.0.get()
    }

    /// The value, if it is set.
    pub fn get_mut(&mut self) -> Option<&mut T> {
        self.0.get_mut()
    }

    /// Sets the value.
    ///
    /// # Errors
    ///
    /// Gives `value` back if there is one already, or if another timeline was setting one: that is there then.
    ///
    /// # Panics
    ///
    /// Unwinds if the calling virtual processor is cancelled while it waits for another that sets one; `value` is dropped then.
    #[track_caller]
    pub fn set(&self, value: T) -> Result<(), T> {
        match self.0.turn(false) {
            Some(turn) => Ok(_ = turn.set(value)),
            None => Err(value),
        }
    }

    /// The value; `f` makes it if there is none. Others that ask meanwhile wait.
    ///
    /// # Panics
    ///
    /// If `f` does; there is no value then, and the next one tries. Unwinds if the calling virtual processor is cancelled.
    #[inline]
    #[track_caller]
    pub fn get_or_init(&self, f: impl FnOnce() -> T) -> &T {
        self.0.get_or_make(f)
    }

    /// As [`get_or_init`](Self::get_or_init); `None`, and `f` has not run, if another timeline is making the value.
    ///
    /// # Panics
    ///
    /// As [`get_or_init`](Self::get_or_init).
    ///
    /// # Examples
    ///
    /// ```
    /// let lock = proto_lang_mutex::OnceLock::new();
    /// lock.get_or_init(|| {
    ///     assert_eq!(lock.try_get_or_init(|| 1), None, "it is being made");
    ///     2
    /// });
    /// assert_eq!(lock.try_get_or_init(|| 1), Some(&2));
    /// ```
    #[track_caller]
    pub fn try_get_or_init(&self, f: impl FnOnce() -> T) -> Option<&T> {
        self.get_or_init_timeout(Duration::ZERO, f)
    }

    /// As [`get_or_init`](Self::get_or_init); `None`, and `f` has not run, if another timeline is making the value for all of `timeout`.
    ///
    /// # Panics
    ///
    /// As [`get_or_init`](Self::get_or_init).
    #[track_caller]
    pub fn get_or_init_timeout(&self, timeout: Duration, f: impl FnOnce() -> T) -> Option<&T> {
        self.0.get_or_make_until(f, time::after(timeout))
    }

    /// Waits until the value is set.
    ///
    /// # Panics
    ///
    /// Unwinds if the calling virtual processor is cancelled.
    #[track_caller]
    pub fn wait(&self) -> &T {
        self.0.wait(true, None).expect("there is no deadline")
    }

    /// As [`wait`](Self::wait), for at most `timeout`.
    ///
    /// # Panics
    ///
    /// As [`wait`](Self::wait).
    #[track_caller]
    pub fn wait_timeout(&self, timeout: Duration) -> Option<&T> {
        self.0.wait(true, time::after(timeout))
    }

    /// As [`wait`](Self::wait), until `deadline`.
    ///
    /// # Panics
    ///
    /// As [`wait`](Self::wait).
    #[track_caller]
    pub fn wait_until(&self, deadline: Instant) -> Option<&T> {
        self.0.wait(true, Some(deadline))
    }

    /// The value, if it was set.
    pub fn into_inner(self) -> Option<T> {
        self.0.into_inner()
    }

    /// Takes the value out: it may be set again.
    pub fn take(&mut self) -> Option<T> {
        std::mem::take(self).into_inner()
    }
}

made_by_new!(OnceLock<T>);

impl<T> From<T> for OnceLock<T> {
    #[track_caller]
    fn from(value: T) -> Self {
        OnceLock(SetOnce::from(value))
    }
}
