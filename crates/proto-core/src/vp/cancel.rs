//! Cancelling a VP, and everything in the scopes it stands in [design rule 13].
//!
//! A cancel is a number: the block's `cancel_for` is set to the birth number of the life that is to end, so a late cancel cannot meet a later
//! timeline. Then its home core looks: a VP in an abandonable wait is woken with `Cancelled`; any other meets it at its next one.
//! What the VP's open scopes hold is marked by the scope, and found by every core among its own VPs.

use std::sync::atomic::{Ordering, fence};

use super::block::{Block, flag, mode};
use super::{VpRef, slab};
use crate::ctx::{self, Ctx};
use crate::ended::Cancelled;
use crate::kernel::wait::Interrupt;
use crate::process::ProcessInner;
use crate::report::verdict;
use crate::runtime::activity::Somebody;
use crate::runtime::core::Core;
use crate::runtime::mail;
use crate::runtime::shared::Shared;
use crate::scope::ScopeHead;

/// Cancels need unwinding.
///
/// # Examples
///
/// ```
/// use proto_core::{CannotCancel, OrUnwind, VpRef, scope, sleep_until};
///
/// fn stop(vps: &[VpRef]) -> Result<(), CannotCancel> {
///     vps.iter().try_for_each(VpRef::cancel)
/// }
/// scope(|s| {
///     let sleeper = s.spawn(|| sleep_until(None).or_unwind());
///     stop(&[sleeper.vp()])
/// })?;
/// # Ok::<(), CannotCancel>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CannotCancel;

impl std::fmt::Display for CannotCancel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a program built with panic=abort cannot cancel: a cancel unwinds the virtual processor's stack")
    }
}

impl std::error::Error for CannotCancel {}

/// # Errors
///
/// In a `panic=abort` build.
pub(crate) fn check_possible() -> Result<(), CannotCancel> {
    if cfg!(panic = "abort") { Err(CannotCancel) } else { Ok(()) }
}

impl Block {
    /// Whether this life of the block has been asked to end.
    #[inline]
    pub(crate) fn is_cancelled(&self) -> bool {
        // ORDERING: Relaxed: a number that fits only this life; the home core is told by mail as well.
        self.cancel_for.load(Ordering::Relaxed) == self.birth.load(Ordering::Relaxed)
    }
}

/// Asks the life `birth` of `block` to end, which is, if it still is, one of `shared`'s.
pub(crate) fn cancel(shared: &Shared, block: &'static Block, birth: u64) {
    if block.birth() != birth {
        return;
    }
    // No verdict is found while this cancel is under way: its sender may be an OS thread that nobody knows of.
    let _sender = Somebody::new();
    // ORDERING: Relaxed, and the fence pairs with the one in `moved`: either the core that takes the VP over sees the number, or its home is seen here.
    block.cancel_for.store(birth, Ordering::Relaxed);
    fence(Ordering::SeqCst);
    match shared.core_of(block.home_hint()) {
        Some(home) => mail::post(home, Box::new(move |core| look(core, block, birth))),
        None => {
            // Unstarted somewhere, as far as can be seen: the core that starts it does so after its mail, and then sees the number, or finds it
            // among its own when it comes to the mail.
            for core in &shared.cores {
                mail::post(core, Box::new(move |core| look(core, block, birth)));
            }
        }
    }
}

/// Carries a cancel out for a VP of this core.
fn look(core: &'static Core, block: &'static Block, birth: u64) {
    if let Some(_at_home) = block.at_home(core, birth) {
        carry_out(core, block);
    }
}

/// Carries the cancel of `block` out, which stands still on this core, or is in its hand.
fn carry_out(core: &'static Core, block: &'static Block) {
    if !block.is_cancelled() {
        // It was meant for a task that is over (`forget_own`).
        return;
    }
    interrupt(core, block);
    // SAFETY: the VP does not run, so it leaves no scope.
    let mut scope = unsafe { ScopeHead::outside_fences(block.open_scope.get()) };
    // ORDERING: SeqCst, with the one in `task::lent`.
    fence(Ordering::SeqCst);
    let mut any = block.has(flag::LENT);
    // SAFETY: the VP does not run, so the scopes it stands in are alive.
    while let Some(open) = unsafe { scope.as_ref() } {
        any |= open.cancel();
        scope = open.outer();
    }
    if any {
        sweep_everywhere();
    }
}

/// The started VP `block` was just taken over by this core, which has it in hand.
///
/// Whoever cancels it looks for it at its home, and whoever cancels what it belongs to has each core look among its own: the old home, where it is no
/// more, and this one, perhaps before it came.
#[cold]
pub(crate) fn moved(core: &'static Core, block: &'static Block) {
    // ORDERING: SeqCst: between the store of the home and the load of the number; pairs with the one in `cancel`.
    fence(Ordering::SeqCst);
    if inherited(block) {
        carry_out(core, block);
    }
}

