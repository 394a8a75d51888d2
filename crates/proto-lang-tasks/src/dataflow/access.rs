//! What a task declares, and how its closure gets it.

use std::panic::{AssertUnwindSafe, catch_unwind};

use proto_core::{Claim, Claimed, Guarded, Keyed, LaneMode};

use super::builder::{Maker, TaskBuilder};
use super::data::{Chain, Data, Place};
use super::flow::{Flow, TaskHandle, TaskId};
use super::graph::NONE;
use super::job::{Body, Payload};

/// What an access does: a small number, or the address of a reduction's operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mode(usize);

impl Mode {
    pub(super) const READ: Mode = Mode(0);
    pub(super) const CONCURRENT: Mode = Mode(1);
    /// One at a time, in any order.
    pub(super) const COMMUTATIVE: Mode = Mode(2);
    pub(super) const INOUT: Mode = Mode(3);
    /// What was there before does not count.
    pub(super) const OUTPUT: Mode = Mode(4);

    fn reduce<T>(operation: &Reduction<T>) -> Mode {
        // An operation is two words, so its address is none of the numbers above.
        Mode(std::ptr::from_ref(operation).addr())
    }

    pub(super) fn reduces(self) -> bool {
        self.0 > Mode::OUTPUT.0
    }

    /// Whether tasks that do this may have it at once.
    #[inline]
    pub(super) fn shares(self) -> bool {
        self.0 <= Mode::CONCURRENT.0
    }

    /// Whether only one task has it at a time, in the order of their making. Such a task may make others that do anything with it.
    fn is_alone(self) -> bool {
        self == Mode::INOUT || self == Mode::OUTPUT
    }

    /// What a task needs to run, or to be combined: the datum for itself, or not; `None`: nothing of it.
    #[inline]
    pub(super) fn needs(self, combining: bool) -> Option<bool> {
        (self.reduces() == combining).then_some(!self.shares())
    }

    /// How it goes with others. The operations of a graph are numbered.
    #[inline]
    pub(super) fn in_lane(self, operations: &mut Vec<Mode>) -> LaneMode {
        if !self.reduces() {
            let kind = self.0 as u32;
            return if self.is_alone() { LaneMode::alone(kind) } else { LaneMode::together(kind) };
        }
        let number = operations.iter().position(|&known| known == self).unwrap_or_else(|| {
            operations.push(self);
            operations.len() - 1
        });
        LaneMode::together((Mode::OUTPUT.0 + 1 + number) as u32)
    }
}

/// An access of a task, as the graph sees it.
#[derive(Debug)]
pub struct Access<'env> {
    pub(super) chain: &'env Keyed<Chain>,
    /// Its range; held while the task runs.
    pub(super) claim: Claim,
    pub(super) mode: Mode,
    /// In which access of its frame it is; `NONE`: in the datum's own lanes.
    pub(super) inner: u32,
}

impl<'env> Access<'env> {
    #[inline]
    pub(super) fn new<V: ?Sized>(place: &Place<'env, V>, mode: Mode) -> Access<'env> {
        Access { chain: place.chain, claim: Claim::new(place.range.clone()), mode, inner: NONE }
    }

    /// The same, not held.
    pub(super) fn twin(&self) -> Access<'env> {
        Access { claim: Claim::new(self.claim.range()), ..*self }
    }

    /// Whether a task that has this one may make one that has the other.
    pub(super) fn covers(&self, other: &Access<'env>) -> bool {
        let (range, within) = (self.claim.range(), other.claim.range());
        let more = self.mode.is_alone() || (self.mode.shares() && self.mode == other.mode);
        std::ptr::eq(self.chain, other.chain) && range.start <= within.start && within.end <= range.end && more
    }

    fn overlaps(&self, other: &Access<'env>) -> bool {
        let (one, two) = (self.claim.range(), other.claim.range());
        std::ptr::eq(self.chain, other.chain) && one.start < two.end && two.start < one.end
    }

    /// Whether one task cannot have both.
    pub(super) fn excludes(&self, other: &Access<'env>) -> bool {
        !(self.mode == other.mode && self.mode.shares()) && self.overlaps(other)
    }

    /// Whether the other, of a later task, waits for this one.
    pub(super) fn orders(&self, other: &Access<'env>) -> bool {
        (self.mode != other.mode || self.mode.is_alone()) && self.overlaps(other)
    }
}

/// What the closure of a task gets for an access.
///
/// (`Bound` says that `'a` is no longer than what the access borrows.)
pub trait Gives<'a, Bound = &'a Self> {
    /// `&T`, `&mut T`, …
    type Out;
}

/// What a task has declared.
pub trait Declare<'env>: for<'a> Gives<'a> + Send + sealed::Declare<'env> {}
impl<'env, A: for<'a> Gives<'a> + Send + sealed::Declare<'env>> Declare<'env> for A {}

mod sealed {
    use super::{Access, Gives, Payload};

