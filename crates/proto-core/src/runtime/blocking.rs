//! Calls that block the OS thread: run on an auxiliary thread, while the VP waits and its core runs others.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::activity::Somebody;
use crate::ctx;
use crate::env::{Caller, EnvCell, Hidden, Kind, RequestHandler, Waiters};

/// The answer of an auxiliary thread, once it is there.
struct Answer<T> {
    value: Option<std::thread::Result<T>>,
    waiting: Waiters<std::thread::Result<T>>,
}

struct Await;
struct Give<T>(std::thread::Result<T>);

impl<T> RequestHandler<Await> for Answer<T> {
    type Reply = std::thread::Result<T>;
    const KIND: Kind = Kind::Binding;
    fn handle(&mut self, _: Await, caller: Caller<'_, Self::Reply>, hidden: &mut Hidden<'_>) {
        match self.value.take() {
            Some(value) => hidden.answer(caller, value),
            None => self.waiting.push(caller, hidden),
        }
    }
}

impl<T> RequestHandler<Give<T>> for Answer<T> {
    type Reply = ();
    const KIND: Kind = Kind::Release;
    fn handle(&mut self, Give(value): Give<T>, caller: Caller<'_, ()>, hidden: &mut Hidden<'_>) {
        self.value = self.waiting.resume_next(value, hidden).err();
        hidden.answer(caller, ());
    }
}

/// An auxiliary thread may have been started by a pinned controller, or by such a thread: it is to take no time from that core.
fn leave_processor() {
    thread_local! {
        static LEFT: Cell<bool> = const { Cell::new(false) };
    }
    if !LEFT.replace(true) {
        super::thread::go_anywhere();
    }
}

/// Whether `wait` is for a call that is under way.
pub(crate) fn is_awaited_by(wait: &crate::report::Wait) -> bool {
    wait.request == std::any::type_name::<Await>()
}

/// Runs `f` on an auxiliary OS thread and waits for it: for calls that block the OS thread they are made on (files, foreign
/// libraries, `std::process`).
///
/// The wait is *binding*: a cancel is delivered after it, because `f` may borrow. On an OS thread that is no controller, and outside any runtime, `f`
/// simply runs. The auxiliary threads are the [`blocking`](https://docs.rs/blocking) crate's: as many as there are calls under way, up to 500.
///
/// # Panics
///
/// With what `f` panics with.
///
/// # Examples
///
/// ```
/// let runtime = proto_core::Runtime::builder().controllers(1).build()?;
/// let text = runtime.run(|| proto_core::blocking(|| std::fs::read_to_string("Cargo.toml")))??;
/// assert!(text.contains("[package]"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn blocking<T: Send, F: FnOnce() -> T + Send>(f: F) -> T {
    if ctx::installed().is_none_or(|ctx| ctx.core().is_none()) {
        return f();
    }
    let answer = EnvCell::new(Answer { value: None, waiting: Waiters::new() });
    let place = &answer;
    let open = Somebody::new();
    let job = move || {
        leave_processor();
        let value = catch_unwind(AssertUnwindSafe(f));
        // The last use of what the waiting frame lends; see `EnvCell` for why the cell may go once this was sent.
        place.release(Give(value));
    };
    let job: Box<dyn FnOnce() + Send + '_> = Box::new(job);
    // SAFETY: only the lifetime changes. The job is run to its end, which is the `Give`, before the request below returns, and that
    // is a binding one: it returns only when it was answered. (The pool neither drops nor leaks a detached job.)
    let job: Box<dyn FnOnce() + Send + 'static> = unsafe { std::mem::transmute(job) };
    ::blocking::unblock(job).detach();
    let value = answer.request(Await);
    drop(open);
    match value {
        Ok(Ok(value)) => {
            crate::vp::cancel::deliver_noted();
            value
        }
        Ok(Err(payload)) => crate::resume_unwind(payload),
        Err(ended) => unreachable!("a binding wait for an auxiliary thread ended without its answer: {ended}"),
    }
}
