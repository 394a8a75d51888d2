//! Controllers: one for each core, and what they share.
//!
//! | file | what lives there |
//! |---|---|
//! | `builder` | [`Builder`], how a runtime is made |
//! | `handle` | [`Runtime`], the handle, and shutdown |
//! | `current` | [`RuntimeRef`], the runtime that the caller runs in |
//! | `core` | the state of one core |
//! | `controller` | the loop of a controller, and switching |
//! | `send` | how work gets to its core: making ready, new work |
//! | `idle` | what a controller does that has found nothing: search, sleep |
//! | `shared` | what the controllers of a runtime share |
//! | `stacks` | fibers and stacks of a core |
//! | `thread` | the OS thread of a controller |
//! | `timers` | deadlines of a core's VPs |
//! | `watchdog` | the tick, the coarse clock, deadlines of busy cores |
//! | `hogs` | VPs that hold their core |
//! | `attach` | OS threads that are no controllers |
//! | `blocking` | calls that block the OS thread |
//! | `mail` | what other threads ask of a controller |
//! | `activity` | who could still make progress: the ground of certain verdicts |

pub(crate) mod activity;
pub(crate) mod attach;
pub(crate) mod blocking;
mod builder;
pub(crate) mod controller;
pub(crate) mod core;
mod current;
mod handle;
mod hogs;
mod idle;
pub(crate) mod mail;
pub(crate) mod send;
pub(crate) mod shared;
mod stacks;
pub(crate) mod thread;
pub(crate) mod timers;
pub(crate) mod watchdog;

pub use builder::{Builder, RuntimeError};
pub use current::{RuntimeRef, available_parallelism};
pub use handle::{Runtime, ShutdownError};
pub(crate) use stacks::class_of;
