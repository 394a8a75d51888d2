//! What a task declares, and how its closure gets it.

use std::fmt;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};

use proto_core::{Keyed, Opened, OpenedShared, RangeGrant, SharedRange};

use super::builder::{Maker, TaskBuilder};
use super::data::{Chain, Data, Part, Target};
use super::flow::{Flow, TaskHandle, TaskId};
use super::graph::NONE;
use super::job::{Body, Payload};
use super::lanes::{Mode, Token};

/// An access of a task, as the graph sees it.
#[derive(Debug)]
pub struct Access<'env> {
    pub(super) chain: &'env Keyed<Chain>,
    pub(super) range: Range<usize>,
    pub(super) mode: Mode,
    /// Only for what the task makes.
    pub(super) weak: bool,
    /// In which access of its parent it is.
    pub(super) inner: u32,
    /// While the task runs: the right to do so.
    pub(super) token: Token,
}

impl<'env> Access<'env> {
    pub(super) fn new(target: &impl Target<'env>, mode: Mode) -> Access<'env> {
        let (chain, range) = target.place();
        Access { chain, range, mode, weak: false, inner: NONE, token: Token::None }
    }

    /// The same, without the right to it.
    pub(super) fn twin(&self) -> Access<'env> {
        Access { range: self.range.clone(), token: Token::None, ..*self }
    }

    /// Whether a task that has this one may make one that has the other.
    pub(super) fn covers(&self, other: &Access<'env>) -> bool {
        let within = self.range.start <= other.range.start && other.range.end <= self.range.end;
        let more = matches!(self.mode, Mode::INOUT | Mode::OUTPUT) || (self.mode.shares() && self.mode == other.mode);
        std::ptr::eq(self.chain, other.chain) && within && more
    }

    #[inline]
    pub(super) fn take(&mut self) -> Token {
        std::mem::replace(&mut self.token, Token::None)
    }

    fn overlaps(&self, other: &Access<'_>) -> bool {
        let overlap = self.range.start < other.range.end && other.range.start < self.range.end;
        std::ptr::eq(std::ptr::from_ref(self.chain), std::ptr::from_ref(other.chain).cast()) && overlap
    }

    /// Whether one task cannot have both.
    pub(super) fn excludes(&self, other: &Access<'env>) -> bool {
        self.overlaps(other) && !(self.mode == other.mode && self.mode.shares())
    }

    /// Whether the other, of a later task, waits for this one.
    pub(super) fn orders(&self, other: &Access<'_>) -> bool {
        self.overlaps(other) && (self.mode != other.mode || matches!(self.mode, Mode::INOUT | Mode::OUTPUT))
    }
}

/// What the closure of a task gets for an access.
///
/// (`Bound` says that `'a` is no longer than what the access borrows.)
pub trait Gives<'a, Bound = &'a Self> {
    /// `&T`, `&mut T`, …
    type Out;
}

/// An access that a task has declared.
pub trait Declare<'env>: for<'a> Gives<'a> + Send + sealed::Declare<'env> {}
impl<'env, A: for<'a> Gives<'a> + Send + sealed::Declare<'env>> Declare<'env> for A {}

pub(super) mod sealed {
    use super::{Access, Gives, Payload};

    pub trait Declare<'env>: for<'a> Gives<'a> {
        type Opened;
        fn access(&self) -> Access<'env>;
        fn open(&self, access: &mut Access<'env>) -> Self::Opened;
        fn give<'a>(&'a mut self, opened: &'a mut Self::Opened) -> <Self as Gives<'a>>::Out;
        fn close(opened: Self::Opened, access: &mut Access<'env>);
        /// Puts what the task has made for itself into the datum.
        fn combine(&mut self, _: &mut Access<'env>) -> Result<(), Payload> {
            Ok(())
        }
    }
}

/// `input` or `concurrent`: the closure gets `&T`.
#[derive(Debug)]
pub struct ReadAccess<P> {
    target: P,
    mode: Mode,
}

/// `output`, `inout`, or `commutative`: the closure gets `&mut T`.
#[derive(Debug)]
pub struct WriteAccess<P> {
    target: P,
    mode: Mode,
}

/// `reduction`: the closure gets `&mut T`, of a value of its own.
pub struct ReduceAccess<'env, T> {
    data: &'env Data<T>,
    operation: &'env Reduction<T>,
    own: Option<T>,
}

impl<T> fmt::Debug for ReduceAccess<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reduce").finish_non_exhaustive()
    }
}

/// An operation with which tasks add up: what each begins with, and how what it made is put into the datum.
///
/// Tasks in a row that declare a [`reduction`](super::TaskBuilder::reduction) with the same one, at the same address, may run at once. The operation
/// has to be associative and commutative: in which order it is applied is not promised.
pub struct Reduction<T> {
    start: fn() -> T,
    combine: fn(&mut T, T),
}

