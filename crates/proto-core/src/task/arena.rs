//! Memory for the tasks of a scope: chunks in which one timeline puts tasks one behind the other.
//!
//! ```text
//!   chunk: head │ task │ hole │ task │ task │ free …          ring: current ─▶ oldest ─▶ … ─▶ current
//!                                           ▲ top
//! ```
//!
//! A task that ends while it is the topmost takes its memory with it: forks that end in turn need one place. Any other leaves a hole; when
//! all of a chunk are holes, it is empty again. A full chunk is followed by the oldest one of the ring if that is empty, else by a new one. So a
//! timeline that makes tasks as fast as others run them goes round in a few chunks.
//!
//! # Who may touch what
//!
//! | | rule |
//! |---|---|
//! | `top`, `made`, `home`, the ring | the timeline whose arena it is |
//! | `away` | whoever frees a place and is another timeline: adds one |
//!
//! A chunk is empty when `made == home + away`. Who frees a place touches nothing of it any more; the chunk itself stays until the scope has ended.
//!
//! The **dangerous race** is between the last free from elsewhere and the timeline that uses the chunk anew: `away` is added to with Release, and
//! read with Acquire.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::cell::Cell;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::runtime::core::Core;

/// The bytes of a chunk, and what its address is a multiple of; one that holds a larger task is longer.
pub(crate) const CHUNK: usize = 16 << 10;

/// The largest alignment of a task.
pub(crate) const MAX_ALIGN: usize = 1 << 10;

/// How many empty chunks a core keeps.
const KEPT: usize = 64;

/// How many chunks of a ring are looked at for an empty one.
const LOOKS: usize = 3;

/// A chunk's head.
#[repr(C, align(64))]
pub(crate) struct Chunk {
    next: Cell<NonNull<Chunk>>,
    bytes: usize,
    /// The offset of the first free byte.
    top: Cell<usize>,
    /// Places given, less those at the top that were given back.
    made: Cell<u32>,
    /// Places that the timeline itself freed.
    home: Cell<u32>,
    /// Places that others freed. May be below zero for a while: see [`lend`].
    away: AtomicU32,
}

const HEAD: usize = size_of::<Chunk>();

impl std::fmt::Debug for Chunk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Chunk").field("bytes", &self.bytes).finish_non_exhaustive()
    }
}

/// The chunk in which a task lies.
#[inline]
fn chunk_of(place: NonNull<u8>) -> *const Chunk {
    place.as_ptr().map_addr(|addr| addr & !(CHUNK - 1)).cast_const().cast()
}

/// Frees a place of another timeline's arena.
///
/// # Safety
///
/// - `place` came from [`Arena::take`], its scope has not ended, and it is freed once. The caller touches it no more.
pub(crate) unsafe fn free_away(place: NonNull<u8>) {
    // SAFETY: the chunk stays until the scope has ended.
    let chunk = unsafe { &*chunk_of(place) };
    // ORDERING: Release pairs with the Acquire in `Chunk::is_empty`.
    chunk.away.fetch_add(1, Ordering::Release);
}

/// The place has to be freed once more before it is free.
///
/// # Safety
///
/// - `place` came from [`Arena::take`], and is not free.
pub(crate) unsafe fn lend(place: NonNull<u8>) {
    // SAFETY: as in `free_away`.
    let chunk = unsafe { &*chunk_of(place) };
    // ORDERING: Relaxed: the place is not free, so nobody can take the chunk for empty; and the second to free it does so later.
    chunk.away.fetch_sub(1, Ordering::Relaxed);
}

impl Chunk {
    /// Makes an empty one, alone in its ring.
    fn make(bytes: usize) -> NonNull<Chunk> {
        let layout = Layout::from_size_align(bytes, CHUNK).expect("a task is smaller than half the address space");
        // SAFETY: the size is not zero.
        let place = unsafe { alloc(layout) }.cast::<Chunk>();
        let Some(chunk) = NonNull::new(place) else { handle_alloc_error(layout) };
        let head = Chunk {
            next: Cell::new(chunk),
            bytes,
            top: Cell::new(HEAD),
            made: Cell::new(0),
            home: Cell::new(0),
            away: AtomicU32::new(0),
        };
        // SAFETY: fresh memory, large enough.
        unsafe { chunk.write(head) };
        chunk
    }

