//! What a timeline belongs to and is cancelled with: the scopes and joins around it.

use super::ScopeHead;
use crate::task::{JobHead, Shift};

/// What a timeline belongs to and is cancelled with: a scope, the join that waits for it, or nothing. A pointer, with
/// a bit set for a join's job, and another one for a shift.
///
/// An iterator over it and what is around it. **Invariant**: a timeline has one only while what is pointed at waits for the timeline: before it
/// tells the scope or the join that it is done, it is given [`nothing`](Around::nothing).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Around(pub(crate) *mut ());

/// One step of [`Around`].
pub(crate) enum Surrounding {
    Scope(&'static ScopeHead),
    Job(&'static JobHead),
}

impl Surrounding {
    pub(crate) fn is_cancelled(&self) -> bool {
        match self {
            Surrounding::Scope(scope) => scope.is_cancelled(),
            Surrounding::Job(job) => job.is_cancelled(),
        }
    }

    /// Whether a cancel of what is further out does not come in here.
    pub(crate) fn is_fence(&self) -> bool {
        matches!(self, Surrounding::Scope(scope) if scope.fence)
    }
}

const IS_JOB: usize = 1;
const IS_SHIFT: usize = 2;

impl Around {
    pub(crate) fn nothing() -> Around {
        Around(std::ptr::null_mut())
    }

    pub(crate) fn scope(scope: *const ScopeHead) -> Around {
        Around(scope.cast_mut().cast())
    }

    pub(crate) fn job(job: *const JobHead) -> Around {
        Around(job.cast_mut().cast::<()>().map_addr(|addr| addr | IS_JOB))
    }

    /// Of a VP that was made to run tasks of a scope: what it works for, which lies in its own frame.
    pub(crate) fn shift(shift: *const Shift) -> Around {
        Around(shift.cast_mut().cast::<()>().map_addr(|addr| addr | IS_SHIFT))
    }

    /// The shift, if it is one; else null.
    #[inline(always)]
    pub(crate) fn as_shift(self) -> *const Shift {
        if self.0.addr() & IS_SHIFT == 0 { std::ptr::null() } else { self.place().cast() }
    }

    #[inline(always)]
    fn place(self) -> *mut () {
        self.0.map_addr(|addr| addr & !(IS_JOB | IS_SHIFT))
    }
}

impl Iterator for Around {
    type Item = Surrounding;

    /// The references are good while the timeline that was asked is alive.
    fn next(&mut self) -> Option<Surrounding> {
        if self.0.is_null() {
            return None;
        }
        let place = self.place();
        if self.0.addr() & IS_JOB == 0 {
            // SAFETY: a VP has ended its shift before that frame is left (invariant).
            let scope = match unsafe { self.as_shift().as_ref() } {
                Some(shift) => shift.scope(),
                None => place.cast_const().cast(),
            };
            // SAFETY: a scope waits for the VPs in it (invariant), and what is around it outlives it.
            let scope: &'static ScopeHead = unsafe { &*scope };
            *self = scope.parent;
            Some(Surrounding::Scope(scope))
        } else {
            // SAFETY: the owner of a job waits for it (invariant).
            let job: &'static JobHead = unsafe { &*place.cast() };
            *self = job.around();
            Some(Surrounding::Job(job))
        }
    }
}
