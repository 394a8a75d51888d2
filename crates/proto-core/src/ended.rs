//! How a request can end other than by its reply, and the unwinding that carries a cancel.
//!
//! A request yields its reply or one [`Ended`]. Nothing else: a timeline that waits is always given one of the two, by
//! exactly one of the parties that race for its wait [design rule 11].

use std::fmt;
use std::sync::Arc;

/// Why a request ended without its reply.
///
/// # Examples
///
/// ```
/// use std::time::Instant;
///
/// use proto_core::{Ended, EnvCell, Suspended, Waiters};
///
/// let queue = EnvCell::new(Waiters::<u32>::new());
/// let passed = queue.ask(|queue, caller, hidden| queue.push(caller, hidden), Some(Instant::now()));
/// assert_eq!(passed, Err(Ended::Deadline));
///
/// let slot = EnvCell::new(None::<Suspended<u32>>);
/// let lost = std::thread::scope(|s| {
///     let waits = s.spawn(|| slot.ask(|slot, caller, hidden| *slot = Some(hidden.suspend(caller)), None));
///     while slot.update(|slot, _, _| slot.take()).flatten().is_none() {
///         std::thread::yield_now();
///     }
///     waits.join().unwrap() // its token was just dropped
/// });
/// assert!(matches!(lost, Err(Ended::Abandoned(_request))));
///
/// let faulty = queue.ask::<u32>(|_, _, _| panic!("a bug of the language"), None);
/// assert!(matches!(faulty, Err(Ended::Broken(message)) if message.contains("a bug")));
///
/// let ended = Ended::Deadline.unwind_if_cancelled(); // comes back: only `Ended::Cancelled` unwinds
/// assert_eq!(ended, Ended::Deadline);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Ended {
    /// A handler of the environment panicked earlier (or while serving this request). The environment's value is gone
    /// and every later request is answered so. Carries the first panic's message.
    Broken(Arc<str>),
    /// The token of this wait was dropped by the language that held it. Carries the name of the request.
    Abandoned(&'static str),
    /// The virtual processor was cancelled, alone or with its scope, process or runtime.
    Cancelled,
    /// The deadline given with the request passed first.
    Deadline,
}

impl Ended {
    /// Goes on as a cancel of the calling virtual processor demands, and otherwise returns the reason.
    ///
    /// A language calls this where its construct has no way to report a cancel: [`Ended::Cancelled`] starts the
    /// unwinding of the virtual processor (by [`std::panic::resume_unwind`], so no panic hook runs), every other reason
    /// comes back for the language to report.
    ///
    /// # Panics
    ///
    /// Unwinds with [`Cancelled`] if `self` is [`Ended::Cancelled`]; in a `panic=abort` build, where a cancel cannot
    /// unwind, cancels are refused when they are asked for, so this never sees one there.
    pub fn unwind_if_cancelled(self) -> Ended {
        if self == Ended::Cancelled {
            crate::vp::cancel::unwind_cancelled()
        }
        self
    }
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Ended::Broken(message) => write!(f, "the environment is broken: a handler of it panicked: {message}"),
            Ended::Abandoned(request) => write!(f, "the language dropped the timeline that waited in {request}"),
            Ended::Cancelled => f.write_str("the virtual processor was cancelled"),
            Ended::Deadline => f.write_str("the deadline passed"),
        }
    }
}

impl std::error::Error for Ended {}

/// What a construct without an error of its own makes of its request's result.
///
/// Most constructs have the shape of a plain function: a lock is taken, a value is received, or the timeline does not go on.
///
/// # Examples
///
/// ```
/// use proto_core::{Ended, OrUnwind};
///
/// let received: Result<u32, Ended> = Ok(5);
/// assert_eq!(received.or_unwind(), 5);
/// let in_vain: Result<u32, Ended> = Err(Ended::Deadline);
/// assert_eq!(in_vain.in_time(), None);
/// ```
pub trait OrUnwind<T> {
    /// The reply. For requests without a deadline.
    ///
    /// # Panics
    ///
    /// Unwinds if the wait was cancelled ([`Ended::unwind_if_cancelled`]); if it ended otherwise panics at the caller's line with the
    /// reason's text.
    fn or_unwind(self) -> T;

    /// The reply, or `None` if the deadline passed first.
    ///
    /// # Panics
    ///
    /// As [`or_unwind`](Self::or_unwind), for every end but the deadline.
    fn in_time(self) -> Option<T>;
}

impl<T> OrUnwind<T> for Result<T, Ended> {
    #[inline]
    #[track_caller]
    fn or_unwind(self) -> T {
        match self {
            Ok(reply) => reply,
            Err(ended) => no_reply(ended),
        }
    }

    #[inline]
    #[track_caller]
    fn in_time(self) -> Option<T> {
        match self {
            Ok(reply) => Some(reply),
            Err(Ended::Deadline) => None,
            Err(ended) => no_reply(ended),
        }
    }
}

#[cold]
#[track_caller]
fn no_reply(ended: Ended) -> ! {
    let ended = ended.unwind_if_cancelled();
    panic!("{ended}")
}

/// The payload with which a cancelled virtual processor unwinds.
///
/// A `catch_unwind` in user code can see it; swallowing it is allowed and useless: the cancel comes again at the next
/// abandonable wait [design rule 13].
///
/// Once it is dropped the unwinding is over: a panic that follows is a panic, and poisons what it should.
///
/// ```
/// use proto_core::Ended;
///
/// let caught = std::panic::catch_unwind(|| Ended::Cancelled.unwind_if_cancelled());
/// assert!(caught.unwrap_err().is::<proto_core::Cancelled>());
/// ```
#[derive(Debug)]
pub struct Cancelled {
    /// Whose unwinding it is, if a virtual processor's.
    pub(crate) of: Option<crate::vp::VpRef>,
}

impl Drop for Cancelled {
    fn drop(&mut self) {
        if let Some(vp) = &self.of {
            crate::panics::cancel_swallowed(vp);
        }
    }
}

impl fmt::Display for Cancelled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the virtual processor was cancelled")
    }
}

/// The text of a panic payload, for reports.
pub(crate) fn payload_text(payload: &(dyn std::any::Any + Send)) -> &str {
    payload_text_of(payload)
}

/// As [`payload_text`], for a hook's view of the payload.
pub(crate) fn payload_text_of(payload: &dyn std::any::Any) -> &str {
    if let Some(text) = payload.downcast_ref::<&'static str>() {
        text
    } else if let Some(text) = payload.downcast_ref::<String>() {
        text
    } else if payload.is::<Cancelled>() {
        "cancelled"
    } else {
        "a panic whose payload is no text"
    }
}
