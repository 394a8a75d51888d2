//! Values of which every timeline has its own: what `thread_local!` is for OS threads.
//!
//! A `thread_local!` is shared by all VPs of a core, and another VP may run between any two constructs [design rule 7]. A [`VpLocal`]
//! belongs to one VP (or attached OS thread), is made at its first use there, and dropped when the VP ends, on its own stack.

use std::any::Any;
use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;

use super::extra;
use crate::ctx;

/// The values of one timeline, by their key and the latent task that runs inline (by address; 0: the timeline itself).
/// Few, so a vector.
#[derive(Default)]
pub(crate) struct Locals {
    values: Vec<((usize, usize), Rc<dyn Any>)>,
}

impl fmt::Debug for Locals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Locals").field("len", &self.values.len()).finish()
    }
}

/// A key made by [`vp_local!`](crate::vp_local): every timeline has its own value.
pub struct VpLocal<T: 'static> {
    init: fn() -> T,
}

impl<T> fmt::Debug for VpLocal<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VpLocal").finish_non_exhaustive()
    }
}

/// Declares values of which every timeline has its own, in the shape of [`thread_local!`](std::thread_local).
///
/// ```
/// use std::cell::Cell;
/// proto_core::vp_local! {
///     static DEPTH: Cell<u32> = Cell::new(0);
/// }
/// DEPTH.with(|depth| depth.set(depth.get() + 1));
/// assert_eq!(DEPTH.with(Cell::get), 1);
/// ```
#[macro_export]
macro_rules! vp_local {
    () => {};
    ($(#[$meta:meta])* $vis:vis static $name:ident : $type:ty = $init:expr; $($rest:tt)*) => {
        $(#[$meta])* $vis static $name: $crate::VpLocal<$type> = {
            fn init() -> $type { $init }
            $crate::VpLocal::new(init)
        };
        $crate::vp_local!($($rest)*);
    };
    ($(#[$meta:meta])* $vis:vis static $name:ident : $type:ty = $init:expr) => {
        $crate::vp_local!($(#[$meta])* $vis static $name : $type = $init;);
    };
}

impl<T: 'static> VpLocal<T> {
    #[doc(hidden)]
    pub const fn new(init: fn() -> T) -> Self {
        VpLocal { init }
    }

    /// Runs `f` on the calling timeline's value; makes the value first if this is the first use. `f` may wait.
    ///
    /// # Panics
    ///
    /// On a controller's own stack (in an assigner or a hook).
    pub fn with<R>(&'static self, f: impl FnOnce(&T) -> R) -> R {
        let value = match self.get() {
            Some(value) => value,
            None => {
                // Outside of all borrows: it is user code, and may use this key itself.
                let fresh: Rc<dyn Any> = Rc::new((self.init)());
                self.put(Some(Rc::clone(&fresh)));
                fresh
            }
        };
        f(value.downcast_ref().expect("a key's values have its type"))
    }

    /// Runs `f` with `value` in this key's place on the calling timeline, and puts back what was there before.
    ///
    /// Replaces scoped thread-locals: whatever else runs on this core while `f` waits does not see `value`.
    ///
    /// # Panics
    ///
    /// As [`with`](VpLocal::with).
    pub fn scope<R>(&'static self, value: T, f: impl FnOnce() -> R) -> R {
        struct Back<T: 'static>(&'static VpLocal<T>, Option<Rc<dyn Any>>);
        impl<T> Drop for Back<T> {
            fn drop(&mut self) {
                drop(self.0.put(self.1.take()));
            }
        }
        let _back = Back(self, self.put(Some(Rc::new(value))));
        f()
    }

    fn key(&'static self) -> (usize, usize) {
        let block = ctx::installed().and_then(ctx::Ctx::current);
        let job = block.map_or(std::ptr::null(), |block| block.inline_job());
        // SAFETY: the job that runs inline lies in a frame of this timeline.
        if let Some(job) = unsafe { job.as_ref() } {
            job.has_locals.set(true);
        }
        (std::ptr::from_ref(self).addr(), job.addr())
    }

    fn get(&'static self) -> Option<Rc<dyn Any>> {
        let key = self.key();
        with_locals(|locals| locals.values.iter().find(|(other, _)| *other == key).map(|(_, value)| Rc::clone(value)))
    }

    /// Puts `value` in this key's place; gives what was there.
    fn put(&'static self, value: Option<Rc<dyn Any>>) -> Option<Rc<dyn Any>> {
        let key = self.key();
        with_locals(|locals| {
            let index = locals.values.iter().position(|(other, _)| *other == key);
            match (index, value) {
                (Some(index), Some(value)) => Some(std::mem::replace(&mut locals.values[index].1, value)),
                (Some(index), None) => Some(locals.values.remove(index).1),
                (None, Some(value)) => {
                    locals.values.push((key, value));
                    None
                }
                (None, None) => None,
            }
        })
    }
}

thread_local! {
    /// The values of an OS thread: these are dropped with the thread's other thread-locals.
    static OF_THREAD: RefCell<Locals> = RefCell::new(Locals::default());
}

fn with_locals<R>(f: impl FnOnce(&mut Locals) -> R) -> R {
    let block = ctx::installed()
        .map(|ctx| ctx.current().expect("VP-locals are used by VPs and OS threads, not by assigners or hooks"));
    match block {
        Some(block) if !block.is_thread() => extra::with_locals(block, f),
        _ => OF_THREAD.with_borrow_mut(f),
    }
}

/// Drops the values of the VP that ends here, newest first, until there are no more: a destructor may make new ones.
pub(crate) fn run_destructors(block: &super::block::Block) {
    while let Some(mut locals) = extra::take_locals(block).filter(|locals| !locals.values.is_empty()) {
        while let Some(value) = locals.values.pop() {
            drop(value);
        }
    }
}

/// A latent task that was run inline has ended: drops its values, as the end of a VP would.
#[cold]
pub(crate) fn end_inline(block: &super::block::Block, job: &crate::task::JobHead) {
    let id = std::ptr::from_ref(job).addr();
    loop {
        let value = extra::with_locals(block, |locals| {
            let index = locals.values.iter().rposition(|((_, of), _)| *of == id)?;
            Some(locals.values.remove(index).1)
        });
        match value {
            Some(value) => drop(value),
            None => return,
        }
    }
}
