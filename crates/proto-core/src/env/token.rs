//! The tokens of timelines that wait for an answer.
//!
//! [`Caller`] lives as long as the handler that was given it; [`Suspended`] may be stored, and sent to other threads. Neither can be
//! cloned: a timeline is answered once.
//!
//! ```compile_fail,E0599
//! fn twice(token: proto_core::Suspended<u32>) {
//!     let other = token.clone(); // a Suspended cannot be cloned
//! }
//! ```

use std::fmt;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::panic::Location;

use super::frame::To;
use super::loan::Loan;
use super::wait;
use crate::kernel::wait::{End, EndResult, Forward, Key};
use crate::vp::block::Block;

/// Tied to the handler's run, and to the type of the reply.
type InHandler<'h, T> = (&'h mut (), fn(T));

/// The timeline whose request is being handled. See [`Hidden`](super::Hidden) for what can be done with it.
///
/// # Examples
///
/// ```
/// use proto_core::{Caller, EnvCell, Hidden, RequestHandler};
///
/// struct Doubler;
/// struct Double(u32);
/// impl RequestHandler<Double> for Doubler {
///     type Reply = u32;
///     fn handle(&mut self, Double(n): Double, caller: Caller<'_, u32>, hidden: &mut Hidden<'_>) {
///         hidden.answer(caller, 2 * n);
///     }
/// }
/// assert_eq!(EnvCell::new(Doubler).request(Double(21)), Ok(42));
/// ```
#[must_use = "a caller that is neither answered, queued nor suspended is lost: its request ends as abandoned"]
pub struct Caller<'h, T> {
    pub(crate) block: &'static Block,
    /// Where the reply goes: in the requester's frame, good until its wait is over.
    pub(crate) to: To<T>,
    pub(crate) place: &'static Location<'static>,
    _handler: PhantomData<InHandler<'h, T>>,
}

impl<T> Caller<'_, T> {
    #[inline(always)]
    pub(crate) fn new(block: &'static Block, to: To<T>, place: &'static Location<'static>) -> Self {
        Caller { block, to, place, _handler: PhantomData }
    }
}

impl<T> fmt::Debug for Caller<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Caller")
    }
}

/// A timeline that waits for a `T`.
///
/// Resume it with [`Hidden::resume`](super::Hidden::resume) from a handler, or with [`Suspended::resume`] from anywhere. Dropped, it resumes its timeline with
/// [`Ended::Abandoned`](crate::Ended::Abandoned); leaked, its timeline waits on, and reports list it.
///
/// # Examples
///
/// A token leaves its environment, and whoever has it ends the wait:
///
/// ```
/// use proto_core::{EnvCell, Suspended};
///
/// let bell = EnvCell::new(None::<Suspended<&str>>);
/// std::thread::scope(|s| {
///     let listener = s.spawn(|| bell.ask(|token, caller, hidden| *token = Some(hidden.suspend(caller)), None));
///     let token = loop {
///         if let Some(token) = bell.update(|token, _, _| token.take()).flatten() { break token }
///         std::thread::yield_now();
///     };
///     assert_eq!(token.resume("ding"), Ok(()));
///     assert_eq!(listener.join().unwrap(), Ok("ding"));
/// });
/// ```
#[must_use = "a dropped token ends its timeline's wait with an error"]
pub struct Suspended<T> {
    block: &'static Block,
    key: Key,
    reply: *mut T,
}

// SAFETY: the token carries a `T` to another thread, hence `T: Send`; the block and the place of the reply are guarded by the wait word.
unsafe impl<T: Send> Send for Suspended<T> {}
// SAFETY: nothing can be done with a shared reference to a token.
unsafe impl<T: Send> Sync for Suspended<T> {}

impl<T> fmt::Debug for Suspended<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Suspended").finish_non_exhaustive()
    }
}

/// A wait that is claimed to be forwarded.
pub(crate) struct Forwarded<T> {
    pub(crate) block: &'static Block,
    pub(crate) reply: *mut T,
    pub(crate) forward: Forward,
}

impl<T> Suspended<T> {
    pub(crate) fn new(block: &'static Block, key: Key, reply: *mut T) -> Self {
        Suspended { block, key, reply }
    }

    /// Resumes the timeline with `reply`. For code outside handlers; a handler uses [`Hidden::resume`](super::Hidden::resume).
    ///
    /// # Errors
    ///
    /// Gives the value back if the wait has ended otherwise.
    pub fn resume(self, reply: T) -> Result<(), T> {
        let block = self.answer(reply)?;
        wait::schedule(crate::ctx::get(), block);
        Ok(())
    }

    /// Wins the wait, writes the reply, publishes it. The caller makes the timeline ready.
    pub(crate) fn answer(self, reply: T) -> Result<&'static Block, T> {
        let this = ManuallyDrop::new(self);
        match this.block.wait.claim(this.key) {
            Ok(claim) => {
                // SAFETY: the claim keeps the requester in its frame, where the place of the reply is.
                unsafe { this.reply.write(reply) };
                this.block.wait.publish(claim);
                Ok(this.block)
            }
            Err(_) => Err(reply),
        }
    }

    pub(crate) fn begin_forward(self) -> Option<Forwarded<T>> {
        let this = ManuallyDrop::new(self);
        let forward = this.block.wait.begin_forward(this.key).ok()?;
        Some(Forwarded { block: this.block, reply: this.reply, forward })
    }
}

impl<T> Drop for Suspended<T> {
    fn drop(&mut self) {
        if self.block.wait.end(self.key, End::Abandoned) == EndResult::Won {
            wait::schedule(crate::ctx::get(), self.block);
        }
    }
}

