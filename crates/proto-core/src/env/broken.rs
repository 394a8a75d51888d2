//! What a broken environment leaves to those who waited in it: every wait is ended, and the first panic's message is passed on.

use std::sync::{Arc, Mutex, PoisonError};

use super::cell::CellHead;
use super::hidden::{Hidden, Origin, Status};
use super::node::Node;
use crate::kernel::wait::{End, EndResult};
use crate::vp::block::Block;

/// Messages for timelines whose environment broke, until they take them. Cold: one entry for each that waits there.
static MESSAGES: Mutex<Vec<(usize, Arc<str>)>> = Mutex::new(Vec::new());

pub(crate) fn leave_message(block: &'static Block, message: &Arc<str>) {
    let id = std::ptr::from_ref(block).addr();
    MESSAGES.lock().unwrap_or_else(PoisonError::into_inner).push((id, Arc::clone(message)));
}

#[cold]
pub(super) fn take_message(block: &'static Block) -> Arc<str> {
    let id = std::ptr::from_ref(block).addr();
    let mut messages = MESSAGES.lock().unwrap_or_else(PoisonError::into_inner);
    match messages.iter().position(|(who, _)| *who == id) {
        Some(index) => messages.swap_remove(index).1,
        None => Arc::from("a handler of the environment panicked"),
    }
}

/// Ends every wait in the queues of a breaking environment. Under its lock. Gives back whom to make ready.
#[cold]
pub(crate) fn break_all(
    head: &CellHead,
    message: &Arc<str>,
    requester: &'static Block,
    hidden: &mut Hidden<'_>,
) -> Vec<&'static Block> {
    let in_select = matches!(hidden.origin(), Some(Origin::Branch(_)));
    let mut nodes: Vec<*const Node> = Vec::new();
    head.heads.for_each(|node| nodes.push(node));
    let mut ready = Vec::new();
    for node in nodes {
        // SAFETY: it was linked a moment ago, and the lock is held.
        let node = unsafe { &*node };
        let block = node.block();
        if in_select && std::ptr::eq(block, requester) {
            // The select that was just entering: it looks after its nodes itself.
            continue;
        }
        // The requester may be among them, queued before its handler panicked: it is made ready like any other.
        if block.wait.end(node.key(), End::Broken) == EndResult::Won {
            head.heads.unlink(node);
            leave_message(block, message);
            ready.push(block);
        }
    }
    if hidden.status == Status::Queued && !in_select {
        // Or its token was taken, and may now lie in the value that is to be dropped.
        // SAFETY: the requester runs, or waits: it has started.
        let key = unsafe { requester.node() }.key();
        if requester.wait.end(key, End::Broken) == EndResult::Won {
            leave_message(requester, message);
            ready.push(requester);
        }
    }
    ready
}
