//! What a pass leaves to be done after the unlock: timelines to make ready, requests to send on, values to drop.

use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind};

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
///
/// Made in place ([`begin`](After::begin)), never by value: a struct that is put together by value is zeroed where it is not
/// initialised (measured: 3 ns at every request).
pub(crate) struct After {
    /// How many of the wakes are written, and which of the others: one word, so that an empty one costs one store.
    has: u32,
    wakes: [MaybeUninit<&'static Block>; INLINE_WAKES],
    more_wakes: MaybeUninit<Vec<&'static Block>>,
    /// Ops, then those that come last.
    ops: MaybeUninit<(Vec<Op>, Vec<Op>)>,
    first: MaybeUninit<Op>,
}

/// The low bits of `has` count the wakes.
const WAKES: u32 = 0xf;
const HAS_MORE_WAKES: u32 = 1 << 4;
const HAS_OPS: u32 = 1 << 5;
const HAS_FIRST: u32 = 1 << 6;

impl After {
    /// Makes `place` an empty one.
    ///
    /// # Safety
    ///
    /// - `place` is good for writes.
    #[inline(always)]
    pub(crate) unsafe fn begin(place: *mut After) {
        // SAFETY: the place of a field of `place`; no reference is made.
        let has = unsafe { &raw mut (*place).has };
        // SAFETY: duty of the caller. The other fields may be uninitialised.
        unsafe { has.write(0) };
    }

    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.has == 0
    }

    fn has(&self, what: u32) -> bool {
        self.has & what != 0
    }

    #[inline]
    pub(crate) fn wake(&mut self, block: &'static Block) {
        let index = (self.has & WAKES) as usize;
        if index < INLINE_WAKES {
            self.wakes[index].write(block);
            self.has += 1;
        } else {
            self.wake_more(block);
        }
    }

    #[cold]
    fn wake_more(&mut self, block: &'static Block) {
        if !self.has(HAS_MORE_WAKES) {
            self.more_wakes.write(Vec::new());
            self.has |= HAS_MORE_WAKES;
        }
        // SAFETY: initialised: `HAS_MORE_WAKES`.
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
        if !self.has(HAS_FIRST | HAS_OPS) {
            self.first.write(op);
            self.has |= HAS_FIRST;
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
        if !self.has(HAS_OPS) {
            self.ops.write((Vec::new(), Vec::new()));
            self.has |= HAS_OPS;
        }
        // SAFETY: initialised: `HAS_OPS`.
        unsafe { self.ops.assume_init_mut() }
    }

    /// Carries everything out, and leaves nothing.
    #[inline]
    pub(crate) fn run(&mut self, ctx: &'static Ctx) {
        let has = std::mem::take(&mut self.has);
        for index in 0..(has & WAKES) as usize {
            // SAFETY: the first ones are written.
            let block = unsafe { self.wakes[index].assume_init() };
            wait::schedule(ctx, block);
        }
        if has & !WAKES != 0 {
            self.run_more(ctx, has);
        }
    }

    #[inline(never)]
    fn run_more(&mut self, ctx: &'static Ctx, has: u32) {
        if has & HAS_MORE_WAKES != 0 {
            // SAFETY: initialised, and taken once: `run` has cleared the mark.
            for block in unsafe { self.more_wakes.assume_init_read() } {
                wait::schedule(ctx, block);
            }
        }
        // The requester may be in a queue by now, so nothing may unwind out of its pass; and what panics here is the drop of a user's
        // value: nobody's panic, which goes to the process.
        let run = |op: Op| {
            if let Err(payload) = catch_unwind(AssertUnwindSafe(|| op.run(ctx))) {
                crate::panics::nobody_catches(payload);
            }
        };
        if has & HAS_FIRST != 0 {
            // SAFETY: written, and taken once.
            run(unsafe { self.first.assume_init_read() });
        }
        if has & HAS_OPS != 0 {
            // SAFETY: initialised, and taken once.
            let (ops, last) = unsafe { self.ops.assume_init_read() };
            ops.into_iter().chain(last).for_each(run);
        }
    }
}
