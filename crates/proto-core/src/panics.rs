//! Panics and unwinding of timelines that share an OS thread.
//!
//! `std::thread::panicking()` speaks of the OS thread. While a VP unwinds it may wait (a scope's end in a destructor, say), and other VPs of
//! its core then run with `panicking()` true though they do not panic. So each core counts its VPs that are suspended while they unwind; while
//! there are none, the thread's answer is the running VP's own. Else the VP's flag decides, which our panic hook set. Nobody tells when a
//! `catch_unwind` ends an unwinding, so the flags of a VP are forgotten when it leaves its core while the thread does not panic ([`settle`]);
//! that of a cancel already when its payload is dropped ([`cancel_swallowed`]), so that a panic right behind it is known as one.
//!
//! The hook also keeps the user's hook from running under an environment's lock: a panic of a handler is noted there and shown after
//! the unlock [design rule 1].

use std::cell::{Cell, RefCell};
use std::panic::{self, PanicHookInfo};
use std::sync::{Arc, Once};

use proto_arch::fiber::Backend;

use crate::ctx::{self, Ctx};
use crate::vp::VpRef;
use crate::vp::block::{Block, flag};

thread_local! {
    /// VPs of this core that are suspended while they unwind.
    static UNWINDING_ELSEWHERE: Cell<u32> = const { Cell::new(0) };
    /// The panic of a handler that is to be shown after the unlock.
    static DEFERRED: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Whether the timeline that runs here unwinds, for whatever reason.
#[inline]
pub(crate) fn unwinding(ctx: &Ctx) -> bool {
    std::thread::panicking() && unwinding_slow(ctx)
}

/// Never inlined, as everything that reads this thread-local: its address must not be kept across a switch (the head of `ctx`; a step of the
/// tests looks at the assembly).
#[cold]
#[inline(never)]
fn unwinding_slow(ctx: &Ctx) -> bool {
    UNWINDING_ELSEWHERE.get() == 0 || ctx.current().is_some_and(|block| block.has(flag::PANICKING | flag::CANCELLING))
}

/// Whether the timeline that runs here unwinds because of a panic of its own. To be asked only if the OS thread says that it panics.
#[cold]
pub(crate) fn own_panic(ctx: &Ctx) -> bool {
    unwinding_slow(ctx) && !ctx.current().is_some_and(|block| block.has(flag::CANCELLING))
}

/// Lets the running VP leave its core by `switch`, whether it unwinds or not.
#[cold]
pub(crate) fn switch_as_is(ctx: &'static Ctx, switch: impl FnOnce()) {
    if unwinding(ctx) { switch_while_unwinding(ctx, switch) } else { switch() }
}

/// `block` has just left its core, whose controller this is: what it caught meanwhile is over.
#[inline]
pub(crate) fn settle(block: &Block) {
    if block.has(flag::PANICKING | flag::CANCELLING) {
        settle_slow(block);
    }
}

#[cold]
fn settle_slow(block: &Block) {
    // With an OS thread for each VP this one's own answer says nothing about the VP's.
    let same_thread = block.home().is_some_and(|home| home.shared().backend == Backend::Coroutine);
    if same_thread && !std::thread::panicking() {
        block.clear(flag::PANICKING | flag::CANCELLING);
    }
}

/// The payload of `vp`'s cancel is dropped: if that VP does so itself, and not in the middle of an unwinding, it has caught it.
#[cold]
pub(crate) fn cancel_swallowed(vp: &VpRef) {
    if let Some(block) = ctx::installed().and_then(Ctx::current) {
        // While others of the core unwind as well nobody knows whether this one does; then `settle` forgets the flag later.
        if VpRef::of(block) == *vp && !std::thread::panicking() {
            block.clear(flag::CANCELLING);
        }
    }
}

/// Lets the running VP, which unwinds, leave its core by `switch`.
///
/// It comes back to this OS thread, so the address of the thread-local may be kept here.
#[cold]
#[inline(never)]
pub(crate) fn switch_while_unwinding(ctx: &'static Ctx, switch: impl FnOnce()) {
    let Some(block) = ctx.current() else { return switch() };
    let marked = block.has(flag::PANICKING | flag::CANCELLING);
    if !marked {
        // It unwinds by `resume_unwind` of the user's: no hook has told.
        block.set(flag::PANICKING);
    }
    // Its panic is counted by this OS thread, so it has to come back to it.
    let may_migrate = block.has(flag::MIGRATABLE);
    block.clear(flag::MIGRATABLE);
    UNWINDING_ELSEWHERE.set(UNWINDING_ELSEWHERE.get() + 1);
    switch();
    UNWINDING_ELSEWHERE.set(UNWINDING_ELSEWHERE.get() - 1);
    if may_migrate {
        block.set(flag::MIGRATABLE);
    }
}

/// As [`std::panic::resume_unwind`]: goes on with a panic, or the unwinding of a cancelled VP, that was caught. No panic hook runs.
///
/// Where this is used a guard that asks [`panicking`](crate::panicking) is told the truth. Std's tells nobody: while other VPs of the core are
/// suspended in the middle of their own unwinding, `panicking` then says no.
///
/// # Examples
///
/// ```
/// use std::panic::catch_unwind;
///
/// let outcome = catch_unwind(|| {
///     let caught = catch_unwind(|| proto_core::resume_unwind(Box::new("first"))).unwrap_err();
///     proto_core::resume_unwind(caught)
/// });
/// assert_eq!(outcome.unwrap_err().downcast_ref::<&str>(), Some(&"first"));
/// ```
pub fn resume_unwind(payload: Box<dyn std::any::Any + Send>) -> ! {
    if let Some(block) = ctx::installed().and_then(Ctx::current) {
        if !block.is_thread() {
            let (now, before) = match payload.is::<crate::Cancelled>() {
                true => (flag::CANCELLING, flag::PANICKING),
                false => (flag::PANICKING, flag::CANCELLING),
            };
            block.clear(before);
            block.set(now);
        }
    }
    panic::resume_unwind(payload)
}

/// Puts our hook in front of the user's, once for the program.
pub(crate) fn install_hook() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        let users = panic::take_hook();
        panic::set_hook(Box::new(move |info| on_panic(info, &*users)));
    });
}

