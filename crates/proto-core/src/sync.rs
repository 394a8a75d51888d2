//! The atomics, cells and waiting hints of this crate, with two faces.
//!
//! Everything in `kernel` takes its shared memory from here. Ordinarily that is `core`'s own; under `--cfg loom` it is
//! loom's, whose scheduler then runs every interleaving, and every value that a weakly ordered load may return, of a
//! small scenario (`kernel/model`). `model` lets a scenario leave an ordering out. Loom's atomics cannot be made in a `const`, hence [`const_fn!`].

#[cfg(loom)]
pub(crate) mod model;

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{Ordering, fence};
#[cfg(loom)]
pub(crate) use model::{AtomicPtr, AtomicU32, AtomicU64};

#[cfg(not(loom))]
pub(crate) use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering, fence};

#[cfg(loom)]
pub(crate) use loom::cell::UnsafeCell;

/// `core`'s cell with loom's interface: access by closure, so that the model sees where each access begins and ends.
#[cfg(not(loom))]
#[derive(Debug, Default)]
pub(crate) struct UnsafeCell<T>(core::cell::UnsafeCell<T>);

#[cfg(not(loom))]
impl<T> UnsafeCell<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(core::cell::UnsafeCell::new(value))
    }

    #[inline(always)]
    pub(crate) fn with<R>(&self, read: impl FnOnce(*const T) -> R) -> R {
        read(self.0.get())
    }

    #[inline(always)]
    pub(crate) fn with_mut<R>(&self, write: impl FnOnce(*mut T) -> R) -> R {
        write(self.0.get())
    }
}

/// A load that may be folded into another instruction, as an atomic one never is.
///
/// # Safety
///
/// - Nobody but the calling thread writes the atomic meanwhile.
#[inline(always)]
pub(crate) unsafe fn own_load<T>(atomic: &AtomicPtr<T>) -> *mut T {
    #[cfg(loom)]
    return atomic.load(Ordering::Relaxed);
    // SAFETY: duty of the caller: a plain read races with no write.
    #[cfg(not(loom))]
    return unsafe { *atomic.as_ptr() };
}

/// A function that is `const`, except under loom.
macro_rules! const_fn {
    ($(#[$meta:meta])* $vis:vis fn $name:ident($($arg:ident: $ty:ty),* $(,)?) -> $ret:ty $body:block) => {
        #[cfg(not(loom))]
        $(#[$meta])* $vis const fn $name($($arg: $ty),*) -> $ret $body
        #[cfg(loom)]
        $(#[$meta])* $vis fn $name($($arg: $ty),*) -> $ret $body
    };
}
pub(crate) use const_fn;

/// A barrier of two unequal halves, for the pattern "store mine, then load yours" on both sides.
///
/// Between a `light` on one thread and a `heavy` on another holds what holds between two sequentially consistent
/// fences: one of them comes first, and what was stored before the first is seen by what loads after the second. The
/// light half costs nothing where the system lends a hand (`membarrier`), the heavy half then costs microseconds.
///
/// A parameter and not two functions, so that a model can also leave a half out and show that it was needed.
pub(crate) trait Barrier {
    /// The frequent side: between its store and its load.
    fn light();
    /// The rare side: between its store and its load.
    fn heavy();
}

/// The machine's barrier; two sequentially consistent fences in a model.
///
/// The reduction: `membarrier` makes every running thread of the process execute a full fence somewhere between two of
/// its instructions (a thread that is not running passed one when it was switched out). A light half is a compiler
/// fence, so the store before it and the load after it are two instructions in this order, and the forced fence lies
/// before the store, between the two, or after the load. In each case the pair behaves as with a fence of its own in
/// that place or is wholly ordered against the heavy side; so the executions are among those with fences on both sides.
#[derive(Debug)]
pub(crate) struct Asymmetric;

#[cfg(not(loom))]
impl Asymmetric {
    /// Whether [`light`](Barrier::light) is no more than a compiler fence, now and for good.
    pub(crate) fn is_light_free() -> bool {
        proto_arch::barrier::is_asymmetric()
    }
}

impl Barrier for Asymmetric {
    #[inline(always)]
    fn light() {
        #[cfg(not(loom))]
        proto_arch::barrier::light();
        #[cfg(loom)]
        fence(Ordering::SeqCst);
    }

    #[inline]
    fn heavy() {
        #[cfg(not(loom))]
        proto_arch::barrier::heavy();
        #[cfg(loom)]
        fence(Ordering::SeqCst);
    }
}

/// Tells the processor, or the model's scheduler, that this thread waits for another one's store.
#[inline(always)]
pub(crate) fn spin_hint() {
    #[cfg(not(loom))]
    core::hint::spin_loop();
    #[cfg(loom)]
    loom::thread::yield_now();
}
