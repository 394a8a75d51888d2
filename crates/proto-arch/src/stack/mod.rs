//! Stacks by the million: lazily committed, guarded, pooled.
//!
//! A [`StackArena`] hands out [`Stack`]s of one size. It asks the kernel for big regions, so that a million stacks are
//! some thirty mappings and not a million; the kernel gives memory to a page when it is first touched.
//!
//! ```text
//!   one region (one mapping)
//!   ├── guard ──┬──────────── stack 0 ────────────┼── guard ──┬──────────── stack 1 ────────────┼── …
//!   │           │◄─ limit                   base ─►│          │
//!   │  touching │  untouched: costs address space  │
//!   │  it traps │  ◄───── grows this way ── touched│
//! ```
//!
//! # Guards
//!
//! Rust relies on a page below each stack that traps ([`overflow`](crate::overflow) turns the trap into a clear line).
//! Protecting a page splits a mapping in two, and the kernel limits a process to some 65,530 mappings; so a page is
//! *marked* as a guard instead (`MADV_GUARD_INSTALL`, Linux 6.13), which costs no mapping. On older kernels the arena
//! falls back to `mprotect` within a budget of half the mappings that are left, and refuses the stack after that with
//! an error that says how many fit and what to change ([`StackError`]): a process that truly runs out of mappings cannot
//! even print a panic.
//!
//! A guard is installed when its stack is handed out for the first time (0.7 µs), never again.
//!
//! # Why bases are shifted
//!
//! If all stacks started at the end of a page, the hot lines of all suspended VPs would compete for the same few sets of
//! the first- and second-level caches. So bases are shifted against each other by 64 bytes, 16 times, then again from the
//! start: resuming 1,000 fibers in turn went from 6.4 to 3.1 ns each, 100 from 4.4 to 2.9 (at a million, memory decides
//! and nothing changes). Shifting over more lines gained nothing further and costs room in the one page that a shallow
//! stack should need.
//!
//! # Files
//!
//! `map.rs` is the system calls, `region.rs` one region and its book-keeping (16 bytes a stack), `registry.rs` finds the
//! stack an address belongs to from inside a signal handler, `arena.rs` the pool, `error.rs` the errors.

mod arena;
mod error;
mod map;
mod region;
pub(crate) mod registry;

pub use arena::{Guards, StackArena, StackOptions};
pub use error::StackError;
pub(crate) use map::Mapping;
pub use region::Stack;

/// The size of a stack if nothing else is asked for: 256 KiB of address space; memory is used as it is touched.
///
/// # Examples
///
/// ```
/// use proto_arch::stack::{DEFAULT_SIZE, StackArena, StackOptions};
///
/// let arena = StackArena::new(StackOptions::default())?;
/// assert_eq!(arena.stack_size(), DEFAULT_SIZE);
/// # Ok::<(), proto_arch::stack::StackError>(())
/// ```
pub const DEFAULT_SIZE: usize = 256 * 1024;

/// The smallest size of a stack. A panic that prints a backtrace needs 23 KiB.
///
/// # Examples
///
/// ```
/// use proto_arch::stack::{MIN_SIZE, StackArena, StackOptions};
///
/// /// As small as was wished, and no smaller than is possible.
/// fn small(bytes: usize) -> StackOptions {
///     StackOptions::with_size(bytes.max(MIN_SIZE))
/// }
/// assert!(StackArena::new(small(1)).is_ok());
/// assert!(StackArena::new(StackOptions::with_size(MIN_SIZE - 1)).is_err());
/// ```
pub const MIN_SIZE: usize = 32 * 1024;

#[cfg(test)]
mod tests;
