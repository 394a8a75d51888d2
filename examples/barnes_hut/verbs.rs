//! The verbs that the simulation needs, as plain code, of ours, and of rayon.

use proto_lang_tasks as tasks;
use rayon::prelude::*;

use crate::rivals::With;

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
    pub(crate) fn map<T: Sync, R: Send>(self, items: &[T], f: impl Fn(&T) -> R + Sync + Send) -> Vec<R> {
        match self {
            Self::Plain => items.iter().map(f).collect(),
            Self::Tasks => tasks::over(items).map(f),
            Self::Rayon => items.par_iter().map(f).collect(),
        }
    }

    /// Sorts; what has the same key may change places.
    pub(crate) fn sort_unstable_by_key<T: Send, K: Ord>(self, items: &mut [T], key: impl Fn(&T) -> K + Sync) {
        match self {
            Self::Plain => items.sort_unstable_by_key(key),
            Self::Tasks => tasks::sort_unstable_by_key(items, key),
            Self::Rayon => items.par_sort_unstable_by_key(key),
        }
    }
}
