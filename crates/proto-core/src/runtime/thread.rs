//! The OS thread of a controller.

use std::sync::Arc;

use proto_arch::fiber::Backend;
use proto_arch::usage::ThreadTime;

use super::core::Core;
use super::shared::Shared;
use super::{controller, idle};
use crate::ctx;
use crate::vp::extra;

/// Runs `f`, which makes release requests only, on the controller's own stack, as a timeline of its own.
pub(crate) fn as_timeline(f: impl FnOnce()) {
    let ctx = ctx::get();
    if ctx.current().is_some() {
        return f();
    }
    let block = crate::vp::slab::take_one();
    block.bear();
    crate::vp::prepare_thread(block);
    ctx.set_current(Some(block));
    f();
    ctx.set_current(None);
    extra::clear(block);
    block.bury();
    crate::vp::slab::give(&mut vec![block], 0);
}

/// Begins an OS thread that is to run wherever the system likes: it may have been started by a pinned controller, whose processor it would
/// share for life.
pub(crate) fn go_anywhere() {
    if let Err(error) = proto_arch::pin::drop_inherited() {
        eprintln!("proto-runtime: a thread started by a pinned controller stays on its processor: {error}");
    }
}

/// The thread of a controller.
pub(crate) fn thread(shared: Arc<Shared>, index: usize, pin: Option<usize>) {
    // SAFETY: `shared` is held until the end of this function, and nothing of this core runs after it.
    let core: &'static Core = unsafe { &*std::ptr::from_ref(&shared.cores[index]) };
    match pin {
        Some(cpu) => {
            if let Err(error) = proto_arch::pin::pin_current_thread(cpu) {
                eprintln!("proto-runtime: core {index} is not pinned: {error}");
            }
        }
        None => go_anywhere(),
    }
    // SAFETY: the core outlives this thread's use of it (above).
    unsafe { ctx::install(&raw const core.ctx) };
    core.ctx.fill_spares();
    if shared.backend == Backend::Coroutine {
        if let Some(time) = ThreadTime::of_this_thread() {
            core.time.get_or_init(|| time);
        }
    }
    controller::run(core);
    idle::wind_up(core);
    // SAFETY: removes the pointer before the core may go.
    unsafe { ctx::install(std::ptr::null()) };
    let mut alive = shared.alive.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    *alive -= 1;
    if *alive == 0 {
        shared.all_ended.notify_all();
        drop(alive);
        shared.watchdog.wake();
    } else {
        drop(alive);
    }
    shared.await_visitors();
}
