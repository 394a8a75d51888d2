//! The senders' ends of a channel.

use std::sync::Arc;
use std::sync::mpsc::{SendError, TrySendError};
use std::time::{Duration, Instant};

use proto_core::{Channel, SendTimeoutError};

use crate::time;

/// The sending end of a [`channel`](super::channel). Each clone is a sender of its own.
///
/// `BOUNDED` says whether the queue has a bound, so that sending may wait: see [`SyncSender`].
///
/// # Examples
///
/// ```
/// use proto_lang_mutex::sync::mpsc::{self, Sender};
/// use proto_lang_mutex::thread;
///
/// fn report(place: &'static str, log: &Sender<&'static str>) {
///     let log = log.clone();
///     thread::spawn(move || log.send(place));
/// }
/// let (log, lines) = mpsc::channel();
/// report("here", &log);
/// report("there", &log);
/// drop(log);
/// let mut lines: Vec<_> = lines.iter().collect();
/// lines.sort();
/// assert_eq!(lines, ["here", "there"]);
/// ```
pub struct Sender<T, const BOUNDED: bool = false> {
    pub(crate) channel: Arc<Channel<T>>,
}

/// The sending end of a [`sync_channel`](super::sync_channel). Each clone is a sender of its own.
///
/// # Examples
///
/// ```
/// use proto_lang_mutex::sync::mpsc::{self, SendTimeoutError, SyncSender, TrySendError};
/// use std::time::Instant;
///
/// let (sender, receiver): (SyncSender<u32>, _) = mpsc::sync_channel(1);
/// sender.send(1)?;
/// assert_eq!(sender.try_send(2), Err(TrySendError::Full(2)));
/// assert_eq!(sender.send_deadline(3, Instant::now()), Err(SendTimeoutError::Timeout(3)));
/// drop(receiver);
/// assert_eq!(sender.try_send(4), Err(TrySendError::Disconnected(4)));
/// # Ok::<(), mpsc::SendError<u32>>(())
/// ```
pub type SyncSender<T> = Sender<T, true>;

impl<T, const BOUNDED: bool> Sender<T, BOUNDED> {
    /// Sends `value`. Into a queue with a bound: waits while there is no room; without any room, for the receiver to take it. Else it
    /// never waits.
    ///
    /// # Errors
    ///
    /// Gives the value back if the receiver is gone, or goes meanwhile.
    ///
    /// # Panics
    ///
    /// Unwinds if the calling virtual processor is cancelled; the value is dropped then.
    #[inline]
    #[track_caller]
    pub fn send(&self, value: T) -> Result<(), SendError<T>> {
        Ok(self.channel.send(value, None)?)
    }
}

impl<T> SyncSender<T> {
    /// Sends `value` if there is room: without a bound of at least 1, if the receiver waits.
    ///
    /// # Errors
    ///
    /// Gives the value back if there is no room, or the receiver is gone.
    ///
    /// # Panics
    ///
    /// As [`send`](Self::send).
    #[track_caller]
    pub fn try_send(&self, value: T) -> Result<(), TrySendError<T>> {
        Ok(self.channel.try_send(value)?)
    }

    /// As [`send`](Self::send), for at most `timeout`.
    ///
    /// # Errors
    ///
    /// Gives the value back if there was no room in time, or the receiver is gone.
    ///
    /// # Panics
    ///
    /// As [`send`](Self::send).
    ///
    /// # Examples
    ///
    /// ```
    /// use proto_lang_mutex::sync::mpsc::{self, SendTimeoutError};
    /// use std::time::Duration;
    ///
    /// let (sender, receiver) = mpsc::sync_channel(0);
    /// let back = sender.send_timeout("nobody takes it", Duration::from_millis(1));
    /// assert_eq!(back, Err(SendTimeoutError::Timeout("nobody takes it")));
    /// # drop(receiver);
    /// ```
    #[track_caller]
    pub fn send_timeout(&self, value: T, timeout: Duration) -> Result<(), SendTimeoutError<T>> {
        self.channel.send(value, time::after(timeout))
    }

    /// As [`send`](Self::send), until `deadline`.
    ///
    /// # Errors
    ///
    /// As [`send_timeout`](Self::send_timeout).
    ///
    /// # Panics
    ///
    /// As [`send`](Self::send).
    #[track_caller]
    pub fn send_deadline(&self, value: T, deadline: Instant) -> Result<(), SendTimeoutError<T>> {
        self.channel.send(value, Some(deadline))
    }
}

impl<T, const BOUNDED: bool> Clone for Sender<T, BOUNDED> {
    fn clone(&self) -> Self {
        self.channel.add_sender();
        Sender { channel: Arc::clone(&self.channel) }
    }
}

impl<T, const BOUNDED: bool> Drop for Sender<T, BOUNDED> {
    fn drop(&mut self) {
        self.channel.drop_sender();
    }
}

opaque!(Sender[T, const BOUNDED: bool], Sender<T, BOUNDED>);