fn on_panic(info: &PanicHookInfo<'_>, users: &(dyn Fn(&PanicHookInfo<'_>) + Send + Sync)) {
    if let Some(ctx) = ctx::installed() {
        if ctx.in_handler.get().is_some() {
            let place = info.location().map(|place| format!(" at {place}")).unwrap_or_default();
            let text = crate::ended::payload_text_of(info.payload());
            let _ = DEFERRED.try_with(|deferred| {
                *deferred.borrow_mut() = Some(format!("{text} (in a request handler{place})"));
            });
            return;
        }
        if let Some(block) = ctx.current() {
            if !block.is_thread() {
                block.set(flag::PANICKING);
            }
        }
    }
    users(info);
}

/// The text of the handler's panic that is to be shown.
#[cold]
pub(crate) fn deferred_text() -> Arc<str> {
    let text = DEFERRED.try_with(|deferred| deferred.borrow().as_deref().map(Arc::from)).ok().flatten();
    text.unwrap_or_else(|| Arc::from("a handler panicked"))
}

/// Shows a handler's panic to the user's hook, after the unlock.
#[cold]
pub(crate) fn replay_deferred() {
    let Some(text) = DEFERRED.try_with(|deferred| deferred.borrow_mut().take()).ok().flatten() else {
        return;
    };
    // The hook runs for panics only, so this is one; it is caught here and changes nothing else.
    let shown = panic::catch_unwind(panic::AssertUnwindSafe(|| panic::panic_any(text)));
    drop(shown);
    if let Some(block) = ctx::installed().and_then(Ctx::current) {
        if !block.is_thread() {
            block.clear(flag::PANICKING);
        }
    }
}

/// A panic of one of our [`Hooks`](crate::Hooks) was caught: it is no panic of the timeline that the hook was told of, nor of its handler.
/// Gives what the user's hook was not shown, if it happened in a handler.
#[cold]
pub(crate) fn caught_in_hook() -> Option<String> {
    if let Some(block) = ctx::installed().and_then(Ctx::current) {
        if !block.is_thread() && !std::thread::panicking() {
            block.clear(flag::PANICKING);
        }
    }
    DEFERRED.try_with(|deferred| deferred.borrow_mut().take()).ok().flatten()
}

/// Takes a panic out of a destructor that ran where nothing may unwind: it goes to the process, as one of a VP that nobody joins.
#[cold]
pub(crate) fn nobody_catches(payload: Box<dyn std::any::Any + Send>) {
    match ctx::installed().and_then(Ctx::current) {
        Some(block) if !block.is_thread() => {
            if let Some(process) = block.process() {
                process.note_panic(payload);
            }
        }
        // An OS thread's: the hook has shown it.
        _ => drop(payload),
    }
}
