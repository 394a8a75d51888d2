//! The environment of a dataflow: which task waits for what.
//!
//! # One environment, and which
//!
//! A graph is one environment, for as long as [`dataflow`](super::dataflow) runs. To make a task is one request, to end one is another; what either does to
//! the data of that task it does at once. One environment *for each datum* would be a request for each access, and a task waits for several: the count
//! of what it waits for would need an environment, too. One *for a process* would have independent graphs wait for each other, and serve nothing. (A nested
//! `dataflow` is a graph of its own.) What the environment knows of a datum lies in that ([`Keyed`]), so nothing has to be looked up.
//!
//! # States of a task
//!
//! ```text
//!   made ── waits > 0 ──► in its slot ── the last lane is granted ──►┐
//!     │                                                              ├─ admit: has its data ────► ready ──► run ──► complete ──► over
//!     └──── waits == 0 ────────────────────────────────────────────► │                             ▲                    │
//!                                                                    └─ another has one: blocked ──┘◄─── to be combined ┘
//! ```
//!
//! A task is in its slot while it waits, else with who runs it. A task that becomes ready is given to whoever made it so: that runs it, or leaves it on its
//! core's latent list.
//!
//! # The dangerous moment
//!
//! A task that may run with others, one at a time, needs all its claims held at once: it takes all or none, so two such tasks cannot wait for each other. One that
//! lacks a datum is noted with that, and tried again when it comes back there.
//!
//! # What is allocated under the lock
//!
//! Slots, and places for what waits in lanes, where there are more than there ever were: both are kept.
//!
//! # What it costs
//!
//! Instructions a task, of an empty one, with all that is around it (made, freed, stolen by nobody):
//!
//! | | at first | now |
//! |---|---|---|
//! | wave front: two inputs, one inout | 2707 | 2370 |
//! | 64 chains of inout | 1917 | 1590 |
//! | the wave front kept and run again | 1023 | 1017 |
//!
//! An access is some 70 of them when it is declared, 90 when its task is admitted and 110 when that is over; a pass through the environment is 100, and there are
//! two. What went: most of the allocator (jobs were freed all at once, more than it has at hand), the copy of the name of whoever made a task ready, a loop of
//! children around each task, and tokens that moved.

mod ready;
mod rerun;
mod spawner;
mod waits;

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ops::Range;

use proto_core::{Hidden, Kept, Key, Keyed, LanePool, Lanes, Suspended};

use super::access::{Access, Mode};
use super::data::{Chain, WHOLE};
use super::failure::TaskError;
use super::flow::TaskId;
use super::job::{Job, Payload};
use super::nest::Inner;

pub(super) use self::ready::{Over, Ready};
pub(super) use self::spawner::Spawner;

/// The priority of a task of which nothing was said.
pub(super) const USUAL: u8 = 128;

/// The slot of who made the graph.
pub(super) const ROOT: u32 = 0;

/// No slot, or no access.
pub(super) const NONE: u32 = u32::MAX;

/// See the head of this file.
#[repr(C)]
pub(super) struct Graph<'env> {
    // What every request touches, in as few lines of memory as can be: they come from another core.
    key: Key,
    /// How many names were given to tasks.
    names: u64,
    slots: Vec<Slot<'env>>,
    free: Vec<u32>,
    /// What becomes ready in this request.
    ready: Option<Box<Job<'env>>>,
    /// Jobs that are over, to be freed by who makes others: memory comes back where it is used next.
    done: Over<'env>,
    pub(super) cancelled: Option<TaskError>,
    /// Who is granted one of the things that it waits for, and who may try again; in this request.
    granted: Vec<u32>,
    retry: Vec<u32>,
    /// Who waits in a lane that is cut.
    cut: Vec<u32>,
    /// So many tasks that were made by the root may be not over.
    pub(super) limit: u32,
    /// The tasks stay, to be run again; each has its successors here.
    kept: Option<Vec<u32>>,
    /// Ready tasks by priority, then in the order of their becoming ready; once there was one that is to go before others.
    heap: Option<BTreeMap<Rank, Box<Job<'env>>>>,
    // What few do.
    pool: LanePool,
    data: Vec<&'env Keyed<Chain>>,
    /// Those of the reductions of which there were any.
    operations: Vec<Mode>,
    /// The first panic that nobody was told of.
    panic: Option<(TaskError, Payload)>,
    /// Tasks that were not started yet.
    pub(super) held: Vec<TaskId>,
}

/// What is known of a task, in a line of memory of its own.
#[derive(Default)]
#[repr(align(64))]
pub(super) struct Slot<'env> {
    generation: u32,
    /// In how many lanes it waits, and for how many tasks by name.
    pub(super) waits: u32,
    /// The tasks it made that are not over, nor held.
    pub(super) children: u32,
    /// Itself, and who holds a handle.
    pub(super) uses: u16,
    pub(super) over: bool,
    pub(super) parent: u32,
    pub(super) job: Option<Box<Job<'env>>>,
    /// What few tasks have.
    pub(super) rare: Option<Box<Rare<'env>>>,
    /// In a kept graph: for how many tasks it waits, and which ones wait for it.
    before: u32,
    after: Range<u32>,
}

