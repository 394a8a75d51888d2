//! [`Once`]: something is done once, and others wait until it is done. The engine of [`OnceLock`](super::OnceLock),
//! [`LazyLock`](super::LazyLock) and [`Singleton`](crate::Singleton) too.
//!
//! ```text
//!            Begin                End(Done)
//!   NEW ───────────────▶ RUNNING ───────────▶ DONE
//!    ▲ End(Undone)          │ ▲ Begin that ignores poison
//!    └──────────────────────┤ │
//!                           ▼ │
//!                 End(Poisoned): POISONED
//! ```
//!
//! Who meets RUNNING waits, and looks again when that has ended. Whoever is cancelled while it does the thing leaves NEW behind: the next
//! one begins anew, and nothing is poisoned. *The dangerous race* is that exit: the one that runs must end in every way it can
//! leave, so it holds a [`Turn`], whose drop is a release.
//!
//! DONE is asked for far more often than it is reached, and by all cores at once: it is mirrored in a cell of the standard library that
//! is read without any lock. Nobody ever waits there: only the one that runs writes it.

use std::fmt;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::time::{Duration, Instant};

use proto_core::{Caller, EnvCell, Hidden, Kind, RequestHandler, Waiters};

use crate::time;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    New,
    Running,
    Poisoned,
    Done,
}

const POISONED: &str = "the closure of a `Once` panicked";

struct OnceEnv {
    state: State,
    /// Those that would do it if need be.
    waiting: Waiters<Met>,
    /// Those that only wait for its being done.
    watching: Waiters<Met>,
}

/// What a timeline is told.
enum Met {
    /// It is its turn to do it.
    Turn {
        poisoned: bool,
    },
    /// The one that did it has ended: ask again.
    Again,
    Done,
    Poisoned,
}

/// May this timeline do it?
struct Begin {
    ignore_poison: bool,
}

/// Has it been done? Waits until it is, or poisoned.
struct Watch {
    ignore_poison: bool,
}

/// It has been done, or not.
struct End(State);

impl RequestHandler<Begin> for OnceEnv {
    type Reply = Met;
    fn handle(&mut self, begin: Begin, caller: Caller<'_, Met>, hidden: &mut Hidden<'_>) {
        let met = match self.state {
            State::Running => return self.waiting.push(caller, hidden),
            State::Done => Met::Done,
            State::Poisoned if !begin.ignore_poison => Met::Poisoned,
            state @ (State::New | State::Poisoned) => {
                self.state = State::Running;
                hidden.holds(&caller);
                Met::Turn { poisoned: state == State::Poisoned }
            }
        };
        hidden.answer(caller, met);
    }
}

impl RequestHandler<Watch> for OnceEnv {
    type Reply = Met;
    fn handle(&mut self, watch: Watch, caller: Caller<'_, Met>, hidden: &mut Hidden<'_>) {
        match self.state {
            State::Poisoned if !watch.ignore_poison => hidden.answer(caller, Met::Poisoned),
            State::Done => hidden.answer(caller, Met::Done),
            State::New | State::Running | State::Poisoned => self.watching.push(caller, hidden),
        }
    }
}

impl RequestHandler<End> for OnceEnv {
    type Reply = ();
    const KIND: Kind = Kind::Release;
    fn handle(&mut self, End(state): End, caller: Caller<'_, ()>, hidden: &mut Hidden<'_>) {
        hidden.released(&caller);
        self.state = state;
        while self.waiting.resume_next(Met::Again, hidden).is_ok() {}
        if state != State::New {
            while self.watching.resume_next(Met::Again, hidden).is_ok() {}
        }
        hidden.answer(caller, ());
    }
}

/// The right and duty to do the thing.
pub(super) struct Turn<'a> {
    once: &'a Once,
    /// What is left behind if the thing is not done.
    undone: State,
    /// What its being left by a panic makes of it.
    panicked: State,
    done: bool,
}

impl Turn<'_> {
    /// It has been done.
    pub(super) fn done(mut self) {
        self.done = true;
        let _ = self.once.done.set(());
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let state = match (self.done, proto_core::panicking()) {
            (true, _) => State::Done,
            (false, true) => self.panicked,
            (false, false) => self.undone,
        };
        self.once.env.release(End(state));
    }
}

/// Something that is done once for the whole program, as [`std::sync::Once`].
///
/// # Examples
///
/// ```
/// use proto_lang_mutex::sync::Once;
///
/// static START: Once = Once::new();
/// let mut times = 0;
/// START.call_once(|| times += 1);
/// START.call_once(|| times += 1);
/// assert_eq!(times, 1);
/// ```
pub struct Once {
    env: EnvCell<OnceEnv>,
    done: std::sync::OnceLock<()>,
}

impl UnwindSafe for Once {}
impl RefUnwindSafe for Once {}

/// What [`Once::call_once_force`] tells its closure.
#[derive(Debug)]
pub struct OnceState {
    poisoned: bool,
}