    fn is_empty(&self) -> bool {
        // ORDERING: Acquire pairs with the Release in `free_away`.
        self.made.get() == self.home.get().wrapping_add(self.away.load(Ordering::Acquire))
    }

    /// All of it is free again.
    fn clear(&self) {
        self.top.set(HEAD);
        self.made.set(0);
        self.home.set(0);
        // ORDERING: Relaxed: nobody has a place in it; who gets one gets it from this timeline.
        self.away.store(0, Ordering::Relaxed);
    }
}

/// The chunks of one timeline in one scope. See the head of this file.
#[derive(Debug)]
pub(crate) struct Arena {
    current: Cell<*mut Chunk>,
    chunks: Cell<usize>,
}

impl Arena {
    pub(crate) const fn new() -> Arena {
        Arena { current: Cell::new(ptr::null_mut()), chunks: Cell::new(0) }
    }

    /// How many chunks it has.
    pub(crate) fn chunks(&self) -> usize {
        self.chunks.get()
    }

    /// A place in the current chunk, if there is room.
    #[inline(always)]
    pub(crate) fn take(&self, bytes: usize, align: usize) -> Option<NonNull<u8>> {
        let base = self.current.get();
        // SAFETY: the timeline's own chunk.
        let chunk = unsafe { base.as_ref() }?;
        let start = chunk.top.get().next_multiple_of(align);
        // A task begins in the first `CHUNK` bytes, also of a longer chunk: else the way back to the head would not be found.
        if start + bytes > chunk.bytes || start >= CHUNK {
            return None;
        }
        chunk.top.set(start + bytes);
        chunk.made.set(chunk.made.get().wrapping_add(1));
        // SAFETY: within the chunk. The pointer is made of the chunk's own, so that the way back to its head is within one allocation.
        NonNull::new(unsafe { base.cast::<u8>().add(start) })
    }

    /// Goes on to a chunk with room for `bytes` at any alignment up to [`MAX_ALIGN`]: an empty one of the ring or, if `grow`, a new one.
    #[cold]
    pub(crate) fn go_on(&self, core: &Core, bytes: usize, grow: bool) -> bool {
        let needed = HEAD + MAX_ALIGN + bytes;
        // SAFETY: the timeline's own chunk.
        if let Some(current) = unsafe { self.current.get().as_ref() } {
            if current.is_empty() && needed <= current.bytes {
                current.clear();
                return true;
            }
            let mut next = current.next.get();
            for _ in 0..LOOKS.min(self.chunks.get() - 1) {
                // SAFETY: a chunk of the ring.
                let chunk = unsafe { next.as_ref() };
                if chunk.is_empty() && needed <= chunk.bytes {
                    chunk.clear();
                    self.current.set(next.as_ptr());
                    return true;
                }
                next = chunk.next.get();
            }
        }
        if grow {
            self.grow(core, needed);
        }
        grow
    }

    fn grow(&self, core: &Core, needed: usize) {
        // SAFETY: the timeline runs on that core; the closure only pops.
        let kept = if needed <= CHUNK { unsafe { core.owner(|owner| owner.chunks.pop()) } } else { None };
        let fresh = kept.unwrap_or_else(|| Chunk::make(needed.next_multiple_of(CHUNK)));
        // SAFETY: the timeline's own chunk.
        if let Some(current) = unsafe { self.current.get().as_ref() } {
            // SAFETY: nobody else has it yet.
            unsafe { fresh.as_ref() }.next.set(current.next.get());
            current.next.set(fresh);
        }
        self.current.set(fresh.as_ptr());
        self.chunks.set(self.chunks.get() + 1);
    }

