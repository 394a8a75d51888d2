//! Requests that are closures: for constructs whose request carries nothing but what it wants done.
//!
//! A request type of its own, with an `impl` of [`RequestHandler`], is worth its lines where the request is posted, forwarded or
//! stored, or where two constructs send it. Most are sent from one place. There the handler is best written where it is sent:
//!
//! | the handler | kind | |
//! |---|---|---|
//! | changes something, maybe lets others go on; answers at once | [`Kind::Release`] | [`update`](EnvCell::update) |
//! | looks; answers at once | [`Kind::Binding`] | [`visit`](EnvCell::visit) |
//! | may keep its caller waiting | [`Kind::Abandonable`] | [`ask`](EnvCell::ask) |
//! | the same, and a cancel does not end the wait | [`Kind::Binding`] | [`ask_binding`](EnvCell::ask_binding) |
//! | the same, and spins a while first | [`Kind::Abandonable`] | [`ask_adaptive`](EnvCell::ask_adaptive) |
//!
//! They are served as all requests are: alone in the environment, under its lock, so the closure is sequential code of the
//! language and runs no user code. In reports and traces the construct is named by the function that sent the closure.

use std::any::type_name;
use std::fmt;
use std::marker::PhantomData;
use std::time::Instant;

use super::cell::EnvCell;
use super::hidden::Hidden;
use super::token::Caller;
use super::{Kind, RequestHandler};
use crate::ended::Ended;

/// A request that is a closure, whose caller may be kept waiting.
///
/// [`EnvCell::ask`] makes and sends one. By itself it is for what sends requests later: [`Hidden::forward`], [`Select`](crate::Select).
/// The closure has the duties of a [handler](RequestHandler).
///
/// # Examples
///
/// ```
/// use proto_core::{Ask, EnvCell};
///
/// let counter = EnvCell::new(3);
/// let next = Ask::new(|count: &mut u32, caller, hidden| {
///     *count += 1;
///     hidden.answer(caller, *count);
/// });
/// assert_eq!(counter.request(next), Ok(4));
/// ```
pub struct Ask<F, T, const BINDING: bool = false> {
    handler: F,
    _reply: PhantomData<fn() -> T>,
}

impl<F, T> Ask<F, T> {
    /// A request that `handler` will serve.
    #[inline(always)]
    pub fn new<E>(handler: F) -> Self
    where
        F: FnOnce(&mut E, Caller<'_, T>, &mut Hidden<'_>),
    {
        Ask { handler, _reply: PhantomData }
    }
}

impl<F, T, const BINDING: bool> fmt::Debug for Ask<F, T, BINDING> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Ask").field(&sender::<F>()).finish()
    }
}

impl<E, F, T, const BINDING: bool> RequestHandler<Ask<F, T, BINDING>> for E
where
    F: FnOnce(&mut E, Caller<'_, T>, &mut Hidden<'_>),
{
    type Reply = T;
    const KIND: Kind = if BINDING { Kind::Binding } else { Kind::Abandonable };

    #[inline(always)]
    fn handle(&mut self, ask: Ask<F, T, BINDING>, caller: Caller<'_, T>, hidden: &mut Hidden<'_>) {
        (ask.handler)(self, caller, hidden);
    }

    fn name() -> &'static str {
        sender::<F>()
    }
}

/// A request that is a closure, whose value is the reply. A release, or a look.
struct AtOnce<F, T, const RELEASE: bool> {
    handler: F,
    _reply: PhantomData<fn() -> T>,
}

impl<E, F, T, const RELEASE: bool> RequestHandler<AtOnce<F, T, RELEASE>> for E
where
    F: FnOnce(&mut E, &Caller<'_, T>, &mut Hidden<'_>) -> T,
{
    type Reply = T;
    const KIND: Kind = if RELEASE { Kind::Release } else { Kind::Binding };

    #[inline(always)]
    fn handle(&mut self, request: AtOnce<F, T, RELEASE>, caller: Caller<'_, T>, hidden: &mut Hidden<'_>) {
        let reply = (request.handler)(self, &caller, hidden);
        hidden.answer(caller, reply);
    }

    fn name() -> &'static str {
        sender::<F>()
    }
}

/// The path of the function in which the closure `F` was written.
fn sender<F>() -> &'static str {
    type_name::<F>().trim_end_matches("::{{closure}}")
}

