//! The receiver's end of a channel, and its iterators.

use std::borrow::Borrow;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::mpsc::{RecvError, RecvTimeoutError, TryRecvError};
use std::time::{Duration, Instant};

use proto_core::Channel;

use crate::time;

/// The receiving end of a channel. One timeline at a time uses it.
///
/// ```compile_fail,E0277
/// # let (sender, receiver) = proto_lang_mutex::channel::<u32>();
/// proto_lang_mutex::scope(|s| {
///     s.spawn(|| receiver.recv()); // a receiver is not `Sync`
/// });
/// ```
///
/// # Examples
///
/// ```
/// use proto_lang_mutex::sync::mpsc::{self, Receiver, RecvTimeoutError};
/// use std::time::Instant;
///
/// let (sender, numbers): (_, Receiver<u32>) = mpsc::channel();
/// assert_eq!(numbers.recv_deadline(Instant::now()), Err(RecvTimeoutError::Timeout));
/// (1..=4).try_for_each(|n| sender.send(n))?;
/// drop(sender);
/// assert_eq!(numbers.recv(), Ok(1));
/// let even: Vec<_> = numbers.iter().filter(|n| n % 2 == 0).collect(); // until no sender is left
/// assert_eq!(even, [2, 4]);
/// assert!(numbers.recv().is_err());
/// # Ok::<(), mpsc::SendError<u32>>(())
/// ```
pub struct Receiver<T> {
    pub(crate) channel: Arc<Channel<T>>,
    /// `Send`, but not `Sync`.
    pub(super) _one: PhantomData<std::cell::Cell<()>>,
}

impl<T> Receiver<T> {
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
        self.channel.receive(None).map_err(|_| RecvError)
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
        self.channel.try_receive()
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
        self.channel.receive(time::after(timeout))
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
        self.channel.receive(Some(deadline))
    }

    /// An iterator that waits for each value, and ends when all senders are gone.
    pub fn iter(&self) -> Iter<'_, T> {
        Values { receiver: self, _value: PhantomData }
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
        Values { receiver: self, _value: PhantomData }
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        self.channel.drop_receiver();
    }
}

/// An iterator over what a receiver receives: with `WAITS`, until all senders are gone, else until there is nothing for the moment. `R` is
/// the [`Receiver`], or a reference to it.
#[derive(Debug)]
pub struct Values<T, R, const WAITS: bool> {
    receiver: R,
    _value: PhantomData<fn() -> T>,
}

/// An iterator over what a [`Receiver`] receives; see [`Receiver::iter`].
///
/// # Examples
///
/// ```
/// use proto_lang_mutex::sync::mpsc::{self, Iter};
///
/// fn longest(words: Iter<'_, String>) -> Option<String> {
///     words.max_by_key(String::len)
/// }
/// let (sender, receiver) = mpsc::channel();
/// sender.send("word".to_owned()).unwrap();
/// drop(sender);
/// assert_eq!(longest(receiver.iter()).as_deref(), Some("word"));
/// ```
pub type Iter<'a, T> = Values<T, &'a Receiver<T>, true>;

/// An iterator over what is there already; see [`Receiver::try_iter`].
///
/// # Examples
///
/// ```
/// use proto_lang_mutex::sync::mpsc::{self, TryIter};
///
/// fn now(numbers: TryIter<'_, u32>) -> u32 {
///     numbers.sum()
/// }
/// let (sender, receiver) = mpsc::channel();
/// assert_eq!(now(receiver.try_iter()), 0); // there may be some later
/// sender.send(5).unwrap();
/// assert_eq!(now(receiver.try_iter()), 5);
/// ```
pub type TryIter<'a, T> = Values<T, &'a Receiver<T>, false>;

/// An iterator over what a [`Receiver`] receives, which it owns.
///
/// # Examples
///
/// ```
/// use proto_lang_mutex::sync::mpsc::{self, IntoIter};
///
/// let (sender, receiver) = mpsc::channel();
/// sender.send(1).unwrap();
/// let mut numbers: IntoIter<u32> = receiver.into_iter();
/// assert_eq!(numbers.next(), Some(1));
/// drop(numbers);
/// assert!(sender.send(2).is_err(), "the receiver went with it");
/// ```
pub type IntoIter<T> = Values<T, Receiver<T>, true>;

impl<T, R: Borrow<Receiver<T>>, const WAITS: bool> Iterator for Values<T, R, WAITS> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        let receiver = self.receiver.borrow();
        if WAITS { receiver.recv().ok() } else { receiver.try_recv().ok() }
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
        Values { receiver: self, _value: PhantomData }
    }
}

opaque!(Receiver[T], Receiver<T>);
