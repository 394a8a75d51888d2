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
//!     │                                                              ├─ admit: has its tokens ──► ready ──► run ──► complete ──► over
//!     └──── waits == 0 ────────────────────────────────────────────► │                             ▲                    │
//!                                                                    └─ a token is out: blocked ───┘◄─── to be combined ┘
//! ```
//!
//! A task is in its slot while it waits, else with who runs it. A task that becomes ready is given to whoever made it so: that runs it, or leaves it on its
//! core's latent list.
//!
//! # The dangerous moment
//!
//! A task that may run with others, one at a time, needs all its tokens at once: it takes all or none, so two such tasks cannot wait for each other. One that
//! finds a token missing is noted with that datum, and tried again when a token comes back there.
//!
//! # What is allocated under the lock
//!
//! Slots, and places for what waits in lanes, where there are more than there ever were: both are kept.

mod rerun;
mod spawner;
mod waits;

use std::cmp::Reverse;
use std::collections::BTreeMap;

use proto_core::{Hidden, Key, Keyed, Suspended};

use super::access::Access;
use super::data::Chain;
use super::failure::TaskError;
use super::flow::TaskId;
use super::job::{Job, Payload};
use super::lanes::{Lanes, Mode, Pool, Token, WHOLE};
use super::nest::Inner;

pub(super) use self::spawner::Spawner;

/// The priority of a task of which nothing was said.
pub(super) const USUAL: u8 = 128;

/// The slot of who made the graph.
pub(super) const ROOT: u32 = 0;

/// No slot, or no access.
pub(super) const NONE: u32 = u32::MAX;

/// See the head of this file.
pub(super) struct Graph<'env> {
    key: Key,
    data: Vec<&'env Keyed<Chain>>,
    pool: Pool,
    slots: Vec<Slot<'env>>,
    free: Vec<u32>,
    /// Tasks that were made by the root and are not over.
    in_flight: usize,
    pub(super) limit: usize,
    throttled: Option<Suspended<()>>,
    /// Ready tasks by priority, then in the order of their becoming ready; once there was one that is to go before others.
    heap: Option<BTreeMap<Rank, Box<Job<'env>>>>,
    ranks: u64,
    /// The first panic that nobody was told of.
    panic: Option<(TaskError, Payload)>,
    cancelled: Option<TaskError>,
    /// What becomes ready in this request.
    ready: Option<Box<Job<'env>>>,
    /// Jobs that are over, to be freed by who makes the next one: memory comes back where it is used next.
    done: Option<Box<Job<'env>>>,
    /// Kept for its memory.
    granted: Vec<u32>,
    cut: Vec<u32>,
    retry: Vec<u32>,
    /// Tasks that were not started yet.
    held: Vec<TaskId>,
    /// The tasks stay, to be run again.
    kept: bool,
}

/// What is known of a task, in a line of memory of its own.
#[repr(align(64))]
pub(super) struct Slot<'env> {
    generation: u32,
    /// In how many lanes it waits, and for how many tasks by name.
    pub(super) waits: u32,
    /// The tasks it made that are not over.
    pub(super) children: u32,
    /// Itself, and who holds a handle.
    pub(super) uses: u32,
    pub(super) parent: u32,
    pub(super) over: bool,
    job: Option<Box<Job<'env>>>,
    /// What few tasks have.
    rare: Option<Box<Rare<'env>>>,
}

#[derive(Default)]
pub(super) struct Rare<'env> {
    pub(super) failure: Option<TaskError>,
    /// Why the first of its children that failed did; until it is told.
    pub(super) failed: Option<TaskError>,
    /// Who waits for the task: to go on after it, or to run it.
    joiner: Option<Suspended<Joined<'env>>>,
    /// The task itself, which waits for its children.
    waiter: Option<Suspended<bool>>,
    /// In a kept graph: for how many tasks it waits.
    before: u32,
    /// Tasks that wait for this one, whatever they declare; in a kept graph all that do.
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

