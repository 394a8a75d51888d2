//! Hooks: everything that orders timelines passes one door, and can be watched there [design rule 9].
//!
//! Requests, births, ends, resumes (the tie-points), and assignments are told to every [`Hooks`] of the runtime, with names that are the same from run
//! to run for programs that share only through constructs (std's atomics and locks are outside, and so is every promise about them).
//! Off, hooks cost the one branch on the attention word that a request takes anyway. On, the fast path that passes no door is left: the second closure of a
//! `join`, and a task of a scope, is no call, but always a VP of its own (`task`).
//!
//! `request` is called under the environment's lock, so the order of the calls of one object is the order of its requests: each event carries its
//! predecessor on the object, which is the edge of the order log.

use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, Location, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use proto_arch::topology::CoreId;

use crate::assign::Why;
use crate::ctx::{Ctx, attention};
use crate::ended::payload_text;
use crate::env::Info;
use crate::env::cell::CellHead;
use crate::kernel::wait::End;
use crate::report::Report;
use crate::runtime::core::Core;
use crate::runtime::shared::Shared;
use crate::vp::VpName;
use crate::vp::block::Block;

/// One thing that happened.
///
/// # Examples
///
/// The order in which things happened, as text:
///
/// ```
/// use std::sync::{Arc, Mutex};
///
/// use proto_core::{CoreId, Event, Hooks, Report, Runtime, VpName, scope};
///
/// #[derive(Default)]
/// struct Trace(Mutex<Vec<String>>);
/// impl Hooks for Trace {
///     fn event(&self, event: &Event) {
///         let line = match event {
///             Event::Born { vp } => format!("{vp} is born"),
///             Event::Ready { vp, why, .. } => format!("{vp} is ready: {why:?}"),
///             Event::Assigned { vp, core } => format!("{vp} runs on core {}", core.index()),
///             Event::Request { vp, number, request, .. } => format!("{vp} sends its request {number}: {request}"),
///             Event::Resumed { vp, by, cause } => format!("{vp} goes on: {cause:?} by {by:?}"),
///             Event::Ended { vp } => format!("{vp} has ended"),
///             _ => return,
///         };
///         self.0.lock().unwrap().push(line);
///     }
///     fn hog(&self, vp: &VpName, _: CoreId) -> bool {
///         self.0.lock().unwrap().push(format!("{vp} lets nobody else run"));
///         true
///     }
///     fn suspicion(&self, report: &Report) -> bool {
///         self.0.lock().unwrap().push(report.to_string());
///         true
///     }
/// }
/// let trace = Arc::new(Trace::default());
/// let runtime = Runtime::builder().controllers(1).hooks(trace.clone()).build()?;
/// runtime.run(|| scope(|s| drop(s.spawn(|| ()))))?;
/// let lines = trace.0.lock().unwrap();
/// let line = |what: &str| lines.iter().position(|line| line.starts_with(what));
/// assert!(line("vp 1:0.0 is born") < line("vp 1:0.0 is ready: Born"));
/// assert!(line("vp 1:0.0 is ready: Born") < line("vp 1:0.0 runs on core"));
/// assert!(line("vp 1:0.0 runs on core") < line("vp 1:0.0 has ended"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Event {
    /// A VP was created.
    Born {
        /// Its name, which says who created it.
        vp: VpName,
    },
    /// A VP has ended.
    Ended {
        /// Its name.
        vp: VpName,
    },
    /// A timeline's request is about to be handled.
    Request {
        /// Who sent it.
        vp: VpName,
        /// Which of its requests this is, from 1.
        number: u64,
        /// The request's type.
        request: &'static str,
        /// The environment's type.
        environment: &'static str,
        /// Where the object was made.
        made_at: &'static Location<'static>,
        /// The object's name: who requested something of it first (while hooks were on), and which of its requests that was.
        object: (VpName, u64),
        /// Where the request was sent from.
        sent_from: &'static Location<'static>,
        /// The request before this one on the same object, if hooks were on: who sent it, and which of its requests that was. The edge of the order
        /// log.
        after: Option<(VpName, u64)>,
    },
    /// A tie-point: a waiting timeline's wait was ended.
    Resumed {
        /// Who waited.
        vp: VpName,
        /// Who ended the wait; `None`: the runtime itself (a deadline, a cancel, an end of something).
        by: Option<VpName>,
        /// Why it ended.
        cause: Cause,
    },
    /// Work became ready on a core.
    Ready {
        /// The VP.
        vp: VpName,
        /// Why.
        why: Why,
        /// The core.
        core: CoreId,
    },
    /// A core begins to run a VP.
    Assigned {
        /// The VP.
        vp: VpName,
        /// The core.
        core: CoreId,
    },
}

