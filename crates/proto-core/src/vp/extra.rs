//! What most timelines do not have: a name given by the user, a long path, VP-locals, a deadline, environments of their own.
//!
//! Name and path are read by reports, on any thread, under the block's `extra_lock`. Environments are looked up, and made, on any thread under
//! it. The rest belongs to the OS thread that runs the timeline, or its home core. The box itself is made and removed under the lock; its owner
//! need not take the lock to see that there is none.
//!
//! *The dangerous race* is an environment that is made while the timeline ends: its owner may not see the box that came with it, which
//! then stays with the block. So every environment says of which life of the block it is, and a later one takes its place.

use std::any::{Any, TypeId};
use std::mem::ManuallyDrop;
use std::ptr;
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
    environments: Vec<Environment>,
}

/// An environment of the timeline whose birth number it bears.
#[derive(Debug)]
struct Environment {
    kind: TypeId,
    birth: u64,
    cell: AnyCell,
}

/// An `EnvCell` of any type.
pub(crate) type AnyCell = Arc<dyn Any + Send + Sync>;

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

/// Runs `f` on the extra part under its lock. `f` runs no user code.
fn locked<R>(block: &Block, f: impl FnOnce(&mut Option<Box<Extra>>) -> R) -> R {
    let _held = lock(block);
    // ORDERING: Relaxed: changed under the lock only.
    let place = block.extra.load(Ordering::Relaxed);
    // SAFETY: of a box, see below, and the lock is held. Not dropped here if `f` panics: the block has it still.
    let extra = (!place.is_null()).then(|| unsafe { Box::from_raw(place) });
    let mut extra = ManuallyDrop::new(extra);
    let result = f(&mut extra);
    let place = ManuallyDrop::into_inner(extra).map_or(ptr::null_mut(), Box::into_raw);
    // ORDERING: as above.
    block.extra.store(place, Ordering::Relaxed);
    result
}

/// Whether the block has an extra part. For its owner, who knows of what it has put there itself.
#[inline]
fn has(block: &Block) -> bool {
    // ORDERING: Relaxed: the owner's own change; an environment that another made may be seen late, see the head.
    !block.extra.load(Ordering::Relaxed).is_null()
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
    locked(block, |extra| match extra {
        Some(extra) => (extra.name.clone(), extra.prefix.clone()),
        None => (None, Vec::new()),
    })
}

/// Writes the user's name, if there is one and nobody changes it just now. For a signal handler: waits for nothing.
pub(crate) fn write_name(block: &Block, out: &mut impl std::fmt::Write) -> std::fmt::Result {
    // ORDERING: as in `lock`.
    if block.extra_lock.swap(true, Ordering::Acquire) {
        return Ok(());
    }
    // SAFETY: under the lock.
    let extra = unsafe { block.extra.load(Ordering::Relaxed).as_ref() };
    let written = match extra.and_then(|extra| extra.name.as_ref()) {
        Some(name) => write!(out, "'{name}' "),
        None => Ok(()),
    };
    // ORDERING: as in `Held::drop`.
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

/// The environment of type `kind` of the life `birth` of `block`, if it is there; else `fresh` becomes it, if that life lasts.
///
/// On any thread. What comes back in `fresh` is to be dropped by the caller: not under the lock.
pub(crate) fn environment(block: &Block, birth: u64, kind: TypeId, fresh: &mut Option<AnyCell>) -> Option<AnyCell> {
    locked(block, |extra| {
        let known = extra.as_mut().and_then(|extra| extra.environments.iter_mut().find(|known| known.kind == kind));
        match (known, fresh) {
            // One that was made at its end may still be there.
            _ if block.birth() != birth => None,
            (Some(known), _) if known.birth == birth => Some(Arc::clone(&known.cell)),
            (_, None) => None,
            (Some(stale), Some(fresh)) => {
                let cell = Arc::clone(fresh);
                std::mem::swap(&mut stale.cell, fresh);
                stale.birth = birth;
                Some(cell)
            }
            (None, Some(fresh)) => {
                let cell = Arc::clone(fresh);
                extra.get_or_insert_default().environments.push(Environment { kind, birth, cell: Arc::clone(&cell) });
                Some(cell)
            }
        }
    })
}
