//! A value that is set once: who sets it, who waits for it, and what a panic leaves behind.
//!
//! ```text
//!          turn                 Turn::set
//!   NEW ───────────────▶ RUNNING ───────────▶ DONE
//!    ▲ Turn dropped         │ ▲ turn, by force
//!    └──────────────────────┤ │
//!                           ▼ │
//!             by a panic: POISONED
//! ```
//!
//! Who meets RUNNING waits, and looks again when that has ended. Whoever is cancelled while it has the turn leaves behind what it
//! found: the next one begins anew, and nothing is poisoned. *The dangerous race* is that exit: the one whose turn it is must end it in
//! every way it can leave, so it holds a [`Turn`], whose drop is a release.
//!
//! DONE is asked for far more often than it is reached, and by all cores at once: the value lies in a cell of the standard library that
//! is read without any lock. Nobody ever waits there: only the one whose turn it is writes it.
//!
//! A [`Lazy`] value is one whose maker is known from the start, and lost when it has run: there every end without a value is POISONED.

use std::fmt;
use std::sync::OnceLock;
use std::time::Instant;

use crate::ended::OrUnwind;
use crate::env::{EnvCell, Waiters};
use crate::guarded::{Grant, Guarded};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    New,
    Running,
    Poisoned,
    Done,
}

struct OnceEnv {
    state: State,
    /// Those that would do it if need be.
    waiting: Waiters<State>,
    /// Those that only wait for its being done.
    watching: Waiters<State>,
}

/// A value that is set once; reading it takes no lock.
///
/// What has to be done at most once, by whoever comes first, while the others wait: cells that are set once, lazy values, delayed
/// computations. All functions that wait suspend their timeline.
///
/// # Examples
///
/// ```
/// use proto_core::SetOnce;
///
/// static WORDS: SetOnce<Vec<&str>> = SetOnce::new();
/// let words = || WORDS.get_or_make(|| "made when first used".split(' ').collect());
/// assert_eq!(words().len(), 4);
/// assert_eq!(WORDS.get(), Some(words()));
///
/// let mut port = SetOnce::new();
/// std::thread::scope(|s| {
///     let reader = s.spawn(|| port.wait(false, None).copied()); // waits for whoever sets it
///     port.get_or_make(|| 80);
///     assert_eq!(reader.join().unwrap(), Some(80));
/// });
/// assert_eq!(port.get_or_make_until(|| 443, None), Some(&80));
/// *port.get_mut().expect("it is set") += 8000;
/// assert_eq!(port.into_inner(), Some(8080));
/// ```
pub struct SetOnce<T> {
    env: EnvCell<OnceEnv>,
    value: OnceLock<T>,
    /// If a panic of who was to set it poisons it: what those say who ask for it from then on.
    poisons: Option<&'static str>,
}

impl<T> SetOnce<T> {
    /// Without a value. A panic of who was to set it leaves it as it was: the next one tries.
    #[track_caller]
    #[expect(clippy::new_without_default, reason = "made on purpose: its place names it in reports")]
    pub const fn new() -> Self {
        Self::made(None)
    }

    /// Without a value. A panic of who was to set it *poisons* it: whoever asks for the value from then on panics with `message`.
    #[track_caller]
    pub const fn poisoning(message: &'static str) -> Self {
        Self::made(Some(message))
    }

    #[track_caller]
    const fn made(poisons: Option<&'static str>) -> Self {
        let env = OnceEnv { state: State::New, waiting: Waiters::new(), watching: Waiters::new() };
        SetOnce { env: EnvCell::new(env), value: OnceLock::new(), poisons }
    }

    /// The value, if it is set.
    #[inline]
    pub fn get(&self) -> Option<&T> {
        self.value.get()
    }

    /// The value, if it is set.
    pub fn get_mut(&mut self) -> Option<&mut T> {
        self.value.get_mut()
    }

    /// The value, if it was set.
    pub fn into_inner(self) -> Option<T> {
        self.value.into_inner()
    }

    /// The value; `make` makes it if there is none. Others that ask meanwhile wait.
    ///
    /// # Panics
    ///
    /// If `make` does, or if it is [poisoned](Self::poisoning). Unwinds if the calling VP is cancelled.
    #[inline]
    #[track_caller]
    pub fn get_or_make(&self, make: impl FnOnce() -> T) -> &T {
        match self.value.get() {
            Some(value) => value,
            None => self.make(make, None).expect("there is no deadline"),
        }
    }