    pub trait Declare<'env>: for<'a> Gives<'a> {
        /// What the closure gets, of an access that is held if its mode needs that.
        fn give<'a>(&'a mut self, access: &'a mut Access<'env>) -> <Self as Gives<'a>>::Out;
        /// Puts what the task has made for itself into the datum.
        fn combine(&mut self, _: &mut Access<'env>) -> Result<(), Payload> {
            Ok(())
        }
    }
}

/// `input` or `concurrent`: the closure gets `&V`.
#[derive(Debug)]
pub struct ReadAccess<'env, V: ?Sized>(pub(super) &'env Guarded<V>);

/// `output`, `inout`, or `commutative`: the closure gets `&mut V`.
#[derive(Debug)]
pub struct WriteAccess<'env, V: ?Sized>(pub(super) &'env Guarded<V>);

/// `reduction`: the closure gets `&mut T`, of a value of its own.
#[derive(Debug)]
pub struct ReduceAccess<'env, T> {
    cell: &'env Guarded<T>,
    operation: &'env Reduction<T>,
    own: Option<T>,
}

/// An operation with which tasks add up: what each begins with, and how what it made is put into the datum.
///
/// Tasks in a row that declare a [`reduction`](super::TaskBuilder::reduction) with the same one, at the same address, may run at once. The operation
/// has to be associative and commutative: in which order it is applied is not promised.
#[derive(Debug)]
pub struct Reduction<T> {
    start: fn() -> T,
    combine: fn(&mut T, T),
}

impl<T> Reduction<T> {
    /// An operation; `start` gives its neutral element.
    pub const fn new(start: fn() -> T, combine: fn(&mut T, T)) -> Reduction<T> {
        Reduction { start, combine }
    }

    pub(super) fn of<'env>(&'env self, data: &'env Data<T>) -> (ReduceAccess<'env, T>, Access<'env>) {
        let place = data.whole();
        (ReduceAccess { cell: place.cell, operation: self, own: None }, Access::new(&place, Mode::reduce(self)))
    }
}

impl<'a, V: ?Sized> Gives<'a> for ReadAccess<'_, V> {
    type Out = &'a V;
}

impl<'env, V: Claimed + Send + Sync + ?Sized> sealed::Declare<'env> for ReadAccess<'env, V> {
    #[inline]
    fn give<'a>(&'a mut self, access: &'a mut Access<'env>) -> &'a V {
        access.claim.read(self.0)
    }
}

impl<'a, V: ?Sized> Gives<'a> for WriteAccess<'_, V> {
    type Out = &'a mut V;
}

impl<'env, V: Claimed + Send + ?Sized> sealed::Declare<'env> for WriteAccess<'env, V> {
    #[inline]
    fn give<'a>(&'a mut self, access: &'a mut Access<'env>) -> &'a mut V {
        access.claim.write(self.0)
    }
}

impl<'a, T> Gives<'a> for ReduceAccess<'_, T> {
    type Out = &'a mut T;
}

impl<'env, T: Send> sealed::Declare<'env> for ReduceAccess<'env, T> {
    fn give<'a>(&'a mut self, _: &'a mut Access<'env>) -> &'a mut T {
        self.own.get_or_insert_with(self.operation.start)
    }

    fn combine(&mut self, access: &mut Access<'env>) -> Result<(), Payload> {
        let own = self.own.take().expect("a task is combined when it has run");
        let datum = access.claim.write(self.cell);
        catch_unwind(AssertUnwindSafe(|| (self.operation.combine)(datum, own)))
    }
}

/// What a task has declared, one after the other: how its closure gets each, and how the graph sees it.
#[derive(Debug)]
pub struct Declared<'env, T, const N: usize> {
    pub(super) given: T,
    pub(super) accesses: [Access<'env>; N],
}

/// The accesses of a task, and how one more comes behind them.
pub trait Accesses<'env> {
    /// With one of `A` behind.
    type And<A>;
    #[doc(hidden)]
    fn and<A>(self, given: A, access: Access<'env>) -> Self::And<A>;
}

/// A task's closure and what it declares.
struct Task<'env, T, const N: usize, F> {
    declared: Declared<'env, T, N>,
    closure: F,
}

macro_rules! and {
    ($n:literal $more:literal $($access:ident $x:ident),*) => {
        impl<'env, $($access: Declare<'env>),*> Accesses<'env> for Declared<'env, ($($access,)*), $n> {
            type And<New> = Declared<'env, ($($access,)* New,), $more>;

            #[inline]
            fn and<New>(self, given: New, access: Access<'env>) -> Self::And<New> {
                let ($($x,)*) = self.given;
                let given = ($($x,)* given,);
                let [$($x),*] = self.accesses;
                Declared { given, accesses: [$($x,)* access] }
            }
        }
    };
}

