//! What a scope's tasks know of it, and how it ends. `scope` tells the whole.

use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, Location, catch_unwind};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use super::crew::{self, Station};
use super::{JobHead, OF_TASK, attend_if_asked, has_room, published, stand_for};
use crate::ctx;
use crate::ended::Cancelled;
use crate::env::{Info, Kind};
use crate::kernel::latent::Newest;
use crate::kernel::wait::Key;
use crate::scope::ScopeHead;
use crate::vp::block::Block;

type Payload = Box<dyn Any + Send>;

const INFO: &Info = &Info { request: || "sync", environment: || "latent tasks", kind: Kind::Binding };

/// What a scope's tasks know of it.
///
/// | | who may touch it |
/// |---|---|
/// | `owner`, `around`, `step` | constant |
/// | `station` | the owner's timeline, see `crew` |
/// | `key` | the owner, before it closes the tally; then whoever ends the last task |
/// | the rest | anybody |
#[derive(Debug)]
pub(crate) struct Root {
    pub(super) head: ScopeHead,
    pub(super) owner: &'static Block,
    /// The latent task that ran inline on the owner when it opened the scope.
    pub(super) around: *const JobHead,
    /// Which child of the owner the scope is itself: so begin the names of its series.
    pub(super) step: u32,
    pub(super) station: Station,
    pub(super) key: Cell<Option<Key>>,
    /// The first panic that was noticed of a task that nobody touched.
    pub(super) panic: Mutex<Option<Payload>>,
    pub(super) stations: Mutex<Stations>,
    /// VPs were made in the scope.
    pub(super) vps: AtomicBool,
}

/// The stations of the crew.
#[derive(Debug, Default)]
pub(super) struct Stations {
    all: Vec<NonNull<Station>>,
    spare: Vec<NonNull<Station>>,
}

// SAFETY: the table at the type; the pointers of `stations` are used under its lock.
unsafe impl Sync for Root {}
// SAFETY: as above.
unsafe impl Send for Root {}