impl<E> EnvCell<E> {
    /// Changes the environment: `change` runs in it, and its value is the reply. `None` if the environment is broken.
    ///
    /// It is a [release](Kind::Release): never waits, never fails, is served even while the timeline unwinds. For what gives
    /// something back, lets others go on, or sets a flag.
    ///
    /// # Examples
    ///
    /// ```
    /// use proto_core::EnvCell;
    ///
    /// static LIMIT: EnvCell<u32> = EnvCell::new(5);
    /// assert_eq!(LIMIT.update(|limit, _, _| std::mem::replace(limit, 7)), Some(5));
    /// assert_eq!(LIMIT.visit(|limit, _, _| *limit), Some(7));
    /// ```
    #[inline(always)]
    #[track_caller]
    pub fn update<T>(&self, change: impl FnOnce(&mut E, &Caller<'_, T>, &mut Hidden<'_>) -> T) -> Option<T> {
        self.release_asking(AtOnce::<_, T, true> { handler: change, _reply: PhantomData })
    }

    /// Looks at the environment: `look` runs in it, and its value is the reply. `None` if the environment is broken.
    ///
    /// Unlike [`update`](EnvCell::update) it lets others have the core when their time has come, so that a loop around it
    /// starves nobody [design rule 14]. It is no cancellation point.
    #[inline]
    #[track_caller]
    pub fn visit<T>(&self, look: impl FnOnce(&mut E, &Caller<'_, T>, &mut Hidden<'_>) -> T) -> Option<T> {
        self.request(AtOnce::<_, T, false> { handler: look, _reply: PhantomData }).ok()
    }

    /// Sends a closure that answers its caller or keeps it waiting, until `deadline` at most; `None` waits for ever.
    ///
    /// # Errors
    ///
    /// See [`Ended`].
    ///
    /// # Panics
    ///
    /// As [`request`](EnvCell::request).
    ///
    /// # Examples
    ///
    /// A gate, as in the example of [`RequestHandler`], in closures:
    ///
    /// ```
    /// use proto_core::{EnvCell, OrUnwind, Runtime, Waiters};
    ///
    /// #[derive(Default)]
    /// struct GateEnv { open: bool, waiting: Waiters<()> }
    ///
    /// struct Gate(EnvCell<GateEnv>);
    /// impl Gate {
    ///     fn pass(&self) {
    ///         self.0
    ///             .ask(
    ///                 |env, caller, hidden| match env.open {
    ///                     true => hidden.answer(caller, ()),
    ///                     false => env.waiting.push(caller, hidden),
    ///                 },
    ///                 None,
    ///             )
    ///             .or_unwind()
    ///     }
    ///     fn open(&self) {
    ///         self.0.update(|env, _, hidden| {
    ///             env.open = true;
    ///             while env.waiting.resume_next((), hidden).is_ok() {}
    ///         });
    ///     }
    /// }
    ///
    /// let gate = Gate(EnvCell::new(GateEnv::default()));
    /// Runtime::builder().controllers(1).build()?.run(|| {
    ///     proto_core::scope(|s| {
    ///         s.spawn(|| gate.pass());
    ///         gate.open();
    ///     });
    /// })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline]
    #[track_caller]
    pub fn ask<T>(
        &self,
        handler: impl FnOnce(&mut E, Caller<'_, T>, &mut Hidden<'_>),
        deadline: Option<Instant>,
    ) -> Result<T, Ended> {
        self.request_until(Ask::new(handler), deadline)
    }

    /// As [`ask`](EnvCell::ask), where a cancel does not end the wait: it is noted and delivered after it.
    ///
    /// # Errors
    ///
    /// See [`Ended`].
    ///
    /// # Panics
    ///
    /// As [`request`](EnvCell::request).
    ///
    /// # Examples
    ///
    /// Whoever made the workers waits for the last of them, cancelled or not:
    ///
    /// ```
    /// use proto_core::{EnvCell, Waiters, scope};
    ///
    /// struct Crew { at_work: u32, done: Waiters<()> }
    /// let crew = EnvCell::new(Crew { at_work: 2, done: Waiters::new() });
    /// scope(|s| {
    ///     for _ in 0..2 {
    ///         s.spawn(|| {
    ///             crew.update(|crew, _, hidden| {
    ///                 crew.at_work -= 1;
    ///                 if crew.at_work == 0 {
    ///                     let _ = crew.done.resume_next((), hidden);
    ///                 }
    ///             })
    ///         });
    ///     }
    ///     crew.ask_binding(|crew, caller, hidden| match crew.at_work {
    ///         0 => hidden.answer(caller, ()),
    ///         _ => crew.done.push(caller, hidden),
    ///     })
    /// })?;
    /// # Ok::<(), proto_core::Ended>(())
    /// ```
    #[inline]
    #[track_caller]
    pub fn ask_binding<T>(&self, handler: impl FnOnce(&mut E, Caller<'_, T>, &mut Hidden<'_>)) -> Result<T, Ended> {
        self.request(Ask::<_, T, true> { handler, _reply: PhantomData })
    }

