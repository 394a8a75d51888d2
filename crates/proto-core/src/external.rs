//! External wake-ups: what an I/O reactor or another runtime uses to end a wait [design §1, rule 10].
//!
//! Clones of a waker are one party: the event learns that its wakers are gone when the last clone is. So a clone costs no request, and a
//! [`std::task::Waker`] can be made of one, which reactors clone as they like.

use std::fmt;
use std::sync::Arc;
use std::task::{Wake, Waker};
use std::time::Instant;

use crate::ended::Ended;
use crate::env::{Caller, EnvCell, Hidden, Kind, RequestHandler, Waiters};
use crate::runtime::activity::Somebody;

struct EventEnv<T> {
    value: Option<T>,
    /// Every waker is gone.
    over: bool,
    waiting: Waiters<Option<T>>,
}

struct Await;
struct Set<T>(T);
struct WakerGone;

impl<T> RequestHandler<Await> for EventEnv<T> {
    type Reply = Option<T>;
    fn handle(&mut self, _: Await, caller: Caller<'_, Option<T>>, hidden: &mut Hidden<'_>) {
        match self.value.take() {
            Some(value) => hidden.answer(caller, Some(value)),
            None if self.over => hidden.answer(caller, None),
            None => self.waiting.push(caller, hidden),
        }
    }
}

impl<T> RequestHandler<Set<T>> for EventEnv<T> {
    type Reply = ();
    const KIND: Kind = Kind::Release;
    fn handle(&mut self, Set(value): Set<T>, caller: Caller<'_, ()>, hidden: &mut Hidden<'_>) {
        match self.waiting.resume_next(Some(value), hidden) {
            Ok(_) => {}
            Err(value) => hidden.drop_later(std::mem::replace(&mut self.value, value)),
        }
        hidden.answer(caller, ());
    }
}

impl<T> RequestHandler<WakerGone> for EventEnv<T> {
    type Reply = ();
    const KIND: Kind = Kind::Release;
    fn handle(&mut self, _: WakerGone, caller: Caller<'_, ()>, hidden: &mut Hidden<'_>) {
        self.over = true;
        while self.waiting.resume_next(None, hidden).is_ok() {}
        hidden.answer(caller, ());
    }
}

/// Whether `wait` is for an event from outside, of which there is a waker.
pub(crate) fn is_awaited_by(wait: &crate::report::Wait) -> bool {
    wait.request == std::any::type_name::<Await>()
}

/// Waits for what an [`ExternalWaker`] says.
///
/// # Examples
///
/// ```
/// use std::time::Instant;
///
/// use proto_core::{Ended, ExternalEvent, ExternalWaker, external};
///
/// let (event, waker): (ExternalEvent<u32>, ExternalWaker<u32>) = external();
/// assert_eq!(event.wait(Some(Instant::now())), Err(Ended::Deadline));
/// drop(waker);
/// assert_eq!(event.wait(None), Ok(None));
/// ```
pub struct ExternalEvent<T>(Arc<EnvCell<EventEnv<T>>>);

/// Ends the wait of an [`ExternalEvent`], from any OS thread, event loop or other runtime. Clones wake the same event.
///
/// While one exists the program is *open*: a wait may still be ended from outside, so no verdict is certain.
///
/// Of one without a value a [`std::task::Waker`] can be made, to be left with an I/O reactor or a future.
///
/// # Examples
///
/// ```
/// let (event, waker) = proto_core::external();
/// waker.wake("overwritten");
/// waker.wake("kept");
/// assert_eq!(event.wait(None), Ok(Some("kept")));
/// ```
///
/// A virtual processor waits for a future, which any reactor may drive:
///
/// ```
/// use std::pin::pin;
/// use std::task::{Context, Poll, Waker};
///
/// use proto_core::{Ended, external};
///
/// fn wait_for<T>(future: impl Future<Output = T>) -> Result<T, Ended> {
///     let (event, waker) = external();
///     let waker = Waker::from(waker);
///     let mut future = pin!(future);
///     loop {
///         if let Poll::Ready(value) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
///             return Ok(value);
///         }
///         event.wait(None)?;
///     }
/// }
///
/// // Two turns, woken in between by a thread of the future's own.
/// let mut turns = 0;
/// let future = std::future::poll_fn(move |context| {
///     turns += 1;
///     let waker = context.waker().clone();
///     std::thread::spawn(move || waker.wake());
///     if turns == 3 { Poll::Ready(turns) } else { Poll::Pending }
/// });
/// let runtime = proto_core::Runtime::builder().controllers(1).build()?;
/// assert_eq!(runtime.run(|| wait_for(future))?, Ok(3));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct ExternalWaker<T>(Arc<Party<T>>);

/// What the clones of a waker share.
struct Party<T> {
    event: Arc<EnvCell<EventEnv<T>>>,
    // Dropped after the destructor below: as long as that resumes somebody, there is somebody.
    _open: Somebody,
}

impl<T> Clone for ExternalWaker<T> {
    fn clone(&self) -> Self {
        ExternalWaker(Arc::clone(&self.0))
    }
}

/// Wakes without a value. Wakes before the next wait count as one, as they may for a [`Waker`].
impl From<ExternalWaker<()>> for Waker {
    fn from(waker: ExternalWaker<()>) -> Waker {
        Waker::from(waker.0)
    }
}

impl Wake for Party<()> {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.event.release(Set(()));
    }
}

impl<T> fmt::Debug for ExternalEvent<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExternalEvent").finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for ExternalWaker<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExternalWaker").finish_non_exhaustive()
    }
}

/// Makes an event and its waker.
///
/// ```
/// let runtime = proto_core::Runtime::builder().controllers(1).build()?;
/// let (event, waker) = proto_core::external();
/// let from_outside = std::thread::spawn(move || waker.wake(7));
/// assert_eq!(runtime.run(move || event.wait(None))?, Ok(Some(7)));
/// from_outside.join().unwrap();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[track_caller]
pub fn external<T: Send>() -> (ExternalEvent<T>, ExternalWaker<T>) {
    let event = Arc::new(EnvCell::new(EventEnv { value: None, over: false, waiting: Waiters::new() }));
    (ExternalEvent(Arc::clone(&event)), ExternalWaker(Arc::new(Party { event, _open: Somebody::new() })))
}

impl<T: Send> ExternalEvent<T> {
    /// Waits for a value, or until `deadline`. `None` when every waker is gone.
    ///
    /// # Errors
    ///
    /// See [`Ended`].
    #[track_caller]
    pub fn wait(&self, deadline: Option<Instant>) -> Result<Option<T>, Ended> {
        self.0.request_until(Await, deadline)
    }
}

impl<T> ExternalWaker<T> {
    /// Gives the waiting timeline `value`, or leaves it for the next wait, in place of one that was left before.
    pub fn wake(&self, value: T) {
        self.0.event.release(Set(value));
    }
}

impl<T> Drop for Party<T> {
    fn drop(&mut self) {
        self.event.release(WakerGone);
    }
}
