//! Values of which every timeline has its own: what `thread_local!` is for OS threads.
//!
//! A `thread_local!` is shared by all VPs of a core, and another VP may run between any two constructs [design rule 7]. A [`VpLocal`]
//! belongs to one VP (or attached OS thread), is made at its first use there, and dropped when the VP ends, on its own stack.

use std::any::Any;
use std::cell::{Cell, RefCell};
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
///
/// Has all that [`std::thread::LocalKey`] has.
///
/// # Examples
///
/// ```
/// use proto_core::{VpLocal, scope, vp_local};
///
/// vp_local! {
///     static INDENT: usize = 0;
/// }
/// fn write(text: &str) -> String {
///     INDENT.with(|&indent| " ".repeat(indent)) + text
/// }
/// let deep = |key: &'static VpLocal<usize>| key.scope(2, || write("deep"));
/// assert_eq!(deep(&INDENT), "  deep");
/// assert_eq!(write("plain"), "plain");
/// assert!(INDENT.try_with(|_| ()).is_ok());
/// // Another timeline has its own.
/// let other = INDENT.scope(4, || scope(|s| s.spawn(|| write("other")).join()));
/// assert_eq!(other.ok().as_deref(), Some("other"));
/// ```
pub struct VpLocal<T: 'static> {
    init: fn() -> T,
}

impl<T> fmt::Debug for VpLocal<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VpLocal").finish_non_exhaustive()
    }
}

/// There are no values where this code runs: on a controller's own stack (in an assigner or a hook), or on an OS thread whose values have been
/// dropped.
///
/// # Examples
///
/// ```
/// use proto_core::{AccessError, CoreId, Event, Hooks, VpName, vp_local};
///
/// vp_local! {
///     static TASK: &'static str = "none";
/// }
/// struct Blame;
/// impl Hooks for Blame {
///     fn event(&self, _: &Event) {}
///     fn hog(&self, vp: &VpName, _: CoreId) -> bool {
///         // Not on the VP's stack: it has no values here.
///         let task: Result<&str, AccessError> = TASK.try_with(|task| *task);
///         eprintln!("{vp}: {}", task.unwrap_or("unknown"));
///         true
///     }
/// }
/// assert_eq!(TASK.try_with(|task| *task), Ok("none"));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AccessError;

impl fmt::Display for AccessError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "no timeline's own values can be reached here: in an assigner or a hook, or at the end of an OS thread",
        )
    }
}

impl std::error::Error for AccessError {}

/// Declares values of which every timeline has its own, in the shape of [`thread_local!`](std::thread_local).
///
/// ```
/// use std::cell::Cell;
/// proto_core::vp_local! {
///     static DEPTH: Cell<u32> = Cell::new(0);
/// }
/// DEPTH.with(|depth| depth.set(depth.get() + 1));
/// assert_eq!(DEPTH.get(), 1);
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
    /// Where there are no values: see [`AccessError`].
    pub fn with<R>(&'static self, f: impl FnOnce(&T) -> R) -> R {
        match self.try_with(f) {
            Ok(result) => result,
            Err(error) => panic!("{error}"),
        }
    }

    /// As [`with`](VpLocal::with).
    ///
    /// # Errors
    ///
    /// Where there are no values; then `f` has not run.
    pub fn try_with<R>(&'static self, f: impl FnOnce(&T) -> R) -> Result<R, AccessError> {
        let value = match self.find()? {
            Some(value) => value,
            None => {
                // Outside of all borrows: it is user code, and may use this key itself.
                let fresh: Rc<dyn Any> = Rc::new((self.init)());
                self.put(Some(Rc::clone(&fresh)))?;
                fresh
            }
        };
        Ok(f(of_type(&value)))
    }

    /// Makes `value` the calling timeline's: by `change` if it has one already; else it has this first, instead of the key's.
    fn change(&'static self, value: T, change: impl FnOnce(&T, T)) {
        let found = self.find().and_then(|found| match found {
            Some(found) => {
                change(of_type(&found), value);
                Ok(())
            }
            None => self.put(Some(Rc::new(value))).map(drop),
        });
        if let Err(error) = found {
            panic!("{error}");
        }
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
        let before = self.put(Some(Rc::new(value))).unwrap_or_else(|error| panic!("{error}"));
        let _back = Back(self, before);
        f()
    }

    fn key(&'static self) -> (usize, usize) {
        let block = ctx::installed().and_then(ctx::Ctx::current);
        let job = block.map_or(std::ptr::null(), |block| block.inline_job());
        // SAFETY: the job that runs inline lies in a frame of this timeline.
        if let Some(job) = unsafe { job.as_ref() } {
            job.note_locals();
        }
        (std::ptr::from_ref(self).addr(), job.addr())
    }

    fn find(&'static self) -> Result<Option<Rc<dyn Any>>, AccessError> {
        let key = self.key();
        with_locals(|locals| locals.values.iter().find(|(other, _)| *other == key).map(|(_, value)| Rc::clone(value)))
    }

    /// Puts `value` in this key's place; gives what was there.
    fn put(&'static self, value: Option<Rc<dyn Any>>) -> Result<Option<Rc<dyn Any>>, AccessError> {
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

fn of_type<T: 'static>(value: &Rc<dyn Any>) -> &T {
    value.downcast_ref().expect("a key's values have its type")
}