/// Why a wait ended.
///
/// # Examples
///
/// How often waits ended otherwise than they were meant to:
///
/// ```
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicU32, Ordering};
/// use std::time::Instant;
///
/// use proto_core::{Cause, Event, Hooks, Runtime};
///
/// #[derive(Default)]
/// struct InVain(AtomicU32);
/// impl Hooks for InVain {
///     fn event(&self, event: &Event) {
///         let Event::Resumed { cause, .. } = event else { return };
///         match cause {
///             Cause::Request | Cause::Task | Cause::External => return,
///             Cause::Deadline | Cause::Cancel | Cause::Abandoned | Cause::Broken | _ => {}
///         }
///         self.0.fetch_add(1, Ordering::Relaxed);
///     }
/// }
/// let in_vain = Arc::new(InVain::default());
/// let runtime = Runtime::builder().controllers(1).hooks(in_vain.clone()).build()?;
/// runtime.run(|| proto_core::sleep_until(Some(Instant::now())))??; // sleeps never end otherwise
/// assert_eq!(in_vain.0.load(Ordering::Relaxed), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Cause {
    /// Another timeline of the runtime answered it.
    Request,
    /// It was for the second closure of a [`join`](crate::join()), or for tasks of a [`task_scope`](crate::task_scope()), and they have
    /// returned. Such a wait is no request.
    Task,
    /// An OS thread, or a timeline of another runtime, answered it.
    External,
    /// Its deadline came.
    Deadline,
    /// It was cancelled.
    Cancel,
    /// Its token was dropped without an answer.
    Abandoned,
    /// The environment it waited in broke.
    Broken,
}

/// Told of everything that orders timelines. Installed with [`Builder::hooks`](crate::Builder::hooks).
///
/// Called on the cores, partly under an environment's lock: be short, make no requests, take no lock that is held elsewhere across one.
/// A panic of a hook is caught; the first one is written to standard error.
///
/// ```
/// use std::sync::{Arc, Mutex};
/// use proto_core::{Event, Hooks, Runtime};
///
/// #[derive(Default)]
/// struct Births(Mutex<Vec<String>>);
/// impl Hooks for Births {
///     fn event(&self, event: &Event) {
///         if let Event::Born { vp } = event { self.0.lock().unwrap().push(vp.to_string()) }
///     }
/// }
/// let births = Arc::new(Births::default());
/// let runtime = Runtime::builder().controllers(1).hooks(births.clone()).build()?;
/// runtime.run(|| proto_core::scope(|s| { s.spawn(|| ()); }))?;
/// assert_eq!(*births.0.lock().unwrap(), ["vp 1:0", "vp 1:0.0"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Hooks: Send + Sync {
    /// Something happened.
    fn event(&self, event: &Event);

    /// A VP has held its core for 10 ms while other work of the core is ready. Return `true` to keep the runtime from writing that to
    /// standard error, which it does once for each VP, and once a second.
    fn hog(&self, vp: &VpName, core: CoreId) -> bool {
        let _ = (vp, core);
        false
    }

    /// The watchdog has found what would be a deadlock if nobody outside could end a wait: a new cycle of owners, an ended holder, or, once for each
    /// process, that all of it has waited for some seconds while nothing at all ran. Called on the watchdog's thread. Return `true` to keep the runtime
    /// from writing it to standard error.
    fn suspicion(&self, report: &Report) -> bool {
        let _ = report;
        false
    }
}

/// The hooks of a runtime.
#[derive(Default)]
pub(crate) struct Installed {
    any: AtomicBool,
    /// A hook has panicked, which was said.
    named: AtomicBool,
    hooks: RwLock<Vec<Arc<dyn Hooks>>>,
}

impl fmt::Debug for Installed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Installed").field("any", &self.any).finish_non_exhaustive()
    }
}

impl Installed {
    pub(crate) fn add(&self, shared: &[Core], hooks: Arc<dyn Hooks>) {
        self.hooks.write().unwrap_or_else(PoisonError::into_inner).push(hooks);
        // ORDERING: Relaxed: hooks see what happens after each core has noticed.
        self.any.store(true, Ordering::Relaxed);
        for core in shared {
            core.ctx.raise(attention::HOOKS);
        }
    }

    pub(crate) fn any(&self) -> bool {
        // ORDERING: as above.
        self.any.load(Ordering::Relaxed)
    }

