//! Loom's atomics, with two additions.
//!
//! **A model can leave an ordering out** ([`without`]): what it is then found to do wrong shows that the ordering was needed, and that the
//! model can see it. The kernels stay as they are. The orderings of one kind of operation go together: all Releases of swaps, say. A model's
//! threads are coroutines of the one OS thread that runs its test, so what is left out is that thread's.
//!
//! **Every access takes a turn**, by an exchange of a word beside. Loom looks for another order of two accesses only where the later one
//! depends on the *last* access before it, and a thread's own load hides what others did before that (tokio-rs/loom#166, #392): with a
//! load before each compare-exchange, as most of our kernels have it, whole orders were left out. No model of the inbox ever saw a take that
//! came between two pushes. Exchanges all depend on one another, and Relaxed ones tell nobody anything. It multiplies the orders to be
//! run: `LOOM_TURNS=0` does without, so that a deeper run of the others ends.

use std::cell::RefCell;
use std::sync::LazyLock;

use loom::sync::atomic::{self, Ordering};

/// What is left out of an ordering.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Half {
    Acquire,
    Release,
}

/// Of which operations.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Of {
    Loads,
    Stores,
    Swaps,
    /// Compare-exchanges that succeed …
    Exchanges,
    /// … and those that fail.
    FailedExchanges,
    /// `fetch_add` and the like.
    Updates,
}

thread_local! {
    static LEFT_OUT: RefCell<Vec<(Half, Of)>> = const { RefCell::new(Vec::new()) };
}

/// Runs a model with `half` left out of the orderings of all `of`; may be nested.
pub(crate) fn without(half: Half, of: Of, model: impl FnOnce()) {
    /// Also when the model fails, which is what it is there for.
    struct Restore;
    impl Drop for Restore {
        fn drop(&mut self) {
            LEFT_OUT.with_borrow_mut(|left_out| left_out.pop());
        }
    }
    LEFT_OUT.with_borrow_mut(|left_out| left_out.push((half, of)));
    let _restore = Restore;
    model();
}

fn left(of: Of, order: Ordering) -> Ordering {
    let is_out = |half| LEFT_OUT.with_borrow(|left_out| left_out.contains(&(half, of)));
    match order {
        Ordering::Acquire if is_out(Half::Acquire) => Ordering::Relaxed,
        Ordering::Release if is_out(Half::Release) => Ordering::Relaxed,
        Ordering::AcqRel => match (is_out(Half::Acquire), is_out(Half::Release)) {
            (false, false) => Ordering::AcqRel,
            (false, true) => Ordering::Acquire,
            (true, false) => Ordering::Release,
            (true, true) => Ordering::Relaxed,
        },
        order => order,
    }
}

/// See the head of this file.
#[derive(Debug)]
struct Turn(Option<atomic::AtomicU32>);

impl Turn {
    fn new() -> Self {
        static WANTED: LazyLock<bool> =
            LazyLock::new(|| std::env::var_os("LOOM_TURNS").is_none_or(|value| value != "0"));
        Self(WANTED.then(|| atomic::AtomicU32::new(0)))
    }

    fn take(&self) {
        if let Some(turn) = &self.0 {
            turn.swap(0, Ordering::Relaxed);
        }
    }
}

macro_rules! atomic {
    ($name:ident $(<$of:ident>)?, $value:ty, $($exchange:ident)*, $($update:ident)*) => {
        #[derive(Debug)]
        pub(crate) struct $name $(<$of>)? {
            it: atomic::$name $(<$of>)?,
            turn: Turn,
        }

        impl $(<$of>)? $name $(<$of>)? {
            #[track_caller]
            pub(crate) fn new(value: $value) -> Self {
                Self { it: atomic::$name::new(value), turn: Turn::new() }
            }

            #[track_caller]
            pub(crate) fn load(&self, order: Ordering) -> $value {
                self.turn.take();
                self.it.load(left(Of::Loads, order))
            }

            #[track_caller]
            pub(crate) fn store(&self, value: $value, order: Ordering) {
                self.turn.take();
                self.it.store(value, left(Of::Stores, order));
            }

            #[track_caller]
            pub(crate) fn swap(&self, value: $value, order: Ordering) -> $value {
                self.turn.take();
                self.it.swap(value, left(Of::Swaps, order))
            }

            $(
                #[track_caller]
                pub(crate) fn $exchange(
                    &self,
                    old: $value,
                    new: $value,
                    done: Ordering,
                    failed: Ordering,
                ) -> Result<$value, $value> {
                    self.turn.take();
                    self.it.$exchange(old, new, left(Of::Exchanges, done), left(Of::FailedExchanges, failed))
                }
            )*

            $(
                #[track_caller]
                pub(crate) fn $update(&self, value: $value, order: Ordering) -> $value {
                    self.turn.take();
                    self.it.$update(value, left(Of::Updates, order))
                }
            )*
        }
    };
}

atomic!(AtomicPtr<T>, *mut T, compare_exchange compare_exchange_weak,);
atomic!(AtomicU32, u32, compare_exchange compare_exchange_weak, fetch_add fetch_sub fetch_and fetch_or);
atomic!(AtomicU64, u64, compare_exchange compare_exchange_weak, fetch_add fetch_sub);