    /// As [`ask`](EnvCell::ask), for constructs that spin before they queue: as long as `handler` [asks its caller to try
    /// again](Hidden::try_again) it is sent again, for a bounded time; then with `true` for the last time, and must not ask again.
    ///
    /// # Errors
    ///
    /// See [`Ended`].
    ///
    /// # Panics
    ///
    /// As [`request`](EnvCell::request).
    ///
    /// # Examples
    ///
    /// ```
    /// use proto_core::EnvCell;
    ///
    /// let free = EnvCell::new(true);
    /// let mine = free.ask_adaptive(
    ///     |last, free, caller, hidden| match *free {
    ///         false if !last && hidden.holder_runs_elsewhere() => hidden.try_again(caller),
    ///         _ => hidden.answer(caller, std::mem::replace(free, false)),
    ///     },
    ///     None,
    /// );
    /// assert_eq!(mine, Ok(true));
    /// ```
    #[inline(always)]
    #[track_caller]
    pub fn ask_adaptive<T>(
        &self,
        handler: impl Fn(bool, &mut E, Caller<'_, T>, &mut Hidden<'_>),
        deadline: Option<Instant>,
    ) -> Result<T, Ended> {
        self.request_adaptive(|last| Adaptive { last, handler: &handler, _reply: PhantomData }, deadline)
    }
}

/// As [`Ask`], of one try.
struct Adaptive<'f, F, T> {
    last: bool,
    handler: &'f F,
    _reply: PhantomData<fn() -> T>,
}

impl<E, F, T> RequestHandler<Adaptive<'_, F, T>> for E
where
    F: Fn(bool, &mut E, Caller<'_, T>, &mut Hidden<'_>),
{
    type Reply = T;

    #[inline(always)]
    fn handle(&mut self, request: Adaptive<'_, F, T>, caller: Caller<'_, T>, hidden: &mut Hidden<'_>) {
        (request.handler)(request.last, self, caller, hidden);
    }

    fn name() -> &'static str {
        sender::<F>()
    }
}

#[cfg(test)]
mod test {
    use std::time::{Duration, Instant};

    use super::super::{EnvCell, InfoOf, Kind, RequestHandler, Waiters};
    use super::{Ask, sender};
    use crate::ended::Ended;

    #[derive(Default)]
    struct Gate {
        open: bool,
        waiting: Waiters<u32>,
    }

    fn pass(gate: &EnvCell<Gate>, deadline: Option<Instant>) -> Result<u32, Ended> {
        gate.ask(
            |env, caller, hidden| match env.open {
                true => hidden.answer(caller, 0),
                false => env.waiting.push(caller, hidden),
            },
            deadline,
        )
    }

    #[test]
    fn what_waits_is_resumed_by_an_update() {
        let gate = EnvCell::new(Gate::default());
        std::thread::scope(|s| {
            let waiter = s.spawn(|| pass(&gate, None));
            while gate.visit(|env, _, hidden| env.waiting.is_empty(hidden)) == Some(true) {
                std::thread::yield_now();
            }
            let resumed = gate.update(|env, _, hidden| env.waiting.resume_next(7, hidden).is_ok());
            assert_eq!(resumed, Some(true));
            assert_eq!(waiter.join().expect("it only waits"), Ok(7));
        });
    }

    #[test]
    fn a_deadline_ends_the_wait() {
        let gate = EnvCell::new(Gate::default());
        let deadline = Some(Instant::now() + Duration::from_millis(1));
        assert_eq!(pass(&gate, deadline), Err(Ended::Deadline));
    }

    #[test]
    fn a_handler_that_panics_breaks_the_environment_for_closures_too() {
        let cell = EnvCell::new(1);
        let ended = cell.ask::<u32>(|_, _, _| panic!("on purpose"), None);
        assert!(matches!(ended, Err(Ended::Broken(message)) if message.contains("on purpose")));
        assert_eq!(cell.update(|value, _, _| *value), None);
        assert_eq!(cell.visit(|value, _, _| *value), None);
    }

    #[test]
    fn the_last_try_is_said_to_be_the_last() {
        let cell = EnvCell::new(0);
        let tries = cell.ask_adaptive(
            |last, tries, caller, hidden| {
                *tries += 1;
                if last { hidden.answer(caller, *tries) } else { hidden.try_again(caller) }
            },
            None,
        );
        assert_eq!(tries, Ok(2), "nobody passed meanwhile, so there was nothing to look for in between");
    }

    #[test]
    fn a_closure_is_named_by_the_function_that_sends_it() {
        fn named<E: RequestHandler<R>, R>(_: &E, _: &R) -> (&'static str, Kind) {
            ((InfoOf::<E, R>::INFO.request)(), InfoOf::<E, R>::INFO.kind)
        }
        let ask = Ask::new(|_: &mut u32, caller, hidden| hidden.answer(caller, ()));
        let (name, kind) = named(&5, &ask);
        assert!(name.ends_with("a_closure_is_named_by_the_function_that_sends_it"), "{name}");
        assert_eq!(kind, Kind::Abandonable);
        assert_eq!(sender::<u32>(), "u32");
    }
}