    /// As [`get_or_make`](Self::get_or_make); `None`, and `make` has not run, if somebody else is at it until `deadline`. A deadline that
    /// has come looks once.
    ///
    /// # Panics
    ///
    /// As [`get_or_make`](Self::get_or_make).
    #[inline]
    #[track_caller]
    pub fn get_or_make_until(&self, make: impl FnOnce() -> T, deadline: Option<Instant>) -> Option<&T> {
        match self.value.get() {
            Some(value) => Some(value),
            None => self.make(make, deadline),
        }
    }

    #[cold]
    #[track_caller]
    fn make(&self, make: impl FnOnce() -> T, deadline: Option<Instant>) -> Option<&T> {
        Some(self.turn_until(false, deadline)?.unwrap_or_else(|turn| turn.set(make())))
    }

    /// The caller's turn to set the value; waits while it is somebody else's. `None` if the value is set. With `force` also where it
    /// is poisoned. [`Turn`] has an example.
    ///
    /// # Panics
    ///
    /// If it is [poisoned](Self::poisoning) and not forced. Unwinds if the calling VP is cancelled.
    #[track_caller]
    pub fn turn(&self, force: bool) -> Option<Turn<'_, T>> {
        self.turn_until(force, None).expect("there is no deadline").err()
    }

    /// As [`turn`](Self::turn): the value, or the caller's turn to set it. `None` if it is somebody else's turn until `deadline`; a deadline
    /// that has come looks once.
    ///
    /// # Panics
    ///
    /// As [`turn`](Self::turn).
    ///
    /// # Examples
    ///
    /// ```
    /// use proto_core::SetOnce;
    /// use std::time::Instant;
    ///
    /// let place = SetOnce::new();
    /// let turn = place.turn(false).expect("nobody has set it");
    /// assert!(place.turn_until(false, Some(Instant::now())).is_none());
    /// turn.set(5);
    /// assert_eq!(place.turn_until(false, None).and_then(Result::ok), Some(&5));
    /// ```
    #[cold]
    #[track_caller]
    pub fn turn_until(&self, force: bool, deadline: Option<Instant>) -> Option<Result<&T, Turn<'_, T>>> {
        loop {
            if let Some(value) = self.value.get() {
                return Some(Ok(value));
            }
            let late = deadline.is_some_and(|deadline| deadline <= Instant::now());
            let found = self.env.ask(
                |env, caller, hidden| {
                    let found = env.state;
                    match found {
                        State::Running if late => return hidden.answer(caller, found),
                        State::Running => return env.waiting.push(caller, hidden),
                        State::New => {}
                        State::Poisoned if force => {}
                        State::Poisoned | State::Done => return hidden.answer(caller, found),
                    }
                    env.state = State::Running;
                    hidden.holds(&caller);
                    hidden.answer(caller, found);
                },
                deadline,
            );
            match found.in_time()? {
                State::Running if late => return None,
                // The one whose turn it was has ended, or has set the value: look again.
                State::Running | State::Done => {}
                State::Poisoned if !force => self.poisoned(),
                found => return Some(Err(Turn { once: self, found })),
            }
        }
    }

    #[cold]
    #[track_caller]
    fn poisoned(&self) -> ! {
        panic!("{}", self.poisons.unwrap_or("what was to be done once has panicked"))
    }

    /// Waits until the value is set, without setting it; `None` if that takes until `deadline`. With `force` it waits on where it is
    /// poisoned.
    ///
    /// # Panics
    ///
    /// As [`turn`](Self::turn).
    #[track_caller]
    pub fn wait(&self, force: bool, deadline: Option<Instant>) -> Option<&T> {
        while self.value.get().is_none() {
            let found = self.env.ask(
                |env, caller, hidden| match env.state {
                    State::Poisoned if !force => hidden.answer(caller, State::Poisoned),
                    State::Done => hidden.answer(caller, State::Done),
                    _ => env.watching.push(caller, hidden),
                },
                deadline,
            );
            if found.in_time()? == State::Poisoned {
                self.poisoned();
            }
        }
        self.value.get()
    }

    fn end(&self, state: State) {
        self.env.update(|env, caller, hidden| {
            hidden.released(caller);
            env.state = state;
            while env.waiting.resume_next(State::Running, hidden).is_ok() {}
            if state != State::New {
                while env.watching.resume_next(State::Running, hidden).is_ok() {}
            }
        });
    }
}