/// A timeline that was just resumed, with what it had left in the queue.
///
/// # Examples
///
/// A lock that is handed over, and says to whom:
///
/// ```
/// use proto_core::{EnvCell, Waiters};
///
/// #[derive(Default)]
/// struct Lock { held: bool, waiting: Waiters<(), &'static str> }
///
/// fn lock(lock: &EnvCell<Lock>, name: &'static str) -> Result<(), proto_core::Ended> {
///     lock.ask(
///         |lock, caller, hidden| match std::mem::replace(&mut lock.held, true) {
///             true => lock.waiting.push_with(caller, name, hidden),
///             false => {
///                 hidden.holds(&caller);
///                 hidden.answer(caller, ());
///             }
///         },
///         None,
///     )
/// }
/// fn unlock(lock: &EnvCell<Lock>) -> Option<&'static str> {
///     lock.update(|lock, caller, hidden| {
///         hidden.released(caller);
///         let Ok(woken) = lock.waiting.resume_next((), hidden) else {
///             lock.held = false;
///             return None;
///         };
///         let (next, name) = woken.split();
///         hidden.holds(&next);
///         Some(name)
///     })?
/// }
///
/// let door = EnvCell::new(Lock::default());
/// std::thread::scope(|s| {
///     lock(&door, "first")?;
///     let second = s.spawn(|| lock(&door, "second"));
///     while door.visit(|lock, _, hidden| lock.waiting.is_empty(hidden)) == Some(true) {
///         std::thread::yield_now();
///     }
///     assert_eq!(unlock(&door), Some("second"));
///     second.join().unwrap()
/// })?;
/// assert_eq!(unlock(&door), None);
/// # Ok::<(), proto_core::Ended>(())
/// ```
#[derive(Debug)]
pub struct Woken<D = ()> {
    block: &'static Block,
    data: D,
}

impl<D> Woken<D> {
    pub(crate) fn new(block: &'static Block, data: D) -> Self {
        Woken { block, data }
    }

    /// What the timeline had given to [`Waiters::push_with`](super::Waiters::push_with).
    ///
    /// # Examples
    ///
    /// ```
    /// use proto_core::{EnvCell, Waiters};
    ///
    /// /// Lets the first in, and says who it was.
    /// fn next(queue: &EnvCell<Waiters<(), String>>) -> Option<String> {
    ///     queue.update(|waiting, _, hidden| Some(waiting.resume_next((), hidden).ok()?.into_data()))?
    /// }
    /// assert_eq!(next(&EnvCell::new(Waiters::new())), None);
    /// ```
    pub fn into_data(self) -> D {
        self.data
    }

    pub(crate) fn with<E>(self, data: E) -> Woken<E> {
        Woken { block: self.block, data }
    }

    /// The data and the timeline.
    pub fn split(self) -> (Woken, D) {
        (Woken { block: self.block, data: () }, self.data)
    }
}

mod sealed {
    pub trait Sealed {}
    impl<T> Sealed for super::Caller<'_, T> {}
    impl<D> Sealed for super::Woken<D> {}
    impl<T> Sealed for super::Suspended<T> {}
}

/// A timeline that a handler can name: its caller, or one that it just resumed.
///
/// # Examples
///
/// What a lock tells reports:
///
/// ```
/// use proto_core::{Hidden, Timeline};
///
/// struct Lock { free: bool }
/// impl Lock {
///     /// For the caller, or for one that waited.
///     fn pass_to(&mut self, next: &impl Timeline, hidden: &mut Hidden<'_>) {
///         self.free = false;
///         hidden.holds(next);
///     }
///     fn free(&mut self, holder: &impl Timeline, hidden: &mut Hidden<'_>) {
///         self.free = true;
///         hidden.released(holder);
///     }
/// }
/// let door = proto_core::EnvCell::new(Lock { free: true });
/// door.update(|lock, caller, hidden| lock.pass_to(caller, hidden));
/// door.update(|lock, caller, hidden| lock.free(caller, hidden));
/// assert_eq!(door.visit(|lock, _, _| lock.free), Some(true));
/// ```
pub trait Timeline: sealed::Sealed {
    #[doc(hidden)]
    fn who(&self) -> Who;
}

/// A timeline's control block, and where it sent its request from. Opaque.
#[derive(Clone, Copy, Debug)]
#[doc(hidden)]
pub struct Who {
    pub(crate) block: &'static Block,
    pub(crate) place: Option<&'static Location<'static>>,
}

impl Who {
    /// A timeline that waits, or was just resumed: what it noted when it began to wait.
    fn waiting(block: &'static Block) -> Who {
        Who { block, place: block.reason().map(|(_, place)| place) }
    }
}

impl<T> Timeline for Caller<'_, T> {
    #[inline(always)]
    fn who(&self) -> Who {
        Who { block: self.block, place: Some(self.place) }
    }
}

impl<D> Timeline for Woken<D> {
    #[inline(always)]
    fn who(&self) -> Who {
        Who::waiting(self.block)
    }
}

impl<T> Timeline for Suspended<T> {
    #[inline(always)]
    fn who(&self) -> Who {
        Who::waiting(self.block)
    }
}

impl<L> Loan<L> {
    /// Whether this loan was lent with the request for which `block` waits. For who keeps `block` from its next request: its own OS thread, or who
    /// has claimed its wait.
    pub(crate) fn fits(&self, block: &'static Block) -> bool {
        std::ptr::eq(self.block, block) && self.request == block.requests.get() && self.birth == block.birth()
    }

    #[cold]
    #[track_caller]
    pub(crate) fn misfits(&self) -> ! {
        panic!("a loan was used with another request than the one it was lent with")
    }
}
