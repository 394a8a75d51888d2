//! The senders' ends of a channel.

use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::mpsc::{SendError, TrySendError};
use std::time::{Duration, Instant};

use proto_core::{Channel, SendTimeoutError};

use crate::time;

/// The sending end of a [`channel`](super::channel). Each clone is a sender of its own.
///
/// `B` says whether the queue has a bound, so that sending may wait: see [`SyncSender`].
pub struct Sender<T, B = Unbounded> {
    pub(crate) channel: Arc<Channel<T>>,
    pub(super) _bound: PhantomData<B>,
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
        self.channel.send(value, None).map_err(|error| SendError(error.into_inner()))
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
        self.channel.send(value, None).map_err(|error| SendError(error.into_inner()))
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
        self.channel.try_send(value).map_err(|error| match error {
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

impl<T, B> Clone for Sender<T, B> {
    fn clone(&self) -> Self {
        self.channel.add_sender();
        Sender { channel: Arc::clone(&self.channel), _bound: PhantomData }
    }
}

impl<T, B> Drop for Sender<T, B> {
    fn drop(&mut self) {
        self.channel.drop_sender();
    }
}

opaque!(Sender<T, B>);
