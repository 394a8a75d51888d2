//! The closure of a VP that has not run.

use std::mem::{ManuallyDrop, MaybeUninit};

/// Words of a closure that fit into a block.
const INLINE_WORDS: usize = 9;

/// A closure that has not run: two functions and a few words, or a box in one of them.
pub(crate) struct Start {
    run: unsafe fn(*mut MaybeUninit<usize>),
    drop: unsafe fn(*mut MaybeUninit<usize>),
    data: [MaybeUninit<usize>; INLINE_WORDS],
}

impl std::fmt::Debug for Start {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Start")
    }
}

impl Start {
    /// # Safety
    ///
    /// - The caller keeps alive whatever `F` borrows until the `Start` has been run or dropped, and sends it to another
    ///   thread only if `F` may be sent.
    pub(crate) unsafe fn new<F: FnOnce()>(closure: F) -> Start {
        unsafe fn run_inline<F: FnOnce()>(data: *mut MaybeUninit<usize>) {
            // SAFETY: `data` holds an `F` that nobody reads again (`Start::run` forgets it).
            let closure = unsafe { data.cast::<F>().read() };
            closure()
        }
        unsafe fn drop_inline<F>(data: *mut MaybeUninit<usize>) {
            // SAFETY: as above, for `Start`'s drop.
            unsafe { data.cast::<F>().drop_in_place() }
        }
        unsafe fn run_boxed<F: FnOnce()>(data: *mut MaybeUninit<usize>) {
            // SAFETY: `data` holds the pointer of a box that nobody reads again.
            let raw = unsafe { data.cast::<*mut F>().read() };
            // SAFETY: the pointer came out of `Box::into_raw`.
            let closure = unsafe { Box::from_raw(raw) };
            closure()
        }
        unsafe fn drop_boxed<F>(data: *mut MaybeUninit<usize>) {
            // SAFETY: as above.
            let raw = unsafe { data.cast::<*mut F>().read() };
            // SAFETY: the pointer came out of `Box::into_raw`.
            drop(unsafe { Box::from_raw(raw) });
        }
        let mut data = [MaybeUninit::uninit(); INLINE_WORDS];
        if size_of::<F>() <= size_of_val(&data) && align_of::<F>() <= align_of::<usize>() {
            // SAFETY: it fits, in size and alignment.
            unsafe { data.as_mut_ptr().cast::<F>().write(closure) };
            Start { run: run_inline::<F>, drop: drop_inline::<F>, data }
        } else {
            let raw = Box::into_raw(Box::new(closure));
            // SAFETY: a pointer fits.
            unsafe { data.as_mut_ptr().cast::<*mut F>().write(raw) };
            Start { run: run_boxed::<F>, drop: drop_boxed::<F>, data }
        }
    }

    #[inline]
    pub(crate) fn run(self) {
        let mut this = ManuallyDrop::new(self);
        let data = this.data.as_mut_ptr();
        // SAFETY: `data` holds what `new` wrote, and `this` is never dropped or run again.
        unsafe { (this.run)(data) }
    }
}

impl Drop for Start {
    fn drop(&mut self) {
        // SAFETY: `data` holds what `new` wrote; `run` would have forgotten `self`.
        unsafe { (self.drop)(self.data.as_mut_ptr()) }
    }
}
