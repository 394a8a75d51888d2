//! A value with two owners, in memory that each core keeps for the next one: a VP and the handle of who started it share one.
//!
//! ```text
//!   new ──► both ──one owner goes: swap(true)──► last ──the other goes──► dropped, memory to the list of the core where that was
//! ```
//!
//! The pieces are of one size, made by the batch, and never given back to the system, as the control blocks are: a program that had a million
//! VPs at once keeps room for a million. What is larger is boxed. (By the system's allocator a birth and its end cost 380 instructions more, of
//! 1,500: a million pieces that lie around at once are no case for its caches.)
//!
//! **Who may touch what.** The value: both owners, hence `Sync`; `half` decides who drops it. It is changed once, by whoever goes
//! first, with Release; the other's Acquire sees all that one did.

use std::alloc::{Layout, alloc, handle_alloc_error};
use std::cell::Cell;
use std::mem::MaybeUninit;
use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::ctx::{self, Ctx};

/// One of the two owners of a `T`.
pub(crate) struct Pair<T>(NonNull<Shared<T>>);

struct Shared<T> {
    value: T,
    /// One of the owners is gone.
    half: AtomicBool,
}

// SAFETY: each owner reaches the value by shared reference, and the last one drops it.
unsafe impl<T: Send + Sync> Send for Pair<T> {}
// SAFETY: as above.
unsafe impl<T: Send + Sync> Sync for Pair<T> {}

/// The memory of one pair, if it fits.
#[repr(C, align(32))]
struct Piece(MaybeUninit<[u8; 160]>);

/// Pieces made at once.
const BATCH: usize = 64;

/// Pieces of nobody.
static FREE: Mutex<Vec<SendPiece>> = Mutex::new(Vec::new());

struct SendPiece(NonNull<Piece>);
// SAFETY: a free piece is memory, and belongs to whoever takes it.
unsafe impl Send for SendPiece {}

/// The pieces that a core keeps.
#[derive(Default)]
pub(crate) struct Pieces(Cell<Vec<NonNull<Piece>>>);

impl std::fmt::Debug for Pieces {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pieces").finish_non_exhaustive()
    }
}

impl Pieces {
    /// Gives all of them to other cores.
    pub(crate) fn give_back(&mut self) {
        give_some(self.0.get_mut(), 0);
    }
}

#[cold]
#[inline(never)]
fn take_some(into: &mut Vec<NonNull<Piece>>) {
    let mut free = FREE.lock().unwrap_or_else(PoisonError::into_inner);
    if free.is_empty() {
        let layout = Layout::new::<[Piece; BATCH]>();
        // SAFETY: the layout is not empty.
        let batch = unsafe { alloc(layout) }.cast::<Piece>();
        let Some(batch) = NonNull::new(batch) else { handle_alloc_error(layout) };
        // SAFETY: in bounds: the batch has that many.
        free.extend((0..BATCH).rev().map(|index| SendPiece(unsafe { batch.add(index) })));
    }
    let keep = free.len().saturating_sub(BATCH);
    into.extend(free.drain(keep..).map(|piece| piece.0));
}

#[cold]
#[inline(never)]
fn give_some(from: &mut Vec<NonNull<Piece>>, keep: usize) {
    let mut free = FREE.lock().unwrap_or_else(PoisonError::into_inner);
    free.extend(from.drain(keep..).map(SendPiece));
}

/// Runs `f` on the pieces of this core; on an OS thread that is none, on an empty list that is given back.
#[inline]
fn with_pieces<R>(f: impl FnOnce(&mut Vec<NonNull<Piece>>) -> R) -> R {
    match ctx::installed().and_then(Ctx::core) {
        // SAFETY: this code runs on that core; `f` neither switches nor comes back here.
        Some(core) => unsafe { core.owner(|owner| f(owner.pieces.0.get_mut())) },
        None => {
            let mut none = Vec::new();
            let result = f(&mut none);
            give_some(&mut none, 0);
            result
        }
    }
}

impl<T> Pair<T> {
    const FITS: bool = size_of::<Shared<T>>() <= size_of::<Piece>() && align_of::<Shared<T>>() <= align_of::<Piece>();

    /// Both owners of `value`.
    #[inline(always)]
    pub(crate) fn new(value: T) -> (Pair<T>, Pair<T>) {
        let shared = Shared { value, half: AtomicBool::new(false) };
        let place = if const { Self::FITS } {
            let piece = with_pieces(|pieces| {
                if pieces.is_empty() {
                    take_some(pieces);
                }
                pieces.pop().expect("there is at least one by now")
            });
            let place = piece.cast::<Shared<T>>();
            // SAFETY: a free piece, into which it fits.
            unsafe { place.write(shared) };
            place
        } else {
            NonNull::from(Box::leak(Box::new(shared)))
        };
        (Pair(place), Pair(place))
    }
}

impl<T> Deref for Pair<T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: it lives until both owners are gone, and this is one of them.
        unsafe { &(*self.0.as_ptr()).value }
    }
}

impl<T> Drop for Pair<T> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: as in `deref`.
        let half = unsafe { &(*self.0.as_ptr()).half };
        // ORDERING: see the head. The load alone tells the second of two owners that it is the last, without a read-modify-write.
        if half.load(Ordering::Acquire) || half.swap(true, Ordering::AcqRel) {
            // SAFETY: the other owner is gone, and has done all it did.
            unsafe { end(self.0) }
        }
    }
}

/// # Safety
///
/// - Nobody owns it any more.
unsafe fn end<T>(place: NonNull<Shared<T>>) {
    if const { !Pair::<T>::FITS } {
        // SAFETY: `new` made it of a box.
        return drop(unsafe { Box::from_raw(place.as_ptr()) });
    }
    // SAFETY: duty of the caller. A panic in a destructor leaks the piece.
    unsafe { place.drop_in_place() };
    with_pieces(|pieces| {
        pieces.push(place.cast());
        if pieces.len() > 4 * BATCH {
            give_some(pieces, 3 * BATCH);
        }
    });
}
