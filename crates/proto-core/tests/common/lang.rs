//! A few constructs, written as a language's author would: a lock, a gate, a mailbox, a sleep.

use std::time::{Duration, Instant};

use proto_core::{Caller, Ended, EnvCell, Hidden, Kind, RequestHandler, Waiters};

/// A lock without data. Fair: handed over in the order of the queue.
pub struct Lock(EnvCell<LockEnv>);

struct LockEnv {
    held: bool,
    waiting: Waiters<()>,
}

struct Acquire;
struct Release;

impl RequestHandler<Acquire> for LockEnv {
    type Reply = ();
    fn handle(&mut self, _: Acquire, caller: Caller<'_, ()>, hidden: &mut Hidden<'_>) {
        if self.held {
            self.waiting.push(caller, hidden);
        } else {
            self.held = true;
            hidden.holds(&caller);
            hidden.answer(caller, ());
        }
    }
}

impl RequestHandler<Release> for LockEnv {
    type Reply = ();
    const KIND: Kind = Kind::Release;
    fn handle(&mut self, _: Release, caller: Caller<'_, ()>, hidden: &mut Hidden<'_>) {
        hidden.released(&caller);
        match self.waiting.resume_next((), hidden) {
            Ok(next) => hidden.holds(&next),
            Err(()) => self.held = false,
        }
        hidden.answer(caller, ());
    }
}

impl RequestHandler<Count> for LockEnv {
    type Reply = usize;
    const KIND: Kind = Kind::Binding;
    fn handle(&mut self, _: Count, caller: Caller<'_, usize>, hidden: &mut Hidden<'_>) {
        let count = self.waiting.len(hidden);
        hidden.answer(caller, count);
    }
}

/// Unlocks when it is dropped.
pub struct Held<'a>(&'a Lock);

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.0.release(Release);
    }
}

impl Lock {
    #[track_caller]
    pub const fn new() -> Lock {
        Lock(EnvCell::new(LockEnv { held: false, waiting: Waiters::new() }))
    }

    #[track_caller]
    pub fn lock(&self) -> Held<'_> {
        if let Err(ended) = self.0.request(Acquire) {
            panic!("lock: {}", ended.unwind_if_cancelled());
        }
        Held(self)
    }

    #[track_caller]
    pub fn lock_until(&self, deadline: Instant) -> Result<Held<'_>, Ended> {
        self.0.request_until(Acquire, Some(deadline)).map_err(Ended::unwind_if_cancelled)?;
        Ok(Held(self))
    }

    /// How many wait: walks the queue.
    pub fn waiting(&self) -> usize {
        self.0.request(Count).unwrap()
    }
}

/// Whoever passes waits until it is opened.
pub struct Gate(EnvCell<GateEnv>);

struct GateEnv {
    open: bool,
    waiting: Waiters<()>,
}

struct Pass;
struct Open;
struct Count;

impl RequestHandler<Pass> for GateEnv {
    type Reply = ();
    fn handle(&mut self, _: Pass, caller: Caller<'_, ()>, hidden: &mut Hidden<'_>) {
        if self.open { hidden.answer(caller, ()) } else { self.waiting.push(caller, hidden) }
    }
}

impl RequestHandler<Open> for GateEnv {
    type Reply = ();
    const KIND: Kind = Kind::Release;
    fn handle(&mut self, _: Open, caller: Caller<'_, ()>, hidden: &mut Hidden<'_>) {
        self.open = true;
        while self.waiting.resume_next((), hidden).is_ok() {}
        hidden.answer(caller, ());
    }
}

impl RequestHandler<Count> for GateEnv {
    type Reply = usize;
    const KIND: Kind = Kind::Binding;
    fn handle(&mut self, _: Count, caller: Caller<'_, usize>, hidden: &mut Hidden<'_>) {
        let count = self.waiting.len(hidden);
        hidden.answer(caller, count);
    }
}

impl Default for Gate {
    fn default() -> Gate {
        Gate::new()
    }
}

impl Gate {
    #[track_caller]
    pub const fn new() -> Gate {
        Gate(EnvCell::new(GateEnv { open: false, waiting: Waiters::new() }))
    }

    #[track_caller]
    pub fn pass(&self) {
        if let Err(ended) = self.0.request(Pass) {
            panic!("gate: {}", ended.unwind_if_cancelled());
        }
    }

    #[track_caller]
    pub fn pass_until(&self, deadline: Instant) -> Result<(), Ended> {
        self.0.request_until(Pass, Some(deadline)).map_err(Ended::unwind_if_cancelled)
    }

    pub fn open(&self) {
        self.0.release(Open);
    }

    /// How many wait: walks the queue.
    pub fn waiting(&self) -> usize {
        self.0.request(Count).unwrap()
    }
}

/// Waits for a while.
pub fn sleep(time: Duration) {
    let never = Gate::new();
    assert_eq!(never.pass_until(Instant::now() + time), Err(Ended::Deadline));
}

/// A mailbox for values: `take` waits for one.
pub struct Mailbox<T>(EnvCell<MailboxEnv<T>>);

struct MailboxEnv<T> {
    values: std::collections::VecDeque<T>,
    waiting: Waiters<T>,
}

struct Take;
struct Put<T>(T);

impl<T> RequestHandler<Take> for MailboxEnv<T> {
    type Reply = T;
    fn handle(&mut self, _: Take, caller: Caller<'_, T>, hidden: &mut Hidden<'_>) {
        match self.values.pop_front() {
            Some(value) => hidden.answer(caller, value),
            None => self.waiting.push(caller, hidden),
        }
    }
}

impl<T> RequestHandler<Put<T>> for MailboxEnv<T> {
    type Reply = ();
    const KIND: Kind = Kind::Release;
    fn handle(&mut self, Put(value): Put<T>, caller: Caller<'_, ()>, hidden: &mut Hidden<'_>) {
        if let Err(value) = self.waiting.resume_next(value, hidden) {
            self.values.push_back(value);
        }
        hidden.answer(caller, ());
    }
}

impl<T> Mailbox<T> {
    #[track_caller]
    pub const fn new() -> Self {
        Mailbox(EnvCell::new(MailboxEnv { values: std::collections::VecDeque::new(), waiting: Waiters::new() }))
    }

    pub fn put(&self, value: T) {
        self.0.release(Put(value));
    }

    #[track_caller]
    pub fn take(&self) -> T {
        match self.0.request(Take) {
            Ok(value) => value,
            Err(ended) => panic!("mailbox: {}", ended.unwind_if_cancelled()),
        }
    }
}
