//! The lock-free kernels: the few places of this crate where two threads race on purpose.
//!
//! | file | what it is | its race |
//! |---|---|---|
//! | `spin` | the lock word of an environment | two lockers; unlock against a sleeping waiter |
//! | `inbox` | work sent to one core | a push against the owner that takes all |
//! | `done` | a job that another core may run | its end against who comes to wait, takes it back, or gives it up |
//! | `ends` | whether all that a process created has ended | the last ends, on several cores, against the seed's |
//! | `latent` | work of one core that others may steal | the owner's pop against a thief, at the last entry |
//! | `tally` | how many tasks of a scope are still to end | an end against the close |
//! | `sleep` | who sleeps, who wakes whom | a core that parks against the work that just appears |
//! | `wait` | the one end of a wait | answer, deadline, cancel, drop |
//!
//! Each file argues its own correctness in its head, and `model/` lets loom try to refute it:
//! `RUSTFLAGS="--cfg loom" LOOM_MAX_PREEMPTIONS=2 cargo test -p proto-core --release --lib`. Nothing here knows of
//! VPs, environments or controllers; what the rest of the crate must guarantee is under *Safety* or *Duties*.

pub(crate) mod done;
pub(crate) mod ends;
pub(crate) mod inbox;
pub(crate) mod latent;
pub(crate) mod sleep;
pub(crate) mod spin;
pub(crate) mod tally;
pub(crate) mod wait;

#[cfg(all(test, loom))]
mod model;
