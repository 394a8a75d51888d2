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
//! So children declare only what their parent has declared. What stands in the lanes around is a *proxy*, a slot without a task; when it is granted, those
//! within may begin. The parent itself is the first of them, with what it declares; if it declares the datum *weakly* it never touches it itself, and so does not
//! wait for it. An access leaves the lanes around when its task has run and nothing is left within: so a successor need not wait for children that are at
//! something else.

use proto_core::{Hidden, LaneMode, Lanes};

use super::access::{Access, Mode};
use super::failure::TaskError;
use super::graph::{Graph, NONE, ROOT};
use super::job::Job;

/// An access of a task that nests, and what is within.
pub(super) struct Inner<'env> {
    pub(super) access: Access<'env>,
    pub(super) lanes: Lanes<TaskError>,
    /// What stands in the lanes around for it.
    proxy: u32,
    /// The task itself has it while it runs.
    own: bool,
    /// It is granted: who is within need not wait for who is around.
    granted: bool,
    /// No more children are to come.
    closed: bool,
    left: bool,
}

/// Stands in the lanes within as long as the access is not granted.
const AROUND: u32 = NONE - 1;

const NOT_DECLARED: &str = "a task declares what the task that makes it has not declared, or not for that";
pub(super) const OWN: &str =
    "a task waits for one of its own that needs what it holds itself: it should declare that weakly";

impl<'env> Graph<'env> {
    /// Finds out in which access of `parent` one of its child is. Says if that may not be.
    pub(super) fn find_inner(
        &mut self,
        parent: u32,
        access: &mut Access<'env>,
        undeferred: bool,
    ) -> Result<(), &'static str> {
        if parent == ROOT {
            return Ok(());
        }
        let all = &self.at(parent).rare().inner;
        let found = all.iter().position(|inner| !inner.closed && inner.access.covers(access)).ok_or(NOT_DECLARED)?;
        access.inner = found as u32;
        let waits = undeferred && all[found].own && !all[found].access.mode.shares();
        if waits { Err(OWN) } else { Ok(()) }
    }

    /// Prepares a new task for children: puts proxies for its accesses into the lanes, and has it declare the strong ones within these.
    pub(super) fn nest(&mut self, job: &mut Job<'env>, weak: Vec<Access<'env>>) {
        let (index, parent) = (job.slot, job.frame);
        job.frame = index;
        self.at(index).rare().open = 1;
        let own = job.body.accesses().iter_mut().zip(0..).map(|(access, number)| {
            let around = access.twin();
            access.inner = number;
            (around, true)
        });
        for (access, own) in own.chain(weak.into_iter().map(|access| (access, false))) {
            let (proxy, mut lanes) = (self.slot(parent), Lanes::new());
            lanes.enter(&access.claim.range(), AROUND, LaneMode::alone(0), self.lanes(parent, &access).1, |_| ());
            self.at(index).uses += 1;
            let twin = access.twin();
            let inner = &mut self.at(index).rare().inner;
            let number = inner.len() as u32;
            inner.push(Inner { access, lanes, proxy, own, granted: false, closed: false, left: false });
            self.at(proxy).rare().stands_for = Some((index, number));
            self.enter(parent, proxy, &twin);
            if self.at(proxy).waits == 0 {
                self.let_children(index, number);
            }
        }
    }

    fn inner(&mut self, index: u32, number: u32) -> &mut Inner<'env> {
        &mut self.at(index).rare().inner[number as usize]
    }

    /// Who is within an access of the task may have it.
    pub(super) fn let_children(&mut self, index: u32, number: u32) {
        let parent = self.at(index).parent;
        let mut access = self.inner(index, number).access.twin();
        let range = access.claim.range();
        let mark = self.lanes(parent, &access).0.mark(&range).cloned().filter(|_| access.mode != Mode::OUTPUT);
        self.inner(index, number).granted = true;
        access.inner = number;
        let (lanes, pool, granted) = self.lanes(index, &access);
        if mark.is_some() {
            lanes.set_mark(&range, mark.as_ref());
        }
        lanes.leave(&range, pool, |who| granted.push(who));
        self.leave_if_done(index, number);
    }

    /// Takes the access out of the lanes around if the task is done with it and nothing is left within.
    pub(super) fn leave_if_done(&mut self, index: u32, number: u32) {
        let slot = self.at(index);
        let (parent, open) = (slot.parent, slot.rare().open);
        let inner = self.inner(index, number);
        let range = inner.access.claim.range();
        if inner.left || !inner.granted || !(open == 0 || inner.closed) || !inner.lanes.is_idle(&range) {
            return;
        }
        inner.left = true;
        let (mut access, proxy, mark) = (inner.access.twin(), inner.proxy, inner.lanes.mark(&range).cloned());
        self.leave(parent, &mut access, mark.as_ref(), false);
        self.drop_use(proxy);
        self.drop_use(index);
    }

    /// The closure of a task that nests has run, or an event that kept it from being over has come.
    pub(super) fn close(&mut self, index: u32, failure: Option<TaskError>, body: bool, hidden: &mut Hidden<'_>) {
        if body {
            self.start_all(index);
        }
        let rare = self.at(index).rare();
        rare.open -= 1;
        let accesses = rare.inner.len() as u32;
        for number in 0..accesses {
            let inner = self.inner(index, number);
            if failure.is_some() && inner.access.mode != Mode::READ {
                inner.lanes.set_mark(&inner.access.claim.range(), failure.as_ref());
            }
            self.leave_if_done(index, number);
        }
        let kept = &mut self.at(index).rare().failure;
        *kept = kept.take().or(failure);
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
        for number in 0..self.at(index).rare().inner.len() as u32 {
            let inner = self.inner(index, number);
            if !inner.own && access.covers(&inner.access) {
                inner.closed = true;
                self.leave_if_done(index, number);
            }
        }
    }

    /// Whether a child of the task waits for what it holds itself.
    pub(super) fn waits_for_itself(&mut self, index: u32) -> bool {
        let inner = &self.at(index).rare().inner;
        inner.iter().any(|inner| inner.own && inner.granted && inner.lanes.is_awaited(&inner.access.claim.range()))
    }
}
