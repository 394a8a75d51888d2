//! The receiver's end of a channel, and its iterators.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::mpsc::{RecvError, RecvTimeoutError, TryRecvError};
use std::time::{Duration, Instant};

use super::queue::{DropReceiver, Queue, Receive, TryReceive};
use crate::time;

/// The receiving end of a channel. One timeline at a time uses it.
///
/// ```compile_fail,E0277
/// # let (sender, receiver) = proto_lang_mutex::channel::<u32>();
/// proto_lang_mutex::scope(|s| {
///     s.spawn(|| receiver.recv()); // a receiver is not `Sync`
/// });
/// ```
pub struct Receiver<T> {
    queue: Arc<Queue<T>>,
    /// `Send`, but not `Sync`.
    _one: PhantomData<std::cell::Cell<()>>,
}

impl<T> Receiver<T> {
    pub(super) fn new(queue: Arc<Queue<T>>) -> Self {
        Receiver { queue, _one: PhantomData }
    }

    pub(crate) fn queue(&self) -> &Queue<T> {
        &self.queue
    }

    /// The next value; waits for it.
    ///
    /// # Errors
    ///
    /// If there is none, and all senders are gone.
    ///
    /// # Panics
    ///
    /// Unwinds if the calling virtual processor is cancelled.
    #[inline]
    #[track_caller]
    pub fn recv(&self) -> Result<T, RecvError> {
        match self.queue.0.request(Receive) {
            Ok(received) => received,
            Err(ended) => time::failed(ended),
        }
    }

    /// The next value, if it is there.
    ///
    /// # Errors
    ///
    /// If it is not; says whether there may be one later.
    ///
    /// # Panics
    ///
    /// As [`recv`](Self::recv).
    ///
    /// # Examples
    ///
    /// ```
    /// use proto_lang_mutex::sync::mpsc::{self, TryRecvError};
    /// let (sender, receiver) = mpsc::channel::<u32>();
    /// assert_eq!(receiver.try_recv(), Err(TryRecvError::Empty));
    /// drop(sender);
    /// assert_eq!(receiver.try_recv(), Err(TryRecvError::Disconnected));
    /// ```
    #[track_caller]
    pub fn try_recv(&self) -> Result<T, TryRecvError> {
        match self.queue.0.request(TryReceive) {
            Ok(Ok(Some(value))) => Ok(value),
            Ok(Ok(None)) => Err(TryRecvError::Empty),
            Ok(Err(RecvError)) => Err(TryRecvError::Disconnected),
            Err(ended) => time::failed(ended),
        }
    }

    /// As [`recv`](Self::recv), for at most `timeout`.
    ///
    /// # Errors
    ///
    /// If the time is over, or all senders are gone.
    ///
    /// # Panics
    ///
    /// As [`recv`](Self::recv).
    ///
    /// # Examples
    ///
    /// ```
    /// use proto_lang_mutex::sync::mpsc::{self, RecvTimeoutError};
    /// use std::time::Duration;
    /// let (sender, receiver) = mpsc::channel::<u32>();
    /// assert_eq!(receiver.recv_timeout(Duration::from_millis(1)), Err(RecvTimeoutError::Timeout));
    /// # drop(sender);
    /// ```
    #[track_caller]
    pub fn recv_timeout(&self, timeout: Duration) -> Result<T, RecvTimeoutError> {
        self.recv_by(time::after(timeout))
    }

    /// As [`recv`](Self::recv), until `deadline`.
    ///
    /// # Errors
    ///
    /// As [`recv_timeout`](Self::recv_timeout).
    ///
    /// # Panics
    ///
    /// As [`recv`](Self::recv).
    #[track_caller]
    pub fn recv_deadline(&self, deadline: Instant) -> Result<T, RecvTimeoutError> {
        self.recv_by(Some(deadline))
    }

    #[track_caller]
    fn recv_by(&self, deadline: Option<Instant>) -> Result<T, RecvTimeoutError> {
        match time::timed(self.queue.0.request_until(Receive, deadline)) {
            Some(Ok(value)) => Ok(value),
            Some(Err(RecvError)) => Err(RecvTimeoutError::Disconnected),
            None => Err(RecvTimeoutError::Timeout),
        }
    }

    /// An iterator that waits for each value, and ends when all senders are gone.
    pub fn iter(&self) -> Iter<'_, T> {
        Iter { receiver: self }
    }

    /// An iterator over the values that are there.
    ///
    /// # Examples
    ///
    /// ```
    /// let (sender, receiver) = proto_lang_mutex::channel();
    /// sender.send(1).unwrap();
    /// sender.send(2).unwrap();
    /// assert_eq!(receiver.try_iter().collect::<Vec<_>>(), [1, 2]);
    /// ```
    pub fn try_iter(&self) -> TryIter<'_, T> {
        TryIter { receiver: self }
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        self.queue.0.release(DropReceiver);
    }
}

impl<T> fmt::Debug for Receiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receiver").finish_non_exhaustive()
    }
}

/// An iterator over what a [`Receiver`] receives; see [`Receiver::iter`].
#[derive(Debug)]
pub struct Iter<'a, T> {
    receiver: &'a Receiver<T>,
}

/// An iterator over what is there already; see [`Receiver::try_iter`].
#[derive(Debug)]
pub struct TryIter<'a, T> {
    receiver: &'a Receiver<T>,
}

/// An iterator over what a [`Receiver`] receives, which it owns.
#[derive(Debug)]
pub struct IntoIter<T> {
    receiver: Receiver<T>,
}

impl<T> Iterator for Iter<'_, T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        self.receiver.recv().ok()
    }
}

impl<T> Iterator for TryIter<'_, T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        self.receiver.try_recv().ok()
    }
}

impl<T> Iterator for IntoIter<T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        self.receiver.recv().ok()
    }
}

impl<'a, T> IntoIterator for &'a Receiver<T> {
    type Item = T;
    type IntoIter = Iter<'a, T>;

    fn into_iter(self) -> Iter<'a, T> {
        self.iter()
    }
}

impl<T> IntoIterator for Receiver<T> {
    type Item = T;
    type IntoIter = IntoIter<T>;

    fn into_iter(self) -> IntoIter<T> {
        IntoIter { receiver: self }
    }
}
