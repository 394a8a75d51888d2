//! What [`Mutex`](super::Mutex) and [`RwLock`](super::RwLock) have in common: data beside a lock, and std's mark on data whose
//! holder panicked, *poison*. The mark is a flag of the lock, set when a guard comes back and the core says that the timeline
//! unwinds by a panic of its own, and not because it was cancelled [design rule 12].

use std::sync::{LockResult, PoisonError, TryLockError, TryLockResult};

/// What `lock` returns for a guard of data that are `poisoned` or not.
#[inline]
pub(super) fn result<G>(guard: G, poisoned: bool) -> LockResult<G> {
    if poisoned { Err(PoisonError::new(guard)) } else { Ok(guard) }
}

/// What `try_lock` returns; `None` where somebody else holds the lock.
#[inline]
pub(super) fn try_result<G>(guard: Option<LockResult<G>>) -> TryLockResult<G> {
    Ok(guard.ok_or(TryLockError::WouldBlock)??)
}

/// A type of data beside a lock without data, and what does not depend on the lock's kind. `$try` is how its data are looked at to
/// be shown. (Two types, not one with a parameter: users read their names, and make them in constants.)
macro_rules! lock_with_data {
    ($(#[$doc:meta])* $name:ident, $raw:ident, $try:ident $(, $bound:ident)?) => {
        $(#[$doc])*
        pub struct $name<T: ?Sized> {
            lock: $raw,
            data: Guarded<T>,
        }

        impl<T: ?Sized> std::panic::UnwindSafe for $name<T> {}
        impl<T: ?Sized> std::panic::RefUnwindSafe for $name<T> {}

        impl<T> $name<T> {
            /// A free lock around `value`. Reports name it by the place of this call.
            #[track_caller]
            pub const fn new(value: T) -> Self {
                $name { lock: $raw::new(), data: Guarded::new(value) }
            }

            /// The data.
            ///
            /// # Errors
            ///
            /// If they are poisoned; the error has them.
            pub fn into_inner(mut self) -> LockResult<T> {
                let poisoned = self.lock.get_poisoned();
                poison::result(self.data.into_inner(), poisoned)
            }
        }

        impl<T: ?Sized> $name<T> {
            /// Whether a holder who could change the data panicked. Says nothing about what comes next, unless the caller holds
            /// the lock.
            pub fn is_poisoned(&self) -> bool {
                self.lock.is_poisoned()
            }

            /// Declares the data sound again.
            pub fn clear_poison(&self) {
                self.lock.set_poisoned(false);
            }

            /// The data, without locking: nobody else has the lock.
            ///
            /// # Errors
            ///
            /// If they are poisoned; the error has them.
            pub fn get_mut(&mut self) -> LockResult<&mut T> {
                let poisoned = self.lock.get_poisoned();
                poison::result(self.data.get_mut(), poisoned)
            }
        }

        impl<T> From<T> for $name<T> {
            #[track_caller]
            fn from(value: T) -> Self {
                $name::new(value)
            }
        }

        impl<T: Default> Default for $name<T> {
            #[track_caller]
            fn default() -> Self {
                $name::new(T::default())
            }
        }

        impl<T: ?Sized + std::fmt::Debug $(+ $bound)?> std::fmt::Debug for $name<T> {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                let mut shown = f.debug_struct(stringify!($name));
                match self.$try() {
                    Ok(guard) => shown.field("data", &&*guard),
                    Err(TryLockError::Poisoned(error)) => shown.field("data", &&**error.get_ref()),
                    Err(TryLockError::WouldBlock) => shown.field("data", &format_args!("<locked>")),
                };
                shown.field("poisoned", &self.is_poisoned()).finish_non_exhaustive()
            }
        }
    };
}
pub(super) use lock_with_data;
