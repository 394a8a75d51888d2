//! Waiting for the first of several channels: [`Select`], and the macro [`select!`](crate::select) around it.
//!
//! The core's select does the waiting: one wait with a token in each channel, of which the first that is answered wins. A sender
//! that finds the receiver just entering its queues leaves the value in the buffer, and the receiver looks again.

use std::fmt;
use std::sync::mpsc::RecvError;
use std::time::{Duration, Instant};

use proto_core::Ended;

use crate::mpsc::{Receive, Receiver};
use crate::time;

/// Receives from the first of several channels that has a value or has lost its senders.
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

impl<R> fmt::Debug for Select<'_, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Select").finish_non_exhaustive()
    }
}

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
        Select { waiting: self.waiting.on(&receiver.queue().0, || Receive, then) }
    }

    /// Waits for the first.
    ///
    /// # Panics
    ///
    /// Unwinds if the calling virtual processor is cancelled.
    #[track_caller]
    pub fn wait(self) -> R {
        match self.waiting.wait(None) {
            Ok((_, result)) => result,
            Err(ended) => time::failed(ended),
        }
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
        self.wait_by(time::after(timeout))
    }

    /// As [`wait`](Self::wait), until `deadline`: `None` if that has come.
    ///
    /// # Panics
    ///
    /// As [`wait`](Self::wait).
    #[track_caller]
    pub fn wait_until(self, deadline: Instant) -> Option<R> {
        self.wait_by(Some(deadline))
    }

    #[track_caller]
    fn wait_by(self, deadline: Option<Instant>) -> Option<R> {
        let outcome: Result<_, Ended> = self.waiting.wait(deadline);
        time::timed(outcome).map(|(_, result)| result)
    }
}

/// Receives from the first of several channels, in the shape of a `match`.
///
/// `recv(receiver) -> pattern => expression` for each channel; at the end, if wanted, `default => expression` for when none is
/// ready, or `default(timeout) => expression` for when none is in time. What is received is a `Result<T, RecvError>`.
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
#[macro_export]
macro_rules! select {
    ($(recv($receiver:expr) -> $received:pat => $result:expr),+ $(,)?) => {
        $crate::Select::new()$(.recv(&$receiver, |$received| $result))+.wait()
    };
    ($(recv($receiver:expr) -> $received:pat => $result:expr),+, default => $default:expr $(,)?) => {
        $crate::select!($(recv($receiver) -> $received => $result),+, default(::core::time::Duration::ZERO) => $default)
    };
    ($(recv($receiver:expr) -> $received:pat => $result:expr),+, default($timeout:expr) => $default:expr $(,)?) => {
        match $crate::Select::new()$(.recv(&$receiver, |$received| $result))+.wait_timeout($timeout) {
            ::core::option::Option::Some(result) => result,
            ::core::option::Option::None => $default,
        }
    };
}
