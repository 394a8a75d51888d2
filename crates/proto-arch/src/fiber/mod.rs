//! Switching: run code on a stack of its own, leave it, come back.
//!
//! A [`Fiber`] is controlled from outside by [`resume`](Fiber::resume) and gives control back from inside by
//! [`suspend`](Fiber::suspend):
//!
//! ```text
//!              resume                    entry returns
//!   fresh ───────────────► running ──────────────────────► finished ──► into_stack
//!                           │   ▲
//!                   suspend │   │ resume
//!                           ▼   │
//!                         suspended ── dropped: leaked, never unwound
//! ```
//!
//! Nothing is passed in or out; both sides share memory. Entries must not unwind: a panic that escapes one aborts with a
//! line that says so. Nor does dropping a suspended fiber unwind it: what is on its stack may be borrowed by others, and
//! only the runtime knows how to end it in the right order. So a fiber that is dropped unfinished leaks its stack.
//!
//! # Two back ends, chosen when a fiber is made
//!
//! | [`Backend`] | what it is | resume + suspend | for |
//! |---|---|---|---|
//! | `Coroutine` | corosensei: a switch of registers | 2–3 ns | everything |
//! | `Thread` | an OS thread per fiber that hands a baton over | 10–20 µs | Miri; foreign code that keeps pointers into its stack in thread-locals |
//!
//! The branch on the back end is one test that a processor predicts. With `Thread`, thread-locals differ between the
//! fiber and its controller; with `Coroutine` they are the same as long as the fiber is always resumed by one thread.
//!
//! # Who may call what
//!
//! `resume`, `is_finished`, `into_stack`, drop: the controller, one at a time, while the fiber is not running. `suspend`:
//! the code that runs on the fiber. `stack`, `stack_limit` and `backend`: both.
//!
//! # The dangerous race
//!
//! None here: the two sides never run at the same time. It lies one floor up: a fiber that made itself known to a waker
//! *before* it suspended must not be resumed before the `resume` that started it has returned.

#[cfg(not(miri))]
mod coroutine;
mod thread;

use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::ptr::NonNull;
use std::{error, fmt, io};

use crate::stack::Stack;

/// How fibers are switched.
///
/// # Examples
///
/// For a debugger, or a sanitizer, which do not know switched stacks:
///
/// ```
/// use proto_arch::fiber::{Backend, Fiber, THREAD_NAME};
/// use proto_arch::stack::{StackArena, StackOptions};
///
/// unsafe fn entry(_: *mut ()) {
///     assert_eq!(std::thread::current().name(), Some(THREAD_NAME));
/// }
/// let stack = StackArena::new(StackOptions::default())?.take()?;
/// // SAFETY: `entry` does not unwind (the name is right), and needs no argument.
/// let fiber = unsafe { Fiber::new(Backend::Thread, stack, entry, std::ptr::null_mut()) }?;
/// // SAFETY: the fiber is neither running nor finished.
/// unsafe { Fiber::resume(&*fiber) };
/// assert!(fiber.is_finished());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Backend {
    /// A switch of registers on the same OS thread. Under Miri, which cannot do that, the same as `Thread`.
    #[default]
    Coroutine,
    /// An OS thread per fiber. Its name is [`THREAD_NAME`].
    Thread,
}

/// Name of the OS threads of [`Backend::Thread`], which has an example.
pub const THREAD_NAME: &str = "proto-fiber";

/// Code that runs on a stack of its own. Lives at a stable address, until the [`FiberBox`] that [`Fiber::new`] returns is gone.
///
/// # Examples
///
/// ```
/// use proto_arch::fiber::{Backend, Fiber};
/// use proto_arch::stack::{StackArena, StackOptions};
/// use std::cell::Cell;
///
/// struct Shared {
///     fiber: Cell<*const Fiber>,
///     count: Cell<u32>,
/// }
///
/// unsafe fn entry(arg: *mut ()) {
///     // SAFETY: `arg` is the `Shared` below, which outlives the fiber.
///     let shared = unsafe { &*arg.cast::<Shared>() };
///     shared.count.set(1);
///     // SAFETY: we run on this fiber.
///     unsafe { Fiber::suspend(shared.fiber.get()) };
///     shared.count.set(2);
/// }
///
/// let stack = StackArena::new(StackOptions::default())?.take()?;
/// let shared = Shared { fiber: Cell::new(std::ptr::null()), count: Cell::new(0) };
/// let arg: *const Shared = &shared;
/// // SAFETY: `entry` does not unwind, and its argument outlives the fiber.
/// let fiber = unsafe { Fiber::new(Backend::default(), stack, entry, arg.cast_mut().cast()) }?;
/// let this: *const Fiber = &*fiber;
/// shared.fiber.set(this);
///
/// // SAFETY: the fiber is neither running nor finished.
/// unsafe { Fiber::resume(this) };
/// assert_eq!(shared.count.get(), 1);
/// // SAFETY: as above.
/// unsafe { Fiber::resume(this) };
/// assert_eq!(shared.count.get(), 2);
/// assert!(fiber.is_finished());
/// let _stack_for_the_next_one = fiber.into_stack();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// A fiber is tied to the thread that made it, by type; whoever moves one nevertheless answers for everything on its
/// stack:
///
/// ```compile_fail,E0277
/// fn sendable<T: Send>() {}
/// sendable::<proto_arch::fiber::Fiber>();
/// ```
///
/// ```compile_fail,E0277
/// fn shareable<T: Sync>() {}
/// shareable::<proto_arch::fiber::Fiber>();
/// ```
pub struct Fiber {
    switch: Switch,
    /// Some until `into_stack`.
    stack: Option<Stack>,
    not_send_nor_sync: PhantomData<*mut ()>,
}

