//! Waiting for the first of several channels: [`Select`], and the macro [`select!`](crate::select) around it.
//!
//! The core's select does the waiting: one wait with a token in each channel, of which the first that is answered wins. A sender
//! that finds the receiver just entering its queues leaves the value in the buffer, and the receiver looks again. A value that the select
//! itself would send lies with its token; when another branch has won it comes back to where it was taken from.

use std::sync::mpsc::{RecvError, SendError};
use std::time::{Duration, Instant};

use proto_core::OrUnwind;

use crate::mpsc::{Receiver, Sender};
use crate::time;

/// Receives from, or sends to, the first of several channels that is ready: has a value, has room, or has lost its other end.
///
/// Of several that are ready the one wins that was added first.
///
/// # Examples
///
/// ```
/// use proto_lang_mutex::{Select, channel};
///
/// let (numbers, number) = channel::<u32>();
/// let (texts, text) = channel::<&str>();
/// texts.send("seven").unwrap();
/// let first = Select::new()
///     .recv(&number, |n| n.unwrap().to_string())
///     .recv(&text, |t| t.unwrap().to_owned())
///     .wait();
/// assert_eq!(first, "seven");
/// # drop(numbers);
/// ```
#[must_use = "a select does nothing until it waits"]
pub struct Select<'a, R> {
    waiting: proto_core::Select<'a, R>,
}

opaque!(Select[R], Select<'_, R>);

impl<R> Default for Select<'_, R> {
    fn default() -> Self {
        Select::new()
    }
}

impl<'a, R> Select<'a, R> {
    /// Without channels.
    pub fn new() -> Self {
        Select { waiting: proto_core::Select::new() }
    }

    /// Adds a channel: if it is the first, the select yields what `then` makes of what was received.
    pub fn recv<T: 'a>(self, receiver: &'a Receiver<T>, then: impl FnOnce(Result<T, RecvError>) -> R + 'a) -> Self {
        Select { waiting: self.waiting.receive(&receiver.channel, then) }
    }

    /// Adds a channel to send to: if it is the first, the select yields what `then` makes of having sent what was in `value`.
    ///
    /// If another branch wins, or none does in time, what was in `value` is in there again.
    ///
    /// # Panics
    ///
    /// When the select begins to wait, if there is nothing in `value`.
    ///
    /// # Examples
    ///
    /// ```
    /// use proto_lang_mutex::{Select, channel, sync_channel};
    ///
    /// let (results, result) = sync_channel(1);
    /// let (stop, stopped) = channel::<()>();
    /// let mut next = Some(5);
    /// let sent = Select::new().recv(&stopped, |_| false).send(&results, &mut next, |sent| sent.is_ok()).wait();
    /// assert_eq!((sent, next, result.recv()), (true, None, Ok(5)));
    ///
    /// let mut next = Some(6);
    /// stop.send(()).unwrap();
    /// let sent = Select::new().recv(&stopped, |_| false).send(&results, &mut next, |sent| sent.is_ok()).wait();
    /// assert_eq!((sent, next), (false, Some(6)));
    /// ```
    pub fn send<T: 'a, const BOUNDED: bool>(
        self,
        sender: &'a Sender<T, BOUNDED>,
        value: &'a mut Option<T>,
        then: impl FnOnce(Result<(), SendError<T>>) -> R + 'a,
    ) -> Self {
        Select { waiting: self.waiting.send(&sender.channel, value, |sent| then(sent.map_err(SendError::from))) }
    }

    /// Waits for the first.
    ///
    /// # Panics
    ///
    /// Unwinds if the calling virtual processor is cancelled.
    #[track_caller]
    pub fn wait(self) -> R {
        self.waiting.wait(None).or_unwind().1
    }

    /// As [`wait`](Self::wait), for at most `timeout`: `None` if the time is over. A timeout of zero looks once.
    ///
    /// # Panics
    ///
    /// As [`wait`](Self::wait).
    ///
    /// # Examples
    ///
    /// ```
    /// use proto_lang_mutex::{Select, channel};
    /// use std::time::Duration;
    /// let (sender, receiver) = channel::<u32>();
    /// assert_eq!(Select::new().recv(&receiver, |n| n).wait_timeout(Duration::ZERO), None);
    /// # drop(sender);
    /// ```
    #[track_caller]
    pub fn wait_timeout(self, timeout: Duration) -> Option<R> {
        self.waiting.wait(time::after(timeout)).in_time().map(|(_, result)| result)
    }

    /// As [`wait`](Self::wait), until `deadline`: `None` if that has come.
    ///
    /// # Panics
    ///
    /// As [`wait`](Self::wait).
    #[track_caller]
    pub fn wait_until(self, deadline: Instant) -> Option<R> {
        self.waiting.wait(Some(deadline)).in_time().map(|(_, result)| result)
    }
}