impl Root {
    pub(crate) fn owner(&self) -> &'static Block {
        self.owner
    }

    pub(crate) fn around(&self) -> *const JobHead {
        self.around
    }

    pub(super) fn head(&self) -> *const ScopeHead {
        &raw const self.head
    }

    pub(super) fn key(&self) -> &Cell<Option<Key>> {
        &self.key
    }

    /// The station of `block`, which runs here; null: it has none.
    #[inline(always)]
    pub(super) fn station_if_any(&self, block: &Block) -> *const Station {
        if ptr::eq(self.owner, block) {
            return &raw const self.station;
        }
        // SAFETY: a shift lies in a frame of the VP that runs here.
        match unsafe { block.around().as_shift().as_ref() } {
            Some(shift) if ptr::eq(shift.root, self) => shift.station(),
            _ => ptr::null(),
        }
    }

    /// The station of `block`, which runs here, if it may have one.
    #[inline(always)]
    pub(super) fn station(&self, block: &Block) -> Option<&Station> {
        if ptr::eq(self.owner, block) {
            return Some(&self.station);
        }
        // SAFETY: as above.
        let shift = unsafe { block.around().as_shift().as_ref() }.filter(|shift| ptr::eq(shift.root, self))?;
        let station = if shift.station().is_null() { shift.open_station() } else { shift.station() };
        // SAFETY: a station of this scope.
        unsafe { station.as_ref() }
    }

    /// A station for a VP of the crew that is counted by `lease`.
    pub(super) fn open_station(&self, lease: *const Station) -> *const Station {
        let mut stations = self.stations.lock().unwrap_or_else(PoisonError::into_inner);
        let station = stations.spare.pop().unwrap_or_else(|| {
            let fresh = NonNull::from(Box::leak(Box::new(Station::new())));
            stations.all.push(fresh);
            fresh
        });
        // SAFETY: it is freed with the scope, and nobody else has it.
        unsafe { station.as_ref() }.open(self, lease);
        station.as_ptr()
    }

    /// All that was made at a station of the crew is over.
    pub(super) fn close_station(&self, station: &Station) {
        station.reopen();
        let mut stations = self.stations.lock().unwrap_or_else(PoisonError::into_inner);
        stations.spare.push(NonNull::from(station));
    }

    /// A task has panicked whose result nobody touches. A cancel is not a panic.
    pub(super) fn note_panic(&self, payload: Payload) {
        if payload.is::<Cancelled>() {
            return drop(payload);
        }
        let mut panic = self.panic.lock().unwrap_or_else(PoisonError::into_inner);
        let later = if panic.is_none() { panic.replace(payload) } else { Some(payload) };
        drop(panic);
        if let Err(payload) = catch_unwind(AssertUnwindSafe(|| drop(later))) {
            crate::panics::nobody_catches(payload);
        }
    }

    /// Whether the task of this entry, which the caller has in hand, is one of this scope.
    pub(super) fn owns(&self, job: NonNull<JobHead>) -> bool {
        // SAFETY: the caller has it in hand.
        unsafe { job.as_ref() }.scope == self.mark()
    }

    /// The scope, with the mark of a task.
    #[inline(always)]
    pub(super) fn mark(&self) -> *const ScopeHead {
        (&raw const self.head).map_addr(|addr| addr | OF_TASK)
    }

    /// Whether tasks may run inline on `block`, which runs here: there they would not meet the cancel of the scope, if that alone was cancelled.
    #[inline(always)]
    pub(super) fn may_run_on(&self, block: &Block) -> bool {
        has_room(block) && (!self.head.is_cancelled() || block.is_cancelled())
    }

    /// Runs the tasks of this scope that the owner, whose timeline this is, finds on its list.
    pub(super) fn run_own(&self, block: &'static Block) {
        while let Some(core) = ctx::get().core() {
            attend_if_asked(&core.ctx, core, block);
            let core = ctx::get().core().expect("a VP has a core");
            // SAFETY: this code runs on that core.
            let list = unsafe { core.latent.owner() };
            match list.pop_if(|job| self.owns(job)) {
                Newest::Mine(job) if self.may_run_on(block) => {
                    // SAFETY: just taken off the list; the owner is here, so the scope is.
                    unsafe { crew::run(job.cast(), block, true) };
                }
                Newest::Mine(job) => {
                    crew::leave_behind(core, &[job.cast()]);
                    published(core);
                }
                Newest::Empty => break,
                Newest::Other => match list.find(self.station.low.get(), |job| self.owns(job)) {
                    Some(index) => super::detach_from(core, index + 1),
                    None => {
                        published(core);
                        break;
                    }
                },
            }
        }
        self.station.low.set(u32::MAX);
    }

    /// Waits until all that was spawned is over. For the owner.
    pub(super) fn settle(&self, place: &'static Location<'static>) {
        let block = self.owner;
        self.run_own(block);
        let station = &self.station;
        if !station.is_over() {
            let key = block.wait.arm_free();
            self.key.set(Some(key));
            // SAFETY: it has started.
            unsafe { block.node() }.key.set(key);
            if !station.tally.close(station.out.replace(0)) {
                stand_for(block, key, station.thief(), INFO, place);
            } else if let Ok(claim) = block.wait.claim(key) {
                // Nobody else has the key.
                block.wait.publish(claim);
            }
            block.wait.retire();
            station.reopen();
        }
        // ORDERING: Relaxed: set by this timeline, or by one that this one has waited for.
        if self.vps.swap(false, Ordering::Relaxed) {
            if let Some(payload) = self.head.wait_for_vps() {
                self.note_panic(payload);
            }
        }
    }

    /// Gives back the memory. After the last wait.
    pub(super) fn give_back(&self) {
        let core = ctx::get().core();
        // SAFETY: all tasks are over, and handles do not leave the scope.
        unsafe { self.station.arena.give_back(core) };
        let stations = std::mem::take(&mut *self.stations.lock().unwrap_or_else(PoisonError::into_inner));
        for station in stations.all {
            // SAFETY: leaked by `open_station`; the crew's last word was that it was closed.
            let station = unsafe { Box::from_raw(station.as_ptr()) };
            // SAFETY: as above.
            unsafe { station.arena.give_back(core) };
        }
    }
}
