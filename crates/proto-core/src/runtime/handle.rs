//! The handle of a runtime, and its end.
//!
//! # Shutdown
//!
//! [`Runtime::shutdown`] cancels every process and waits until a deadline for their VPs to unwind; then the controllers end. What has not
//! unwound by then is named in the error: its controllers go on if they are stuck in it, or leave its stacks as they are.
//!
//! Dropping the last handle does the same with the builder's `drop_deadline`, and writes who is stuck to standard error. Dropped on one of its own
//! VPs, which cannot wait for its own end, it only asks: the controllers end when the last VP has.

use std::fmt;
use std::sync::{Arc, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use proto_arch::topology::{CoreId, Topology};

use super::builder::{Builder, RuntimeError};
use super::shared::Shared;
use crate::assign::Assigner;
use crate::ctx::{self, Ctx};
use crate::process::{self, Options, Process, ProcessBuilder, ProcessError};
use crate::report::{Report, Wait, list, suspicion};
use crate::vp::cancel;

/// A runtime: controllers, and what they run. Cloning gives another handle.
///
/// Dropping the last handle shuts it down; see [`shutdown`](Runtime::shutdown).
///
/// # Examples
///
/// ```
/// use std::time::{Duration, Instant};
///
/// use proto_core::{Lifo, Runtime};
///
/// let runtime = Runtime::builder().name("main").controllers(2).build()?;
/// assert_eq!((runtime.name(), runtime.controllers()), ("main", 2));
/// println!("{:?} of\n{}", runtime.cores(), runtime.topology());
///
/// let mut words = vec!["b", "a"];
/// runtime.run(|| words.sort())?; // borrows, and waits
/// assert_eq!(words, ["a", "b"]);
/// let here = runtime.start(|| Runtime::current().expect("a VP runs in one"))?;
/// let hasty = runtime.start_with(Lifo, || 5)?;
/// assert_eq!((here.wait()?.name(), hasty.wait()?), ("main", 5));
///
/// runtime.shutdown(Instant::now() + Duration::from_secs(5))?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Runtime {
    handle: Arc<Handle>,
}

struct Handle {
    shared: Arc<Shared>,
    drop_deadline: Duration,
}

impl fmt::Debug for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runtime")
            .field("name", &self.name())
            .field("controllers", &self.controllers())
            .finish_non_exhaustive()
    }
}

/// A runtime that was not down by its deadline.
///
/// # Examples
///
/// ```
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicU8, Ordering};
/// use std::time::Instant;
///
/// use proto_core::{Runtime, ShutdownError};
///
/// const RUNS: u8 = 1;
/// const STOP: u8 = 2;
/// let state = Arc::new(AtomicU8::new(0));
/// let runtime = Runtime::builder().controllers(1).build()?;
/// let spins = Arc::clone(&state);
/// runtime.start(move || {
///     spins.store(RUNS, Ordering::Relaxed);
///     while spins.load(Ordering::Relaxed) != STOP {} // a loop without requests holds its core
/// })?;
/// while state.load(Ordering::Relaxed) != RUNS {}
/// let ShutdownError { stuck, busy, .. } = runtime.shutdown(Instant::now()).expect_err("it spins");
/// assert_eq!((stuck.len(), busy.len()), (0, 1));
/// state.store(STOP, Ordering::Relaxed);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct ShutdownError {
    /// The waits of the VPs that had not ended, as far as their cores could say.
    pub stuck: Vec<Wait>,
    /// Cores that did not answer: a VP holds them in a loop without requests, or in a blocking call.
    pub busy: Vec<String>,
}

impl fmt::Display for ShutdownError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "the runtime was not down by its deadline")?;
        for wait in &self.stuck {
            writeln!(f, "  - {wait}")?;
        }
        for busy in &self.busy {
            writeln!(f, "  - {busy}")?;
        }
        Ok(())
    }
}

impl std::error::Error for ShutdownError {}

static GLOBAL: OnceLock<Result<Runtime, RuntimeError>> = OnceLock::new();

impl Runtime {
    pub(crate) fn new(shared: Arc<Shared>, drop_deadline: Duration) -> Self {
        Runtime { handle: Arc::new(Handle { shared, drop_deadline }) }
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.handle.shared
    }

