//! What most timelines do not have: a name given by the user, a long path, VP-locals, a deadline.
//!
//! Name and path are read by reports, on any thread, under the block's `extra_lock`; the rest belongs to the OS thread that runs the
//! timeline, or its home core. The box itself is made and removed under the lock.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use super::block::Block;
use super::local::Locals;

/// See the head of this file.
#[derive(Debug, Default)]
pub(crate) struct Extra {
    name: Option<Arc<str>>,
    /// The first steps of the path, where it does not fit into the block.
    prefix: Vec<u32>,
    locals: Locals,
    /// The key of the current wait's deadline among the core's timers.
    deadline: Option<(Instant, u64)>,
}

/// The lock of an extra part, held.
struct Held<'a>(&'a Block);

impl Drop for Held<'_> {
    fn drop(&mut self) {
        // ORDERING: Release pairs with the Acquire in `lock`.
        self.0.extra_lock.store(false, Ordering::Release);
    }
}

fn lock(block: &Block) -> Held<'_> {
    // ORDERING: Acquire pairs with the Release in `Held::drop`.
    while block.extra_lock.swap(true, Ordering::Acquire) {
        std::thread::yield_now();
    }
    Held(block)
}

/// Runs `f` on the extra part under its lock. For its owner.
fn locked<R>(block: &Block, f: impl FnOnce(&mut Option<Box<Extra>>) -> R) -> R {
    let _held = lock(block);
    // SAFETY: under the lock, by whoever changes it; the owner's own reads of locals and deadline do not overlap with its own changes.
    f(unsafe { &mut *block.extra.get() })
}

/// Whether the block has an extra part. For its owner.
#[inline]
fn has(block: &Block) -> bool {
    // SAFETY: only the owner makes and removes it, and this is the owner.
    unsafe { &*block.extra.get() }.is_some()
}

pub(crate) fn set_name(block: &Block, name: Option<Arc<str>>, prefix: &[u32]) {
    if name.is_some() || !prefix.is_empty() {
        locked(block, |extra| {
            let extra = extra.get_or_insert_default();
            extra.name = name;
            extra.prefix = prefix.to_vec();
        });
    }
}

pub(crate) fn name_and_prefix(block: &Block) -> (Option<Arc<str>>, Vec<u32>) {
    let _held = lock(block);
    // SAFETY: under the lock nobody changes it; shared, because its owner looks without the lock whether there is one (`has`).
    match unsafe { &*block.extra.get() } {
        Some(extra) => (extra.name.clone(), extra.prefix.clone()),
        None => (None, Vec::new()),
    }
}

/// Writes the user's name, if there is one and nobody changes it just now. For a signal handler: waits for nothing.
pub(crate) fn write_name(block: &Block, out: &mut impl std::fmt::Write) -> std::fmt::Result {
    // ORDERING: as in `locked`.
    if block.extra_lock.swap(true, Ordering::Acquire) {
        return Ok(());
    }
    // SAFETY: under the lock.
    let extra = unsafe { &*block.extra.get() };
    let written = match extra.as_ref().and_then(|extra| extra.name.as_ref()) {
        Some(name) => write!(out, "'{name}' "),
        None => Ok(()),
    };
    block.extra_lock.store(false, Ordering::Release);
    written
}

/// The timeline has ended.
#[inline]
pub(crate) fn clear(block: &Block) {
    if has(block) {
        let old = locked(block, Option::take);
        drop(old);
    }
}

pub(crate) fn deadline(block: &Block) -> Option<(Instant, u64)> {
    if !has(block) {
        return None;
    }
    locked(block, |extra| extra.as_ref().and_then(|extra| extra.deadline))
}

pub(crate) fn set_deadline(block: &Block, deadline: Option<(Instant, u64)>) {
    locked(block, |extra| extra.get_or_insert_default().deadline = deadline);
}

/// Runs `f` on the VP-locals. For the timeline itself; `f` runs no user code.
pub(crate) fn with_locals<R>(block: &Block, f: impl FnOnce(&mut Locals) -> R) -> R {
    locked(block, |extra| f(&mut extra.get_or_insert_default().locals))
}

/// The VP-locals, if there are any, for their destructors.
pub(crate) fn take_locals(block: &Block) -> Option<Locals> {
    if !has(block) {
        return None;
    }
    locked(block, |extra| extra.as_mut().map(|extra| std::mem::take(&mut extra.locals)))
}
