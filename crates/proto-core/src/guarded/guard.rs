//! The guard that a language gives its users: an open cell, and the way back to who lent the token.
//!
//! ```text
//!   lender ── token ──▶ cell.open ──▶ Guard ── drop, close ──▶ token ──▶ lender
//!                                       │ map, filter_map
//!                                       ▼
//!                                     Guard of a part ── drop ──▶ the same
//! ```
//!
//! A language says in [`Lender`] how a token goes back; everything else that guards have in common is here: they show their data,
//! can be narrowed, stay with the timeline that got them, and know whether their holder panicked with them.
//!
//! # The dangerous moment
//!
//! A user's closure panics while a guard is being narrowed. The whole is then still in the guard, whose drop gives it back like any
//! other: the part is only taken out once the closure has returned ([`Opened::map_from`]).

use std::fmt;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

use super::{Grant, Guarded, Opened, OpenedShared, SharedGrant};

/// What lends tokens of kind `G` and wants them back: the environment of a lock, as a rule.
///
/// [`Guard`] has an example.
///
/// # Examples
///
/// ```
/// use proto_core::{Grant, Guard, Guarded, Lender, Opened, PanicMark};
/// use std::cell::Cell;
///
/// /// Counts what came back, and loses it.
/// #[derive(Default)]
/// struct Count(Cell<u32>);
/// impl Lender<Grant> for Count {
///     fn take_back(&self, _: Grant, _: PanicMark) {
///         self.0.set(self.0.get() + 1);
///     }
/// }
/// let (count, cell) = (Count::default(), Guarded::new(5));
/// drop(Guard::<Count, Opened<'_, i32>, _>::open(&count, &cell, Grant::new()));
/// assert_eq!(count.0.get(), 1);
/// ```
pub trait Lender<G> {
    /// Takes a token back that a guard has done with. Runs in the guard's drop, also while the timeline unwinds: it sends a
    /// [release](crate::Kind::Release). `since` was noted when the guard was made.
    fn take_back(&self, token: G, since: PanicMark);
}

/// A [`Lender`] that turns the right to write into a right to read, without letting anybody write in between.
///
/// # Examples
///
/// ```
/// use proto_core::{Downgrade, Grant, Guard, Guarded, Lender, Opened, PanicMark, SharedGrant, Shares};
/// use std::sync::Mutex;
///
/// /// `None` while somebody writes. A standard mutex stands in the place of an environment.
/// struct Desk(Mutex<Option<Shares>>);
/// impl Lender<Grant> for Desk {
///     fn take_back(&self, grant: Grant, _: PanicMark) {
///         *self.0.lock().unwrap() = Some(grant.share());
///     }
/// }
/// impl Lender<SharedGrant> for Desk {
///     fn take_back(&self, shared: SharedGrant, _: PanicMark) {
///         self.0.lock().unwrap().as_mut().expect("somebody reads").take_back(shared);
///     }
/// }
/// impl Downgrade for Desk {
///     fn downgrade(&self, grant: Grant) -> SharedGrant {
///         self.0.lock().unwrap().insert(grant.share()).lend()
///     }
/// }
/// type Writer<'a, T> = Guard<'a, Desk, Opened<'a, T>, &'a Guarded<T>>;
///
/// let (desk, cell) = (Desk(Mutex::new(None)), Guarded::new(1));
/// let mut writer = Writer::open(&desk, &cell, Grant::new());
/// *writer = 2;
/// let reader = Writer::downgrade(writer);
/// assert_eq!(*reader, 2);
/// drop(reader);
/// assert_eq!(desk.0.into_inner()?.map(|shares| shares.out()), Some(0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Downgrade: Lender<Grant> + Lender<SharedGrant> {
    /// Takes the grant back and lends a share of it.
    fn downgrade(&self, grant: Grant) -> SharedGrant;
}

/// Whether the timeline panicked since: what a guard asks to know whether what it guarded may be half changed.
///
/// # Examples
///
/// ```
/// use proto_core::PanicMark;
///
/// struct Guard(PanicMark);
/// impl Drop for Guard {
///     fn drop(&mut self) {
///         assert!(self.0.panicked());
///     }
/// }
/// let outcome = std::panic::catch_unwind(|| {
///     let _guard = Guard(PanicMark::now());
///     panic!("with the guard");
/// });
/// assert!(outcome.is_err());
/// ```
#[derive(Clone, Copy, Debug)]
pub struct PanicMark {
    unwound: bool,
}

impl PanicMark {
    /// Notes whether the calling timeline unwinds already.
    #[inline(always)]
    #[must_use]
    pub fn now() -> Self {
        PanicMark { unwound: crate::vp::panicking() }
    }

