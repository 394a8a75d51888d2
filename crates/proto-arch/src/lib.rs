//! The machine layer of proto-runtime: everything that knows the processor or the operating system.
//!
//! | need | module |
//! |---|---|
//! | run code on a stack of its own and switch to and from it | [`fiber`] |
//! | a million such stacks, guarded, pooled, given back | [`stack`] |
//! | a clear line when one of them overflows | [`overflow`] |
//! | put an OS thread to sleep and wake it | [`park`] |
//! | order a fast path against a rare one without a fence in the fast one | [`barrier`] |
//! | have a line of memory by the time it is written | [`cache`] |
//! | time in nanoseconds for the price of reading a register | [`clock`] |
//! | which processors there are, and which share what | [`topology`] |
//! | how long an OS thread has really run | [`usage`] |
//! | stay on one of them; how many we may use at all | [`pin`] |
//!
//! Nothing here knows what a virtual processor, a task or a language is; that is `proto-core`. All the code that
//! is close to assembly or to system calls is here, so that the rest of the workspace has none.
//!
//! # Platforms
//!
//! Linux on x86-64 and AArch64. Under [Miri](https://github.com/rust-lang/miri) the crate works with the
//! [`Thread`](fiber::Backend::Thread) back end of [`fiber`] and with full fences in [`barrier`].

#[cfg(not(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"))))]
compile_error!(
    "proto-arch supports Linux on x86-64 and AArch64: its stacks, its overflow report and its clock are written for them"
);

pub mod barrier;
pub mod cache;
pub mod clock;
pub mod fiber;
pub mod overflow;
pub mod park;
pub mod pin;
pub mod stack;
pub mod topology;
pub mod usage;