#[derive(Default)]
pub(super) struct Rare<'env> {
    pub(super) failure: Option<TaskError>,
    /// Why the first of its children that failed did; until it is told.
    pub(super) failed: Option<TaskError>,
    /// Who waits for the task.
    joiner: Option<Suspended<()>>,
    /// The task itself, which waits until no more than so many of its children are left.
    waiter: Option<(u32, Suspended<bool>)>,
    /// Tasks that wait for this one, whatever they declare.
    pub(super) after: Vec<u32>,
    /// It waits to be started.
    pub(super) held: bool,
    /// In a task that nests: its accesses, and how much keeps it from being over besides its children: its closure, and events.
    pub(super) inner: Vec<Inner<'env>>,
    pub(super) open: u32,
    /// The task and the access that a proxy stands for.
    pub(super) stands_for: Option<(u32, u32)>,
}

impl<'env> Slot<'env> {
    pub(super) fn rare(&mut self) -> &mut Rare<'env> {
        self.rare.get_or_insert_default()
    }
}

type Rank = (Reverse<u8>, u64);

const TAKEN: &str = "a task declares data that another dataflow has, which has not ended";

impl<'env> Graph<'env> {
    pub(super) fn new() -> Graph<'env> {
        let mut graph = Graph {
            key: Key::new(),
            data: Vec::new(),
            pool: LanePool::new(),
            operations: Vec::new(),
            slots: Vec::new(),
            free: Vec::new(),
            limit: 4096,
            heap: None,
            names: 0,
            panic: None,
            cancelled: None,
            ready: None,
            done: Over::default(),
            granted: Vec::new(),
            retry: Vec::new(),
            cut: Vec::new(),
            held: Vec::new(),
            kept: None,
        };
        graph.slot(ROOT);
        graph
    }

    pub(super) fn slot(&mut self, parent: u32) -> u32 {
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::default());
            self.slots.len() as u32 - 1
        });
        let slot = self.at(index);
        (slot.uses, slot.over, slot.parent) = (1, false, parent);
        index
    }

    #[inline]
    pub(super) fn at(&mut self, slot: u32) -> &mut Slot<'env> {
        &mut self.slots[slot as usize]
    }

    /// The slot of a task that is not over, or has a handle.
    pub(super) fn find(&mut self, id: TaskId) -> Option<&mut Slot<'env>> {
        self.slots.get_mut(id.slot as usize).filter(|slot| slot.generation == id.generation)
    }

    /// Has the datum kept, as long as the graph lives.
    #[inline]
    fn keep_datum(&mut self, access: &Access<'env>) -> Result<(), &'static str> {
        match access.chain.keep(&mut self.key) {
            Kept::Before => {}
            Kept::Now => self.data.push(access.chain),
            Kept::ByAnother => return Err(TAKEN),
        }
        Ok(())
    }

    /// A name that no task has had.
    pub(super) fn next_name(&mut self) -> u64 {
        self.names += 1;
        self.names
    }

    /// Gives a new task of `parent` its slot and its name.
    fn name(&mut self, job: &mut Job<'env>, index: u32, parent: u32) {
        (job.slot, job.frame, job.seq) = (index, parent, self.next_name());
        if job.spec.priority != USUAL {
            self.heap.get_or_insert_default();
        }
    }

    /// Takes a new task of `parent` in.
    ///
    /// # Errors
    ///
    /// Why it may not be made.
    pub(super) fn register(
        &mut self,
        fresh: &mut Option<Box<Job<'env>>>,
        mut weak: Vec<Access<'env>>,
        parent: u32,
        has_handle: bool,
    ) -> Result<TaskId, &'static str> {
        let Some(job) = fresh else { return Err("a task is made once") };
        let undeferred = job.spec.undeferred;
        for access in job.body.accesses().iter_mut().chain(&mut weak) {
            self.keep_datum(access)?;
            self.find_inner(parent, access, undeferred)?;
        }
        let Some(mut job) = fresh.take() else { unreachable!("it was there") };
        let index = self.slot(parent);
        self.name(&mut job, index, parent);
        if job.spec.nests {
            self.nest(&mut job, weak);
        }
        for access in job.body.accesses() {
            self.enter(job.frame, index, access);
        }
        let slot = self.at(index);
        slot.uses += u16::from(has_handle);
        let id = TaskId { slot: index, generation: slot.generation };
        if job.spec.held {
            slot.waits += 1;
            slot.rare().held = true;
            self.held.push(id);
        } else {
            self.at(parent).children += 1;
        }
        let slot = self.at(index);
        match slot.waits {
            0 => self.admit(job),
            _ => slot.job = Some(job),
        }
        Ok(id)
    }

    /// Where an access of `frame` stands, and what of the graph serves that.
    #[inline]
    pub(super) fn lanes(
        &mut self,
        frame: u32,
        access: &Access<'env>,
    ) -> (&mut Lanes<TaskError>, &mut LanePool, &mut Vec<u32>) {
        let Graph { key, slots, pool, granted, .. } = self;
        let lanes = match access.inner {
            NONE => &mut access.chain.open(key).lanes,
            inner => &mut slots[frame as usize].rare().inner[inner as usize].lanes,
        };
        (lanes, pool, granted)
    }

    /// Puts an access last, of the task or proxy `who`.
    #[inline(always)]
    pub(super) fn enter(&mut self, frame: u32, who: u32, access: &Access<'env>) {
        let Graph { key, slots, pool, operations, cut, .. } = self;
        let (mode, range) = (access.mode.in_lane(operations), access.claim.range());
        let lanes = match access.inner {
            NONE => &mut access.chain.open(key).lanes,
            inner => &mut slots[frame as usize].rare().inner[inner as usize].lanes,
        };
        let waits = lanes.enter(&range, who, mode, pool, |who| cut.push(who));
        slots[who as usize].waits += waits;
        // (It may be this one, if it reads two parts that overlap.)
        cut.drain(..).for_each(|who| slots[who as usize].waits += 1);
    }

    /// An access is over, or rests: gives back what it holds, says what it has left, and leaves its lanes unless it `stays`.
    #[inline(always)]
    pub(super) fn leave(&mut self, frame: u32, access: &mut Access<'env>, failure: Option<&TaskError>, stays: bool) {
        let Graph { key, slots, pool, granted, retry, .. } = self;
        let chain = access.chain.open(key);
        if access.claim.is_held() {
            chain.keeper.put(&mut access.claim);
            if let Some(blocked) = &mut chain.blocked {
                retry.append(blocked);
            }
        }
        let lanes = match access.inner {
            NONE => &mut chain.lanes,
            inner => &mut slots[frame as usize].rare().inner[inner as usize].lanes,
        };
        let range = access.claim.range();
        if access.mode == Mode::OUTPUT || (failure.is_some() && access.mode != Mode::READ) {
            lanes.set_mark(&range, failure);
        }
        if !stays {
            lanes.leave(&range, pool, |who| granted.push(who));
            if access.inner != NONE {
                self.leave_if_done(frame, access.inner);
            }
        }
    }

    /// A task has run, or was not to run. Takes it unless its closure was not run, and may have something to say when it is dropped.
    pub(super) fn complete(
        &mut self,
        done: &mut Option<Box<Job<'env>>>,
        payload: &mut Option<Payload>,
        hidden: &mut Hidden<'_>,
    ) -> Ready<'env> {
        let Some(mut job) = done.take() else { return Ready::default() };
        if let (Some(error), true, None) = (&job.failure, payload.is_some(), &self.panic) {
            self.panic = payload.take().map(|payload| (error.clone(), payload));
        }
        let combine = job.reduces && job.failure.is_none() && !job.combining;
        let stays = combine || self.kept.is_some();
        let Job { slot, frame, failure, body, .. } = &mut *job;
        for access in body.accesses() {
            self.leave(*frame, access, failure.as_ref(), stays);
        }
        if combine {
            job.combining = true;
            self.admit(job);
        } else if self.kept.is_some() {
            self.rest(job, hidden);
        } else {
            let (slot, failure) = (*slot, failure.take());
            let runs = failure.is_none();
            match job.spec.nests {
                true => self.close(slot, failure, true, hidden),
                false => self.over(slot, failure, hidden),
            }
            if runs {
                job.next = self.done.0.take();
                self.done.0 = Some(job);
            } else {
                *done = Some(job);
            }
        }
        self.go_on(true)
    }

    /// A task is held no more.
    pub(super) fn started(&mut self, index: u32) {
        let parent = self.at(index).parent;
        self.at(parent).children += 1;
        self.granted.push(index);
    }

    pub(super) fn drop_use(&mut self, index: u32) {
        let slot = self.at(index);
        slot.uses -= 1;
        if slot.uses == 0 {
            slot.generation = slot.generation.wrapping_add(1);
            slot.rare = None;
            self.free.push(index);
        }
    }
}

impl Drop for Graph<'_> {
    /// Lets go of the data. Nothing runs any more; if something was left waiting, what it was to write is not what it should be.
    fn drop(&mut self) {
        for job in self.slots.iter_mut().filter_map(|slot| slot.job.as_mut()) {
            for access in job.body.accesses() {
                access.chain.open(&mut self.key).keeper.put(&mut access.claim);
            }
        }
        for data in &self.data {
            let chain = data.open(&mut self.key);
            chain.blocked = None;
            if !chain.lanes.is_idle(&WHOLE) {
                chain.lanes = Lanes::new();
                chain.lanes.set_mark(&WHOLE, Some(&TaskError::cancelled()));
            }
            data.release(&mut self.key);
        }
    }
}
