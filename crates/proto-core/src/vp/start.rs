//! The closure of a VP that has not run.

use std::marker::PhantomData;
use std::mem::{ManuallyDrop, MaybeUninit};

/// Words of a closure that fit into a block.
const INLINE_WORDS: usize = 9;

/// A closure that has not run: a table of two functions and a few words, or a box in one of them.
pub(crate) struct Start {
    table: &'static Table,
    data: [MaybeUninit<usize>; INLINE_WORDS],
}

struct Table {
    /// Runs the closure in these words, or drops it; either uses it up.
    run: unsafe fn(*mut MaybeUninit<usize>),
    drop: unsafe fn(*mut MaybeUninit<usize>),
}

impl std::fmt::Debug for Start {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Start")
    }
}

/// A closure in the words themselves.
struct Inline<F>(PhantomData<F>);

impl<F: FnOnce()> Inline<F> {
    const TABLE: Table = Table { run: Self::run, drop: Self::drop };
    const FITS: bool = size_of::<F>() <= INLINE_WORDS * size_of::<usize>() && align_of::<F>() <= align_of::<usize>();

    unsafe fn run(data: *mut MaybeUninit<usize>) {
        // SAFETY: `data` holds an `F` that nobody reads again (`Start::run` forgets it).
        let closure = unsafe { data.cast::<F>().read() };
        closure()
    }

    unsafe fn drop(data: *mut MaybeUninit<usize>) {
        // SAFETY: as above, for `Start`'s drop.
        unsafe { data.cast::<F>().drop_in_place() }
    }
}

impl Start {
    /// # Safety
    ///
    /// - The caller keeps alive whatever `F` borrows until the `Start` has been run or dropped, and sends it to another
    ///   thread only if `F` may be sent.
    #[inline]
    pub(crate) unsafe fn new<F: FnOnce()>(closure: F) -> Start {
        if const { Inline::<F>::FITS } {
            Self::inline(closure)
        } else {
            let boxed = Box::new(closure);
            Self::inline(boxed)
        }
    }

    #[inline]
    fn inline<F: FnOnce()>(closure: F) -> Start {
        debug_assert!(Inline::<F>::FITS, "`new` boxes what does not fit");
        let mut data = [MaybeUninit::uninit(); INLINE_WORDS];
        // SAFETY: it fits, in size and alignment.
        unsafe { data.as_mut_ptr().cast::<F>().write(closure) };
        Start { table: &Inline::<F>::TABLE, data }
    }

    #[inline]
    pub(crate) fn run(self) {
        let mut this = ManuallyDrop::new(self);
        let data = this.data.as_mut_ptr();
        // SAFETY: `data` holds what `inline` wrote, and `this` is never dropped or run again.
        unsafe { (this.table.run)(data) }
    }
}

impl Drop for Start {
    fn drop(&mut self) {
        // SAFETY: `data` holds what `inline` wrote; `run` would have forgotten `self`.
        unsafe { (self.table.drop)(self.data.as_mut_ptr()) }
    }
}
