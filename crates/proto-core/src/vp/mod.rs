//! Virtual processors: timelines with stacks of their own.
//!
//! | file | what lives there |
//! |---|---|
//! | `block` | the control block of a timeline |
//! | `slab` | where blocks come from |
//! | `extra` | what most timelines do not have |
//! | `name` | [`VpName`] |
//! | `pair` | what a VP and its handle share |
//! | `start` | the closure of a VP that has not run |
//! | `vpref` | [`VpRef`] |
//! | `spawn` | [`VpBuilder`], birth |
//! | `end` | what runs on a VP's stack from its start to its end |
//! | `cancel` | cancelling, and delivering it |
//! | `local` | [`vp_local!`](crate::vp_local) |

pub(crate) mod block;
pub(crate) mod cancel;
pub(crate) mod end;
pub(crate) mod extra;
pub(crate) mod local;
mod name;
pub(crate) mod pair;
pub(crate) mod slab;
mod spawn;
pub(crate) mod start;
mod vpref;

pub use cancel::{CannotCancel, binding};
pub use local::{AccessError, VpLocal};
pub use name::VpName;
pub use spawn::{SpawnError, VpBuilder};
pub(crate) use spawn::{adopt, prepare_thread, seed};
pub use vpref::VpRef;

use crate::ctx::{self, Ctx};
use crate::runtime::controller;

/// Gives the core up: the calling VP goes through its controller and assigner, and comes back when it is assigned again. On an
/// OS thread, [`std::thread::yield_now`].
///
/// A point where a cancel is *not* delivered: only waits are.
#[inline(always)]
pub fn yield_now() {
    // Inlined to the switch itself: each return between here and there would be mispredicted when the VP comes back (4 ns each).
    let Some(ctx) = ctx::installed() else {
        return yield_otherwise();
    };
    let Some(block) = ctx.current() else {
        return yield_otherwise();
    };
    if block.is_thread() || std::thread::panicking() || ctx.in_handler.get().is_some() {
        return yield_otherwise();
    }
    controller::yield_now(ctx, block);
}

/// An OS thread yields, or a timeline that unwinds (or one on whose thread another does).
#[cold]
#[inline(never)]
fn yield_otherwise() {
    match ctx::installed() {
        Some(ctx) => match ctx.current() {
            Some(block) if !block.is_thread() && ctx.in_handler.get().is_none() => {
                crate::panics::switch_as_is(ctx, || controller::yield_now(ctx, block));
            }
            _ => std::thread::yield_now(),
        },
        None => std::thread::yield_now(),
    }
}

/// Whether the calling code runs on a VP (and not on an OS thread of its own).
pub fn on_vp() -> bool {
    ctx::installed().and_then(Ctx::core).is_some()
}

/// Whether the calling timeline unwinds because of a panic of its own: what a guard asks before it poisons.
///
/// Unlike [`std::thread::panicking`] this is `false` for other VPs of a core while one of them unwinds and waits, and for a VP that
/// unwinds because it was cancelled. To go on with a caught panic use [`resume_unwind`](crate::resume_unwind): std's tells nobody.
#[inline]
pub fn panicking() -> bool {
    std::thread::panicking() && ctx::installed().is_none_or(crate::panics::own_panic)
}

/// The name of the calling code: its VP's, or that of the latent task that the VP runs inline, which counts as a child of
/// its own [design rule 4].
///
/// # Panics
///
/// On a controller's own stack.
pub fn current_name() -> VpName {
    VpName::current(ctx::get().current().expect("an assigner or a hook is no timeline"))
}

/// Whether the calling timeline unwinds, because of a panic of its own or because it was cancelled. Its waits are then binding.
#[inline]
pub fn unwinding() -> bool {
    std::thread::panicking() && ctx::installed().is_none_or(crate::panics::unwinding)
}
