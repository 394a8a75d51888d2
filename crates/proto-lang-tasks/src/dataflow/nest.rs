//! Tasks that make tasks: what a child may declare, when it gets it, and when its parent's successors do.
//!
//! For whoever is outside, a task that [nests](super::TaskBuilder::nest) is one task: its accesses stand in the lanes of the data until it and all its children
//! are done with them. What its children declare stands in lanes *within* its access to the datum:
//!
//! ```text
//!   the datum's lanes:    task a │ nesting task            │ task b
//!   within the access:           │ itself │ child │ child  │
//! ```
//!
//! So children declare only what their parent has declared. The parent itself comes first, until it has run; if it declares the datum *weakly* it never touches it
//! itself, and its children begin when the access is granted. A weak access does not keep the task from running: it stands in the lanes as a *proxy*, a
//! task without a closure. An access leaves the lanes of the datum when its task has run and nothing is left within: so a successor need not wait for children that
//! are at something else.

use proto_core::Hidden;

use super::access::Access;
use super::graph::{Graph, NONE, ROOT};
use super::job::Job;
use super::lanes::{Lanes, Mode, Pool};

/// An access of a task that nests, and what is within.
pub(super) struct Inner<'env> {
    access: Access<'env>,
    pub(super) lanes: Lanes,
    /// The slot that stands in the lanes around for a weak access; `NONE`: the task itself.
    proxy: u32,
    /// The task has it, or it is not granted yet: children wait.
    held: bool,
    /// No more children are to come.
    closed: bool,
    left: bool,
}

/// Why a task is not made.
pub(super) const NOT_DECLARED: &str = "a task declares what the task that makes it has not declared, or not for that";
pub(super) const OWN: &str =
    "a task waits for one of its own that needs what it holds itself: it should declare that weakly";