/// The right and duty to set the value of a [`SetOnce`]. Dropped, it leaves that to the next one.
///
/// # Examples
///
/// ```
/// use proto_core::{SetOnce, Turn};
/// use std::panic::{AssertUnwindSafe, catch_unwind};
///
/// let place = SetOnce::poisoning("the one before panicked");
/// let failed = catch_unwind(AssertUnwindSafe(|| *place.get_or_make(|| panic!("no value"))));
/// assert!(failed.is_err());
/// let turn: Turn<'_, u32> = place.turn(true).expect("it is not set");
/// assert!(turn.is_poisoned());
/// drop(turn); // not set, and poisoned still
/// place.turn(true).expect("it is not set").set(5);
/// assert!(place.turn(false).is_none());
/// ```
#[must_use = "others wait until it is used or dropped"]
pub struct Turn<'a, T> {
    once: &'a SetOnce<T>,
    /// What it found, and leaves behind if the value is not set.
    found: State,
}

impl<'a, T> Turn<'a, T> {
    /// Sets the value. Who waits for it goes on.
    pub fn set(self, value: T) -> &'a T {
        // Nobody else sets it while this is the one whose turn it is; so this takes no time.
        self.once.value.get_or_init(|| value)
    }

    /// Whether the one before panicked.
    #[must_use]
    pub fn is_poisoned(&self) -> bool {
        self.found == State::Poisoned
    }
}

impl<T> Drop for Turn<'_, T> {
    fn drop(&mut self) {
        self.once.end(match self.once.value.get() {
            Some(_) => State::Done,
            None if self.once.poisons.is_some() && crate::vp::panicking() => State::Poisoned,
            None => self.found,
        });
    }
}

impl<T> fmt::Debug for Turn<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Turn").field("found", &self.found).finish_non_exhaustive()
    }
}

impl<T> From<T> for SetOnce<T> {
    /// One that is set.
    #[track_caller]
    fn from(value: T) -> Self {
        let once = SetOnce::new();
        if let Some(turn) = once.turn(false) {
            turn.set(value);
        }
        once
    }
}

impl<T: Clone> Clone for SetOnce<T> {
    /// Has a copy of the value if it is set. It is not poisoned, and does not [poison](Self::poisoning).
    fn clone(&self) -> Self {
        self.get().cloned().map_or_else(SetOnce::new, SetOnce::from)
    }
}

impl<T: PartialEq> PartialEq for SetOnce<T> {
    fn eq(&self, other: &Self) -> bool {
        self.get() == other.get()
    }
}

impl<T: Eq> Eq for SetOnce<T> {}

impl<T: fmt::Debug> fmt::Debug for SetOnce<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.get().fmt(f)
    }
}

/// A value that is made when it is first looked at. After that looking takes no lock.
///
/// The closure can run but once. So a cancel of who runs it waits until it has ended ([`binding`](crate::binding)), and a panic poisons the
/// value: whoever looks at it from then on panics, with a text of the language's.
///
/// # Examples
///
/// ```
/// use proto_core::Lazy;
///
/// static WORDS: Lazy<Vec<&str>> = Lazy::new(|| "made when first used".split(' ').collect(), "no words");
/// assert_eq!(WORDS.get(), None);
/// assert_eq!(WORDS.force().len(), 4);
/// assert_eq!(WORDS.force_until(None), WORDS.get());
/// ```
pub struct Lazy<T, F = fn() -> T> {
    value: SetOnce<T>,
    /// Taken, with the one grant of the cell, by the one whose turn it is.
    make: Guarded<Option<F>>,
}

impl<T, F> Lazy<T, F> {
    /// A value that `make` will make. If that panics, `poisoned` is what later looks panic with.
    #[track_caller]
    pub const fn new(make: F, poisoned: &'static str) -> Self {
        Lazy { value: SetOnce::poisoning(poisoned), make: Guarded::new(Some(make)) }
    }

    /// The value, if it is made.
    #[inline]
    pub fn get(&self) -> Option<&T> {
        self.value.get()
    }
}

impl<T, F: FnOnce() -> T> Lazy<T, F> {
    /// The value; makes it if nobody has yet.
    ///
    /// # Panics
    ///
    /// If the closure does, now or before. Unwinds if the calling VP is cancelled while it waits for another that makes it.
    #[inline]
    #[track_caller]
    pub fn force(&self) -> &T {
        match self.value.get() {
            Some(value) => value,
            None => self.force_until(None).expect("there is no deadline"),
        }
    }