impl<T> fmt::Debug for Reduction<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reduction").finish_non_exhaustive()
    }
}

impl<T> Reduction<T> {
    /// An operation; `start` gives its neutral element.
    pub const fn new(start: fn() -> T, combine: fn(&mut T, T)) -> Reduction<T> {
        Reduction { start, combine }
    }
}

impl<P> ReadAccess<P> {
    pub(super) fn new(target: P, mode: Mode) -> ReadAccess<P> {
        ReadAccess { target, mode }
    }
}

impl<P> WriteAccess<P> {
    pub(super) fn new(target: P, mode: Mode) -> WriteAccess<P> {
        WriteAccess { target, mode }
    }
}

impl<'env, T> ReduceAccess<'env, T> {
    pub(super) fn new(data: &'env Data<T>, operation: &'env Reduction<T>) -> Self {
        ReduceAccess { data, operation, own: None }
    }
}

/// Declares an access that opens the cell of its datum with a token.
macro_rules! opens {
    ($access:ident<$target:ty>, $($sync:ident)?; $opened:ty; $token:ident; $open:ident; ($($cell:ident).+) => $out:ty) => {
        impl<'a, 'env, T> Gives<'a> for $access<$target> {
            type Out = $out;
        }

        impl<'env, T: Send $(+ $sync)?> sealed::Declare<'env> for $access<$target> {
            type Opened = $opened;

            fn access(&self) -> Access<'env> {
                Access::new(&self.target, self.mode)
            }

            #[inline]
            fn open(&self, access: &mut Access<'env>) -> Self::Opened {
                match access.take() {
                    Token::$token(token) => self.target.$($cell.)+$open(token),
                    token => unreachable!("a task that runs has not what it declared, but {token:?}"),
                }
            }

            #[inline]
            fn give<'a>(&'a mut self, opened: &'a mut Self::Opened) -> $out {
                opened
            }

            #[inline]
            fn close(opened: Self::Opened, access: &mut Access<'env>) {
                access.token = Token::$token(opened.close());
            }
        }
    };
}

opens!(ReadAccess<&'env Data<T>>, Sync; OpenedShared<'env, T>; Shared; open_shared; (value) => &'a T);
opens!(WriteAccess<&'env Data<T>>,; Opened<'env, T>; Whole; open; (value) => &'a mut T);
opens!(ReadAccess<Part<'env, T>>, Sync; OpenedShared<'env, [T], SharedRange>; SharedRange; open_shared_range; (data.value) => &'a [T]);
opens!(WriteAccess<Part<'env, T>>,; Opened<'env, [T], RangeGrant>; Range; open_range; (data.value) => &'a mut [T]);

impl<'a, T> Gives<'a> for ReduceAccess<'_, T> {
    type Out = &'a mut T;
}

impl<'env, T: Send> sealed::Declare<'env> for ReduceAccess<'env, T> {
    type Opened = ();

    fn access(&self) -> Access<'env> {
        Access::new(&self.data, Mode::reduce(self.operation))
    }

    fn open(&self, _: &mut Access<'env>) {}

    fn give<'a>(&'a mut self, (): &'a mut ()) -> &'a mut T {
        self.own.get_or_insert_with(self.operation.start)
    }

    fn close((): (), _: &mut Access<'env>) {}

    fn combine(&mut self, access: &mut Access<'env>) -> Result<(), Payload> {
        let (Token::Whole(token), Some(own)) = (access.take(), self.own.take()) else {
            unreachable!("a task is combined when it has run and has the datum")
        };
        let mut opened = self.data.value.open(token);
        let outcome = catch_unwind(AssertUnwindSafe(|| (self.operation.combine)(&mut opened, own)));
        access.token = Token::Whole(opened.close());
        outcome
    }
}

/// The accesses of a task, and how one more comes behind them.
pub trait Accesses<'env>: Send {
    /// With one of `A` behind.
    type And<A>;
    #[doc(hidden)]
    fn and<A>(self, access: A) -> Self::And<A>;
}

/// A task's closure and its accesses.
pub(super) struct Task<A, F> {
    pub(super) declared: A,
    pub(super) closure: F,
}

macro_rules! and {
    ($($access:ident $at:tt),*) => {
        impl<'env, $($access: Declare<'env>,)*> Accesses<'env> for ($($access,)*) {
            type And<New> = ($($access,)* New,);
            #[inline]
            fn and<New>(self, access: New) -> ($($access,)* New,) {
                ($(self.$at,)* access,)
            }
        }
    };
}

and!();
and!(A 0);
and!(A 0, B 1);
and!(A 0, B 1, C 2);
and!(A 0, B 1, C 2, D 3);
and!(A 0, B 1, C 2, D 3, E 4);
and!(A 0, B 1, C 2, D 3, E 4, G 5);
and!(A 0, B 1, C 2, D 3, E 4, G 5, H 6);