    /// Makes a runtime that is not the usual one.
    pub fn builder() -> Builder {
        Builder::new()
    }

    /// The program's default runtime, made when first asked for: where OS threads' own VPs run. It is never shut down.
    ///
    /// # Errors
    ///
    /// If it could not be made; every later call gives the same error.
    ///
    /// # Examples
    ///
    /// ```
    /// use proto_core::{Runtime, VpBuilder};
    ///
    /// // Made by an OS thread, it runs there.
    /// let vp = VpBuilder::new().spawn(|| Runtime::current().expect("a VP runs in one"))?;
    /// assert_eq!(vp.join().expect("it has not panicked").name(), Runtime::global()?.name());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn global() -> Result<&'static Runtime, RuntimeError> {
        match GLOBAL.get_or_init(|| Builder::new().build()) {
            Ok(runtime) => Ok(runtime),
            Err(error) => Err(error.clone()),
        }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.shared().name
    }

    /// How many controllers it has.
    pub fn controllers(&self) -> usize {
        self.shared().cores.len()
    }

    /// Where its controllers run.
    pub fn cores(&self) -> Vec<CoreId> {
        self.shared().places.to_vec()
    }

    /// The machine.
    pub fn topology(&self) -> &Topology {
        &self.shared().topology
    }

    /// Starts a process: `f` on a seed VP.
    ///
    /// # Errors
    ///
    /// If the seed cannot be created.
    pub fn start<T, F>(&self, f: F) -> Result<Process<T>, ProcessError>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        // SAFETY: everything is 'static.
        unsafe { process::start(self.shared(), Options::default(), f) }
    }

    /// As [`start`](Runtime::start), with an assigner of the process's own.
    ///
    /// # Errors
    ///
    /// If the seed cannot be created.
    pub fn start_with<T, F>(&self, assigner: impl Assigner, f: F) -> Result<Process<T>, ProcessError>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        self.process().assigner(assigner).start(f)
    }

    /// To start a process about which there is more to say.
    pub fn process(&self) -> ProcessBuilder<'_> {
        ProcessBuilder::new(self.shared())
    }

    /// Runs `f` as a process and waits for it. `f` may borrow.
    ///
    /// Called on a VP (of this runtime or another), the VP waits and its core runs others.
    ///
    /// # Errors
    ///
    /// See [`ProcessError`].
    pub fn run<T, F>(&self, f: F) -> Result<T, ProcessError>
    where
        T: Send,
        F: FnOnce() -> T + Send,
    {
        // SAFETY: `wait` is called before this returns, and returns when everything the process created has ended, or never runs
        // again (verdict).
        unsafe { process::start(self.shared(), Options::default(), f) }?.wait()
    }

    /// What waits for what, as far as the cores answer within 100 ms. For people and tests.
    ///
    /// # Panics
    ///
    /// On a VP of this runtime, whose core could not answer itself; use [`blocking`](crate::blocking).
    pub fn waits(&self) -> Vec<Wait> {
        self.check_outside("waits");
        list::of_runtime(self.shared()).into_iter().map(|found| found.wait).collect()
    }

    /// What looks like a deadlock, but is not certain while somebody outside could still end a wait [design rule 10]: a cycle of owners, a
    /// holder that has ended, or a process everything in which waits, without a deadline and for nothing that is known to be under way.
    ///
    /// The watchdog looks by itself, now and then; see [`Hooks::suspicion`](crate::Hooks::suspicion).
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::time::Duration;
    /// use proto_core::{Finding, Runtime, external};
    ///
    /// let runtime = Runtime::builder().controllers(1).build()?;
    /// let (event, waker) = external::<u32>();
    /// let process = runtime.start(move || event.wait(None))?;
    /// // The waker may have been forgotten somewhere.
    /// let report = loop {
    ///     if let Some(report) = runtime.suspicion() {
    ///         break report;
    ///     }
    /// };
    /// assert_eq!(report.finding, Finding::AllWait);
    /// assert!(!report.certain);
    /// // It was not.
    /// waker.wake(5);
    /// assert_eq!(process.wait()?, Ok(Some(5)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Panics
    ///
    /// As [`waits`](Runtime::waits).
    ///
    /// # Examples
    ///
    /// Somebody outside might give the lock back, for all that the runtime knows:
    ///
    /// ```
    /// use proto_core::{Finding, PanicMark, RawLock, Runtime};
    ///
    /// static LOCK: RawLock = RawLock::new();
    ///
    /// let runtime = Runtime::builder().controllers(1).build()?;
    /// let (event, waker) = proto_core::external::<()>();
    /// assert!(runtime.suspicion().is_none());
    /// let thief = runtime.start(|| LOCK.lock())?;
    /// let held = thief.wait()?;
    /// let waits = runtime.start(|| {
    ///     let held = LOCK.lock();
    ///     LOCK.give(held.grant, PanicMark::now());
    /// })?;
    /// let report = loop {
    ///     if let Some(report) = runtime.suspicion() { break report }
    /// };
    /// assert_eq!(report.finding, Finding::HolderEnded);
    /// LOCK.give(held.grant, PanicMark::now());
    /// waits.wait()?;
    /// drop((event, waker));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn suspicion(&self) -> Option<Report> {
        self.check_outside("suspicion");
        suspicion::on_demand(self.shared())
    }

    #[track_caller]
    fn check_outside(&self, what: &str) {
        assert!(!self.is_inside(), "`{what}` called on a VP of the runtime it asks; call it in `blocking`");
    }

    fn is_inside(&self) -> bool {
        ctx::installed().and_then(Ctx::core).is_some_and(|core| std::ptr::eq(core.shared(), Arc::as_ptr(self.shared())))
    }

    /// Cancels everything, waits until it has unwound or `deadline` has passed, and ends the controllers.
    ///
    /// # Errors
    ///
    /// Names what had not ended by then. Those stacks stay as they are.
    ///
    /// # Panics
    ///
    /// On a VP of this runtime, which would wait for its own end.
    pub fn shutdown(self, deadline: Instant) -> Result<(), ShutdownError> {
        self.check_outside("shutdown");
        shut_down(self.shared(), Some(deadline))
    }
}

