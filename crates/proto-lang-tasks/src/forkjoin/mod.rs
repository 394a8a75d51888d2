//! The fork-join face: VCilk's `spawn` and `sync`, and what is built on them.
//!
//! What is forked is a latent task of the core: it lies on the forker's own list, where an idle core may take it at any moment; if none does it is a call. All
//! that is hard about that is `proto-core`'s.
//!
//! | file | |
//! |---|---|
//! | `spawn` | [`spawn`]: work that outlives the frame it was made in |
//! | `many` | [`join!`](crate::join!): a join of more than two |
//! | `dku` | [`work`] that is cut when somebody wants a part; [`dku`] |
//! | `pieces` | [`Pieces`]: what loops go over |
//! | `over` | the loops: [`over`], [`par_for`] |
//! | `sort` | [`sort`] and its kin |

mod dku;
mod many;
mod over;
mod pieces;
mod sort;
mod spawn;

pub use self::dku::{Divide, dku, work};
pub use self::over::{Over, over, par_for};
pub use self::pieces::{Chunks, IntoPieces, Pieces, Zip3, chunks, chunks_mut};
pub use self::sort::{sort, sort_by, sort_by_key, sort_unstable, sort_unstable_by, sort_unstable_by_key};
pub use self::spawn::spawn;

pub use proto_core::{JoinError, JoinHandle, Task, TaskScope as Scope, join, task_scope as scope};
