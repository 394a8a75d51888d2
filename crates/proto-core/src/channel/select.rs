//! Selects over channels.

use std::cell::Cell;
use std::sync::mpsc::RecvError;

use super::queue::{Receive, Send};
use super::{Channel, SendTimeoutError};
use crate::env::Select;

impl<'a, Out> Select<'a, Out> {
    /// Adds a branch: to receive from `channel`. `then` gets the value, or learns that all senders have gone.
    ///
    /// # Panics
    ///
    /// As [`on`](Self::on).
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::mpsc::RecvError;
    ///
    /// use proto_core::{Channel, Select};
    ///
    /// let (words, numbers) = (Channel::<&str>::new(1), Channel::<u32>::new(1));
    /// numbers.send(5, None).unwrap();
    /// numbers.drop_sender();
    /// let next = || Select::new().receive(&words, |word| word.map(str::to_owned)).receive(&numbers, |n| Ok(n?.to_string()));
    /// assert_eq!(next().wait(None)?, (1, Ok("5".to_owned())));
    /// assert_eq!(next().wait(None)?, (1, Err(RecvError)), "a channel without senders is always ready");
    /// # Ok::<(), proto_core::Ended>(())
    /// ```
    pub fn receive<T: 'a>(self, channel: &'a Channel<T>, then: impl FnOnce(Result<T, RecvError>) -> Out + 'a) -> Self {
        self.on(&channel.queue, || Receive { waits: true }, |received| then(received.map_err(|_| RecvError)))
    }

    /// Adds a branch: to send what is in `value` to `channel`. `then` gets the value back if the receiver has gone.
    ///
    /// If another branch wins, or none does, what was in `value` is in there again.
    ///
    /// # Panics
    ///
    /// As [`on`](Self::on); and when the select begins to wait, if there is nothing in `value`.
    ///
    /// # Examples
    ///
    /// ```
    /// use proto_core::{Channel, Select};
    ///
    /// let (full, empty) = (Channel::new(0), Channel::new(1));
    /// let (mut one, mut two) = (Some(1), Some(2));
    /// let first = Select::new().send(&full, &mut one, |_| "one").send(&empty, &mut two, |_| "two").wait(None)?;
    /// assert_eq!((first, one, two), ((1, "two"), Some(1), None));
    /// # Ok::<(), proto_core::Ended>(())
    /// ```
    pub fn send<T: 'a>(
        self,
        channel: &'a Channel<T>,
        value: &'a mut Option<T>,
        then: impl FnOnce(Result<(), SendTimeoutError<T>>) -> Out + 'a,
    ) -> Self {
        let value = Cell::from_mut(value);
        let take = || Send { value: value.take().expect("there is no value to send"), waits: true };
        let then = |sent| then(channel.settle(sent, true, None));
        let lost = |sent| value.set(Result::err(sent).map(|(value, _)| value));
        self.on_returning(&channel.queue, take, then, lost)
    }
}