    /// As [`force`](Self::force); `None` if another makes it until `deadline`. A deadline that has come looks once.
    ///
    /// # Panics
    ///
    /// As [`force`](Self::force).
    #[cold]
    #[track_caller]
    pub fn force_until(&self, deadline: Option<Instant>) -> Option<&T> {
        let made = self.value.turn_until(false, deadline)?.unwrap_or_else(|mut turn| {
            // However it is left from here on: nobody can begin anew.
            turn.found = State::Poisoned;
            let make = self.make.open(Grant::new()).take().expect("the closure is there for the first turn");
            turn.set(crate::binding(make))
        });
        Some(made)
    }
}

impl<T: fmt::Debug, F> fmt::Debug for Lazy<T, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Lazy").field(&self.get()).finish()
    }
}

#[cfg(test)]
mod test {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::time::{Duration, Instant};

    use super::{Lazy, SetOnce};

    fn panics<R>(f: impl FnOnce() -> R) -> bool {
        catch_unwind(AssertUnwindSafe(f)).is_err()
    }

    #[test]
    fn one_makes_it_and_all_have_it() {
        let (place, made) = (SetOnce::new(), AtomicU32::new(0));
        std::thread::scope(|s| {
            for _ in 0..4 {
                s.spawn(|| assert_eq!(*place.get_or_make(|| made.fetch_add(1, Ordering::Relaxed)), 0));
            }
            assert_eq!(place.wait(false, None), Some(&0));
        });
        assert_eq!(made.into_inner(), 1);
        assert_eq!(place.into_inner(), Some(0));
    }

    #[test]
    fn a_panic_leaves_it_to_the_next_or_poisons() {
        let mut place = SetOnce::new();
        assert!(panics(|| *place.get_or_make(|| panic!("on purpose"))));
        assert_eq!(*place.get_or_make(|| 5), 5);
        assert_eq!(place.get_mut(), Some(&mut 5));

        let place = SetOnce::poisoning("said later");
        assert!(panics(|| *place.get_or_make(|| panic!("on purpose"))));
        assert!(panics(|| place.turn(false)), "it is poisoned");
        assert!(panics(|| place.wait(false, None)), "it is poisoned");
        let turn = place.turn(true).expect("nobody has set it");
        assert!(turn.is_poisoned());
        drop(turn);
        place.turn(true).expect("nobody has set it").set(5);
        assert_eq!(place.wait(false, None), Some(&5));
    }

    #[test]
    fn a_copy_has_a_value_of_its_own() {
        let (unset, set) = (SetOnce::<u32>::new(), SetOnce::from(5));
        assert_eq!(set, set.clone());
        assert_ne!(set, unset);
        let copy = unset.clone();
        copy.get_or_make(|| 6);
        assert_eq!((unset.get(), copy.get()), (None, Some(&6)));
    }

    #[test]
    fn a_maker_that_runs_but_once_poisons_however_it_unwinds() {
        for payload in [|| panic!("on purpose"), || crate::resume_unwind(Box::new(crate::Cancelled { of: None }))] {
            let lazy: Lazy<u32> = Lazy::new(payload, "said later");
            assert!(panics(|| *lazy.force()));
            for _ in 0..2 {
                let again = catch_unwind(AssertUnwindSafe(|| *lazy.force())).expect_err("it cannot be made any more");
                assert_eq!(again.downcast_ref::<String>().map(String::as_str), Some("said later"));
            }
        }
    }

    #[test]
    fn who_does_not_wait_for_the_turn_comes_away_without() {
        let place = SetOnce::new();
        let turn = place.turn(false).expect("nobody has set it");
        assert_eq!(place.get_or_make_until(|| 5, Some(Instant::now())), None);
        assert_eq!(place.get_or_make_until(|| 5, Some(Instant::now() + Duration::from_millis(1))), None);
        turn.set(6);
        assert_eq!(place.get_or_make_until(|| 5, Some(Instant::now())), Some(&6));
    }

    #[test]
    fn a_wait_has_a_deadline() {
        let place = SetOnce::<u32>::new();
        assert_eq!(place.wait(true, Some(Instant::now() + Duration::from_millis(1))), None);
    }
}
