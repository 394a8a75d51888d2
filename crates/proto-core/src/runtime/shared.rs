//! What the controllers of one runtime share.
//!
//! Held by an `Arc` in every controller's thread, the watchdog's, every handle and every process. It lives until the last controller has
//! ended, and nobody [visits](Visit) it any more; timelines and wakers reach it through their core, which is part of it.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Instant;

use proto_arch::fiber::Backend;
use proto_arch::topology::{CoreId, Topology};

use super::core::Core;
use super::stacks::Arenas;
use super::watchdog::Watchdog;
use crate::assign::instance::Instance;
use crate::ctx::attention;
use crate::hooks::Installed;
use crate::kernel::sleep::{Cores as SleepCores, Sleep};
use crate::process::ProcessInner;

/// See the head of this file.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) name: String,
    pub(crate) cores: Box<[Core]>,
    pub(crate) places: Box<[CoreId]>,
    pub(crate) topology: Topology,
    pub(crate) backend: Backend,
    pub(crate) stack_class: u8,
    pub(crate) arenas: Arenas,
    pub(crate) default_instance: Arc<Instance>,
    pub(crate) instances: Mutex<Vec<Arc<Instance>>>,
    /// Counts the changes of `instances`.
    pub(crate) instances_version: AtomicU64,
    /// The controllers end when they have nothing left to do.
    pub(crate) stop: AtomicBool,
    /// Controllers whose thread has not ended.
    pub(crate) alive: Mutex<usize>,
    pub(crate) all_ended: Condvar,
    pub(crate) processes: Mutex<Vec<Arc<ProcessInner>>>,
    pub(crate) next_process: AtomicU64,
    /// Round robin for work from outside.
    pub(crate) next_core: AtomicUsize,
    pub(crate) sleep: Sleep,
    pub(crate) watchdog: Watchdog,
    pub(crate) hooks: Installed,
    pub(crate) start: Instant,
    /// More controllers than processors: spinning would take the time from who is waited for.
    pub(crate) crowded_machine: bool,
    /// The deadline of a shutdown has passed: controllers end although not everything has.
    pub(crate) gave_up: AtomicBool,
    /// OS threads and VPs of other runtimes that are just waking a timeline of this one; see [`Visit`].
    pub(crate) visitors: AtomicUsize,
}

/// Keeps a runtime's memory while somebody from outside makes one of its timelines ready, or has sent its wait on and asks its core to look again.
///
/// Until the timeline is in its core's inbox it keeps its runtime alive. From then on it may run, and be the last, so that the
/// runtime ends while the waker still looks whether the core sleeps. The same holds once a wait that was sent on is open to others.
pub(crate) struct Visit<'a>(&'a Shared);

impl<'a> Visit<'a> {
    /// To be called while a timeline of the runtime still waits.
    pub(crate) fn new(shared: &'a Shared) -> Self {
        // ORDERING: Relaxed: before the Release of the inbox, which the controllers take from before they end.
        shared.visitors.fetch_add(1, Ordering::Relaxed);
        Visit(shared)
    }
}

impl Drop for Visit<'_> {
    fn drop(&mut self) {
        // ORDERING: Release pairs with the Acquire in `await_visitors`: the visitor's last look comes before.
        self.0.visitors.fetch_sub(1, Ordering::Release);
    }
}

impl Shared {
    /// Waits until nobody is looking from outside any more. For a controller that has ended and holds the memory for so long: its timelines,
    /// and so their wakers, came before. (Not for the drop of this: that has the whole to itself, from its beginning.)
    pub(super) fn await_visitors(&self) {
        // ORDERING: Acquire pairs with the Release above. A visitor has a few instructions left, so nothing cleverer.
        while self.visitors.load(Ordering::Acquire) != 0 {
            std::thread::yield_now();
        }
    }

    pub(crate) fn nanoseconds(&self, at: Instant) -> u64 {
        u64::try_from(at.saturating_duration_since(self.start).as_nanos()).unwrap_or(u64::MAX - 1)
    }

    /// Registers an assigner. Each core takes note when it next looks.
    pub(crate) fn add_instance(&self, instance: &Arc<Instance>) {
        self.instances.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(instance));
        // ORDERING: Release pairs with the Acquire in the controller, which then takes the lock anyway.
        self.instances_version.fetch_add(1, Ordering::Release);
    }

    pub(crate) fn remove_instance(&self, instance: &Arc<Instance>) {
        let mut instances = self.instances.lock().unwrap_or_else(PoisonError::into_inner);
        instances.retain(|other| !Arc::ptr_eq(other, instance));
        // ORDERING: as above.
        self.instances_version.fetch_add(1, Ordering::Release);
    }

    /// The core that takes the next work from outside: a sleeping one would have to be woken, so it goes round.
    pub(crate) fn core_for_outsider(&self) -> &Core {
        // ORDERING: only spreads.
        let next = self.next_core.fetch_add(1, Ordering::Relaxed);
        &self.cores[next % self.cores.len()]
    }

    pub(crate) fn core_at(&self, place: CoreId) -> Option<&Core> {
        self.places.iter().position(|&other| other == place).map(|index| &self.cores[index])
    }

    /// The core at this address, if it is one of this runtime's: for pointers that may be stale.
    pub(crate) fn core_of(&self, core: *const Core) -> Option<&Core> {
        self.cores.iter().find(|own| std::ptr::eq(*own, core))
    }

    pub(crate) fn is_stopping(&self) -> bool {
        // ORDERING: Acquire pairs with the Release in `stop`: what was asked before the stop is seen.
        self.stop.load(Ordering::Acquire)
    }

    /// Asks the controllers to end.
    pub(crate) fn stop(&self) {
        // ORDERING: Release pairs with `is_stopping`.
        self.stop.store(true, Ordering::Release);
        for core in &self.cores {
            super::mail::post(core, Box::new(|_| ()));
        }
        self.watchdog.wake();
    }
}

impl SleepCores for Shared {
    const SLEEPER: u32 = attention::SLEEPER;

    fn attention(&self, core: usize) -> &AtomicU32 {
        &self.cores[core].ctx.attention
    }

    fn unpark(&self, core: usize) {
        self.cores[core].parker.unpark();
    }
}
