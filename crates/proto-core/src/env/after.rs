//! What a pass leaves to be done after the unlock: timelines to make ready, requests to send on, values to drop.

use std::cell::Cell;
use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;

use super::wait;
use crate::ctx::{self, Ctx};
use crate::runtime::send;
use crate::vp::block::Block;

const WORDS: usize = 9;
/// The notes besides wake-ups that a pass has room for in its own frame; more lie in vectors that the core keeps.
const INLINE_OPS: usize = 1;

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

/// Vectors for the notes that find no room in a frame, kept by each core from pass to pass: a pass allocates under its lock only if it notes
/// more than any pass on that core did before it (and more than [`KEPT`]).
#[derive(Default)]
pub(crate) struct Spare(Cell<Option<Notes>>);

/// Ops, then those that come last.
type Notes = (Vec<Op>, Vec<Op>);

/// How many notes of either sort a core has room for from its first pass on.
const KEPT: usize = 16;

impl std::fmt::Debug for Spare {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Spare").finish_non_exhaustive()
    }
}

impl Spare {
    pub(crate) const fn empty() -> Spare {
        Spare(Cell::new(None))
    }

    /// Makes room. Outside every lock.
    pub(crate) fn fill(&self) {
        self.0.set(Some((Vec::with_capacity(KEPT), Vec::with_capacity(KEPT))));
    }

    /// Gives the room back.
    pub(crate) fn clear(&self) {
        self.0.set(None);
    }
}

/// See the head of this file. Every op in it runs, also when one before it panics.
///
/// Made in place ([`begin`](After::begin)), never by value: a struct that is put together by value is zeroed where it is not
/// initialised (measured: 3 ns at every request).
///
/// The timelines to make ready are chained by the links that their control blocks have for an inbox, which nobody uses between the win of
/// a wait and its making-ready. So a pass may wake any number without an allocation under its lock [design rule 2].
pub(crate) struct After {
    /// Which of the others are written: one word, so that an empty one costs one store.
    has: u32,
    first_wake: MaybeUninit<&'static Block>,
    last_wake: MaybeUninit<&'static Block>,
    ops: [MaybeUninit<Op>; INLINE_OPS],
    last: MaybeUninit<Op>,
    more: MaybeUninit<Notes>,
}

/// The low bits of `has` count the ops that lie here.
const OPS: u32 = 0xf;
const HAS_WAKES: u32 = 1 << 4;
const HAS_LAST: u32 = 1 << 5;
const HAS_MORE: u32 = 1 << 6;

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

    /// Notes a timeline whose wait was just won by the pass that this belongs to: nobody else makes it ready.
    #[inline]
    pub(crate) fn wake(&mut self, block: &'static Block) {
        if self.has(HAS_WAKES) {
            // SAFETY: written: `HAS_WAKES`.
            let last = unsafe { self.last_wake.assume_init() };
            // SAFETY: `last` was won by this pass and is not ready yet, so its link is this chain's.
            unsafe { last.link.chain(send::link_of(block)) };
        } else {
            self.first_wake.write(block);
            self.has |= HAS_WAKES;
        }
        self.last_wake.write(block);
    }

    /// Notes an op. The first ones lie here, others in vectors.
    ///
    /// # Safety
    ///
    /// - Whatever `f` borrows lives until [`run`](After::run) returns.
    #[inline]
    pub(crate) unsafe fn op<F: FnOnce(&'static Ctx)>(&mut self, f: F) {
        // SAFETY: duty of the caller.
        let op = unsafe { Op::new(f) };
        let index = (self.has & OPS) as usize;
        if index < INLINE_OPS {
            self.ops[index].write(op);
            self.has += 1;
        } else {
            self.more().0.push(op);
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
        if self.has(HAS_LAST) {
            self.more().1.push(op);
        } else {
            self.last.write(op);
            self.has |= HAS_LAST;
        }
    }

    #[cold]
    fn more(&mut self) -> &mut Notes {
        if !self.has(HAS_MORE) {
            self.more.write(ctx::installed().and_then(|ctx| ctx.spare_notes.0.take()).unwrap_or_default());
            self.has |= HAS_MORE;
        }
        // SAFETY: initialised: `HAS_MORE`.
        unsafe { self.more.assume_init_mut() }
    }

    /// Carries everything out, and leaves nothing.
    #[inline]
    pub(crate) fn run(&mut self, ctx: &'static Ctx) {
        let has = std::mem::take(&mut self.has);
        if has & HAS_WAKES != 0 {
            // SAFETY: written: `HAS_WAKES`.
            let first = unsafe { self.first_wake.assume_init() };
            // SAFETY: as above.
            let last = unsafe { self.last_wake.assume_init() };
            wake_all(ctx, first, last);
        }
        if has & !HAS_WAKES != 0 {
            self.run_more(ctx, has);
        }
    }

    #[inline(never)]
    fn run_more(&mut self, ctx: &'static Ctx, has: u32) {
        // The requester may be in a queue by now, so nothing may unwind out of its pass; and what panics here is the drop of a user's
        // value: nobody's panic, which goes to the process.
        let run = |op: Op| {
            if let Err(payload) = catch_unwind(AssertUnwindSafe(|| op.run(ctx::again(ctx)))) {
                crate::panics::nobody_catches(payload);
            }
        };
        for op in &self.ops[..(has & OPS) as usize] {
            // SAFETY: the first ones are written; each is taken once, for `run` has cleared the count.
            run(unsafe { op.assume_init_read() });
        }
        let mut more = None;
        if has & HAS_MORE != 0 {
            // SAFETY: initialised, and taken once.
            let notes = more.insert(unsafe { self.more.assume_init_read() });
            notes.0.drain(..).for_each(run);
        }
        if has & HAS_LAST != 0 {
            // SAFETY: written, and taken once.
            run(unsafe { self.last.assume_init_read() });
        }
        if let Some(mut notes) = more {
            notes.1.drain(..).for_each(run);
            ctx::again(ctx).spare_notes.0.set(Some(notes));
        }
    }
}

/// Makes the timelines of the chain from `first` to `last` ready, in its order.
#[inline]
fn wake_all(ctx: &'static Ctx, first: &'static Block, last: &'static Block) {
    let mut block = first;
    loop {
        // Read before it is made ready: from then on the link is the inbox's.
        // SAFETY: the chain is this pass's, and all but the last of it lead on.
        let next = (!ptr::eq(block, last)).then(|| send::block_of(unsafe { block.link.chained() }));
        wait::schedule(ctx, block);
        match next {
            Some(next) => block = next,
            None => return,
        }
    }
}
