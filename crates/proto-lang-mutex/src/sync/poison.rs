//! Poison: std's mark on data whose holder panicked. The mark is a flag of the construct's environment, set by its release
//! when the core says that the timeline unwinds by a panic of its own, and not because it was cancelled [design rule 12].

use std::sync::{LockResult, PoisonError, TryLockError, TryLockResult};

/// What `lock` returns for a guard of data that are `poisoned` or not.
#[inline]
pub(crate) fn result<G>(guard: G, poisoned: bool) -> LockResult<G> {
    if poisoned { Err(PoisonError::new(guard)) } else { Ok(guard) }
}

/// What `try_lock` returns; `None` where somebody else holds the lock.
#[inline]
pub(crate) fn try_result<G>(guard: Option<(G, bool)>) -> TryLockResult<G> {
    match guard {
        None => Err(TryLockError::WouldBlock),
        Some((guard, true)) => Err(TryLockError::Poisoned(PoisonError::new(guard))),
        Some((guard, false)) => Ok(guard),
    }
}
