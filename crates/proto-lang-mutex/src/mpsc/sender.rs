//! The senders' ends of a channel.

use std::error::Error;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::mpsc::{SendError, TrySendError};
use std::time::{Duration, Instant};

use proto_core::{Backlog, Ended, EnvCell, OrUnwind};

use super::queue::{AddSender, DropSender, Grow, Queue, Send, Sent, Unsent};
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

/// The sending end of a [`channel`](super::channel). Each clone is a sender of its own.
///
/// `B` says whether the queue has a bound, so that sending may wait: see [`SyncSender`].
pub struct Sender<T, B = Unbounded> {
    queue: Arc<EnvCell<Queue<T>>>,
    _bound: PhantomData<B>,
}

/// The sending end of a [`sync_channel`](super::sync_channel). Each clone is a sender of its own.
pub type SyncSender<T> = Sender<T, Bounded>;

/// The mark of a [`Sender`] to a queue without a bound.
#[derive(Debug)]
pub enum Unbounded {}

/// The mark of a [`Sender`] to a queue with a bound.
#[derive(Debug)]
pub enum Bounded {}

impl<T> Sender<T> {
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
        self.send_waiting(value)
    }
}

impl<T> SyncSender<T> {
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
        self.send_waiting(value)
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
        self.send_by(value, false, None).map_err(|error| match error {
            SendTimeoutError::Timeout(value) => TrySendError::Full(value),
            SendTimeoutError::Disconnected(value) => TrySendError::Disconnected(value),
        })
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
        self.send_by(value, true, time::after(timeout))
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
        self.send_by(value, true, Some(deadline))
    }
}

impl<T, B> Sender<T, B> {
    pub(super) fn new(queue: Arc<EnvCell<Queue<T>>>) -> Self {
        Sender { queue, _bound: PhantomData }
    }

    pub(crate) fn queue(&self) -> &EnvCell<Queue<T>> {
        &self.queue
    }

    #[inline]
    #[track_caller]
    fn send_waiting(&self, value: T) -> Result<(), SendError<T>> {
        self.send_by(value, true, None).map_err(|error| SendError(error.into_inner()))
    }

    #[inline]
    #[track_caller]
    fn send_by(&self, value: T, waits: bool, deadline: Option<Instant>) -> Result<(), SendTimeoutError<T>> {
        match self.queue.request_until(Send { value, waits }, deadline).or_unwind() {
            Ok(()) => Ok(()),
            Err((value, why)) => self.unsent(value, why, waits, deadline),
        }
    }

    /// What came of a request to send, in the widest of the error types. It is made again if the queue had no memory.
    #[inline]
    #[track_caller]
    pub(crate) fn outcome(&self, sent: Sent<T>) -> Result<(), SendTimeoutError<T>> {
        sent.or_else(|(value, why)| self.unsent(value, why, true, None))
    }

    #[track_caller]
    fn unsent(&self, value: T, why: Unsent, waits: bool, deadline: Option<Instant>) -> Result<(), SendTimeoutError<T>> {
        match why {
            Unsent::NoMemory(more) => {
                drop(self.queue.release_asking(Grow(Backlog::with_capacity(more))));
                self.send_by(value, waits, deadline)
            }
            Unsent::Refused => Err(SendTimeoutError::Disconnected(value)),
            Unsent::Full | Unsent::GaveUp(Ended::Deadline) => Err(SendTimeoutError::Timeout(value)),
            Unsent::GaveUp(ended) => {
                drop(value);
                Err(ended).or_unwind()
            }
        }
    }
}

impl<T, B> Clone for Sender<T, B> {
    fn clone(&self) -> Self {
        self.queue.release(AddSender);
        Sender::new(Arc::clone(&self.queue))
    }
}

impl<T, B> Drop for Sender<T, B> {
    fn drop(&mut self) {
        self.queue.release(DropSender);
    }
}

opaque!(Sender<T, B>);