/// The back end's part.
enum Switch {
    #[cfg(not(miri))]
    Coroutine(coroutine::Switch),
    Thread(thread::Switch),
}

/// What a fiber runs.
#[derive(Clone, Copy)]
struct Entry {
    function: unsafe fn(*mut ()),
    argument: *mut (),
}

// SAFETY: the pair is called once, on the fiber; `Fiber::new`'s caller answers for that thread being another one with
// the thread back end.
unsafe impl Send for Entry {}

impl Entry {
    /// Runs it, and ends the program if it unwinds.
    ///
    /// # Safety
    ///
    /// - What [`Fiber::new`] demands of function and argument holds, and this is the only call.
    unsafe fn run(self) {
        let guard = AbortOnUnwind;
        // SAFETY: the caller's duty.
        unsafe { (self.function)(self.argument) };
        std::mem::forget(guard);
    }
}

impl Fiber {
    /// A fiber that will call `entry(arg)` on `stack` when it is first resumed.
    ///
    /// With [`Backend::Thread`] the code runs on the stack of an OS thread of the same size, and `stack` is kept unused.
    ///
    /// # Safety
    ///
    /// - `entry` may be called with `arg`, once, at any time until the fiber is finished or dropped; with
    ///   [`Backend::Thread`] on another thread than this.
    /// - `entry` does not unwind (if it does, the program aborts), and does not leave the fiber but by returning or
    ///   [`suspend`](Self::suspend).
    /// - Everything the fiber's frames borrow stays valid until the fiber is finished; if it is dropped unfinished, for
    ///   ever.
    ///
    /// # Errors
    ///
    /// [`FiberError`] if the system refuses an OS thread. The stack goes back to its pool.
    #[expect(clippy::new_ret_no_self, reason = "a fiber has a place of its own, and its owner is a pointer to it")]
    pub unsafe fn new(
        backend: Backend,
        stack: Stack,
        entry: unsafe fn(*mut ()),
        arg: *mut (),
    ) -> Result<FiberBox, FiberError> {
        let entry = Entry { function: entry, argument: arg };
        #[cfg(not(miri))]
        if backend == Backend::Coroutine {
            return Ok(Self::on_its_stack(stack, entry));
        }
        let _ = backend;
        let switch = thread::Switch::new(stack.size(), entry).map_err(|source| FiberError { source })?;
        let fiber = Self { switch: Switch::Thread(switch), stack: Some(stack), not_send_nor_sync: PhantomData };
        Ok(FiberBox(NonNull::from(Box::leak(Box::new(fiber)))))
    }

    /// Puts the fiber at the top of its stack, the frames below it: that page is touched anyway.
    #[cfg(not(miri))]
    fn on_its_stack(stack: Stack, entry: Entry) -> FiberBox {
        const ROOM: usize = size_of::<Fiber>().next_multiple_of(align_of::<Fiber>());
        const { assert!(align_of::<Fiber>() <= 16) };
        let base = (stack.base() - ROOM) & !15;
        let place = stack.pointer_to(base).cast::<Fiber>();
        let switch = Switch::Coroutine(coroutine::Switch::blank());
        // SAFETY: memory of the stack, which is unused, and ours as long as the `Stack` is, which goes into the fiber.
        unsafe { place.write(Self { switch, stack: Some(stack), not_send_nor_sync: PhantomData }) };
        let fiber = FiberBox(place);
        if let Switch::Coroutine(switch) = &fiber.switch {
            // SAFETY: the switch stays where it is as long as it is used. The stack is unused below `base`, and stays in the
            // fiber as long as frames are on it. The entry's duties are those of `new`'s caller.
            unsafe { switch.prepare(fiber.stack(), base, entry) };
        }
        fiber
    }

