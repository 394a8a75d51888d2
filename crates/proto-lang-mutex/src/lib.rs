//! Vthread: the shapes of [`std::thread`] and [`std::sync`] on virtual processors.
//!
//! A program that uses threads, locks and queues is ported by changing its `use` lines: `std::thread` becomes
//! [`thread`], `std::sync` becomes [`sync`]. What waits then suspends a virtual processor, and its core goes on with other
//! work; a million timelines may wait. Outside a runtime the constructs work as well: an operating-system thread parks,
//! and may share each lock and channel with virtual processors.
//!
//! ```
//! use proto_lang_mutex::sync::{Arc, Mutex, mpsc};
//! use proto_lang_mutex::thread;
//!
//! let total = Arc::new(Mutex::new(0));
//! let (sender, receiver) = mpsc::channel();
//! for part in 1..=4 {
//!     let (total, sender) = (Arc::clone(&total), sender.clone());
//!     thread::spawn(move || {
//!         *total.lock().unwrap() += part;
//!         sender.send(part).unwrap();
//!     });
//! }
//! drop(sender);
//! assert_eq!(receiver.iter().sum::<i32>(), 10);
//! assert_eq!(*total.lock().unwrap(), 10);
//! ```
//!
//! # What differs from std
//!
//! - A wait is a *cancellation point*: in a cancelled virtual processor it unwinds. (Those at the end of a scope, of a scoped join and of
//!   [`atomic`] do so when they are over.) That is no panic: nothing is poisoned.
//! - [`RwLock::read`] asks for `T: Sync`, not the lock's `Sync` for it; every lock has timed forms.
//! - A virtual processor gives its core up in constructs only: a loop without any holds it.
//! - [`thread_local!`](crate::thread_local) is one of this crate's `use` lines: std's own are shared by all virtual processors of a core.
//!
//! # Beyond std
//!
//! [`Semaphore`], timed and `try_` forms, mapped guards, a fair [`select!`] over channels, sends included, and the lineage's own constructs:
//! [`Singleton`], [`atomic`], [`transaction`].
//!
//! # How it is made
//!
//! What every language with owners needs is `proto-core`'s: locks without data, guards, values that are set once, channels. A
//! construct is one of these in std's shape, or an environment of its own (state under one spinlock) with closures that serve its
//! requests, as [`Barrier`] and [`Semaphore`] are: no `unsafe`, no atomics, no queues of runnable threads.

#![forbid(unsafe_code)]

#[macro_use]
mod time;

mod lineage;
mod mpsc;
mod select;
pub mod sync;
pub mod thread;

pub use lineage::{
    OutOfOrder, Singleton, atomic, atomic_timeout, transaction, transaction_timeout, try_atomic, try_transaction,
};
pub use mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
pub use proto_core::{CoreId, vp_local, vp_local as thread_local};
pub use select::Select;
pub use sync::{
    Barrier, BarrierWaitResult, Condvar, LazyLock, MappedMutexGuard, Mutex, MutexGuard, Once, OnceLock, OnceState,
    RwLock, RwLockReadGuard, RwLockWriteGuard, Semaphore, WaitTimeoutResult,
};
pub use thread::{
    Builder, JoinHandle, Scope, ScopedJoinHandle, Thread, ThreadId, available_parallelism, current, park, park_timeout,
    park_until, scope, sleep, sleep_until, spawn, yield_now,
};