impl OnceState {
    /// Whether the closure of an earlier call panicked.
    #[must_use]
    pub fn is_poisoned(&self) -> bool {
        self.poisoned
    }
}

impl Once {
    /// Not done yet.
    #[track_caller]
    pub const fn new() -> Self {
        let env = OnceEnv { state: State::New, waiting: Waiters::new(), watching: Waiters::new() };
        Once { env: EnvCell::new(env), done: std::sync::OnceLock::new() }
    }

    /// Runs `f` if no call has been completed yet. When this returns, one has.
    ///
    /// A closure that calls this on the same `Once` waits for itself.
    ///
    /// # Panics
    ///
    /// If the closure of an earlier call panicked; if `f` does, later calls do. Unwinds if the calling virtual processor is
    /// cancelled; then a later call runs its closure.
    #[inline]
    #[track_caller]
    pub fn call_once(&self, f: impl FnOnce()) {
        if let Some((turn, _)) = self.turn(false, State::Poisoned) {
            f();
            turn.done();
        }
    }

    /// As [`call_once`](Self::call_once), also if an earlier call panicked.
    ///
    /// # Panics
    ///
    /// If `f` does; then later calls of `call_once` do.
    ///
    /// # Examples
    ///
    /// ```
    /// let once = proto_lang_mutex::Once::new();
    /// once.call_once_force(|state| assert!(!state.is_poisoned()));
    /// assert!(once.is_completed());
    /// ```
    #[inline]
    #[track_caller]
    pub fn call_once_force(&self, f: impl FnOnce(&OnceState)) {
        if let Some((turn, poisoned)) = self.turn(true, State::Poisoned) {
            f(&OnceState { poisoned });
            turn.done();
        }
    }

    /// The caller's turn to do it; `None` if it has been done. A panic poisons, or with `reset` leaves it as it was.
    #[inline]
    #[track_caller]
    pub(super) fn begin(&self, reset: bool) -> Option<Turn<'_>> {
        let panicked = if reset { State::New } else { State::Poisoned };
        self.turn(reset, panicked).map(|(turn, _)| turn)
    }

    #[inline]
    #[track_caller]
    fn turn(&self, ignore_poison: bool, panicked: State) -> Option<(Turn<'_>, bool)> {
        if self.is_completed() { None } else { self.turn_slow(ignore_poison, panicked) }
    }

    #[cold]
    #[track_caller]
    fn turn_slow(&self, ignore_poison: bool, panicked: State) -> Option<(Turn<'_>, bool)> {
        loop {
            match self.env.request(Begin { ignore_poison }) {
                Ok(Met::Turn { poisoned }) => {
                    let undone = if poisoned { State::Poisoned } else { State::New };
                    return Some((Turn { once: self, undone, panicked, done: false }, poisoned));
                }
                Ok(Met::Again) => {}
                Ok(Met::Done) => return None,
                Ok(Met::Poisoned) => panic!("{POISONED}"),
                Err(ended) => time::failed(ended),
            }
        }
    }

    /// Waits until a call has been completed, without making one.
    ///
    /// # Panics
    ///
    /// If the closure of a call panicked. Unwinds if the calling virtual processor is cancelled.
    #[track_caller]
    pub fn wait(&self) {
        self.watch(false, None);
    }

    /// As [`wait`](Self::wait), also beyond a call that panicked.
    ///
    /// # Panics
    ///
    /// Unwinds if the calling virtual processor is cancelled.
    #[track_caller]
    pub fn wait_force(&self) {
        self.watch(true, None);
    }

    /// As [`wait_force`](Self::wait_force), for at most `timeout`. Whether a call has been completed.
    ///
    /// # Panics
    ///
    /// As [`wait_force`](Self::wait_force).
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// let once = proto_lang_mutex::Once::new();
    /// assert!(!once.wait_timeout(Duration::from_millis(1)));
    /// once.call_once(|| {});
    /// assert!(once.wait_timeout(Duration::ZERO));
    /// ```
    #[track_caller]
    pub fn wait_timeout(&self, timeout: Duration) -> bool {
        self.watch(true, time::after(timeout))
    }

    #[track_caller]
    fn watch(&self, ignore_poison: bool, deadline: Option<Instant>) -> bool {
        while !self.is_completed() {
            match time::timed(self.env.request_until(Watch { ignore_poison }, deadline)) {
                Some(Met::Poisoned) => panic!("{POISONED}"),
                Some(Met::Turn { .. } | Met::Again | Met::Done) => {}
                None => return false,
            }
        }
        true
    }

    /// Whether a call has been completed. Takes no lock.
    #[inline]
    pub fn is_completed(&self) -> bool {
        self.done.get().is_some()
    }
}

impl Default for Once {
    #[track_caller]
    fn default() -> Self {
        Once::new()
    }
}

impl fmt::Debug for Once {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Once").field("completed", &self.is_completed()).finish_non_exhaustive()
    }
}