    /// Runs the fiber until it suspends or its entry returns.
    ///
    /// # Safety
    ///
    /// - `this` is a live fiber that is neither running nor finished, and nobody else resumes it now.
    /// - The calling thread is the one that resumed it before, unless everything on the fiber's stack may move to
    ///   another thread *and* no code on it keeps the address of a thread-local across a suspension. A compiler does
    ///   keep such addresses, so this holds for almost no Rust code.
    #[inline(always)]
    pub unsafe fn resume(this: *const Self) {
        // SAFETY: the fiber is live, and stays so: nobody drops a running fiber.
        let fiber = unsafe { &*this };
        match &fiber.switch {
            #[cfg(not(miri))]
            // SAFETY: neither running nor finished, and we are the one resumer (the caller's duties).
            Switch::Coroutine(switch) => unsafe { switch.resume() },
            Switch::Thread(switch) => switch.resume(),
        }
    }

    /// Gives control back to the one who resumed the fiber; returns when it is resumed again.
    ///
    /// # Safety
    ///
    /// - The calling code runs on the fiber `this`.
    /// - Nothing of the thread's state is in a form that other code must not find: no panic is unwinding (else
    ///   `std::thread::panicking` reads true for all that runs next), no lock of an OS thread is held that other fibers
    ///   want.
    #[inline(always)]
    pub unsafe fn suspend(this: *const Self) {
        // SAFETY: we run on the fiber, so it is live.
        let fiber = unsafe { &*this };
        match &fiber.switch {
            #[cfg(not(miri))]
            // SAFETY: we run on it (the caller's duty).
            Switch::Coroutine(switch) => unsafe { switch.suspend() },
            // SAFETY: we run on it, hence on its thread.
            Switch::Thread(switch) => unsafe { thread::Baton::suspend(switch.baton()) },
        }
    }

    /// Whether the entry has returned.
    #[inline]
    #[must_use]
    pub fn is_finished(&self) -> bool {
        match &self.switch {
            #[cfg(not(miri))]
            Switch::Coroutine(switch) => switch.is_finished(),
            Switch::Thread(switch) => switch.is_finished(),
        }
    }

    /// The stack that was given to [`Fiber::new`].
    #[inline]
    #[must_use]
    pub fn stack(&self) -> &Stack {
        self.stack.as_ref().expect("a fiber has a stack until it is taken apart")
    }

    /// The lowest address that code of this fiber may use: subtract it from the stack pointer to know what is left.
    ///
    /// With [`Backend::Thread`] this is an estimate on the safe side, and only known once the fiber has started; 0
    /// before.
    #[inline]
    #[must_use]
    pub fn stack_limit(&self) -> usize {
        match &self.switch {
            #[cfg(not(miri))]
            Switch::Coroutine(_) => self.stack().limit(),
            Switch::Thread(switch) => switch.stack_limit(),
        }
    }

    /// The back end in use.
    #[must_use]
    pub fn backend(&self) -> Backend {
        match &self.switch {
            #[cfg(not(miri))]
            Switch::Coroutine(_) => Backend::Coroutine,
            Switch::Thread(_) => Backend::Thread,
        }
    }

    /// Gives the memory of the fiber's stack below its top `keep` bytes back to the system, after a deep excursion. Returns
    /// whether there was any. Does nothing with [`Backend::Thread`], whose stacks are the system's.
    ///
    /// # Safety
    ///
    /// - The fiber `this` is live and not running, and nobody else uses it now.
    /// - If it is suspended, all its frames lie within the top `keep` bytes of its stack, rounded up to pages; one page is kept in any case.
    pub unsafe fn trim(this: *mut Self, keep: usize) -> bool {
        let _ = keep; // Miri has no coroutines.
        // SAFETY: live, and ours alone (the caller's duty).
        let fiber = unsafe { &mut *this };
        match &fiber.switch {
            #[cfg(not(miri))]
            // In the topmost page lie the fiber itself and, before it has started, the frame that begins it.
            Switch::Coroutine(_) => fiber.stack.as_mut().is_some_and(|stack| stack.trim(keep.max(1))),
            Switch::Thread(_) => false,
        }
    }

    fn is_unused(&self) -> bool {
        match &self.switch {
            #[cfg(not(miri))]
            Switch::Coroutine(switch) => switch.is_unused(),
            Switch::Thread(switch) => switch.is_unused(),
        }
    }
}

