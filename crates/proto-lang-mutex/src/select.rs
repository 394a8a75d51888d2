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
/// Of several that are ready one wins by turns ([fairly](proto_core::Select::fairly)): whoever selects again and again serves each. Made
/// [`biased`](Self::biased), of several the one wins that was added first.
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
        Select { waiting: proto_core::Select::new().fairly() }
    }

    /// Without channels. Of those that will be ready the one wins that was added first, each time; it may starve the others.
    ///
    /// # Examples
    ///
    /// ```
    /// use proto_lang_mutex::{Select, channel};
    ///
    /// let (urgent, first) = channel();
    /// let (usual, second) = channel();
    /// usual.send("usual").unwrap();
    /// urgent.send("urgent").unwrap();
    /// assert_eq!(Select::biased().recv(&first, |it| it).recv(&second, |it| it).wait(), Ok("urgent"));
    /// ```
    pub fn biased() -> Self {
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
    /// let sent = Select::biased().recv(&stopped, |_| false).send(&results, &mut next, |sent| sent.is_ok()).wait();
    /// assert_eq!((sent, next, result.recv()), (true, None, Ok(5)));
    ///
    /// let mut next = Some(6);
    /// stop.send(()).unwrap();
    /// let sent = Select::biased().recv(&stopped, |_| false).send(&results, &mut next, |sent| sent.is_ok()).wait();
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
    ///
    /// # Examples
    ///
    /// ```
    /// use proto_lang_mutex::{Receiver, Select};
    /// use std::time::Instant;
    ///
    /// /// The first word of two sources, if one comes before `deadline`.
    /// fn first(left: &Receiver<String>, right: &Receiver<String>, deadline: Instant) -> Option<String> {
    ///     Select::new().recv(left, Result::ok).recv(right, Result::ok).wait_until(deadline)?
    /// }
    /// let ((_one, left), (two, right)) = (proto_lang_mutex::channel(), proto_lang_mutex::channel());
    /// assert_eq!(first(&left, &right, Instant::now()), None);
    /// two.send("right".to_owned()).unwrap();
    /// assert_eq!(first(&left, &right, Instant::now()).as_deref(), Some("right"));
    /// ```
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
/// The expressions are plain code: they may change the same variable, and leave the function or a loop around by `return`, `?` or `break`. The
/// patterns must fit whatever comes.
///
/// Of several channels that are ready one wins by turns, so that in a loop each is served; with `biased;` before the branches, the first in
/// their order.
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
/// Until a word to stop, which goes before all else:
///
/// ```
/// use proto_lang_mutex::{Receiver, select};
/// use std::sync::mpsc::RecvError;
///
/// fn sum(numbers: &Receiver<u32>, stop: &Receiver<()>) -> Result<u32, RecvError> {
///     let mut sum = 0;
///     loop {
///         select! {
///             biased;
///             recv(stop) -> _ => return Ok(sum),
///             recv(numbers) -> number => sum += number?,
///             default => break Ok(sum),
///         }
///     }
/// }
/// # let ((one, ones), (_stop, stopped)) = (proto_lang_mutex::channel(), proto_lang_mutex::channel());
/// # one.send(5).unwrap();
/// # assert_eq!(sum(&ones, &stopped), Ok(5));
/// # drop(one);
/// # assert!(sum(&ones, &stopped).is_err());
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
    (biased; $($branches:tt)+) => { $crate::__select!(biased [] $($branches)+) };
    ($($branches:tt)+) => { $crate::__select!(new [] $($branches)+) };
}

/// The branches are taken one by one: each gets a variable for what it ends with (`end`: another one each time, as it was named by another
/// expansion). When the select is over, what it has come to is plain code, outside of it.
#[doc(hidden)]
#[macro_export]
macro_rules! __select {
    ($new:ident [$($done:tt)*] recv($receiver:expr) -> $got:pat => $then:expr $(, $($others:tt)*)?) => {
        $crate::__select!($new [$($done)* { end recv(&$receiver) $got => $then }] $($($others)*)?)
    };
    ($new:ident [$($done:tt)*] send($sender:expr, $value:expr) -> $got:pat => $then:expr $(, $($others:tt)*)?) => {
        $crate::__select!($new [$($done)* { end send(&$sender, &mut $value) $got => $then }] $($($others)*)?)
    };
    ($new:ident [$($done:tt)+]) => {
        $crate::__select!($new wait() ::core::unreachable!("it is over, so a branch has won"); $($done)+)
    };
    ($new:ident [$($done:tt)+] default => $default:expr $(,)?) => {
        $crate::__select!($new wait_timeout(::core::time::Duration::ZERO) $default; $($done)+)
    };
    ($new:ident [$($done:tt)+] default($timeout:expr) => $default:expr $(,)?) => {
        $crate::__select!($new wait_timeout($timeout) $default; $($done)+)
    };
    ($new:ident $wait:ident($($timeout:expr)?) $default:expr;
     $({ $end:ident $branch:ident($($with:expr),+) $got:pat => $then:expr })+) => {{
        $(let mut $end = ::core::option::Option::None;)+
        let _ = $crate::Select::$new()
            $(.$branch($($with,)+ |end| $end = ::core::option::Option::Some(end)))+
            .$wait($($timeout)?);
        $(if let ::core::option::Option::Some(end) = $end { match end { $got => $then } } else)+ { $default }
    }};
}
