//! [`Semaphore`]: a number of permits. First come, first served, also where a large wish holds up small ones.
//!
//! The dangerous race: somebody first in line who wished for much gives up, and what is there would do for the next. The
//! wrapper then adds no permits, which is a release, and the line moves on.

use std::time::{Duration, Instant};

use proto_core::{Ended, EnvCell, Hidden, OrUnwind, Waiters};

use crate::time;

struct SemaphoreEnv {
    permits: usize,
    waiting: Waiters<(), usize>,
}

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
#[derive(Debug)]
pub struct Semaphore(EnvCell<SemaphoreEnv>);

/// Permits of a [`Semaphore`], which go back when this is dropped.
///
/// # Examples
///
/// ```
/// use proto_lang_mutex::sync::{Semaphore, SemaphorePermit};
///
/// let memory = Semaphore::new(8);
/// let large: SemaphorePermit<'_> = memory.acquire_many(6);
/// assert_eq!((large.count(), memory.available_permits()), (6, 2));
/// assert!(memory.try_acquire_many(3).is_none());
/// drop(large);
/// assert_eq!(memory.available_permits(), 8);
/// ```
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
        self.semaphore.add_permits(self.count);
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
        self.acquire_by(count, None).or_unwind()
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
        let taken = self.0.ask(|env, caller, hidden| hidden.answer(caller, env.take(count, hidden)), None);
        taken.or_unwind().then(|| SemaphorePermit { semaphore: self, count })
    }

    /// As [`acquire_many`](Self::acquire_many), for at most `timeout`; `None` if the time is over.
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
        self.acquire_by(count, time::after(timeout)).in_time()
    }

    /// As [`acquire_timeout`](Self::acquire_timeout), until `deadline`.
    ///
    /// # Panics
    ///
    /// As [`acquire`](Self::acquire).
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Instant;
    /// let one = proto_lang_mutex::Semaphore::new(1);
    /// let permit = one.acquire_until(1, Instant::now()).expect("it is there: no time is needed");
    /// assert!(one.acquire_until(1, Instant::now()).is_none());
    /// # drop(permit);
    /// ```
    #[track_caller]
    pub fn acquire_until(&self, count: usize, deadline: Instant) -> Option<SemaphorePermit<'_>> {
        self.acquire_by(count, Some(deadline)).in_time()
    }

    #[track_caller]
    fn acquire_by(&self, count: usize, deadline: Option<Instant>) -> Result<SemaphorePermit<'_>, Ended> {
        let acquired = self.0.ask(
            |env, caller, hidden| match env.take(count, hidden) {
                true => hidden.answer(caller, ()),
                false => env.waiting.push_with(caller, count, hidden),
            },
            deadline,
        );
        acquired.map(|()| SemaphorePermit { semaphore: self, count }).inspect_err(|_| self.add_permits(0))
    }

    /// Adds permits.
    pub fn add_permits(&self, count: usize) {
        self.0.update(|env, _, hidden| {
            env.permits = env.permits.saturating_add(count);
            env.serve(hidden);
        });
    }

    /// How many permits are there now.
    #[must_use]
    pub fn available_permits(&self) -> usize {
        self.0.visit(|env, _, _| env.permits).unwrap_or(0)
    }
}
