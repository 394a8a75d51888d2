//! The senders' ends of a channel.

use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::sync::mpsc::{SendError, TrySendError};
use std::time::{Duration, Instant};

use proto_core::Ended;

use super::queue::{AddSender, DropSender, Fetch, Patience, Queue, Send, SendBounded, Sent};
use crate::time;

/// Why [`SyncSender::send_timeout`] did not send; the value comes back.
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
        f.write_str(match self {
            SendTimeoutError::Timeout(_) => "Timeout(..)",
            SendTimeoutError::Disconnected(_) => "Disconnected(..)",
        })
    }
}

impl<T> fmt::Display for SendTimeoutError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SendTimeoutError::Timeout(_) => "timed out waiting on a full channel",
            SendTimeoutError::Disconnected(_) => "sending on a closed channel",
        })
    }
}

impl<T> Error for SendTimeoutError<T> {}

/// The sending end of a [`channel`](super::channel). Each clone is a sender of its own.
pub struct Sender<T> {
    queue: Arc<Queue<T>>,
}

/// The sending end of a [`sync_channel`](super::sync_channel). Each clone is a sender of its own.
pub struct SyncSender<T> {
    queue: Arc<Queue<T>>,
}

impl<T> Sender<T> {
    pub(super) fn new(queue: Arc<Queue<T>>) -> Self {
        Sender { queue }
    }

    /// Sends `value`. Never waits.
    ///
    /// # Errors
    ///
    /// Gives the value back if the receiver is gone.
    ///
    /// # Panics
    ///
    /// Unwinds if the calling virtual processor is cancelled.
    #[inline]
    #[track_caller]
    pub fn send(&self, value: T) -> Result<(), SendError<T>> {
        match self.queue.0.request(Send(value)) {
            Ok(sent) => sent.map_err(SendError),
            Err(ended) => time::failed(ended),
        }
    }
}

impl<T> SyncSender<T> {
    pub(super) fn new(queue: Arc<Queue<T>>) -> Self {
        SyncSender { queue }
    }

    /// Sends `value`; waits while there is no room. Without any room, for the receiver to take it.
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
        match self.queue.0.request(SendBounded { value, patience: Patience::Endless }) {
            Ok(Sent::Done) => Ok(()),
            Ok(other) => self.unsent(other).map_err(|error| SendError(error.into_inner())),
            Err(ended) => time::failed(ended),
        }
    }

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
        match self.queue.0.request(SendBounded { value, patience: Patience::None }) {
            Ok(sent) => self.unsent(sent).map_err(|error| match error {
                SendTimeoutError::Timeout(value) => TrySendError::Full(value),
                SendTimeoutError::Disconnected(value) => TrySendError::Disconnected(value),
            }),
            Err(ended) => time::failed(ended),
        }
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
        self.send_by(value, time::after(timeout))
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
        self.send_by(value, Some(deadline))
    }

    #[track_caller]
    fn send_by(&self, value: T, deadline: Option<Instant>) -> Result<(), SendTimeoutError<T>> {
        match self.queue.0.request_until(SendBounded { value, patience: Patience::Timed }, deadline) {
            Ok(sent) => self.unsent(sent),
            Err(ended) => time::failed(ended),
        }
    }

    /// What became of a value, in the widest of the error types.
    #[track_caller]
    fn unsent(&self, sent: Sent<T>) -> Result<(), SendTimeoutError<T>> {
        match sent {
            Sent::Done => Ok(()),
            Sent::Full(value) | Sent::GaveUp(value, Ended::Deadline) => Err(SendTimeoutError::Timeout(value)),
            Sent::Refused(value) => Err(SendTimeoutError::Disconnected(value)),
            Sent::Shelved(place) => match self.queue.0.request(Fetch(place)) {
                Ok(value) => Err(SendTimeoutError::Disconnected(value.expect("each place is told to one sender"))),
                Err(ended) => time::failed(ended),
            },
            Sent::GaveUp(value, ended) => {
                drop(value);
                time::failed(ended)
            }
        }
    }
}

/// What both ends that send have in common.
macro_rules! sender {
    ($name:ident) => {
        impl<T> Clone for $name<T> {
            fn clone(&self) -> Self {
                self.queue.0.release(AddSender);
                $name { queue: Arc::clone(&self.queue) }
            }
        }

        impl<T> Drop for $name<T> {
            fn drop(&mut self) {
                self.queue.0.release(DropSender);
            }
        }

        impl<T> fmt::Debug for $name<T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($name)).finish_non_exhaustive()
            }
        }
    };
}

sender!(Sender);
sender!(SyncSender);