/// Jobs that are chained, to be dropped one after the other.
pub(super) struct Over<'env>(Option<Box<Job<'env>>>);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        while let Some(mut job) = self.0.take() {
            self.0 = job.next.take();
        }
    }
}

/// What became ready: a chain of tasks, or its first and how many others are to be fetched.
pub(super) type Ready<'env> = (Option<Box<Job<'env>>>, u32);

/// What a task's joiner gets: the task if it is ready, for who runs it itself; else it is over, or could not be made.
pub(super) type Joined<'env> = (Result<TaskId, &'static str>, Option<Box<Job<'env>>>);

const GIVEN: &str = "a task that is made is there";
const TAKEN: &str = "a task declares data that another dataflow has, which has not ended";

impl<'env> Graph<'env> {
    pub(super) fn new(kept: bool) -> Graph<'env> {
        let mut graph = Graph {
            key: Key::new(),
            data: Vec::new(),
            pool: Pool::new(),
            slots: Vec::new(),
            free: Vec::new(),
            in_flight: 0,
            limit: 4096,
            throttled: None,
            heap: None,
            ranks: 0,
            panic: None,
            cancelled: None,
            ready: None,
            done: None,
            granted: Vec::new(),
            cut: Vec::new(),
            retry: Vec::new(),
            held: Vec::new(),
            kept,
        };
        graph.slot(ROOT);
        graph
    }

    pub(super) fn slot(&mut self, parent: u32) -> u32 {
        let index = self.free.pop().unwrap_or_else(|| {
            let fresh =
                Slot { generation: 0, waits: 0, children: 0, uses: 1, parent, over: false, job: None, rare: None };
            self.slots.push(fresh);
            self.slots.len() as u32 - 1
        });
        let slot = &mut self.slots[index as usize];
        (slot.uses, slot.parent, slot.over) = (1, parent, false);
        index
    }

    pub(super) fn at(&mut self, slot: u32) -> &mut Slot<'env> {
        &mut self.slots[slot as usize]
    }

    /// The slot of a task that is not over, or has a handle.
    pub(super) fn find(&mut self, id: TaskId) -> Option<&mut Slot<'env>> {
        self.slots.get_mut(id.slot as usize).filter(|slot| slot.generation == id.generation)
    }

    pub(super) fn all_parts(&mut self) -> (&mut Key, &mut [Slot<'env>], &mut Pool, &mut Vec<u32>) {
        (&mut self.key, &mut self.slots, &mut self.pool, &mut self.granted)
    }

    pub(super) fn parts(&mut self) -> (&mut Key, &mut [Slot<'env>], &mut Pool) {
        (&mut self.key, &mut self.slots, &mut self.pool)
    }

    /// Takes a new task of `parent` in.
    ///
    /// # Errors
    ///
    /// Why it may not be made.
    pub(super) fn register(
        &mut self,
        fresh: &mut Option<Box<Job<'env>>>,
        parent: u32,
        handle: bool,
        hidden: &mut Hidden<'_>,
    ) -> Result<TaskId, &'static str> {
        let job = fresh.as_mut().expect(GIVEN);
        if !job.accesses.iter().all(|access| access.chain.is_kept(&mut self.key)) {
            return Err(TAKEN);
        }
        if let Some(error) = self.find_inner(parent, job) {
            return Err(error);
        }
        let mut job = fresh.take().expect(GIVEN);
        let index = self.slot(parent);
        job.slot = index;
        self.at(parent).children += 1;
        self.ranks += 1;
        job.seq = self.ranks;
        if job.priority != USUAL {
            self.heap.get_or_insert_default();
        }
        let mut waits = 0;
        for access in job.accesses.iter().filter(|access| !access.weak) {
            waits += self.arrive(index, parent, access);
        }
        if job.nests {
            self.prepare(index, parent, &job);
        }
        let slot = self.at(index);
        slot.waits = waits;
        slot.uses += u32::from(handle);
        let id = TaskId { slot: index, generation: slot.generation };
        if job.held {
            (slot.waits, slot.rare().held) = (waits + 1, true);
            self.held.push(id);
        } else {
            self.in_flight += usize::from(parent == ROOT);
        }
        let slot = self.at(index);
        match slot.waits {
            0 => self.admit(job, hidden),
            _ => slot.job = Some(job),
        }
        self.go_on(hidden);
        Ok(id)
    }

    /// Puts an access into its lanes. Gives in how many it waits.
    #[inline]
    pub(super) fn arrive(&mut self, index: u32, parent: u32, access: &Access<'env>) -> u32 {
        let Graph { key, data, slots, pool, cut, .. } = self;
        let chain = access.chain.open(key);
        if !chain.noted {
            chain.noted = true;
            data.push(access.chain);
        }
        let mut waits = match access.inner {
            NONE => chain.lanes.arrive(&access.range, index, access.mode, pool, |task| cut.push(task)),
            inner => {
                let lanes = &mut slots[parent as usize].rare().inner[inner as usize].lanes;
                lanes.arrive(&access.range, index, access.mode, pool, |task| cut.push(task))
            }
        };
        // (The task itself may wait in a lane that is cut, if it reads two parts that overlap.)
        while let Some(task) = cut.pop() {
            match task == index {
                true => waits += 1,
                false => slots[task as usize].waits += 1,
            }
        }
        slots[index as usize].waits = waits;
        waits
    }

    /// All lanes of a task are granted: it is ready if it can have its tokens.
    fn admit(&mut self, mut job: Box<Job<'env>>, hidden: &mut Hidden<'_>) {
        if job.failure.is_none() {
            job.failure.clone_from(&self.cancelled);
        }
        for at in 0..job.accesses.len() {
            let Job { slot, accesses, failure, combining, .. } = &mut *job;
            let access = &mut accesses[at];
            if access.weak {
                continue;
            }
            if access.inner != NONE && failure.is_none() {
                let parent = self.at(*slot).parent;
                *failure = self.lanes(parent, access).0.poison(&access.range).filter(|_| access.mode != Mode::OUTPUT);
            }
            let chain = access.chain.open(&mut self.key);
            if access.inner == NONE && access.mode != Mode::OUTPUT && failure.is_none() {
                *failure = chain.lanes.poison(&access.range);
            }
            if failure.is_some() {
                break;
            }
            let Some(exclusive) = access.mode.needs(*combining) else { continue };
            match chain.keeper.take(exclusive, &access.range) {
                Some(token) => access.token = token,
                None => {
                    chain.blocked.get_or_insert_default().push(*slot);
                    for access in &mut accesses[..at] {
                        access.chain.open(&mut self.key).keeper.put(access.take());
                    }
                    let slot = *slot;
                    self.at(slot).job = Some(job);
                    return;
                }
            }
        }
        if job.undeferred && !job.combining {
            if let Some(joiner) = self.at(job.slot).rare().joiner.take() {
                let id = TaskId { slot: job.slot, generation: self.at(job.slot).generation };
                match hidden.resume(joiner, (Ok(id), Some(job))) {
                    Ok(_) => return,
                    Err((_, back)) => job = back.expect("a job that was not taken comes back"),
                }
            }
        }
        job.next = self.ready.take();
        self.ready = Some(job);
    }

    /// What this request has made ready. `fetches`: whoever gets it runs one itself.
    pub(super) fn take_ready(&mut self, fetches: bool) -> Ready<'env> {
        let mut ready = self.ready.take();
        let Some(heap) = &mut self.heap else { return (ready, 0) };
        let mut tickets = 0;
        while let Some(mut job) = ready {
            ready = job.next.take();
            self.ranks += 1;
            heap.insert((Reverse(job.priority), self.ranks), job);
            tickets += 1;
        }
        if fetches && tickets > 0 { (self.fetch(), tickets - 1) } else { (None, tickets) }
    }

    /// The task that a ticket is for: of those that are ready, the one to go first.
    pub(super) fn fetch(&mut self) -> Option<Box<Job<'env>>> {
        self.heap.as_mut()?.pop_first().map(|(_, job)| job)
    }

    /// A task has run, or was not to run. Takes it if it is not over: it is to be combined.
    pub(super) fn complete(
        &mut self,
        done: &mut Option<Box<Job<'env>>>,
        payload: &mut Option<Payload>,
        hidden: &mut Hidden<'_>,
    ) -> Ready<'env> {
        let Some(mut job) = done.take() else { return (None, 0) };
        if let (Some(error), true, None) = (&job.failure, payload.is_some(), &self.panic) {
            self.panic = payload.take().map(|payload| (error.clone(), payload));
        }
        let combine = job.reduces && job.failure.is_none() && !job.combining;
        let Graph { key, pool, granted, retry, kept, .. } = self;
        for access in &mut job.accesses {
            let chain = access.chain.open(key);
            if !matches!(access.token, Token::None) {
                chain.keeper.put(access.take());
                if let Some(blocked) = &mut chain.blocked {
                    retry.append(blocked);
                }
            }
            if combine || job.nests || access.inner != NONE {
                continue;
            }
            if access.mode == Mode::OUTPUT || (job.failure.is_some() && access.mode != Mode::READ) {
                chain.lanes.set_poison(&access.range, job.failure.as_ref());
            }
            if !*kept {
                chain.lanes.leave(&access.range, pool, |task| granted.push(task));
            }
        }
        let slot = job.slot;
        if combine {
            job.combining = true;
            self.admit(job, hidden);
        } else if self.kept {
            self.rest(job, hidden);
        } else {
            let (failure, parent) = (job.failure.take(), self.at(slot).parent);
            if job.nests {
                self.close(slot, failure.clone(), true, hidden);
            } else {
                for access in job.accesses.iter().filter(|access| access.inner != NONE) {
                    self.leave(parent, access, failure.as_ref());
                }
                self.over(slot, failure.clone(), hidden);
            }
            // A closure that was not run may have something to say when it is dropped.
            if failure.is_some() {
                *done = Some(job);
            } else {
                job.next = self.done.take();
                self.done = Some(job);
            }
        }
        self.go_on(hidden);
        self.take_ready(true)
    }

    /// Carries on with what has been granted, and with what may try again.
    pub(super) fn go_on(&mut self, hidden: &mut Hidden<'_>) {
        let mut next = 0;
        while let Some(&task) = self.granted.get(next) {
            next += 1;
            let slot = self.at(task);
            slot.waits -= 1;
            if slot.waits > 0 {
                continue;
            }
            match slot.job.take() {
                Some(job) => self.admit(job, hidden),
                None => {
                    let (task, access) = self.at(task).rare().stands_for.expect("who waits without a job is a proxy");
                    self.let_children(task, access as usize);
                }
            }
        }
        self.granted.clear();
        let mut next = 0;
        while let Some(&task) = self.retry.get(next) {
            next += 1;
            let job = self.at(task).job.take().expect("a task that is blocked lies in its slot");
            self.admit(job, hidden);
        }
        self.retry.clear();
    }

    pub(super) fn held(&mut self) -> &mut Vec<TaskId> {
        &mut self.held
    }

    /// A task is held no more.
    pub(super) fn started(&mut self, index: u32, at_root: bool) {
        self.in_flight += usize::from(at_root);
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
        drop(self.take_done());
        for access in self.slots.iter_mut().filter_map(|slot| slot.job.as_mut()).flat_map(|job| &mut job.accesses) {
            access.chain.open(&mut self.key).keeper.put(access.take());
        }
        for data in &self.data {
            let chain = data.open(&mut self.key);
            chain.noted = false;
            if !chain.lanes.is_idle(&WHOLE) {
                chain.lanes = Lanes::new();
                chain.lanes.set_poison(&WHOLE, Some(&TaskError::cancelled()));
                chain.blocked = None;
            }
            data.release(&mut self.key);
        }
    }
}
