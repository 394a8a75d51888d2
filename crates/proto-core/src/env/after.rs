//! What a pass leaves to be done after the unlock: timelines to make ready, requests to send on, values to drop.

use std::mem::{ManuallyDrop, MaybeUninit};

use super::wait;
use crate::ctx::Ctx;
use crate::vp::block::Block;

const WORDS: usize = 9;
const INLINE_WAKES: usize = 4;

/// A closure of at most [`WORDS`] words, or a boxed one, that runs once.
struct Op {
    run: unsafe fn(*mut MaybeUninit<usize>, &'static Ctx),
    data: [MaybeUninit<usize>; WORDS],
}

impl Op {
    /// # Safety
    ///
    /// - Whatever `F` borrows lives until the op has run.
    unsafe fn new<F: FnOnce(&'static Ctx)>(f: F) -> Op {
        unsafe fn inline<F: FnOnce(&'static Ctx)>(data: *mut MaybeUninit<usize>, ctx: &'static Ctx) {
            // SAFETY: `data` holds an `F`, and ops run once.
            let f = unsafe { data.cast::<F>().read() };
            f(ctx)
        }
        unsafe fn boxed<F: FnOnce(&'static Ctx)>(data: *mut MaybeUninit<usize>, ctx: &'static Ctx) {
            // SAFETY: `data` holds a box, and ops run once.
            let f = unsafe { data.cast::<Box<F>>().read() };
            f(ctx)
        }
        let mut data = [MaybeUninit::uninit(); WORDS];
        if size_of::<F>() <= size_of_val(&data) && align_of::<F>() <= align_of::<usize>() {
            // SAFETY: it fits, in size and alignment.
            unsafe { data.as_mut_ptr().cast::<F>().write(f) };
            Op { run: inline::<F>, data }
        } else {
            // SAFETY: a box is a pointer.
            unsafe { data.as_mut_ptr().cast::<Box<F>>().write(Box::new(f)) };
            Op { run: boxed::<F>, data }
        }
    }

    fn run(mut self, ctx: &'static Ctx) {
        // SAFETY: by the duty of `new`, and `self` is gone afterwards.
        unsafe { (self.run)(self.data.as_mut_ptr(), ctx) }
    }
}

/// See the head of this file. Every op in it runs, also when one before it panics.
pub(crate) struct After {
    wakes: [MaybeUninit<&'static Block>; INLINE_WAKES],
    count: u8,
    has_ops: bool,
    more_wakes: MaybeUninit<Vec<&'static Block>>,
    /// Ops, then those that come last. Initialised if `has_ops`.
    ops: MaybeUninit<(Vec<Op>, Vec<Op>)>,
    first: MaybeUninit<Op>,
    has_first: bool,
    has_more: bool,
}

impl After {
    #[inline(always)]
    pub(crate) fn new() -> After {
        After {
            wakes: [MaybeUninit::uninit(); INLINE_WAKES],
            count: 0,
            has_ops: false,
            more_wakes: MaybeUninit::uninit(),
            ops: MaybeUninit::uninit(),
            first: MaybeUninit::uninit(),
            has_first: false,
            has_more: false,
        }
    }

    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0 && !self.has_ops && !self.has_first
    }

    #[inline]
    pub(crate) fn wake(&mut self, block: &'static Block) {
        let index = usize::from(self.count);
        if index < INLINE_WAKES {
            self.wakes[index].write(block);
            self.count += 1;
        } else {
            self.wake_more(block);
        }
    }

    #[cold]
    fn wake_more(&mut self, block: &'static Block) {
        if !self.has_more {
            self.more_wakes.write(Vec::new());
            self.has_more = true;
        }
        // SAFETY: initialised: `has_more`.
        unsafe { self.more_wakes.assume_init_mut() }.push(block);
    }

    /// Notes an op. The first lies here, others in vectors.
    ///
    /// # Safety
    ///
    /// - Whatever `f` borrows lives until [`run`](After::run) returns.
    #[inline]
    pub(crate) unsafe fn op<F: FnOnce(&'static Ctx)>(&mut self, f: F) {
        // SAFETY: duty of the caller.
        let op = unsafe { Op::new(f) };
        if !self.has_first && !self.has_ops {
            self.first.write(op);
            self.has_first = true;
        } else {
            self.vectors().0.push(op);
        }
    }

    /// Notes an op that runs after all others.
    ///
    /// # Safety
    ///
    /// - As for [`op`](After::op).
    #[inline]
    pub(crate) unsafe fn last<F: FnOnce(&'static Ctx)>(&mut self, f: F) {
        // SAFETY: duty of the caller.
        let op = unsafe { Op::new(f) };
        self.vectors().1.push(op);
    }

    #[cold]
    fn vectors(&mut self) -> &mut (Vec<Op>, Vec<Op>) {
        if !self.has_ops {
            self.ops.write((Vec::new(), Vec::new()));
            self.has_ops = true;
        }
        // SAFETY: initialised: `has_ops`.
        unsafe { self.ops.assume_init_mut() }
    }

    /// Carries everything out.
    #[inline]
    pub(crate) fn run(self, ctx: &'static Ctx) {
        let mut this = ManuallyDrop::new(self);
        for index in 0..usize::from(this.count) {
            // SAFETY: the first `count` are written.
            let block = unsafe { this.wakes[index].assume_init() };
            wait::schedule(ctx, block);
        }
        if this.has_more {
            // SAFETY: initialised, and taken once.
            for block in unsafe { this.more_wakes.assume_init_read() } {
                wait::schedule(ctx, block);
            }
        }
        if !this.has_first && !this.has_ops {
            return;
        }
        let mut rest = Rest { ctx, ops: Vec::new().into_iter(), last: Vec::new().into_iter() };
        if this.has_ops {
            // SAFETY: initialised, and taken once.
            let (ops, last) = unsafe { this.ops.assume_init_read() };
            rest.ops = ops.into_iter();
            rest.last = last.into_iter();
        }
        if this.has_first {
            // SAFETY: written, and taken once.
            unsafe { this.first.assume_init_read() }.run(ctx);
        }
        let _ = &mut this;
        drop(rest);
    }
}

/// The ops still to run. Its drop runs them, so a panic in one does not lose the others; a second panic aborts, as any panic while
/// unwinding does.
struct Rest {
    ctx: &'static Ctx,
    ops: std::vec::IntoIter<Op>,
    last: std::vec::IntoIter<Op>,
}

impl Drop for Rest {
    fn drop(&mut self) {
        while let Some(op) = self.ops.next().or_else(|| self.last.next()) {
            let again = Again(self);
            op.run(again.0.ctx);
            std::mem::forget(again);
        }

        struct Again<'a>(&'a mut Rest);
        impl Drop for Again<'_> {
            fn drop(&mut self) {
                while let Some(op) = self.0.ops.next().or_else(|| self.0.last.next()) {
                    op.run(self.0.ctx);
                }
            }
        }
    }
}