macro_rules! arity {
    ($doc:literal; $n:literal; $($access:ident $x:ident $y:ident),*) => {
        impl<'env, $($access: Declare<'env>,)* F> Body<'env> for Task<'env, ($($access,)*), $n, F>
        where
            F: for<'a> FnMut(&'a Flow<'a, 'env>, $(<$access as Gives<'a>>::Out),*) + Send,
        {
            fn accesses(&mut self) -> &mut [Access<'env>] {
                &mut self.declared.accesses
            }

            fn run(&mut self, flow: &Flow<'_, 'env>) -> Result<(), Payload> {
                let ([$($x),*], ($($y,)*)) = (&mut self.declared.accesses, &mut self.declared.given);
                catch_unwind(AssertUnwindSafe(|| (self.closure)(flow, $($y.give($x)),*)))
            }

            fn combine(&mut self) -> Result<(), Payload> {
                let ([$($x),*], ($($y,)*)) = (&mut self.declared.accesses, &mut self.declared.given);
                $($y.combine($x)?;)*
                Ok(())
            }
        }

        impl<'env, M: Maker<'env>, $($access: Declare<'env> + 'env),*>
            TaskBuilder<'_, 'env, M, Declared<'env, ($($access,)*), $n>>
        {
            #[inline]
            #[track_caller]
            fn make<F>(self, closure: F) -> TaskId
            where
                F: for<'a> FnMut(&'a Flow<'a, 'env>, $(<$access as Gives<'a>>::Out),*) + Send + 'env,
            {
                self.make_with(|declared| Task { declared, closure })
            }

            #[doc = $doc]
            ///
            /// It runs again whenever its graph does, if that is a [`KeptGraph`](super::KeptGraph); else once.
            #[inline]
            #[track_caller]
            pub fn again<F>(self, mut f: F) -> TaskId
            where
                F: for<'a> FnMut($(<$access as Gives<'a>>::Out),*) + Send + 'env,
            {
                self.make(move |_, $($x),*| f($($x),*))
            }
        }

        impl<'f, 'env, $($access: Declare<'env> + 'env),*>
            TaskBuilder<'_, 'env, Flow<'f, 'env>, Declared<'env, ($($access,)*), $n>>
        {
            #[doc = $doc]
            #[inline]
            #[track_caller]
            pub fn run<F>(self, f: F) -> TaskId
            where
                F: for<'a> FnOnce($(<$access as Gives<'a>>::Out),*) + Send + 'env,
            {
                let mut f = Some(f);
                self.make(move |_, $($x),*| (f.take().expect(ONCE))($($x),*))
            }

            #[doc = $doc]
            ///
            /// Gives a handle for the closure's result.
            #[track_caller]
            pub fn result<R, F>(mut self, f: F) -> TaskHandle<'f, 'env, R>
            where
                R: Send + 'env,
                F: for<'a> FnOnce($(<$access as Gives<'a>>::Out),*) -> R + Send + 'env,
            {
                self.has_handle = true;
                TaskHandle::new(self.maker, |promise| self.run(move |$($x),*| promise.keep(f($($x),*))))
            }

            #[doc = $doc]
            ///
            /// The closure may make tasks itself. It gets for that a [`Flow`] of its own, in which it may also wait for them. They declare what this task has
            /// declared, or parts of it; what only they need it declares [weakly](TaskBuilder::weak_inout). The task is over when they are.
            #[track_caller]
            pub fn nest<F>(mut self, f: F) -> TaskId
            where
                F: for<'a> FnOnce(&'a Flow<'a, 'env>, $(<$access as Gives<'a>>::Out),*) + Send + 'env,
            {
                let mut f = Some(f);
                self.spec.nests = true;
                self.make(move |flow, $($x),*| (f.take().expect(ONCE))(flow, $($x),*))
            }
        }
    };
}

const ONCE: &str = "a task runs once";

and!(0 1);
and!(1 2 A a);
and!(2 3 A a, B b);
and!(3 4 A a, B b, C c);
and!(4 5 A a, B b, C c, D d);
and!(5 6 A a, B b, C c, D d, E e);
and!(6 7 A a, B b, C c, D d, E e, G g);
and!(7 8 A a, B b, C c, D d, E e, G g, H h);
arity!("Makes the task: `f` runs when it may."; 0;);
arity!("Makes the task: `f` runs when it may, with its access."; 1; A a x);
arity!("Makes the task: `f` runs when it may, with its accesses."; 2; A a x, B b y);
arity!("Makes the task: `f` runs when it may, with its accesses."; 3; A a x, B b y, C c z);
arity!("Makes the task: `f` runs when it may, with its accesses."; 4; A a x, B b y, C c z, D d u);
arity!("Makes the task: `f` runs when it may, with its accesses."; 5; A a x, B b y, C c z, D d u, E e v);
arity!("Makes the task: `f` runs when it may, with its accesses."; 6; A a x, B b y, C c z, D d u, E e v, G g w);
arity!("Makes the task: `f` runs when it may, with its accesses."; 7; A a x, B b y, C c z, D d u, E e v, G g w, H h s);
arity!("Makes the task: `f` runs when it may, with its accesses."; 8; A a x, B b y, C c z, D d u, E e v, G g w, H h s, I i t);
