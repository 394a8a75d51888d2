//! What a requester keeps in its frame for whoever answers it: the place of the reply, and room for what it leaves in a queue.
//!
//! A handler gets its request by value, under the lock, and may leave a part of it in a queue together with its caller. Where that part
//! does not fit into the queue's node it goes into this room, which is as large as the request itself: so a queue takes what came
//! with a request without an allocation under the lock [design rule 2]. The room costs an untouched piece of stack.
//!
//! **Who may touch it.** The reply: as told in `kernel::wait` (the claimer writes it, the requester reads it after the wait). The room: whoever holds the
//! lock of the queue in which the requester's node is; after the wait the requester.

use std::mem::{MaybeUninit, offset_of};

/// See the head of this file.
#[repr(C)]
pub(crate) struct Frame<T, R> {
    reply: MaybeUninit<T>,
    room: RoomOf<R>,
}

/// As large as a request and a function's address, which queues with a way back add; aligned like an address.
#[repr(C)]
struct RoomOf<R> {
    _request: MaybeUninit<R>,
    _back: MaybeUninit<usize>,
}

/// Where a reply goes, and what room is behind it.
pub(crate) struct To<T> {
    pub(crate) reply: *mut T,
    pub(crate) room: Room,
}

impl<T> Clone for To<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for To<T> {}

/// How far behind the reply the room begins, and its bytes; 0: there is none.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Room {
    offset: u16,
    bytes: u16,
}

impl<T, R> Frame<T, R> {
    const ROOM: Room = {
        let (offset, bytes) = (offset_of!(Frame<T, R>, room), size_of::<RoomOf<R>>());
        // What is larger than 64 KiB is boxed.
        if offset + bytes > u16::MAX as usize {
            Room { offset: 0, bytes: 0 }
        } else {
            Room { offset: offset as u16, bytes: bytes as u16 }
        }
    };

    #[inline(always)]
    pub(crate) fn new() -> MaybeUninit<Self> {
        MaybeUninit::uninit()
    }

    /// The one pointer for handler, resumer and the way back: another borrow of the frame in between would end theirs.
    #[inline(always)]
    pub(crate) fn to(this: &mut MaybeUninit<Self>) -> To<T> {
        To { reply: this.as_mut_ptr().cast(), room: Self::ROOM }
    }
}

impl<T> To<T> {
    /// Where a reply goes that has no frame of its own.
    #[inline(always)]
    pub(crate) fn bare(reply: *mut T) -> To<T> {
        To { reply, room: Room { offset: 0, bytes: 0 } }
    }

    /// The room, if a `V` fits into it.
    #[inline(always)]
    pub(crate) fn room_for<V>(&self) -> Option<*mut V> {
        let fits = size_of::<V>() <= usize::from(self.room.bytes) && align_of::<V>() <= align_of::<usize>();
        // In bounds: where there is room, `reply` points at a whole `Frame`.
        fits.then(|| self.reply.wrapping_byte_add(usize::from(self.room.offset)).cast())
    }
}