    /// Whether the calling timeline has begun to unwind because of a panic of its own since this was made. One that is cancelled has not.
    #[inline(always)]
    #[must_use]
    pub fn panicked(self) -> bool {
        !self.unwound && crate::vp::panicking()
    }
}

/// An open value or part of one, lent by an `L`; goes back when dropped.
///
/// `O` is [`Opened`] or [`OpenedShared`]. `W` is `&Guarded<T>`, the cell, for a guard of a whole, and `()` for a guard of a part.
/// A language names the combinations that it has with type aliases.
///
/// It is not `Send`: who got it gives it back. All functions are associated ones, so that they hide no method of the value.
///
/// # Examples
///
/// The guards of a lock, with a standard mutex in the place of an environment:
///
/// ```
/// #![forbid(unsafe_code)]
/// use proto_core::{Grant, Guard, Guarded, Lender, Opened, PanicMark};
/// use std::sync::Mutex;
///
/// pub struct Free(Mutex<Option<Grant>>);
/// impl Lender<Grant> for Free {
///     fn take_back(&self, grant: Grant, since: PanicMark) {
///         assert!(!since.panicked(), "this lock has no poison");
///         *self.0.lock().unwrap() = Some(grant);
///     }
/// }
///
/// pub struct Lock<T> { free: Free, value: Guarded<T> }
/// pub type LockGuard<'a, T> = Guard<'a, Free, Opened<'a, T>, &'a Guarded<T>>;
/// pub type PartGuard<'a, T> = Guard<'a, Free, Opened<'a, T>>;
///
/// impl<T> Lock<T> {
///     fn try_lock(&self) -> Option<LockGuard<'_, T>> {
///         let grant = self.free.0.lock().unwrap().take()?;
///         Some(LockGuard::open(&self.free, &self.value, grant))
///     }
/// }
///
/// let lock = Lock { free: Free(Mutex::new(Some(Grant::new()))), value: Guarded::new((1, 2)) };
/// let guard = lock.try_lock().unwrap();
/// let mut second: PartGuard<'_, i32> = LockGuard::map(guard, |pair| &mut pair.1);
/// *second = 3;
/// assert!(lock.try_lock().is_none());
/// drop(second);
/// assert_eq!(*lock.try_lock().unwrap(), (1, 3));
/// ```
///
/// ```compile_fail,E0277
/// # use proto_core::{Grant, Guard, Guarded, Lender, Opened, PanicMark};
/// # struct Free;
/// # impl Lender<Grant> for Free { fn take_back(&self, _: Grant, _: PanicMark) {} }
/// fn stays(guard: Guard<'_, Free, Opened<'_, i32>>) -> impl Send + '_ { guard }
/// ```
///
/// A part that may be missing, and a guard taken apart:
///
/// ```
/// use proto_core::{Guard, Guarded, Opened, RawLock};
///
/// type WordsGuard<'a, T> = Guard<'a, RawLock, Opened<'a, T>, &'a Guarded<T>>;
///
/// let (lock, words) = (RawLock::new(), Guarded::new(vec!["one", "two"]));
/// let guard = WordsGuard::open(&lock, &words, lock.lock().grant);
/// let guard = WordsGuard::filter_map(guard, |words| words.get_mut(7)).expect_err("there are two");
/// let mut second = WordsGuard::filter_map(guard, |words| words.get_mut(1)).expect("there are two");
/// *second = "2";
/// drop(second);
///
/// let guard = WordsGuard::open(&lock, &words, lock.lock().grant);
/// assert_eq!(*guard, ["one", "2"]);
/// // What waits with the lock given back begins so.
/// let (lock, _words, grant, since) = WordsGuard::close(guard);
/// lock.give(grant, since);
/// ```
#[must_use = "what it guards is given back at once if it is not kept"]
pub struct Guard<'a, L: Lender<O::Token>, O: Open, W = ()> {
    lender: &'a L,
    /// Taken out when the guard is dropped or taken apart. No `Option`: each look at the value would ask it.
    opened: ManuallyDrop<O>,
    cell: W,
    since: PanicMark,
    /// `Sync`, but not `Send`.
    _stays: PhantomData<std::sync::MutexGuard<'static, ()>>,
}

/// An open cell, for writing or for reading: what a [`Guard`] is made around.
///
/// # Examples
///
/// ```
/// use proto_core::{Grant, Guard, Guarded, Lender, Open, Opened, RawLock};
///
/// /// The token of a guard of any kind, which does not go back by itself any more.
/// fn token<L: Lender<O::Token>, O: Open, W: Copy>(guard: Guard<'_, L, O, W>) -> O::Token {
///     Guard::close(guard).2
/// }
/// let (lock, cell) = (RawLock::new(), Guarded::new(5));
/// let guard = Guard::<_, Opened<'_, _>, _>::open(&lock, &cell, lock.lock().grant);
/// let grant: Grant = token(guard);
/// assert_eq!(*cell.open(grant), 5);
/// ```
pub trait Open: sealed::Sealed {
    /// The token it was opened with.
    type Token;
    /// Ends the access.
    #[doc(hidden)]
    fn end(self) -> Self::Token;
}

