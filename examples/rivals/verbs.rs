//! The verbs of the examples as plain code, of ours, and of rayon.

#![allow(dead_code, reason = "each example uses some of them")]

use std::cmp::Ordering;

use proto_lang_tasks as tasks;
use rayon::prelude::*;

use super::With;

impl With {
    /// Both, potentially in parallel.
    pub(crate) fn join<A: Send, B: Send>(self, a: impl FnOnce() -> A + Send, b: impl FnOnce() -> B + Send) -> (A, B) {
        match self {
            Self::Plain => (a(), b()),
            Self::Tasks => tasks::join(a, b),
            Self::Rayon => rayon::join(a, b),
        }
    }

    /// `f` for each item.
    pub(crate) fn for_each<T: Send>(self, items: &mut [T], f: impl Fn(&mut T) + Sync + Send) {
        match self {
            Self::Plain => items.iter_mut().for_each(f),
            Self::Tasks => tasks::over(items).for_each(f),
            Self::Rayon => items.par_iter_mut().for_each(f),
        }
    }

    /// What `f` makes of each item, in their order.
    pub(crate) fn map<'t, T: Sync, R: Send>(self, items: &'t [T], f: impl Fn(&'t T) -> R + Sync + Send) -> Vec<R> {
        match self {
            Self::Plain => items.iter().map(f).collect(),
            Self::Tasks => tasks::over(items).map(f),
            Self::Rayon => items.par_iter().map(f).collect(),
        }
    }

    /// What `f` makes of each item, all of it made one by `op`; `None` if there are no items.
    pub(crate) fn map_reduce<'t, T: Sync, R: Send>(
        self,
        items: &'t [T],
        f: impl Fn(&'t T) -> R + Sync + Send,
        op: impl Fn(R, R) -> R + Sync + Send,
    ) -> Option<R> {
        match self {
            Self::Plain => items.iter().map(f).reduce(op),
            Self::Tasks => tasks::over(items).map_reduce(f, op),
            Self::Rayon => items.par_iter().map(f).reduce_with(op),
        }
    }

    /// Sorts; what is equal stays in its order.
    pub(crate) fn sort_by<T: Send>(self, items: &mut [T], compare: impl Fn(&T, &T) -> Ordering + Sync) {
        match self {
            Self::Plain => items.sort_by(compare),
            Self::Tasks => tasks::sort_by(items, compare),
            Self::Rayon => items.par_sort_by(compare),
        }
    }

    /// Sorts; what is equal may change places.
    pub(crate) fn sort_unstable_by<T: Send>(self, items: &mut [T], compare: impl Fn(&T, &T) -> Ordering + Sync) {
        match self {
            Self::Plain => items.sort_unstable_by(compare),
            Self::Tasks => tasks::sort_unstable_by(items, compare),
            Self::Rayon => items.par_sort_unstable_by(compare),
        }
    }
}