/// The owner of a [`Fiber`]. The fiber lies at the top of its own stack, or, with [`Backend::Thread`], in a box.
///
/// Dropped before the fiber is finished it leaks the fiber and its stack.
///
/// # Examples
///
/// A fiber in a pool that keeps pointers only:
///
/// ```
/// use proto_arch::fiber::{Backend, Fiber, FiberBox};
/// use proto_arch::stack::{StackArena, StackOptions};
/// use std::ptr::{self, NonNull};
///
/// unsafe fn entry(_: *mut ()) {}
///
/// let arena = StackArena::new(StackOptions::default())?;
/// // SAFETY: `entry` does not unwind, and needs no argument.
/// let fiber = unsafe { Fiber::new(Backend::Coroutine, arena.take()?, entry, ptr::null_mut()) }?;
/// assert_eq!(fiber.backend(), Backend::Coroutine);
/// assert_eq!(fiber.stack_limit(), fiber.stack().limit());
/// let pool: Vec<NonNull<Fiber>> = vec![FiberBox::into_raw(fiber)];
///
/// for pointer in pool {
///     // SAFETY: the fiber is neither running nor finished.
///     unsafe { Fiber::resume(pointer.as_ptr()) };
///     // SAFETY: it is not running; it has ended, so it has no frames.
///     unsafe { Fiber::trim(pointer.as_ptr(), 16 * 1024) };
///     // SAFETY: `into_raw` gave the pointer, and nobody else has taken it.
///     let fiber = unsafe { FiberBox::from_raw(pointer) };
///     arena.give(fiber.into_stack());
/// }
/// assert_eq!(arena.in_use(), 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct FiberBox(NonNull<Fiber>);

impl FiberBox {
    /// Lets go of the fiber, for [`from_raw`](Self::from_raw).
    #[must_use]
    pub fn into_raw(this: Self) -> NonNull<Fiber> {
        ManuallyDrop::new(this).0
    }

    /// Owns a fiber again.
    ///
    /// # Safety
    ///
    /// - The pointer came out of [`into_raw`](Self::into_raw), and nobody else has owned the fiber again since.
    #[must_use]
    pub unsafe fn from_raw(fiber: NonNull<Fiber>) -> Self {
        Self(fiber)
    }

    /// Takes the stack back, for the next fiber.
    ///
    /// # Panics
    ///
    /// If the fiber has started and not finished: frames on the stack are in use. The stack is leaked then, as by a drop.
    #[must_use]
    #[track_caller]
    pub fn into_stack(self) -> Stack {
        assert!(self.is_unused(), "the stack of a suspended fiber cannot be taken: its frames are still in use");
        self.take_apart().stack.take().expect("a fiber has a stack until it is taken apart")
    }

    /// Takes the fiber out of its place.
    fn take_apart(self) -> Fiber {
        let place = Self::into_raw(self);
        // SAFETY: this was the owner, so nobody else uses the fiber; it lies in a place of its own until the end of this.
        match unsafe { place.as_ref() }.backend() {
            // SAFETY: as above; its place is memory of the stack that it takes along, and is not used again.
            Backend::Coroutine => unsafe { place.read() },
            // SAFETY: as above; `new` made its place of a box.
            Backend::Thread => *unsafe { Box::from_raw(place.as_ptr()) },
        }
    }
}

impl Drop for FiberBox {
    fn drop(&mut self) {
        if self.is_unused() {
            drop(Self(self.0).take_apart());
        }
        // Else frames are on it, and others may borrow from them: see the head of the file.
    }
}

impl Deref for FiberBox {
    type Target = Fiber;

    #[inline]
    fn deref(&self) -> &Fiber {
        // SAFETY: the owner keeps it alive.
        unsafe { self.0.as_ref() }
    }
}

impl fmt::Debug for FiberBox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl fmt::Debug for Fiber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fiber").field("backend", &self.backend()).field("stack", &self.stack).finish_non_exhaustive()
    }
}

/// Why there is no fiber: the system refuses an OS thread.
///
/// # Examples
///
/// ```
/// # use proto_arch::stack::{StackArena, StackOptions};
/// use proto_arch::fiber::{Backend, Fiber, FiberError};
///
/// unsafe fn entry(_: *mut ()) {}
/// # let stack = StackArena::new(StackOptions::default())?.take()?;
/// // SAFETY: `entry` does not unwind, and needs no argument.
/// let fiber = unsafe { Fiber::new(Backend::Thread, stack, entry, std::ptr::null_mut()) };
/// let fiber = fiber.map_err(|error: FiberError| format!("one more worker: {error}"))?;
/// # fiber.into_stack();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct FiberError {
    source: io::Error,
}

impl fmt::Display for FiberError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "cannot start an OS thread for a fiber: {}; start fewer at a time, raise the limit (`ulimit -u`, \
             kernel.threads-max), or use the coroutine back end",
            self.source
        )
    }
}

impl error::Error for FiberError {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        Some(&self.source)
    }
}

/// Ends the program when it is dropped, which happens only while a panic unwinds through it.
struct AbortOnUnwind;

impl Drop for AbortOnUnwind {
    fn drop(&mut self) {
        eprintln!("proto-runtime: a panic escaped from the entry of a fiber; there is nobody to catch it, so we abort");
        std::process::abort();
    }
}

#[cfg(test)]
mod tests;