    fn tell(&self, event: &Event) {
        for hooks in self.hooks.read().unwrap_or_else(PoisonError::into_inner).iter() {
            self.guarded("event", || hooks.event(event));
        }
    }

    /// Calls a hook. No panic of its own gets out: it is called under locks of environments, in destructors, and by controllers.
    fn guarded<R: Default>(&self, what: &str, call: impl FnOnce() -> R) -> R {
        match catch_unwind(AssertUnwindSafe(call)) {
            Ok(result) => result,
            Err(payload) => {
                self.panicked(what, payload);
                R::default()
            }
        }
    }

    #[cold]
    fn panicked(&self, what: &str, payload: Box<dyn Any + Send>) {
        let text = crate::panics::caught_in_hook().unwrap_or_else(|| payload_text(&*payload).to_owned());
        // ORDERING: Relaxed: said once, by whoever is first.
        if !self.named.swap(true, Ordering::Relaxed) {
            eprintln!(
                "proto-runtime: `Hooks::{what}` panicked: {text} (caught; the program goes on, and further panics of hooks are not told)"
            );
        }
        // The payload is a value of the user's, whose destructor could panic as well.
        std::mem::forget(payload);
    }

    pub(crate) fn report_hog(&self, vp: &VpName, core: CoreId) -> bool {
        self.hooks
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .iter()
            .any(|hooks| self.guarded("hog", || hooks.hog(vp, core)))
    }

    pub(crate) fn report_suspicion(&self, report: &Report) -> bool {
        self.hooks
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .iter()
            .any(|hooks| self.guarded("suspicion", || hooks.suspicion(report)))
    }
}

fn shared_of(block: &'static Block) -> Option<&'static Shared> {
    block.process().map(crate::process::ProcessInner::shared)
}

fn tell(block: &'static Block, event: &Event) {
    if let Some(shared) = shared_of(block) {
        shared.hooks.tell(event);
    }
}

#[cold]
pub(crate) fn born(block: &'static Block) {
    tell(block, &Event::Born { vp: VpName::of(block) });
}

#[cold]
pub(crate) fn ended(block: &'static Block) {
    tell(block, &Event::Ended { vp: VpName::of(block) });
}

/// Under the lock of `head`.
#[cold]
pub(crate) fn request(head: &CellHead, block: &'static Block, info: &'static Info, place: &'static Location<'static>) {
    let vp = VpName::of(block);
    let number = block.requests.get();
    // SAFETY: the lock is held, and no other reference to the cold part is alive.
    let cold = unsafe { head.cold() };
    let after = cold.last.replace((vp.clone(), number));
    let object = cold.name.get_or_insert_with(|| (vp.clone(), number)).clone();
    tell(
        block,
        &Event::Request {
            vp,
            number,
            request: (info.request)(),
            environment: (info.environment)(),
            made_at: head.place.get(),
            object,
            sent_from: place,
            after,
        },
    );
}

/// The wait of `block` was ended by what runs with `ctx`, which has not made it ready yet.
#[cold]
pub(crate) fn resumed(ctx: &Ctx, block: &'static Block) {
    if block.is_thread() {
        // It may have gone on already, and belongs to no runtime.
        return;
    }
    // SAFETY: it waits, so it has started.
    let key = unsafe { block.node() }.key.get();
    let cause = match key.and_then(|key| block.wait.poll(key)) {
        Some(End::Deadline) => Cause::Deadline,
        Some(End::Cancelled) => Cause::Cancel,
        Some(End::Abandoned) => Cause::Abandoned,
        Some(End::Broken) => Cause::Broken,
        Some(End::Answered(_)) | None => match (ctx.core(), block.home()) {
            (Some(here), Some(home)) if std::ptr::eq(here.shared(), home.shared()) => Cause::Request,
            _ => Cause::External,
        },
    };
    resumed_for(ctx, block, cause);
}

#[cold]
pub(crate) fn resumed_for(ctx: &Ctx, block: &'static Block, cause: Cause) {
    tell(block, &Event::Resumed { vp: VpName::of(block), by: ctx.current().map(VpName::of), cause });
}

#[cold]
pub(crate) fn ready(core: &'static Core, block: &'static Block, why: Why) {
    core.shared().hooks.tell(&Event::Ready { vp: VpName::of(block), why, core: core.place });
}

#[cold]
pub(crate) fn assigned(core: &'static Core, block: &'static Block) {
    core.shared().hooks.tell(&Event::Assigned { vp: VpName::of(block), core: core.place });
}
