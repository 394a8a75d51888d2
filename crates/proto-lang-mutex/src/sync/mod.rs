//! The shapes of [`std::sync`].
//!
//! | file | what lives there |
//! |---|---|
//! | `mutex`, `condvar` | [`Mutex`] and its guards; [`Condvar`] |
//! | `rwlock` | [`RwLock`] and its guards |
//! | `barrier`, `semaphore` | [`Barrier`], [`Semaphore`] |
//! | `once`, `once_lock`, `lazy_lock` | [`Once`], [`OnceLock`], [`LazyLock`] |
//! | `poison` | what locks with data have in common |
//!
//! What has no wait in it is std's own and comes from there, so that a `use` line can be changed as a whole.

mod barrier;
mod condvar;
mod lazy_lock;
mod mutex;
mod once;
mod once_lock;
mod poison;
mod rwlock;
mod semaphore;

pub use std::sync::{Arc, LockResult, PoisonError, TryLockError, TryLockResult, Weak, atomic};

pub use barrier::{Barrier, BarrierWaitResult};
pub use condvar::{Condvar, WaitTimeoutResult};
pub use lazy_lock::LazyLock;
pub use mutex::{MappedMutexGuard, Mutex, MutexGuard};
pub use once::{Once, OnceState};
pub use once_lock::OnceLock;
pub use rwlock::{MappedRwLockReadGuard, MappedRwLockWriteGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};
pub use semaphore::{Semaphore, SemaphorePermit};

/// The shapes of [`std::sync::mpsc`], with std's own errors.
pub mod mpsc {
    pub use std::sync::mpsc::{RecvError, RecvTimeoutError, SendError, TryRecvError, TrySendError};

    pub use crate::mpsc::{
        IntoIter, Iter, Receiver, SendTimeoutError, Sender, SyncSender, TryIter, channel, sync_channel,
    };
}