/// Short forms, for values in a [`Cell`]. They panic where [`with`](VpLocal::with) does.
///
/// # Examples
///
/// ```
/// use std::cell::Cell;
/// proto_core::vp_local! {
///     static DEPTH: Cell<u32> = const { Cell::new(1) };
/// }
/// assert_eq!(DEPTH.replace(2), 1);
/// DEPTH.set(DEPTH.get() + 1);
/// assert_eq!((DEPTH.take(), DEPTH.get()), (3, 0));
/// ```
impl<T: 'static> VpLocal<Cell<T>> {
    /// Sets the value. If this is the first use, the key's first value is never made.
    pub fn set(&'static self, value: T) {
        self.change(Cell::new(value), |cell, value| cell.set(value.into_inner()));
    }

    /// A copy of the value.
    pub fn get(&'static self) -> T
    where
        T: Copy,
    {
        self.with(Cell::get)
    }

    /// Takes the value and leaves the default.
    pub fn take(&'static self) -> T
    where
        T: Default,
    {
        self.with(Cell::take)
    }

    /// Sets the value; gives the one before.
    pub fn replace(&'static self, value: T) -> T {
        self.with(|cell| cell.replace(value))
    }
}

/// Short forms, for values in a [`RefCell`]. They panic where [`with`](VpLocal::with) does, and if the value is borrowed in a way that excludes
/// the new use. A borrow may last while the timeline waits: no other can see the value.
///
/// # Examples
///
/// ```
/// use std::cell::RefCell;
/// proto_core::vp_local! {
///     static WORDS: RefCell<Vec<&'static str>> = RefCell::default();
/// }
/// WORDS.set(vec!["one"]);
/// WORDS.with_borrow_mut(|words| words.push("two"));
/// assert_eq!(WORDS.with_borrow(Vec::len), 2);
/// assert_eq!(WORDS.replace(vec!["three"]), ["one", "two"]);
/// assert_eq!((WORDS.take(), WORDS.take()), (vec!["three"], vec![]));
/// ```
impl<T: 'static> VpLocal<RefCell<T>> {
    /// Runs `f` on the value.
    pub fn with_borrow<R>(&'static self, f: impl FnOnce(&T) -> R) -> R {
        self.with(|cell| f(&cell.borrow()))
    }

    /// Runs `f` on the value, which it may change.
    pub fn with_borrow_mut<R>(&'static self, f: impl FnOnce(&mut T) -> R) -> R {
        self.with(|cell| f(&mut cell.borrow_mut()))
    }

    /// Sets the value. If this is the first use, the key's first value is never made.
    pub fn set(&'static self, value: T) {
        self.change(RefCell::new(value), |cell, value| drop(cell.replace(value.into_inner())));
    }

    /// Takes the value and leaves the default.
    pub fn take(&'static self) -> T
    where
        T: Default,
    {
        self.with(RefCell::take)
    }

    /// Sets the value; gives the one before.
    pub fn replace(&'static self, value: T) -> T {
        self.with(|cell| cell.replace(value))
    }
}

thread_local! {
    /// The values of an OS thread: these are dropped with the thread's other thread-locals.
    static OF_THREAD: RefCell<Locals> = RefCell::new(Locals::default());
}

fn with_locals<R>(f: impl FnOnce(&mut Locals) -> R) -> Result<R, AccessError> {
    let block = ctx::installed().map(|ctx| ctx.current().ok_or(AccessError)).transpose()?;
    match block {
        Some(block) if !block.is_thread() => Ok(extra::with_locals(block, f)),
        _ => OF_THREAD.try_with(|locals| f(&mut locals.borrow_mut())).map_err(|_| AccessError),
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
