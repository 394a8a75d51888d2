//! [`Semaphore`]: a number of permits. First come, first served, also where a large wish holds up small ones.
//!
//! The dangerous race: somebody first in line who wished for much gives up, and what is there would do for the next. The
//! wrapper says so with `GaveUp`, a release, and the line moves on.

use std::fmt;
use std::time::{Duration, Instant};

use proto_core::{Caller, Ended, EnvCell, Hidden, Kind, RequestHandler, Waiters};

use crate::time;

struct SemaphoreEnv {
    permits: usize,
    waiting: Waiters<(), usize>,
}

struct Acquire(usize);
struct TryAcquire(usize);
struct Release(usize);
struct GaveUp;
struct Available;

impl SemaphoreEnv {
    fn take(&mut self, count: usize, hidden: &Hidden<'_>) -> bool {
        let taken = self.permits >= count && self.waiting.is_empty(hidden);
        if taken {
            self.permits -= count;
        }
        taken
    }

    /// Serves those at the head of the line whose wish can be met.
    fn serve(&mut self, hidden: &mut Hidden<'_>) {
        let fits = |left| move |count: Option<&usize>, _| count.is_some_and(|count| *count <= left);
        while let Ok(next) = self.waiting.resume_where(1, fits(self.permits), (), hidden) {
            self.permits -= next.into_data();
        }
    }
}

impl RequestHandler<Acquire> for SemaphoreEnv {
    type Reply = ();
    fn handle(&mut self, Acquire(count): Acquire, caller: Caller<'_, ()>, hidden: &mut Hidden<'_>) {
        if self.take(count, hidden) {
            hidden.answer(caller, ());
        } else {
            self.waiting.push_with(caller, count, hidden);
        }
    }
}

impl RequestHandler<TryAcquire> for SemaphoreEnv {
    type Reply = bool;
    fn handle(&mut self, TryAcquire(count): TryAcquire, caller: Caller<'_, bool>, hidden: &mut Hidden<'_>) {
        let taken = self.take(count, hidden);
        hidden.answer(caller, taken);
    }
}

impl RequestHandler<Release> for SemaphoreEnv {
    type Reply = ();
    const KIND: Kind = Kind::Release;
    fn handle(&mut self, Release(count): Release, caller: Caller<'_, ()>, hidden: &mut Hidden<'_>) {
        self.permits = self.permits.saturating_add(count);
        self.serve(hidden);
        hidden.answer(caller, ());
    }
}

impl RequestHandler<GaveUp> for SemaphoreEnv {
    type Reply = ();
    const KIND: Kind = Kind::Release;
    fn handle(&mut self, _: GaveUp, caller: Caller<'_, ()>, hidden: &mut Hidden<'_>) {
        self.serve(hidden);
        hidden.answer(caller, ());
    }
}

impl RequestHandler<Available> for SemaphoreEnv {
    type Reply = usize;
    const KIND: Kind = Kind::Binding;
    fn handle(&mut self, _: Available, caller: Caller<'_, usize>, hidden: &mut Hidden<'_>) {
        hidden.answer(caller, self.permits);
    }
}

/// A counting semaphore: so many may go on at a time. Strictly first in, first out.
///
/// # Examples
///
/// ```
/// use proto_lang_mutex::Semaphore;
/// use proto_lang_mutex::thread;
///
/// static DOORS: Semaphore = Semaphore::new(2);
/// thread::scope(|s| {
///     for _ in 0..8 {
///         s.spawn(|| {
///             let _permit = DOORS.acquire();
///             // two at a time are here
///         });
///     }
/// });
/// assert_eq!(DOORS.available_permits(), 2);
/// ```
pub struct Semaphore(EnvCell<SemaphoreEnv>);

/// Permits of a [`Semaphore`], which go back when this is dropped.
#[derive(Debug)]
#[must_use = "the permits go back at once if this is not kept"]
pub struct SemaphorePermit<'a> {
    semaphore: &'a Semaphore,
    count: usize,
}

impl SemaphorePermit<'_> {
    /// How many permits these are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.count
    }

    /// Keeps the permits from going back: the semaphore has that many fewer from now on.
    ///
    /// # Examples
    ///
    /// ```
    /// let semaphore = proto_lang_mutex::Semaphore::new(1);
    /// semaphore.acquire().forget();
    /// assert_eq!(semaphore.available_permits(), 0);
    /// semaphore.add_permits(1);
    /// assert!(semaphore.try_acquire().is_some());
    /// ```
    pub fn forget(mut self) {
        self.count = 0;
    }
}

impl Drop for SemaphorePermit<'_> {
    fn drop(&mut self) {
        if self.count > 0 {
            self.semaphore.add_permits(self.count);
        }
    }
}

impl Semaphore {
    /// A semaphore with `permits` permits.
    #[track_caller]
    pub const fn new(permits: usize) -> Self {
        Semaphore(EnvCell::new(SemaphoreEnv { permits, waiting: Waiters::new() }))
    }

    /// Takes a permit; waits until there is one and all before the caller in line have theirs.
    ///
    /// # Panics
    ///
    /// Unwinds if the calling virtual processor is cancelled.
    #[track_caller]
    pub fn acquire(&self) -> SemaphorePermit<'_> {
        self.acquire_many(1)
    }

    /// Takes `count` permits at once. Waits for ever for more than there will be.
    ///
    /// # Panics
    ///
    /// As [`acquire`](Self::acquire).
    #[track_caller]
    pub fn acquire_many(&self, count: usize) -> SemaphorePermit<'_> {
        self.acquire_by(count, None).unwrap_or_else(|ended| time::failed(ended))
    }

    /// Takes a permit if one is there and nobody waits.
    ///
    /// # Panics
    ///
    /// As [`acquire`](Self::acquire).
    #[track_caller]
    pub fn try_acquire(&self) -> Option<SemaphorePermit<'_>> {
        self.try_acquire_many(1)
    }

    /// Takes `count` permits if they are there and nobody waits.
    ///
    /// # Panics
    ///
    /// As [`acquire`](Self::acquire).
    #[track_caller]
    pub fn try_acquire_many(&self, count: usize) -> Option<SemaphorePermit<'_>> {
        let taken = self.0.request(TryAcquire(count)).unwrap_or_else(|ended| time::failed(ended));
        taken.then(|| SemaphorePermit { semaphore: self, count })
    }

    /// As [`acquire`](Self::acquire), for at most `timeout`.
    ///
    /// # Panics
    ///
    /// As [`acquire`](Self::acquire).
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// let none = proto_lang_mutex::Semaphore::new(0);
    /// assert!(none.acquire_timeout(1, Duration::from_millis(1)).is_none());
    /// ```
    #[track_caller]
    pub fn acquire_timeout(&self, count: usize, timeout: Duration) -> Option<SemaphorePermit<'_>> {
        time::timed(self.acquire_by(count, time::after(timeout)))
    }

    #[track_caller]
    fn acquire_by(&self, count: usize, deadline: Option<Instant>) -> Result<SemaphorePermit<'_>, Ended> {
        match self.0.request_until(Acquire(count), deadline) {
            Ok(()) => Ok(SemaphorePermit { semaphore: self, count }),
            Err(ended) => {
                self.0.release(GaveUp);
                Err(ended)
            }
        }
    }

    /// Adds permits.
    pub fn add_permits(&self, count: usize) {
        self.0.release(Release(count));
    }

    /// How many permits are there now.
    #[must_use]
    pub fn available_permits(&self) -> usize {
        self.0.request(Available).unwrap_or(0)
    }
}

impl fmt::Debug for Semaphore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Semaphore").finish_non_exhaustive()
    }
}