mod sealed {
    pub trait Sealed {}
    impl<T: ?Sized> Sealed for super::Opened<'_, T> {}
    impl<T: ?Sized> Sealed for super::OpenedShared<'_, T> {}
}

impl<T: ?Sized> Open for Opened<'_, T> {
    type Token = Grant;
    #[inline(always)]
    fn end(self) -> Grant {
        self.close()
    }
}

impl<T: ?Sized> Open for OpenedShared<'_, T> {
    type Token = SharedGrant;
    #[inline(always)]
    fn end(self) -> SharedGrant {
        self.close()
    }
}

impl<L: Lender<O::Token>, O: Open, W> Drop for Guard<'_, L, O, W> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: the guard is dropped once, and not if it was taken apart.
        let opened = unsafe { ManuallyDrop::take(&mut self.opened) };
        self.lender.take_back(opened.end(), self.since);
    }
}

impl<'a, L: Lender<O::Token>, O: Open, W: Copy> Guard<'a, L, O, W> {
    /// Takes the guard apart, for the language: what it was made of, and the token, which does not go back by itself any more.
    #[inline]
    pub fn close(guard: Self) -> (&'a L, W, O::Token, PanicMark) {
        let cell = guard.cell;
        let (lender, opened, since) = guard.take_apart();
        (lender, cell, opened.end(), since)
    }
}

impl<'a, L: Lender<O::Token>, O: Open, W> Guard<'a, L, O, W> {
    #[inline]
    fn take_apart(self) -> (&'a L, O, PanicMark) {
        let mut this = ManuallyDrop::new(self);
        // SAFETY: `this` is never dropped, so what is taken out is not taken again.
        let opened = unsafe { ManuallyDrop::take(&mut this.opened) };
        (this.lender, opened, this.since)
    }
}

/// What guards for writing and guards for reading do alike.
macro_rules! alike {
    ($opened:ident, $grant:ident, $open:ident, $($mutable:ident)?; T: $($bound:ident)?) => {
        impl<'a, L: Lender<$grant>, T: ?Sized $(+ $bound)?> Guard<'a, L, $opened<'a, T>, &'a Guarded<T>> {
            /// Opens `cell` with a token that `lender` lent, for the language.
            ///
            /// # Panics
            ///
            /// If the token is not the cell's.
            #[inline(always)]
            #[track_caller]
            pub fn open(lender: &'a L, cell: &'a Guarded<T>, token: $grant) -> Self {
                let opened = ManuallyDrop::new(cell.$open(token));
                Guard { lender, opened, cell, since: PanicMark::now(), _stays: PhantomData }
            }
        }

        impl<'a, L: Lender<$grant>, T: ?Sized, W> Guard<'a, L, $opened<'a, T>, W> {
            /// A guard of a part of the data.
            ///
            /// If `f` panics, what is guarded is given back as by any other panic.
            pub fn map<U: ?Sized>(
                guard: Self,
                f: impl FnOnce(& $($mutable)? T) -> & $($mutable)? U,
            ) -> Guard<'a, L, $opened<'a, U>> {
                match Self::filter_map(guard, |value| Some(f(value))) {
                    Ok(part) => part,
                    Err(_) => unreachable!("the closure gives a part"),
                }
            }

            /// A guard of a part of the data, if there is one.
            ///
            /// # Errors
            ///
            /// Gives the guard back if `f` finds no part.
            pub fn filter_map<U: ?Sized>(
                $($mutable)? guard: Self,
                f: impl FnOnce(& $($mutable)? T) -> Option<& $($mutable)? U>,
            ) -> Result<Guard<'a, L, $opened<'a, U>>, Self> {
                let Some(part) = f(& $($mutable)? guard.opened).map(NonNull::from) else { return Err(guard) };
                let (lender, whole, since) = guard.take_apart();
                // SAFETY: `f` gave `part` out of the whole.
                let opened = ManuallyDrop::new(unsafe { whole.narrow(part) });
                Ok(Guard { lender, opened, cell: (), since, _stays: PhantomData })
            }
        }
    };
}

alike!(Opened, Grant, open, mut; T:);
alike!(OpenedShared, SharedGrant, open_shared, ; T: Sync);

