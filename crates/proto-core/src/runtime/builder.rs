//! How a runtime is made.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use proto_arch::fiber::Backend;
use proto_arch::topology::{CoreId, Topology};

use super::core::Core;
use super::handle::Runtime;
use super::shared::Shared;
use super::stacks::{Arenas, Fibers, class_of};
use super::watchdog::{self, Watchdog};
use crate::assign::instance::Instance;
use crate::assign::{self, Assigner, WorkStealing};
use crate::hooks::{Hooks, Installed};
use crate::kernel::sleep::Sleep;
use crate::report::verdict;
use crate::vp::VpName;
use crate::vp::block::Block;

/// Why a runtime was not made.
///
/// # Examples
///
/// ```
/// use proto_core::{Runtime, RuntimeError};
///
/// /// A few controllers less are better than none.
/// fn modest(controllers: usize) -> Result<Runtime, RuntimeError> {
///     match Runtime::builder().controllers(controllers).build() {
///         Err(RuntimeError::Thread(_)) if controllers > 1 => modest(controllers / 2),
///         Err(error @ RuntimeError::Overflow(_)) => {
///             eprintln!("{error}");
///             Err(error)
///         }
///         other => other,
///     }
/// }
/// assert!(matches!(modest(0), Err(RuntimeError::Controllers(0))));
/// let large = Runtime::builder().controllers(1).stack_size(3 << 30).build();
/// assert!(matches!(large, Err(RuntimeError::StackSize(_))));
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum RuntimeError {
    /// No controllers were asked for, or more than 65,536.
    Controllers(usize),
    /// The stack size is above 2 GiB.
    StackSize(usize),
    /// An OS thread could not be started.
    Thread(String),
    /// The report of stack overflows could not be installed.
    Overflow(String),
}

impl fmt::Display for RuntimeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RuntimeError::Controllers(count) => {
                write!(f, "{count} controllers were asked for; 1 to 65536 are possible")
            }
            RuntimeError::StackSize(size) => {
                write!(f, "a stack size of {size} bytes was asked for; the largest is 2 GiB")
            }
            RuntimeError::Thread(error) => {
                write!(
                    f,
                    "an OS thread for a controller could not be started: {error}; fewer controllers, or a higher limit of threads (`ulimit -u`)"
                )
            }
            RuntimeError::Overflow(error) => {
                write!(f, "the handler that reports stack overflows could not be installed: {error}")
            }
        }
    }
}

impl std::error::Error for RuntimeError {}

/// Whether controllers are pinned to their processors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pin {
    /// Only the first runtime of the program, and only if it takes the whole CPU set [design rule 16].
    Guest,
    Yes,
    No,
}

/// Makes a [`Runtime`].
///
/// # Examples
///
/// ```
/// let runtime = proto_core::Runtime::builder().name("little").controllers(2).stack_size(64 << 10).build()?;
/// assert_eq!(runtime.controllers(), 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// One on which a program, or an assigner, is to be tried:
///
/// ```
/// use std::sync::Arc;
/// use std::time::Duration;
///
/// use proto_core::{Event, Fifo, Hooks, Runtime, Topology};
///
/// struct Quiet;
/// impl Hooks for Quiet {
///     fn event(&self, _: &Event) {}
/// }
/// let runtime = Runtime::builder()
///     .topology(Topology::parse("2 packages × 2 cores")?) // not this machine
///     .controllers(4)
///     .pin(false)
///     .assigner(Fifo)
///     .hooks(Arc::new(Quiet))
///     .thread_per_vp(true) // for tools that do not know stack switching
///     .drop_deadline(Duration::from_millis(100))
///     .build()?;
/// assert_eq!(runtime.run(|| 6 * 7)?, 42);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "a builder does nothing until `build`"]
pub struct Builder {
    name: String,
    controllers: Option<usize>,
    pin: Pin,
    stack_size: usize,
    topology: Option<Topology>,
    backend: Backend,
    assigner: Box<dyn FnOnce(usize) -> Instance>,
    hooks: Vec<Arc<dyn Hooks>>,
    drop_deadline: Duration,
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            .field("name", &self.name)
            .field("controllers", &self.controllers)
            .finish_non_exhaustive()
    }
}

