//! Birth and end of threads: the core's builder and handle in std's shape.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use proto_core::{CoreId, JoinError, VpBuilder};

use super::{Scope, ScopedJoinHandle, Thread};
use crate::time;

/// Starts a virtual processor that runs `f`, as [`std::thread::spawn`].
///
/// It belongs to the process of its creator; outside a runtime, to that of the default runtime, which is made when it is first needed.
///
/// # Panics
///
/// If it cannot be created; [`Builder::spawn`] returns that as an error.
///
/// # Examples
///
/// ```
/// use proto_lang_mutex::thread;
/// let answer = thread::spawn(|| 6 * 7);
/// assert_eq!(answer.join().unwrap(), 42);
/// ```
#[track_caller]
pub fn spawn<F: FnOnce() -> T + Send + 'static, T: Send + 'static>(f: F) -> JoinHandle<T> {
    Builder::new().spawn(f).expect("failed to spawn thread")
}

/// Makes threads: name, stack size, and what std's builder has not: priority and place.
///
/// # Examples
///
/// ```
/// use proto_lang_mutex::thread;
/// let thread = thread::Builder::new().name("adder".to_owned()).stack_size(64 << 10).spawn(|| 1 + 2)?;
/// assert_eq!(thread.thread().name(), Some("adder"));
/// assert_eq!(thread.join().unwrap(), 3);
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// A thread of a scope, with its place and its rank:
///
/// ```
/// use proto_lang_mutex::thread;
///
/// let runtime = proto_core::Runtime::builder().controllers(2).assigner(proto_core::Priority).build()?;
/// let second = runtime.cores()[1];
/// let mut home = None;
/// runtime.run(|| {
///     thread::scope(|s| {
///         let urgent = thread::Builder::new().priority(255).home(second);
///         urgent.spawn_scoped(s, || home = thread::current().vp().home()).map(drop)
///     })
/// })??;
/// assert_eq!(home, Some(second));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
#[must_use = "a builder does nothing until `spawn`"]
pub struct Builder {
    vp: VpBuilder,
    name: Option<Arc<str>>,
}

impl Builder {
    /// A thread without a name, with the runtime's stack size, placed where a core is free.
    pub const fn new() -> Self {
        Builder { vp: VpBuilder::new(), name: None }
    }

    /// Its name, in reports and from [`Thread::name`].
    pub fn name(self, name: String) -> Self {
        let name: Arc<str> = Arc::from(name);
        Builder { vp: self.vp.name(Arc::clone(&name)), name: Some(name) }
    }

    /// The bytes of its stack: reserved, and used only where touched.
    pub fn stack_size(self, bytes: usize) -> Self {
        Builder { vp: self.vp.stack_size(bytes), ..self }
    }

    /// For assigners that look at it: 0 is the lowest, 255 the highest, 128 the usual.
    pub fn priority(self, priority: u8) -> Self {
        Builder { vp: self.vp.priority(priority), ..self }
    }

    /// The core on which it starts, and stays.
    pub fn home(self, core: CoreId) -> Self {
        Builder { vp: self.vp.home(core), ..self }
    }

    /// It starts on the core where `other` lives, if that is settled.
    ///
    /// # Examples
    ///
    /// ```
    /// use proto_lang_mutex::thread;
    /// let near = thread::Builder::new().near(&thread::current()).daemon().spawn(|| 1)?;
    /// assert_eq!(near.join().unwrap(), 1);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn near(self, other: &Thread) -> Self {
        Builder { vp: self.vp.near(&other.vp()), ..self }
    }

    /// Its process does not wait for it: when everything else has ended, it is cancelled.
    pub fn daemon(self) -> Self {
        Builder { vp: self.vp.daemon(), ..self }
    }

    /// Starts the thread.
    ///
    /// # Errors
    ///
    /// A [`proto_core::SpawnError`], in an [`io::Error`] as std has it. The closure is dropped then.
    pub fn spawn<F: FnOnce() -> T + Send + 'static, T: Send + 'static>(self, f: F) -> io::Result<JoinHandle<T>> {
        let handle = self.vp.spawn(f)?;
        Ok(JoinHandle { thread: Thread { vp: handle.vp(), name: self.name }, handle })
    }

    /// Starts a thread of `scope`; see [`Scope::spawn`].
    ///
    /// # Errors
    ///
    /// As [`spawn`](Self::spawn).
    pub fn spawn_scoped<'scope, F: FnOnce() -> T + Send + 'scope, T: Send + 'scope>(
        self,
        scope: &'scope Scope<'scope, '_>,
        f: F,
    ) -> io::Result<ScopedJoinHandle<'scope, T>> {
        let handle = scope.inner.spawn_with(self.vp, f)?;
        Ok(ScopedJoinHandle { thread: Thread { vp: handle.vp(), name: self.name }, handle })
    }
}

/// Joins a thread: waits for its end and gives its value. Dropped, the thread runs on by itself.
///
/// # Examples
///
/// ```
/// use proto_lang_mutex::thread::{self, JoinHandle};
/// use std::time::Instant;
///
/// let parked: JoinHandle<u32> = thread::spawn(|| {
///     thread::park();
///     5
/// });
/// let parked = parked.join_until(Instant::now()).expect_err("nobody has unparked it");
/// assert!(!parked.is_finished());
/// parked.thread().unpark();
/// assert_eq!(parked.join().unwrap(), 5);
/// ```
///
/// ```
/// use proto_lang_mutex::thread;
/// use std::time::Duration;
///
/// let parked = thread::spawn(thread::park);
/// let parked = parked.join_timeout(Duration::from_millis(1)).unwrap_err();
/// parked.thread().unpark();
/// parked.join_timeout(Duration::from_secs(60)).unwrap().unwrap();
/// ```
pub struct JoinHandle<T> {
    handle: proto_core::JoinHandle<T>,
    thread: Thread,
}

handle!(JoinHandle);

impl<T> JoinHandle<T> {
    /// Asks the thread to end: it unwinds from its next wait, and everything in the scopes it stands in with it.
    ///
    /// # Errors
    ///
    /// In a `panic=abort` build.
    ///
    /// # Examples
    ///
    /// ```
    /// use proto_lang_mutex::thread;
    /// let sleeper = thread::spawn(|| loop { thread::park() });
    /// sleeper.cancel().unwrap();
    /// assert!(sleeper.join().unwrap_err().is::<proto_core::Cancelled>());
    /// ```
    pub fn cancel(&self) -> Result<(), proto_core::CannotCancel> {
        self.handle.cancel()
    }

    /// Waits for the thread's end.
    ///
    /// # Errors
    ///
    /// What it panicked with; [`proto_core::Cancelled`] if it was cancelled.
    ///
    /// # Panics
    ///
    /// Unwinds if the calling virtual processor is cancelled.
    #[track_caller]
    pub fn join(self) -> super::Result<T> {
        self.handle.join().map_err(JoinError::into_payload)
    }
}