impl<'a, L: Downgrade, T: ?Sized + Sync> Guard<'a, L, Opened<'a, T>, &'a Guarded<T>> {
    /// Goes on as a reader, without letting a writer in between.
    #[track_caller]
    pub fn downgrade(guard: Self) -> Guard<'a, L, OpenedShared<'a, T>, &'a Guarded<T>> {
        let (lender, cell, grant, _) = Guard::close(guard);
        Guard::<L, OpenedShared<'a, T>, _>::open(lender, cell, lender.downgrade(grant))
    }
}

impl<L: Lender<O::Token>, O: Open + Deref, W> Deref for Guard<'_, L, O, W> {
    type Target = O::Target;

    #[inline]
    fn deref(&self) -> &O::Target {
        &self.opened
    }
}

impl<L: Lender<O::Token>, O: Open + DerefMut, W> DerefMut for Guard<'_, L, O, W> {
    #[inline]
    fn deref_mut(&mut self) -> &mut O::Target {
        &mut self.opened
    }
}

impl<L: Lender<O::Token>, O: Open + Deref<Target: fmt::Debug>, W> fmt::Debug for Guard<'_, L, O, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<L: Lender<O::Token>, O: Open + Deref<Target: fmt::Display>, W> fmt::Display for Guard<'_, L, O, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

#[cfg(test)]
mod test {
    use std::cell::RefCell;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;
    use crate::Shares;

    /// What a lock would keep in its environment, for one thread.
    #[derive(Debug, Default)]
    struct Desk {
        grant: RefCell<Option<Grant>>,
        shares: RefCell<Option<Shares>>,
        panics: RefCell<u32>,
    }

    impl Lender<Grant> for Desk {
        fn take_back(&self, grant: Grant, since: PanicMark) {
            *self.panics.borrow_mut() += u32::from(since.panicked());
            *self.grant.borrow_mut() = Some(grant);
        }
    }

    impl Lender<SharedGrant> for Desk {
        fn take_back(&self, shared: SharedGrant, _: PanicMark) {
            self.shares.borrow_mut().as_mut().expect("somebody reads").take_back(shared);
        }
    }

    impl Downgrade for Desk {
        fn downgrade(&self, grant: Grant) -> SharedGrant {
            self.shares.borrow_mut().insert(grant.share()).lend()
        }
    }

    type Part<'a, T> = Guard<'a, Desk, Opened<'a, T>>;
    type Whole<'a, T> = Guard<'a, Desk, Opened<'a, T>, &'a Guarded<T>>;

    #[test]
    fn a_part_goes_back_as_the_whole() {
        let (desk, cell) = (Desk::default(), Guarded::new((1, [2, 3])));
        let guard = Whole::open(&desk, &cell, Grant::new());
        let array = Whole::map(guard, |pair| &mut pair.1);
        let mut second = Part::map(array, |array| &mut array[1]);
        *second += 1;
        assert_eq!(format!("{second} {second:?}"), "4 4");
        drop(second);
        let grant = desk.grant.take().expect("it came back");
        assert_eq!(*cell.open(grant), (1, [2, 4]));
    }

    #[test]
    fn no_part_gives_the_whole_back() {
        let (desk, cell) = (Desk::default(), Guarded::new(vec![1]));
        let guard = Whole::open(&desk, &cell, Grant::new());
        let whole = Whole::filter_map(guard, |list| list.get_mut(7)).expect_err("it has no eighth");
        assert!(desk.grant.borrow().is_none(), "it is still out");
        assert_eq!(whole.len(), 1);
    }

    #[test]
    fn a_panic_of_the_closure_gives_back_and_is_noticed() {
        let (desk, cell) = (Desk::default(), Guarded::new(1));
        let guard = Whole::open(&desk, &cell, Grant::new());
        let outcome = catch_unwind(AssertUnwindSafe(|| Whole::map::<u32>(guard, |_| panic!("on purpose"))));
        assert!(outcome.is_err());
        assert!(desk.grant.take().is_some());
        assert_eq!(*desk.panics.borrow(), 1);
    }

    #[test]
    fn a_writer_goes_on_as_a_reader() {
        let (desk, cell) = (Desk::default(), Guarded::new(1));
        let reader = Guard::downgrade(Whole::open(&desk, &cell, Grant::new()));
        assert_eq!(*reader, 1);
        assert!(desk.grant.borrow().is_none(), "nobody may write");
        drop(Guard::<_, OpenedShared<'_, _>, _>::map(reader, |one| one));
        let shares = desk.shares.take().expect("it was shared");
        assert!(shares.reclaim().is_ok(), "the reader has left");
    }

    #[test]
    fn one_that_is_closed_gives_nothing_back() {
        let (desk, cell) = (Desk::default(), Guarded::new(1));
        let (_, _, _grant, since) = Guard::close(Whole::open(&desk, &cell, Grant::new()));
        assert!(!since.panicked());
        assert!(desk.grant.borrow().is_none());
    }
}
