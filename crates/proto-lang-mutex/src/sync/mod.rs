//! The shapes of [`std::sync`].
//!
//! | file | what lives there |
//! |---|---|
//! | `lock`, `raw_lock` | the exclusive lock under [`Mutex`] and [`atomic`](crate::atomic): environment and fairness; operations |
//! | `mutex`, `guard` | [`Mutex`]; its guards |
//! | `condvar` | [`Condvar`] |
//! | `rwlock`, `rwenv`, `rwguard` | [`RwLock`]; its environment and fairness; its guards |
//! | `barrier`, `semaphore` | [`Barrier`], [`Semaphore`] |
//! | `once`, `once_lock`, `lazy_lock` | [`Once`], [`OnceLock`], [`LazyLock`] |
//! | `poison` | how a guard's result is made |
//!
//! What has no wait in it is std's own and comes from there, so that a `use` line can be changed as a whole.

mod barrier;
mod condvar;
mod guard;
mod lazy_lock;
mod lock;
mod mutex;
mod once;
mod once_lock;
mod poison;
mod raw_lock;
mod rwenv;
mod rwguard;
mod rwlock;
mod semaphore;

pub use std::sync::{Arc, LockResult, PoisonError, TryLockError, TryLockResult, Weak, atomic};

pub use barrier::{Barrier, BarrierWaitResult};
pub use condvar::{Condvar, WaitTimeoutResult};
pub use guard::{MappedMutexGuard, MutexGuard};
pub use lazy_lock::LazyLock;
pub use mutex::Mutex;
pub use once::{Once, OnceState};
pub use once_lock::OnceLock;
pub(crate) use raw_lock::RawLock;
pub use rwguard::{MappedRwLockReadGuard, MappedRwLockWriteGuard, RwLockReadGuard, RwLockWriteGuard};
pub use rwlock::RwLock;
pub use semaphore::{Semaphore, SemaphorePermit};

/// The shapes of [`std::sync::mpsc`], with std's own errors.
pub mod mpsc {
    pub use std::sync::mpsc::{RecvError, RecvTimeoutError, SendError, TryRecvError, TrySendError};

    pub use crate::mpsc::{
        IntoIter, Iter, Receiver, SendTimeoutError, Sender, SyncSender, TryIter, channel, sync_channel,
    };
}