/// Runtimes made so far: only the first one pins by itself.
static MADE: AtomicU64 = AtomicU64::new(0);

impl Builder {
    pub(crate) fn new() -> Self {
        Builder {
            name: "proto".into(),
            controllers: None,
            pin: Pin::Guest,
            stack_size: proto_arch::stack::DEFAULT_SIZE,
            topology: None,
            backend: if cfg!(miri) { Backend::Thread } else { Backend::Coroutine },
            assigner: Box::new(|count| Instance::new(WorkStealing, count)),
            hooks: Vec::new(),
            drop_deadline: Duration::from_secs(1),
        }
    }

    /// Its name, in the names of its OS threads and in reports.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// How many controllers: OS threads that run VPs. One for each processor that the program may use, unless said otherwise; there may be
    /// more.
    pub fn controllers(mut self, count: usize) -> Self {
        self.controllers = Some(count);
        self
    }

    /// Whether each controller is pinned to its processor. Unless said otherwise, only the first runtime of the program pins, and only if it
    /// takes the whole CPU set: a library's small runtime leaves placement to the system.
    ///
    /// What VPs start leaves the processor again: calls in [`blocking`](crate::blocking), and the controllers of runtimes made on a VP. OS threads
    /// that a VP starts itself inherit the one processor, as the system has it.
    pub fn pin(mut self, pin: bool) -> Self {
        self.pin = if pin { Pin::Yes } else { Pin::No };
        self
    }

    /// The bytes of a VP's stack: reserved, not used until touched. Rounded up to a power of two, at least 32 KiB; 256 KiB unless said otherwise.
    pub fn stack_size(mut self, bytes: usize) -> Self {
        self.stack_size = bytes;
        self
    }

    /// The machine, instead of what [`Topology::from_os`] says: for assigners that are to be tried on another one. Controllers are pinned only on the
    /// system's own.
    pub fn topology(mut self, topology: Topology) -> Self {
        self.topology = Some(topology);
        self
    }

    /// The assigner of all languages and processes that bring none. [`WorkStealing`] unless said otherwise.
    pub fn assigner(mut self, assigner: impl Assigner) -> Self {
        self.assigner = Box::new(move |count| Instance::new(assigner, count));
        self
    }

    /// Gives every VP an OS thread of its own, of which one per controller runs at a time: for code that cannot share its thread
    /// (scoped thread-locals of foreign crates), and for tools that do not know stack switching [design rule 7]. Slow.
    pub fn thread_per_vp(mut self, yes: bool) -> Self {
        self.backend = if yes || cfg!(miri) { Backend::Thread } else { Backend::Coroutine };
        self
    }

    /// Has `hooks` told of everything that orders timelines.
    pub fn hooks(mut self, hooks: Arc<dyn Hooks>) -> Self {
        self.hooks.push(hooks);
        self
    }

    /// How long dropping the runtime waits for what still runs, after it was cancelled. One second unless said otherwise.
    pub fn drop_deadline(mut self, time: Duration) -> Self {
        self.drop_deadline = time;
        self
    }