/// Receives from, or sends to, the first of several channels that is ready, in the shape of a `match`.
///
/// `recv(receiver) -> pattern => expression` and `send(sender, value) -> pattern => expression` for each channel; at the end, if wanted,
/// `default => expression` for when none is ready, or `default(timeout) => expression` for when none is in time. What is
/// received is a `Result<T, RecvError>`. What is sent is taken out of `value`, a place with an `Option<T>`, and the pattern gets a
/// `Result<(), SendError<T>>`; if another branch wins, it is in `value` again.
///
/// # Examples
///
/// ```
/// use proto_lang_mutex::{channel, select};
/// use std::time::Duration;
///
/// let (numbers, number) = channel::<u32>();
/// let (texts, text) = channel::<String>();
/// numbers.send(7).unwrap();
/// let what = select! {
///     recv(text) -> t => t.unwrap(),
///     recv(number) -> n => format!("number {}", n.unwrap()),
///     default(Duration::from_secs(60)) => "nothing for a minute".to_owned(),
/// };
/// assert_eq!(what, "number 7");
/// let what = select! {
///     recv(number) -> _ => "a number",
///     default => "nothing",
/// };
/// assert_eq!(what, "nothing");
/// # drop((numbers, texts));
/// ```
///
/// Values go out and come in, whichever is possible first:
///
/// ```
/// use proto_lang_mutex::{select, sync_channel, thread};
///
/// let (work, to_do) = sync_channel(0);
/// let (done, squares) = sync_channel(0);
/// thread::spawn(move || to_do.iter().all(|n: u32| done.send(n * n).is_ok()));
/// let (mut number, mut next, mut sum) = (1, None, 0);
/// while sum < 1 + 4 + 9 {
///     next.get_or_insert(number);
///     select! {
///         send(work, next) -> sent => { sent.unwrap(); number += 1 },
///         recv(squares) -> square => sum += square.unwrap(),
///     }
/// }
/// assert_eq!(sum, 14);
/// ```
#[macro_export]
macro_rules! select {
    (@ $select:expr;) => { $select.wait() };
    (@ $select:expr; default => $default:expr $(,)?) => {
        $crate::select!(@ $select; default(::core::time::Duration::ZERO) => $default)
    };
    (@ $select:expr; default($timeout:expr) => $default:expr $(,)?) => {
        match $select.wait_timeout($timeout) {
            ::core::option::Option::Some(result) => result,
            ::core::option::Option::None => $default,
        }
    };
    (@ $select:expr; recv($receiver:expr) -> $received:pat => $result:expr $(, $($others:tt)*)?) => {
        $crate::select!(@ $select.recv(&$receiver, |$received| $result); $($($others)*)?)
    };
    (@ $select:expr; send($sender:expr, $value:expr) -> $sent:pat => $result:expr $(, $($others:tt)*)?) => {
        $crate::select!(@ $select.send(&$sender, &mut $value, |$sent| $result); $($($others)*)?)
    };
    ($($branches:tt)+) => { $crate::select!(@ $crate::Select::new(); $($branches)+) };
}
