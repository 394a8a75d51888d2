//! proto-runtime: build the run-time system of a parallel language, and run several such languages on one set of cores.
//!
//! This crate re-exports the others; take it if you want them all in step, or each by itself.
//!
//! | I want to | crate | here |
//! |---|---|---|
//! | run a program written for `std::thread` and `std::sync` on very many cheap threads | `proto-lang-mutex` | [`mutex`] (feature `mutex`, on by default) |
//! | compute on all cores: fork and join, loops, sorts; tasks that say what they read and write | `proto-lang-tasks` | [`tasks`] (feature `tasks`, on by default) |
//! | write a language: constructs of my own, or another order of the work | `proto-core` | [`core`] |
//! | start, watch and stop a runtime; let foreign code wake what waits | `proto-core` | [`core`] |
//! | know the machine, pin, switch stacks, sleep and wake, without a runtime | `proto-arch` | [`arch`] |
//!
//! A *library* that only wants parallelism needs no runtime of its own: what it creates belongs to the runtime that its caller
//! runs in, or to the program's default one. See `docs/porting.md`.
//!
//! # Examples
//!
//! Ten thousand threads and a lock, in the shapes of the standard library:
//!
//! ```
//! use proto_runtime::core::Runtime;
//! use proto_runtime::mutex::{sync::Mutex, thread};
//!
//! let runtime = Runtime::builder().build()?;
//! let total = Mutex::new(0_u64);
//! runtime.run(|| {
//!     thread::scope(|s| {
//!         for n in 0..10_000 {
//!             let total = &total;
//!             s.spawn(move || *total.lock().unwrap() += n);
//!         }
//!     })
//! })?;
//! assert_eq!(total.into_inner()?, 49_995_000);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A computation on all cores, and nothing said of threads:
//!
//! ```
//! use proto_runtime::core::Runtime;
//! use proto_runtime::tasks;
//!
//! let words = Runtime::builder().build()?.run(|| {
//!     let mut words: Vec<&str> = "the quick brown fox jumps over the lazy dog".split(' ').collect();
//!     tasks::sort(&mut words);
//!     words
//! })?;
//! assert!(words.is_sorted());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A whole new language, its meaning and its wrapper, stands in the README; one with an assigner of its own is
//! `examples/new_language.rs`.
//!
//! # Features
//!
//! - `mutex` (default): the language Vthread, [`mutex`].
//! - `tasks` (default): the language Tasks, [`tasks`].
//! - `hwloc`: [`Topology::system`](arch::topology::Topology::system) reads the machine from libhwloc. Without it, or where the library is not
//!   installed, the operating system is asked. Off by default: a program outside this workspace needs either the library, or the lines of our
//!   `.cargo/config.toml`, to build with it.
//! - `migrate`: virtual processors that may change their core after they have started, an `unsafe` opt-in for each.

pub use proto_arch as arch;
pub use proto_core as core;
#[cfg(feature = "mutex")]
pub use proto_lang_mutex as mutex;
#[cfg(feature = "tasks")]
pub use proto_lang_tasks as tasks;

/// The programs in the README and on the porting page, compiled and run.
#[cfg(all(doctest, feature = "mutex", feature = "tasks"))]
mod pages {
    #[doc = include_str!("../README.md")]
    mod read_me {}
    #[doc = include_str!("../docs/porting.md")]
    mod porting {}
}