    /// Makes the runtime and starts its controllers.
    ///
    /// # Errors
    ///
    /// See [`RuntimeError`].
    pub fn build(self) -> Result<Runtime, RuntimeError> {
        // SAFETY: `describe` keeps to what a signal handler may do.
        unsafe { proto_arch::overflow::install(describe) }
            .map_err(|error| RuntimeError::Overflow(error.to_string()))?;
        crate::panics::install_hook();
        // Decides once, before any fast path, whether light barriers are free.
        let _ = proto_arch::barrier::is_asymmetric();
        let real = self.topology.is_none();
        let topology = self.topology.unwrap_or_else(Topology::from_os);
        let usable = if real { proto_arch::pin::usable_parallelism() } else { topology.len() };
        let count = self.controllers.unwrap_or(usable).max(usize::from(self.controllers.is_none()));
        if count == 0 || count > 1 << 16 {
            return Err(RuntimeError::Controllers(count));
        }
        let class = class_of(self.stack_size).ok_or(RuntimeError::StackSize(self.stack_size))?;
        let ids: Vec<CoreId> = topology.core_ids().collect();
        // More controllers than processors: the places beyond are taken by the numbers that follow, so that each has its own.
        let places: Box<[CoreId]> = (0..count)
            .map(|index| {
                ids.get(index).copied().unwrap_or_else(|| CoreId::new(u32::try_from(index).unwrap_or(u32::MAX)))
            })
            .collect();
        // ORDERING: only the first counts.
        let first = MADE.fetch_add(1, Ordering::Relaxed) == 0;
        let pin = match self.pin {
            Pin::Yes => real,
            Pin::No => false,
            Pin::Guest => real && first && count == usable && count == ids.len(),
        };
        let cpus: Vec<Option<usize>> =
            (0..count).map(|index| (pin && !ids.is_empty()).then(|| topology.cpu(ids[index % ids.len()]))).collect();
        let instance = Arc::new((self.assigner)(count));
        let mut cores = Box::new_uninit_slice(count);
        for (index, seat) in cores.iter_mut().enumerate() {
            Core::init(seat, index, places[index], Fibers::default(), near(&topology, &places, index));
        }
        // SAFETY: each was made.
        let cores = unsafe { cores.assume_init() };
        let shared = Arc::new(Shared {
            name: self.name,
            cores,
            places,
            crowded_machine: count > proto_arch::pin::usable_parallelism(),
            topology,
            backend: self.backend,
            stack_class: class,
            arenas: Arenas::default(),
            instances: Mutex::new(vec![Arc::clone(&instance)]),
            default_instance: instance,
            instances_version: AtomicU64::new(1),
            stop: AtomicBool::new(false),
            gave_up: AtomicBool::new(false),
            visitors: AtomicUsize::new(0),
            alive: Mutex::new(count),
            all_ended: Condvar::new(),
            processes: Mutex::new(Vec::new()),
            next_process: AtomicU64::new(1),
            next_core: AtomicUsize::new(0),
            sleep: Sleep::new(count),
            watchdog: Watchdog::new(),
            hooks: Installed::default(),
            start: Instant::now(),
        });
        for core in &shared.cores {
            core.set_shared(Arc::as_ptr(&shared));
        }
        for hooks in self.hooks {
            shared.hooks.add(&shared.cores, hooks);
        }
        verdict::register(&shared);
        start(&shared, &cpus)?;
        Ok(Runtime::new(shared, self.drop_deadline))
    }
}

/// More controllers than this ask each other in ring order, wherever they are: a table of all pairs would be too large.
const MOST_WITH_NEIGHBOURS: usize = 1024;

/// In which order the controller `index` asks the others for work; nothing stands for ring order.
fn near(topology: &Topology, places: &[CoreId], index: usize) -> Box<[usize]> {
    if places.len() <= MOST_WITH_NEIGHBOURS { assign::nearest(topology, places, index).into() } else { Box::default() }
}

/// Starts the controllers and the watchdog.
fn start(shared: &Arc<Shared>, cpus: &[Option<usize>]) -> Result<(), RuntimeError> {
    for (index, &cpu) in cpus.iter().enumerate() {
        let of_thread = Arc::clone(shared);
        let spawned = std::thread::Builder::new()
            .name(format!("{}-{index}", shared.name))
            .spawn(move || super::thread::thread(of_thread, index, cpu));
        if let Err(error) = spawned {
            *shared.alive.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = index;
            shared.stop();
            return Err(RuntimeError::Thread(error.to_string()));
        }
    }
    let of_thread = Arc::clone(shared);
    std::thread::Builder::new()
        .name(format!("{}-watch", shared.name))
        .spawn(move || {
            super::thread::go_anywhere();
            watchdog::run(&of_thread);
        })
        .map(drop)
        .map_err(|error| {
            shared.stop();
            RuntimeError::Thread(error.to_string())
        })
}

/// Names the VP whose stack overflowed. In a signal handler.
unsafe fn describe(owner: *const (), out: &mut proto_arch::overflow::ReportLine) {
    // SAFETY: owners are blocks, which are never freed.
    let Some(block) = (unsafe { owner.cast::<Block>().as_ref() }) else {
        return;
    };
    VpName::write_in_signal(block, out);
}
