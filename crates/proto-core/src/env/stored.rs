//! How what a timeline leaves in a queue lies there: in the node if it is small, else in the room of the timeline's frame (`frame`), and only
//! if neither holds it in a box.

use std::marker::PhantomData;
use std::ptr;

use super::frame::To;
use super::node::{GiveBack, Node};
use crate::ended::Ended;

/// One value in a node.
struct Slot<V>(PhantomData<V>);

/// In the second word of the data of a node whose value lies elsewhere: whether that is a box.
const BOXED: usize = 1;

impl<V> Slot<V> {
    const INLINE: bool = size_of::<V>() <= size_of::<[usize; 2]>() && align_of::<V>() <= align_of::<usize>();

    #[inline]
    fn put<T>(node: &Node, to: &To<T>, value: V) {
        let place = node.data.get();
        if const { Self::INLINE } {
            // SAFETY: it fits, and the node is the caller's until it is linked.
            return unsafe { place.cast::<V>().write(value) };
        }
        let (elsewhere, tag) = match to.room_for::<V>() {
            Some(room) => {
                // SAFETY: the room is large enough, and the requester's, which waits.
                unsafe { room.write(value) };
                (room, 0)
            }
            None => (Box::into_raw(Box::new(value)), BOXED),
        };
        // SAFETY: two words; the node is the caller's until it is linked.
        unsafe { place.cast::<(*mut V, usize)>().write((elsewhere, tag)) };
    }

    /// Where the value lies, and whether in a box.
    #[inline]
    fn find(node: &Node) -> (*mut V, bool) {
        let place = node.data.get();
        if const { Self::INLINE } {
            return (place.cast(), false);
        }
        // SAFETY: `put` wrote it.
        let (elsewhere, tag) = unsafe { place.cast::<(*mut V, usize)>().read() };
        (elsewhere, tag == BOXED)
    }

    /// Takes the value out.
    ///
    /// # Safety
    ///
    /// - `put` wrote it, and it is taken once.
    #[inline]
    unsafe fn take(node: &Node) -> V {
        let (value, boxed) = Self::find(node);
        if boxed {
            // SAFETY: `put` made this pointer of a box; the caller says that it is taken once.
            return *unsafe { Box::from_raw(value) };
        }
        // SAFETY: duty of the caller.
        unsafe { value.read() }
    }
}

/// What a queue of timelines that wait for a `T` keeps of each: a `D`, maybe with a way back.
pub(super) struct Stored<T, D>(PhantomData<(T, D)>);

/// The data, and what makes the reply of them if the timeline gives up.
type WithBack<T, D> = (D, fn(D, Ended) -> T);

impl<T, D> Stored<T, D> {
    #[inline]
    pub(super) fn put(node: &Node, to: &To<T>, data: D) {
        let kept = std::mem::needs_drop::<D>() || !const { Slot::<D>::INLINE };
        Slot::<D>::put(node, to, data);
        node.back.set(if kept { Some(Self::discard) } else { None });
    }

    pub(super) fn put_with_back(node: &Node, to: &To<T>, data: D, back: fn(D, Ended) -> T) {
        Slot::<WithBack<T, D>>::put(node, to, (data, back));
        node.back.set(Some(Self::give_back));
    }

    fn has_way_back(node: &Node) -> bool {
        node.back.get().is_some_and(|back| ptr::fn_addr_eq(back, Self::give_back as GiveBack))
    }

    /// Takes the data out of a node whose wait was just won, or whose token is taken, under the queue's lock.
    #[inline]
    pub(super) fn take(node: &Node) -> D {
        let with_back = Self::has_way_back(node);
        node.back.set(None);
        if with_back {
            // SAFETY: `put_with_back` wrote it; nobody reads it again, for the way back is cleared.
            return unsafe { Slot::<WithBack<T, D>>::take(node) }.0;
        }
        // SAFETY: `put` wrote it; nobody reads it again.
        unsafe { Slot::<D>::take(node) }
    }

    /// The data of a linked node, unless it has a way back.
    pub(super) fn peek(node: &Node) -> Option<&D> {
        if Self::has_way_back(node) {
            return None;
        }
        let (data, _) = Slot::<D>::find(node);
        // SAFETY: `put` wrote it, and it stays while the node is linked.
        Some(unsafe { &*data })
    }

    unsafe fn discard(node: &Node, _: &Ended, _: *mut ()) -> bool {
        // SAFETY: `put` wrote it; the caller took `back` out, so nobody takes it again.
        drop(unsafe { Slot::<D>::take(node) });
        false
    }

    unsafe fn give_back(node: &Node, why: &Ended, reply: *mut ()) -> bool {
        // SAFETY: `put_with_back` wrote it; the caller took `back` out, so nobody takes it again.
        let (data, back) = unsafe { Slot::<WithBack<T, D>>::take(node) };
        if reply.is_null() {
            return false;
        }
        let value = back(data, why.clone());
        // SAFETY: the place of the reply takes a `T`, and is in the frame of the timeline that runs this.
        unsafe { reply.cast::<T>().write(value) };
        true
    }
}