macro_rules! arity {
    ($doc:literal; $($access:ident $at:tt $opened:ident),*) => {
        #[allow(unused_variables, reason = "there may be no accesses")]
        impl<'env, $($access: Declare<'env>,)* F> Body<'env> for Task<($($access,)*), F>
        where
            F: for<'a> FnMut(&'a Flow<'a, 'env>, $(<$access as Gives<'a>>::Out),*) + Send,
        {
            fn run(&mut self, accesses: &mut [Access<'env>], flow: &Flow<'_, 'env>) -> Result<(), Payload> {
                $(let mut $opened = self.declared.$at.open(&mut accesses[$at]);)*
                let f = AssertUnwindSafe(|| (self.closure)(flow, $(self.declared.$at.give(&mut $opened)),*));
                let outcome = catch_unwind(f);
                $($access::close($opened, &mut accesses[$at]);)*
                outcome
            }

            fn combine(&mut self, accesses: &mut [Access<'env>]) -> Result<(), Payload> {
                $(self.declared.$at.combine(&mut accesses[$at])?;)*
                Ok(())
            }
        }

        impl<'env, M: Maker<'env>, $($access: Declare<'env> + 'env,)*> TaskBuilder<'_, 'env, M, ($($access,)*)> {
            #[inline]
            #[track_caller]
            fn make<F>(self, f: F) -> TaskId
            where
                F: for<'a> FnMut(&'a Flow<'a, 'env>, $(<$access as Gives<'a>>::Out),*) + Send + 'env,
            {
                let accesses = [$(self.accesses.$at.access()),*];
                self.make_with(accesses, |declared| Task { declared, closure: f })
            }
        }

        impl<'f, 'env, $($access: Declare<'env> + 'env,)*> TaskBuilder<'_, 'env, Flow<'f, 'env>, ($($access,)*)> {
            #[doc = $doc]
            #[inline]
            #[track_caller]
            pub fn run<F>(self, f: F) -> TaskId
            where
                F: for<'a> FnOnce($(<$access as Gives<'a>>::Out),*) + Send + 'env,
            {
                let mut f = Some(f);
                self.make(move |_, $($opened),*| (f.take().expect(ONCE))($($opened),*))
            }

            #[doc = $doc]
            ///
            /// Gives a handle for the closure's result.
            #[track_caller]
            pub fn result<R, F>(self, f: F) -> TaskHandle<'f, 'env, R>
            where
                R: Send + 'env,
                F: for<'a> FnOnce($(<$access as Gives<'a>>::Out),*) -> R + Send + 'env,
            {
                let (promise, handle) = TaskHandle::new(self.maker);
                handle.of(self.kept().run(move |$($opened),*| promise.set(f($($opened),*))))
            }
        }

        impl<'f, 'env, $($access: Declare<'env> + 'env,)*> TaskBuilder<'_, 'env, Flow<'f, 'env>, ($($access,)*)> {
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
                self.nests = true;
                self.make(move |flow, $($opened),*| (f.take().expect(ONCE))(flow, $($opened),*))
            }
        }

        impl<'env, M: Maker<'env>, $($access: Declare<'env> + 'env,)*> TaskBuilder<'_, 'env, M, ($($access,)*)> {
            #[doc = $doc]
            ///
            /// It runs again whenever its graph does, if that is a [`KeptGraph`](super::KeptGraph); else once.
            #[track_caller]
            pub fn again<F>(self, mut f: F) -> TaskId
            where
                F: for<'a> FnMut($(<$access as Gives<'a>>::Out),*) + Send + 'env,
            {
                self.make(move |_, $($opened),*| f($($opened),*))
            }
        }
    };
}

const ONCE: &str = "a task runs once";

arity!("Makes the task: `f` runs when it may.";);
arity!("Makes the task: `f` runs when it may, with its access."; A 0 a);
arity!("Makes the task: `f` runs when it may, with its accesses."; A 0 a, B 1 b);
arity!("Makes the task: `f` runs when it may, with its accesses."; A 0 a, B 1 b, C 2 c);
arity!("Makes the task: `f` runs when it may, with its accesses."; A 0 a, B 1 b, C 2 c, D 3 d);
arity!("Makes the task: `f` runs when it may, with its accesses."; A 0 a, B 1 b, C 2 c, D 3 d, E 4 e);
arity!("Makes the task: `f` runs when it may, with its accesses."; A 0 a, B 1 b, C 2 c, D 3 d, E 4 e, G 5 g);
arity!("Makes the task: `f` runs when it may, with its accesses."; A 0 a, B 1 b, C 2 c, D 3 d, E 4 e, G 5 g, H 6 h);
arity!("Makes the task: `f` runs when it may, with its accesses."; A 0 a, B 1 b, C 2 c, D 3 d, E 4 e, G 5 g, H 6 h, I 7 i);
