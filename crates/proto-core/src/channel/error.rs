//! What std has no stable type for.

use std::error::Error;
use std::fmt;
use std::sync::mpsc::{SendError, TrySendError};

/// Why a value was not sent; it comes back.
///
/// # Examples
///
/// ```
/// use proto_core::{Channel, SendTimeoutError};
///
/// let channel = Channel::new(1);
/// channel.send("first", None)?;
/// // Full: what was not sent goes into the log.
/// let log: Vec<&str> = ["second", "third"]
///     .into_iter()
///     .filter_map(|value| channel.try_send(value).err())
///     .inspect(|error| assert!(matches!(error, SendTimeoutError::Timeout(_))))
///     .map(SendTimeoutError::into_inner)
///     .collect();
/// assert_eq!(log, ["second", "third"]);
///
/// channel.drop_receiver();
/// assert_eq!(channel.try_send("fourth"), Err(SendTimeoutError::Disconnected("fourth")));
/// # Ok::<(), SendTimeoutError<&str>>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum SendTimeoutError<T> {
    /// There was no room in time.
    Timeout(T),
    /// The receiver is gone.
    Disconnected(T),
}

impl<T> SendTimeoutError<T> {
    /// The value.
    pub fn into_inner(self) -> T {
        match self {
            SendTimeoutError::Timeout(value) | SendTimeoutError::Disconnected(value) => value,
        }
    }
}

impl<T> fmt::Debug for SendTimeoutError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if let SendTimeoutError::Timeout(_) = self { "Timeout(..)" } else { "Disconnected(..)" })
    }
}

impl<T> fmt::Display for SendTimeoutError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let timeout = matches!(self, SendTimeoutError::Timeout(_));
        f.write_str(if timeout { "timed out waiting on a full channel" } else { "sending on a closed channel" })
    }
}

impl<T> Error for SendTimeoutError<T> {}

impl<T> From<SendTimeoutError<T>> for SendError<T> {
    fn from(error: SendTimeoutError<T>) -> Self {
        SendError(error.into_inner())
    }
}

impl<T> From<SendTimeoutError<T>> for TrySendError<T> {
    fn from(error: SendTimeoutError<T>) -> Self {
        match error {
            SendTimeoutError::Timeout(value) => TrySendError::Full(value),
            SendTimeoutError::Disconnected(value) => TrySendError::Disconnected(value),
        }
    }
}