/// Asks every process to end, and the controllers when they have.
fn ask_to_end(shared: &Arc<Shared>) {
    shared.stop();
    let processes = shared.processes.lock().unwrap_or_else(PoisonError::into_inner).clone();
    if cancel::check_possible().is_ok() {
        for process in processes {
            cancel::cancel_process(shared, &process);
        }
    }
}

fn shut_down(shared: &Arc<Shared>, deadline: Option<Instant>) -> Result<(), ShutdownError> {
    ask_to_end(shared);
    if wait_for_controllers(shared, deadline) {
        return Ok(());
    }
    let stuck = list::of_runtime(shared).into_iter().map(|found| found.wait).collect();
    let busy = shared
        .cores
        .iter()
        .filter_map(|core| {
            let block = core.ctx.current()?;
            Some(format!("core {} runs {} and does not come by", core.index, crate::VpName::of(block)))
        })
        .collect();
    // ORDERING: Release pairs with `may_end`.
    shared.gave_up.store(true, std::sync::atomic::Ordering::Release);
    for core in &shared.cores {
        super::mail::post(core, Box::new(|_| ()));
    }
    Err(ShutdownError { stuck, busy })
}

fn wait_for_controllers(shared: &Arc<Shared>, deadline: Option<Instant>) -> bool {
    let mut alive = shared.alive.lock().unwrap_or_else(PoisonError::into_inner);
    while *alive > 0 {
        let Some(deadline) = deadline else {
            alive = shared.all_ended.wait(alive).unwrap_or_else(PoisonError::into_inner);
            continue;
        };
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return false;
        }
        alive = shared.all_ended.wait_timeout(alive, left).unwrap_or_else(PoisonError::into_inner).0;
    }
    true
}

impl Drop for Handle {
    fn drop(&mut self) {
        let shared = Arc::clone(&self.shared);
        let inside = ctx::installed().and_then(Ctx::core).is_some();
        // A time too far to be represented is no deadline.
        let deadline = Instant::now().checked_add(self.drop_deadline);
        if inside {
            // On a VP: of this runtime it cannot wait for itself, and of another it must not block its core.
            ask_to_end(&shared);
            return;
        }
        if let Err(error) = shut_down(&shared, deadline) {
            eprintln!("proto-runtime: runtime '{}' was dropped: {error}", shared.name);
        }
    }
}
