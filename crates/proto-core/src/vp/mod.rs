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
//! | `spawn`, `spawn_error` | [`VpBuilder`], birth; why there was none |
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
mod spawn_error;
pub(crate) mod start;
mod vpref;

pub use cancel::{CannotCancel, binding};
pub use local::{AccessError, VpLocal};
pub use name::VpName;
pub use spawn::VpBuilder;
pub(crate) use spawn::{adopt, prepare_thread, seed};
pub use spawn_error::SpawnError;
pub use vpref::VpRef;

use crate::ctx::{self, Ctx};
use crate::runtime::controller;

/// Gives the core up: the calling VP goes through its controller and assigner, and comes back when it is assigned again. On an
/// OS thread, [`std::thread::yield_now`].
///
/// A point where a cancel is *not* delivered: only waits are.
///
/// # Examples
///
/// ```
/// use std::sync::atomic::{AtomicBool, Ordering};
///
/// use proto_core::{Runtime, scope, yield_now};
///
/// let done = AtomicBool::new(false);
/// Runtime::builder().controllers(1).build()?.run(|| {
///     scope(|s| {
///         s.spawn(|| done.store(true, Ordering::Relaxed));
///         while !done.load(Ordering::Relaxed) {
///             yield_now(); // there is one core: the other needs it
///         }
///     })
/// })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
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
///
/// # Examples
///
/// ```
/// use proto_core::{on_vp, scope};
///
/// assert!(!on_vp());
/// assert_eq!(scope(|s| s.spawn(on_vp).join()).ok(), Some(true));
/// ```
pub fn on_vp() -> bool {
    ctx::installed().and_then(Ctx::core).is_some()
}

/// Whether the calling timeline unwinds because of a panic of its own: what a guard asks before it poisons.
///
/// Unlike [`std::thread::panicking`] this is `false` for other VPs of a core while one of them unwinds and waits, and for a VP that
/// unwinds because it was cancelled. To go on with a caught panic use [`resume_unwind`](crate::resume_unwind): std's tells nobody.
///
/// # Examples
///
/// ```
/// use proto_core::{OrUnwind, Runtime, panicking, sleep_until, unwinding};
///
/// struct Guard;
/// impl Drop for Guard {
///     fn drop(&mut self) {
///         assert!(unwinding() && !panicking(), "it was cancelled: nothing to poison");
///     }
/// }
/// let runtime = Runtime::builder().controllers(1).build()?;
/// let sleeper = runtime.start(|| {
///     let _guard = Guard;
///     sleep_until(None).or_unwind()
/// })?;
/// runtime.run(|| ())?; // has run after it: it sleeps by now
/// sleeper.cancel()?;
/// assert!(sleeper.wait().is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[inline]
pub fn panicking() -> bool {
    std::thread::panicking() && own_panic_here()
}

/// The rest of [`panicking`], where somebody panics: out of the way of guards, which ask twice.
#[cold]
#[inline(never)]
fn own_panic_here() -> bool {
    ctx::installed().is_none_or(crate::panics::own_panic)
}

/// The name of the calling code: its VP's, or that of the latent task that the VP runs inline, which counts as a child of
/// its own [design rule 4].
///
/// # Panics
///
/// On a controller's own stack.
///
/// # Examples
///
/// ```
/// use proto_core::{Runtime, VpBuilder, current_name};
///
/// let runtime = Runtime::builder().controllers(1).build()?;
/// let name = runtime.run(|| VpBuilder::new().name("clerk").spawn(current_name).map(|clerk| clerk.join().ok()))??;
/// assert_eq!(name.map(|name| name.to_string()).as_deref(), Some("'clerk' (vp 1:0.0)"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn current_name() -> VpName {
    VpName::current(ctx::get().current().expect("an assigner or a hook is no timeline"))
}

/// Whether the calling timeline unwinds, because of a panic of its own or because it was cancelled. Its waits are then binding.
///
/// # Examples
///
/// ```
/// use proto_core::{panicking, unwinding};
///
/// struct Guard;
/// impl Drop for Guard {
///     fn drop(&mut self) {
///         assert!(unwinding() && panicking());
///     }
/// }
/// let outcome = std::panic::catch_unwind(|| {
///     let _guard = Guard;
///     panic!("with the guard");
/// });
/// assert!(outcome.is_err() && !unwinding());
/// ```
#[inline]
pub fn unwinding() -> bool {
    std::thread::panicking() && ctx::installed().is_none_or(crate::panics::unwinding)
}
