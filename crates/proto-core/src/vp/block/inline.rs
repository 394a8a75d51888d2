//! What a timeline runs inline: the latent task, and whether there is stack enough for another one.
//!
//! A fork reads two words of the block and asks nothing: while no task runs inline, there is a *root* in place of one, which is not a job but lies so
//! that what would be its count of children is that of the block; and the floor of the stack is the lowest address at which a frame may lie that runs a task.

use std::mem::offset_of;
use std::ptr;

use super::Block;
use crate::task::JobHead;

impl Block {
    /// The latent task that runs inline on this timeline; null: none.
    #[inline(always)]
    pub(crate) fn inline_job(&self) -> *const JobHead {
        let job = self.inline_job.get();
        if ptr::eq(job, self.root_job()) { ptr::null() } else { job }
    }

    #[inline(always)]
    pub(crate) fn set_inline_job(&self, job: *const JobHead) {
        self.inline_job.set(if job.is_null() { self.root_job() } else { job });
    }

    /// As [`inline_job`](Block::inline_job), or the root: for a fork, which only counts a child of it.
    #[inline(always)]
    pub(crate) fn job_or_root(&self) -> *const JobHead {
        self.inline_job.get()
    }

    /// Sets what [`job_or_root`](Block::job_or_root) was, or a job.
    #[inline(always)]
    pub(crate) fn set_job_or_root(&self, job: *const JobHead) {
        self.inline_job.set(job);
    }

    /// What stands for no inline job: not a job, but so placed that its `children` are those of the block.
    #[inline(always)]
    pub(crate) fn root_job(&self) -> *const JobHead {
        const {
            assert!(offset_of!(Block, children) >= offset_of!(JobHead, children));
            let place = offset_of!(Block, children) - offset_of!(JobHead, children);
            assert!(place.is_multiple_of(align_of::<JobHead>()), "as a job would be placed");
        }
        ptr::from_ref(self)
            .cast::<JobHead>()
            .wrapping_byte_add(offset_of!(Block, children) - offset_of!(JobHead, children))
    }

    /// The block has got the place where it stays.
    pub(crate) fn settle(&self) {
        self.set_inline_job(ptr::null());
    }

    /// Whether a frame at the address `here`, on the timeline's own stack, lies above the floor. Stacks of more than two gigabytes may be said to have
    /// none.
    #[inline(always)]
    pub(crate) fn is_above_floor(&self, here: usize) -> bool {
        (here as u32).wrapping_sub(self.floor.get()) as i32 >= 0
    }

    /// Sets the floor of the stack that the timeline has got. For the timeline itself.
    #[inline]
    pub(crate) fn set_floor(&self, floor: usize) {
        self.floor.set(floor as u32);
    }

    /// The lowest address of the VP's stack. For the timeline itself.
    #[inline(always)]
    pub(crate) fn stack_limit(&self) -> usize {
        // SAFETY: a VP that runs has a fiber, which is alive.
        unsafe { &*self.fiber() }.stack_limit()
    }

    /// The bytes of the VP's stack.
    #[inline(always)]
    pub(crate) fn stack_bytes(&self) -> usize {
        1 << self.stack_class.get()
    }
}
