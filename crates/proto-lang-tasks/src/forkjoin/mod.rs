//! The fork-join face: VCilk's `spawn` and `sync`, and what is built on them.
//!
//! What is forked is a latent task of the core: it lies on the forker's own list, where an idle core may take it at any moment; if none does it is a call. All
//! that is hard about that is `proto-core`'s.
//!
//! | file | |
//! |---|---|
//! | `spawn` | [`spawn`]: work that outlives the frame it was made in |
//! | `many` | [`join!`](crate::join!): a join of more than two |

mod many;
mod spawn;

pub use self::spawn::spawn;

pub use proto_core::{JoinHandle, Task, TaskScope as Scope, join, task_scope as scope};
