//! The queue of values without ends, which languages build their channels, streams and mailboxes from.
//!
//! | file | what lives there |
//! |---|---|
//! | `queue` | the environment: where a value is, its dangerous races |
//! | `error` | [`SendTimeoutError`] |
//! | `select` | a [`Select`](crate::Select) over channels |
//!
//! A send and a receive are one request each. Only a send that finds no memory is three: see `queue`.

mod error;
mod queue;
mod select;

use std::fmt;
use std::sync::mpsc::{RecvTimeoutError, TryRecvError};
use std::time::Instant;

pub use error::SendTimeoutError;
use queue::{Queue, Receive, Send, Sent, Unsent};

use crate::ended::{Ended, OrUnwind};
use crate::env::{Backlog, EnvCell, RequestHandler};

/// A queue of values from many timelines to one, without the two ends that a language gives out.
///
/// The language's ends share it, and tell it when they are [cloned](Channel::add_sender) and dropped: at first it has one sender and one
/// receiver. Who waits suspends. First in, first out: values that wait for room included.
///
/// # Examples
///
/// ```
/// use proto_core::Channel;
///
/// let channel = Channel::new(0); // each value waits for its receiver
/// proto_core::scope(|s| {
///     s.spawn(|| {
///         (1..=3).for_each(|number| channel.send(number, None).expect("it is received"));
///         channel.drop_sender();
///     });
///     let received: Vec<_> = std::iter::from_fn(|| channel.receive(None).ok()).collect();
///     assert_eq!(received, [1, 2, 3]);
/// });
/// ```
///
/// Not to wait, or not for long; and the ends that a language gives out:
///
/// ```
/// use std::sync::mpsc::TryRecvError;
/// use std::time::{Duration, Instant};
///
/// use proto_core::{Channel, SendTimeoutError};
///
/// let channel = Channel::new(1);
/// channel.add_sender(); // two, now
/// assert_eq!(channel.try_send('a'), Ok(()));
/// assert_eq!(channel.try_send('b'), Err(SendTimeoutError::Timeout('b')));
/// let soon = Instant::now() + Duration::from_millis(1);
/// assert_eq!(channel.send('c', Some(soon)), Err(SendTimeoutError::Timeout('c')));
///
/// assert_eq!(channel.try_receive(), Ok('a'));
/// channel.drop_sender();
/// assert_eq!(channel.try_receive(), Err(TryRecvError::Empty));
/// channel.drop_sender();
/// assert_eq!(channel.try_receive(), Err(TryRecvError::Disconnected));
/// ```
pub struct Channel<T> {
    queue: EnvCell<Queue<T>>,
}

impl<T> fmt::Debug for Channel<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Channel").field("queue", &self.queue).finish()
    }
}

impl<T> Channel<T> {
    /// A channel with room for `bound` values, besides those that their receiver takes at once. Reports name it by the caller's line.
    ///
    /// [`usize::MAX`] is no bound: then sending never waits.
    #[track_caller]
    pub const fn new(bound: usize) -> Self {
        Channel { queue: EnvCell::new(Queue::new(bound)) }
    }

    /// Sends `value`; waits for room until `deadline` at most. `None` waits for ever.
    ///
    /// # Errors
    ///
    /// Gives the value back if there is no room in time, or the receiver has gone.
    ///
    /// # Panics
    ///
    /// Unwinds if the calling timeline is cancelled; the value is dropped then.
    #[inline(always)]
    #[track_caller]
    pub fn send(&self, value: T, deadline: Option<Instant>) -> Result<(), SendTimeoutError<T>> {
        self.settle(self.request(Send { value, waits: true }, deadline).or_unwind(), true, deadline)
    }

