//! Fibers as corosensei coroutines: the switch is some ten instructions, inlined into the caller.
//!
//! The coroutine borrows its stack by address only ([`Bounds`]), because it offers no way to look at a stack it owns.
//! Nothing is passed in or out: with `()` both ways all that crosses a switch is in registers.
//!
//! | field | access |
//! |---|---|
//! | `coroutine` | written by `prepare`; then `resume`, which borrows it while the fiber runs |
//! | `yielder`, `state` | written by the fiber's first and last steps; read by `suspend` and by the controller. The two sides never run at the same time |

use std::cell::{Cell, UnsafeCell};
use std::mem::MaybeUninit;
use std::ptr;

use corosensei::stack::{self, StackPointer};
use corosensei::{Coroutine, Yielder};

use super::Entry;
use crate::stack::Stack;

/// The part of a fiber that switches. Used at one address once it is prepared.
pub(super) struct Switch {
    /// invariant: initialised by `prepare`, before anything else is called. Never dropped: that would unwind a suspended
    /// one, and it owns nothing else.
    coroutine: UnsafeCell<MaybeUninit<Coroutine<(), (), (), Bounds>>>,
    /// Lies on the fiber's stack. Good from the first step of the fiber to its last.
    yielder: Cell<*const Yielder<(), ()>>,
    state: Cell<State>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Fresh,
    Started,
    Finished,
}

impl Switch {
    /// A switch that has to be `prepare`d where it will stay.
    pub(super) fn blank() -> Self {
        Self {
            coroutine: UnsafeCell::new(MaybeUninit::uninit()),
            yielder: Cell::new(ptr::null()),
            state: Cell::new(State::Fresh),
        }
    }

    /// Lays the first frame on the stack.
    ///
    /// # Safety
    ///
    /// - Called once, before any other function; `self` stays where it is from now on until it is dropped.
    /// - Nobody uses the stack, now or while the fiber is not finished.
    /// - The duties of [`Entry::run`], at the first resume.
    pub(super) unsafe fn prepare(&self, stack: &Stack, base: usize, entry: Entry) {
        let this: *const Self = self;
        let first = move |yielder: &Yielder<(), ()>, ()| {
            // SAFETY: a fiber runs only inside `resume(&self)`, at the address it was prepared at.
            let switch = unsafe { &*this };
            switch.yielder.set(yielder);
            switch.state.set(State::Started);
            // SAFETY: the caller's duty; a coroutine calls its function once.
            unsafe { entry.run() };
            switch.state.set(State::Finished);
        };
        // SAFETY: what `first` borrows by pointer stays valid (the caller's duties). The coroutine is forgotten when it is
        // dropped unfinished, and the fiber then leaks the stack, too.
        let coroutine = unsafe { Coroutine::with_stack_unchecked(Bounds::of(stack, base), first) };
        // SAFETY: nobody else uses the switch yet.
        let place = unsafe { &mut *self.coroutine.get() };
        place.write(coroutine);
    }

    /// # Safety
    ///
    /// - The fiber is prepared, and neither running nor finished; nobody else resumes it now.
    #[inline(always)]
    pub(super) unsafe fn resume(&self) {
        // SAFETY: no other borrow: `prepare` is over, and there is one resumer at a time. What runs inside does not touch
        // the field.
        let place = unsafe { &mut *self.coroutine.get() };
        // SAFETY: the invariant of the field.
        let coroutine = unsafe { place.assume_init_mut() };
        coroutine.resume(());
    }

    /// # Safety
    ///
    /// - The calling code runs on this fiber.
    #[inline(always)]
    pub(super) unsafe fn suspend(&self) {
        // SAFETY: the fiber's first step has set it to the yielder at the base of its stack, which is in use.
        let yielder = unsafe { &*self.yielder.get() };
        yielder.suspend(());
    }

    #[inline]
    pub(super) fn is_finished(&self) -> bool {
        self.state.get() == State::Finished
    }

    pub(super) fn is_unused(&self) -> bool {
        self.state.get() != State::Started
    }
}

/// The addresses of a stack that somebody else owns.
struct Bounds {
    base: StackPointer,
    limit: StackPointer,
}

impl Bounds {
    fn of(stack: &Stack, base: usize) -> Self {
        let pointer = |address| StackPointer::new(address).expect("no stack is at address zero");
        Self { base: pointer(base), limit: pointer(stack.limit() - stack.guard()) }
    }
}

// SAFETY: both are multiples of 16, the alignment; between them are, lowest, a guard that traps, and above it `stack::MIN_SIZE` bytes at
// least, less a page's worth for the shift of the base and the fiber itself: many times corosensei's `MIN_STACK_SIZE`.
unsafe impl stack::Stack for Bounds {
    #[inline]
    fn base(&self) -> StackPointer {
        self.base
    }

    #[inline]
    fn limit(&self) -> StackPointer {
        self.limit
    }
}
