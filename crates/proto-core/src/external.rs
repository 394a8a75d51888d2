//! External wake-ups: what an I/O reactor or another runtime uses to end a wait [design §1, rule 10].

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use crate::ended::Ended;
use crate::env::{Caller, EnvCell, Hidden, Kind, RequestHandler, Waiters};
use crate::runtime::activity::Somebody;

struct EventEnv<T> {
    value: Option<T>,
    wakers: usize,
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
            None if self.wakers == 0 => hidden.answer(caller, None),
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
        self.wakers -= 1;
        if self.wakers == 0 {
            while self.waiting.resume_next(None, hidden).is_ok() {}
        }
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

/// Ends the wait of an [`ExternalEvent`], from any OS thread, signal-driven loop or other runtime.
///
/// While one exists the program is *open*: a wait may still be ended from outside, so no verdict is certain.
///
/// # Examples
///
/// ```
/// let (event, waker) = proto_core::external();
/// waker.wake("overwritten");
/// waker.wake("kept");
/// assert_eq!(event.wait(None), Ok(Some("kept")));
/// ```
pub struct ExternalWaker<T> {
    event: Arc<EnvCell<EventEnv<T>>>,
    _open: Somebody,
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
    let event = Arc::new(EnvCell::new(EventEnv { value: None, wakers: 1, waiting: Waiters::new() }));
    (ExternalEvent(Arc::clone(&event)), ExternalWaker { event, _open: Somebody::new() })
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
        self.event.release(Set(value));
    }
}

impl<T> Drop for ExternalWaker<T> {
    fn drop(&mut self) {
        self.event.release(WakerGone);
    }
}