    /// Sends `value` if there is room: without a bound of at least 1, if the receiver waits.
    ///
    /// # Errors
    ///
    /// Gives the value back if there is no room ([`SendTimeoutError::Timeout`]), or the receiver has gone.
    ///
    /// # Panics
    ///
    /// As [`send`](Self::send).
    #[inline]
    #[track_caller]
    pub fn try_send(&self, value: T) -> Result<(), SendTimeoutError<T>> {
        self.settle(self.queue.request(Send { value, waits: false }).or_unwind(), false, None)
    }

    /// Inlined to the pass where there is no deadline: a value through a call of its own costs a good ten instructions.
    #[inline(always)]
    #[track_caller]
    fn request<R>(&self, request: R, deadline: Option<Instant>) -> Result<<Queue<T> as RequestHandler<R>>::Reply, Ended>
    where
        Queue<T>: RequestHandler<R>,
    {
        match deadline {
            None => self.queue.request(request),
            at => self.queue.request_until(request, at),
        }
    }

    /// What comes of a request to send. It is made again if the queue had no memory.
    #[inline(always)]
    #[track_caller]
    fn settle(&self, sent: Sent<T>, waits: bool, deadline: Option<Instant>) -> Result<(), SendTimeoutError<T>> {
        match sent {
            Ok(()) => Ok(()),
            Err((value, why)) => self.unsent(value, why, waits, deadline),
        }
    }

    #[track_caller]
    fn unsent(&self, value: T, why: Unsent, waits: bool, deadline: Option<Instant>) -> Result<(), SendTimeoutError<T>> {
        match why {
            Unsent::NoMemory(more) => {
                let room = Backlog::with_capacity(more);
                drop(self.queue.update(|queue, _, _| queue.grow(room)));
                if waits { self.send(value, deadline) } else { self.try_send(value) }
            }
            Unsent::Refused => Err(SendTimeoutError::Disconnected(value)),
            Unsent::Full | Unsent::GaveUp(Ended::Deadline) => Err(SendTimeoutError::Timeout(value)),
            Unsent::GaveUp(ended) => {
                drop(value);
                Err(ended).or_unwind()
            }
        }
    }

    /// The next value; waits for it until `deadline` at most. `None` waits for ever.
    ///
    /// # Errors
    ///
    /// If there is none in time, or there is none and all senders have gone.
    ///
    /// # Panics
    ///
    /// Unwinds if the calling timeline is cancelled.
    #[inline(always)]
    #[track_caller]
    pub fn receive(&self, deadline: Option<Instant>) -> Result<T, RecvTimeoutError> {
        match self.request(Receive { waits: true }, deadline) {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(_)) => Err(RecvTimeoutError::Disconnected),
            Err(Ended::Deadline) => Err(RecvTimeoutError::Timeout),
            Err(ended) => Err(ended).or_unwind(),
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
    /// As [`receive`](Self::receive).
    #[track_caller]
    pub fn try_receive(&self) -> Result<T, TryRecvError> {
        self.queue.request(Receive { waits: false }).or_unwind()
    }

    /// There is one sender more.
    #[track_caller]
    pub fn add_sender(&self) {
        self.queue.update(|queue, _, _| queue.add_sender());
    }

    /// A sender has gone. If it was the last, whoever receives is told so when there is nothing left.
    #[track_caller]
    pub fn drop_sender(&self) {
        self.queue.update(|queue, _, hidden| queue.drop_sender(hidden));
    }

    /// The receiver has gone: what is in the channel is dropped, and who waits for room gets the value back.
    ///
    /// # Examples
    ///
    /// ```
    /// use proto_core::{Channel, SendTimeoutError};
    ///
    /// let channel = Channel::new(usize::MAX);
    /// channel.send("dropped with the receiver", None).unwrap();
    /// channel.drop_receiver();
    /// assert_eq!(channel.send("comes back", None), Err(SendTimeoutError::Disconnected("comes back")));
    /// ```
    #[track_caller]
    pub fn drop_receiver(&self) {
        self.queue.update(|queue, _, hidden| queue.drop_receiver(hidden));
    }
}