impl<'env> Graph<'env> {
    /// Finds out in which accesses of `parent` those of its child are. Says if it may not be made.
    pub(super) fn find_inner(&mut self, parent: u32, job: &mut Job<'env>) -> Option<&'static str> {
        if parent == ROOT {
            return None;
        }
        let inner = &self.at(parent).rare().inner;
        for access in &mut job.accesses {
            let found = inner.iter().position(|inner| !inner.closed && inner.access.covers(access));
            let Some(found) = found else { return Some(NOT_DECLARED) };
            access.inner = found as u32;
            if job.undeferred && inner[found].held && inner[found].proxy == NONE {
                return Some(OWN);
            }
        }
        None
    }

    /// Where an access of a child of `parent` stands.
    pub(super) fn lanes(&mut self, parent: u32, access: &Access<'env>) -> (&mut Lanes, &mut Pool) {
        let (key, slots, pool) = self.parts();
        let lanes = match access.inner {
            NONE => &mut access.chain.open(key).lanes,
            inner => &mut slots[parent as usize].rare().inner[inner as usize].lanes,
        };
        (lanes, pool)
    }

    /// Prepares a task for children: its accesses are in the lanes already, but for the weak ones, which come into them here.
    pub(super) fn prepare(&mut self, index: u32, parent: u32, job: &Job<'env>) {
        self.at(index).rare().open = 1;
        for (number, access) in job.accesses.iter().enumerate() {
            let mut inner = Inner {
                access: access.twin(),
                lanes: Lanes::new(),
                proxy: NONE,
                // What is only read may be read by children meanwhile.
                held: access.weak || !access.mode.shares(),
                closed: false,
                left: false,
            };
            if inner.held {
                inner.lanes.arrive(&access.range, NONE - 1, Mode::INOUT, self.parts().2, |_| ());
            }
            if access.weak {
                inner.proxy = self.slot(parent);
                self.at(index).uses += 1;
                self.at(inner.proxy).rare().stands_for = Some((index, number as u32));
            }
            let proxy = inner.proxy;
            self.at(index).rare().inner.push(inner);
            if proxy != NONE && self.arrive(proxy, parent, access) == 0 {
                self.let_children(index, number);
            }
        }
    }

    /// Children of the task may have what it has declared there.
    pub(super) fn let_children(&mut self, index: u32, number: usize) {
        let parent = self.at(index).parent;
        let access = self.at(index).rare().inner[number].access.twin();
        let poison = self.lanes(parent, &access).0.poison(&access.range).filter(|_| access.mode != Mode::OUTPUT);
        let (_, slots, pool, granted) = self.all_parts();
        let inner = &mut slots[index as usize].rare().inner[number];
        inner.held = false;
        if poison.is_some() {
            inner.lanes.set_poison(&access.range, poison.as_ref());
        }
        inner.lanes.leave(&access.range, pool, |task| granted.push(task));
        self.leave_if_done(index, number);
    }

    /// Takes the access out of the lanes around if the task is done with it and nothing is left within.
    pub(super) fn leave_if_done(&mut self, index: u32, number: usize) {
        let parent = self.at(index).parent;
        let rare = self.at(index).rare();
        let (open, inner) = (rare.open, &mut rare.inner[number]);
        let done = !inner.left && !inner.held && (open == 0 || inner.closed);
        if !done || !inner.lanes.is_idle(&inner.access.range) {
            return;
        }
        inner.left = true;
        let (access, proxy) = (inner.access.twin(), inner.proxy);
        let poison = inner.lanes.poison(&access.range);
        self.leave(parent, &access, poison.as_ref());
        if proxy != NONE {
            self.drop_use(proxy);
            self.drop_use(index);
        }
    }

    /// The access of a child of `parent`, or of the root, is over.
    pub(super) fn leave(&mut self, parent: u32, access: &Access<'env>, poison: Option<&super::TaskError>) {
        let mut granted = std::mem::take(self.all_parts().3);
        let (lanes, pool) = self.lanes(parent, access);
        if access.mode == Mode::OUTPUT || (poison.is_some() && access.mode != Mode::READ) {
            lanes.set_poison(&access.range, poison);
        }
        lanes.leave(&access.range, pool, |task| granted.push(task));
        *self.all_parts().3 = granted;
        if access.inner != NONE {
            self.leave_if_done(parent, access.inner as usize);
        }
    }

    /// The closure of a task that nests has run, or an event that kept it from being over has come.
    pub(super) fn close(&mut self, index: u32, failure: Option<super::TaskError>, body: bool, hidden: &mut Hidden<'_>) {
        if body {
            self.start_all(index);
        }
        let rare = self.at(index).rare();
        rare.open -= 1;
        rare.failure = rare.failure.take().or(failure);
        let failure = rare.failure.clone();
        for number in 0..rare.inner.len() {
            let inner = &mut self.at(index).rare().inner[number];
            let range = inner.access.range.clone();
            if body && failure.is_some() && inner.access.mode != Mode::READ {
                inner.lanes.set_poison(&range, failure.as_ref());
            }
            match body && inner.held && inner.proxy == NONE {
                true => self.let_children(index, number),
                false => self.leave_if_done(index, number),
            }
        }
        self.over_if_done(index, hidden);
    }

    /// A task that nests is over when it has run and its children are over.
    pub(super) fn over_if_done(&mut self, index: u32, hidden: &mut Hidden<'_>) {
        let slot = self.at(index);
        if index != ROOT && slot.children == 0 && slot.rare().open == 0 && !slot.over {
            let failure = slot.rare().failure.clone().or_else(|| slot.rare().failed.take());
            self.over(index, failure, hidden);
        }
    }

    /// No more tasks of `index` will declare it.
    pub(super) fn release(&mut self, index: u32, access: &Access<'env>) {
        for number in 0..self.at(index).rare().inner.len() {
            let inner = &mut self.at(index).rare().inner[number];
            if inner.access.weak && access.covers(&inner.access) {
                inner.closed = true;
                self.leave_if_done(index, number);
            }
        }
    }

    /// Whether a child of the task waits for what it holds itself.
    pub(super) fn waits_for_itself(&mut self, index: u32) -> bool {
        let rare = self.at(index).rare();
        rare.inner.iter_mut().any(|inner| inner.held && inner.proxy == NONE && inner.lanes.is_awaited())
    }
}