    /// Frees a place of this arena.
    ///
    /// # Safety
    ///
    /// - `place` came from this arena's [`take`](Arena::take) of `bytes`, and is freed once. The caller is its timeline.
    #[inline]
    pub(crate) unsafe fn free(&self, place: NonNull<u8>, bytes: usize) {
        let base = chunk_of(place);
        // SAFETY: the timeline's own chunk.
        let chunk = unsafe { &*base };
        let start = place.addr().get() - base.addr();
        if start + bytes == chunk.top.get() {
            chunk.top.set(start);
            chunk.made.set(chunk.made.get().wrapping_sub(1));
        } else {
            chunk.home.set(chunk.home.get().wrapping_add(1));
        }
    }

    /// Gives all chunks to the core that this runs on.
    ///
    /// # Safety
    ///
    /// - Nobody has a place of it any more.
    pub(crate) unsafe fn give_back(&self, core: Option<&Core>) {
        let Some(first) = NonNull::new(self.current.replace(ptr::null_mut())) else { return };
        let mut chunk = first;
        for _ in 0..self.chunks.replace(0) {
            // SAFETY: a chunk of the ring, which is the caller's alone.
            let head = unsafe { chunk.as_ref() };
            let next = head.next.replace(chunk);
            head.clear();
            let bytes = head.bytes;
            let keep = |core: &Core| {
                // SAFETY: this code runs on that core; the closure only pushes.
                unsafe {
                    core.owner(|owner| {
                        let room = bytes == CHUNK && owner.chunks.len() < KEPT;
                        if room {
                            owner.chunks.push(chunk);
                        }
                        room
                    })
                }
            };
            if !core.is_some_and(keep) {
                // SAFETY: nobody has a place of it.
                unsafe { free_chunk(chunk) };
            }
            chunk = next;
        }
    }
}

/// Frees the memory of a chunk.
///
/// # Safety
///
/// - Nobody has the chunk, or a place of it.
pub(crate) unsafe fn free_chunk(chunk: NonNull<Chunk>) {
    // SAFETY: the caller's alone.
    let bytes = unsafe { chunk.as_ref() }.bytes;
    let layout = Layout::from_size_align(bytes, CHUNK).expect("it was made with it");
    // SAFETY: it was made by `Chunk::make`, with this layout.
    unsafe { dealloc(chunk.as_ptr().cast(), layout) };
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An arena with a chunk of its own, so that no core is needed.
    fn arena() -> Arena {
        let arena = Arena::new();
        arena.current.set(Chunk::make(CHUNK).as_ptr());
        arena.chunks.set(1);
        arena
    }

    fn end(arena: &Arena) {
        // SAFETY: the test has no place any more.
        unsafe { arena.give_back(None) };
    }

    #[test]
    fn what_is_freed_in_turn_needs_one_place() {
        let arena = arena();
        let first = arena.take(48, 16).unwrap();
        for _ in 0..10_000 {
            let place = arena.take(64, 16).unwrap();
            assert_eq!(place.addr().get(), first.addr().get() + 48);
            // SAFETY: just taken.
            unsafe { arena.free(place, 64) };
        }
        end(&arena);
    }

    #[test]
    fn a_chunk_of_holes_is_empty_only_when_the_last_place_is_free() {
        let arena = arena();
        let places: Vec<_> = std::iter::from_fn(|| arena.take(1024, 64)).collect();
        assert_eq!(places.len(), (CHUNK - HEAD) / 1024);
        // SAFETY: a chunk of the test's own.
        let chunk = unsafe { &*arena.current.get() };
        // SAFETY: taken above.
        unsafe { lend(places[0]) };
        for (number, place) in places.iter().enumerate() {
            assert!(!chunk.is_empty(), "there are {} places left", places.len() - number);
            match number % 2 {
                // SAFETY: taken above, freed once.
                0 => unsafe { free_away(*place) },
                // SAFETY: as above.
                _ => unsafe { arena.free(*place, 1024) },
            }
        }
        assert!(!chunk.is_empty(), "one place was lent");
        // SAFETY: it was lent.
        unsafe { free_away(places[0]) };
        assert!(chunk.is_empty());
        end(&arena);
    }
}