fn interrupt(core: &'static Core, block: &'static Block) {
    if block.mode.get() & mode::ABANDONABLE != 0 {
        // SAFETY: it has started.
        if let Some(key) = unsafe { block.node() }.key.get() {
            crate::env::interrupt::interrupt(&core.ctx, block, key, Interrupt::Cancel);
        }
    }
}

/// Has every core there is look for VPs whose scope was cancelled. Not only those of the caller's runtime, or the owner's: an OS thread, or a
/// process of another runtime, that got hold of the scope makes VPs in it as well, and may be who cancels it.
pub(crate) fn sweep_everywhere() {
    for shared in verdict::runtimes() {
        sweep_all(&shared);
    }
}

/// Has every core of a runtime look for VPs whose scope or process was cancelled.
fn sweep_all(shared: &Shared) {
    for core in &shared.cores {
        mail::post(core, Box::new(sweep));
    }
}

/// Cancels the VPs of this core whose scope, or one around it, or whose process was cancelled.
fn sweep(core: &'static Core) {
    for block in slab::all().into_iter().flatten() {
        let birth = block.birth();
        if birth % 2 == 0 {
            continue;
        }
        let Some(_at_home) = block.at_home(core, birth) else { continue };
        if inherits(block) && !block.is_cancelled() {
            // ORDERING: Relaxed: this core's own VP.
            block.cancel_for.store(birth, Ordering::Relaxed);
            carry_out(core, block);
        }
    }
}

/// Whether a scope around `block`, or its process, was cancelled. On the core that has `block` in hand.
fn inherits(block: &'static Block) -> bool {
    for around in block.around() {
        if around.is_cancelled() || around.is_fence() {
            return !around.is_fence();
        }
    }
    block.process().is_some_and(|process| process.cancels(block))
}

/// Whether a VP that is about to start, or was taken over, was cancelled before, alone or with what it belongs to.
pub(crate) fn inherited(block: &'static Block) -> bool {
    // ORDERING: Relaxed: a cancel that is not seen here comes to this core by mail, and finds the VP among its own (see `cancel`, `moved`).
    if inherits(block) {
        block.cancel_for.store(block.birth(), Ordering::Relaxed);
    }
    block.is_cancelled()
}

/// A cancel that was meant for `block`, which runs here, alone is over with what it has run until now.
pub(crate) fn forget_own(block: &'static Block) {
    if block.is_cancelled() && !inherits(block) {
        // ORDERING: Relaxed: no birth number; see `is_cancelled`.
        block.cancel_for.store(0, Ordering::Relaxed);
    }
}

/// Has every core look for the VPs of `process`, which was cancelled.
pub(crate) fn cancel_process(shared: &Shared, process: &ProcessInner) {
    // As in `cancel`.
    let _sender = Somebody::new();
    process.mark_cancelled();
    sweep_all(shared);
}

/// Starts the unwinding of the calling VP.
pub(crate) fn unwind_cancelled() -> ! {
    let block = ctx::installed().and_then(Ctx::current).filter(|block| !block.is_thread());
    crate::panics::resume_unwind(Box::new(Cancelled { of: block.map(VpRef::of) }))
}

/// After a binding wait: unwinds if a cancel came meanwhile.
pub(crate) fn deliver_noted() {
    let Some(ctx) = ctx::installed() else { return };
    if let Some(block) = ctx.current() {
        let noted = block.is_cancelled() && !block.has(flag::THREAD | flag::BINDING);
        if noted && !crate::panics::unwinding(ctx) {
            unwind_cancelled()
        }
    }
}

/// Runs `f`, all of whose waits are [binding](crate::Kind::Binding): a cancel of the calling VP, alone or with what it belongs to, reaches
/// neither `f` nor what `f` opens scopes or forks for. It comes at the first wait after `f`.
///
/// For what cannot be begun anew when it was left in the middle. `f` had better come to its end soon: whoever cancels waits for it.
///
/// # Examples
///
/// ```
/// use std::time::{Duration, Instant};
///
/// let until = Instant::now() + Duration::from_millis(1);
/// proto_core::binding(|| proto_core::sleep_until(Some(until))).expect("no cancel comes in");
/// ```
pub fn binding<R>(f: impl FnOnce() -> R) -> R {
    struct Back(&'static Block, *const ScopeHead, bool);
    impl Drop for Back {
        fn drop(&mut self) {
            self.0.open_scope.set(self.1);
            if !self.2 {
                self.0.clear(flag::BINDING);
            }
        }
    }
    let Some(block) = ctx::get().current().filter(|block| !block.is_thread()) else { return f() };
    let fence = ScopeHead::fence(block.open_scope.get());
    let _back = Back(block, fence.outer(), block.has(flag::BINDING));
    block.open_scope.set(&raw const fence);
    block.set(flag::BINDING);
    f()
}
