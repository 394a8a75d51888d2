//! Pushes against a take: nothing is lost, doubled, reordered or seen half-written.

use core::ptr::NonNull;
use std::sync::Arc;

use loom::cell::UnsafeCell;

use crate::kernel::inbox::{Inbox, Link};
use crate::sync::model::{Half, Of, without};

#[repr(C)]
struct Node {
    link: Link,
    payload: UnsafeCell<u32>,
}

fn send(inbox: &Inbox, number: u32) {
    let node = Box::leak(Box::new(Node { link: Link::new(), payload: UnsafeCell::new(0) }));
    // SAFETY: the node is this thread's until it is pushed; loom reports the access if a taker sees it earlier.
    node.payload.with_mut(|payload| unsafe { *payload = number });
    // SAFETY: a fresh node, freed only by `open` after it was handed out.
    unsafe { inbox.push(NonNull::from(node).cast()) };
}

fn open(link: NonNull<Link>) -> u32 {
    // SAFETY: every link here is the first field of a leaked, `repr(C)` `Node`, and is opened once.
    let node = unsafe { Box::from_raw(link.cast::<Node>().as_ptr()) };
    // SAFETY: as in `send`: loom checks that the sender's write happened before.
    node.payload.with(|payload| unsafe { *payload })
}

fn producers_and_owner() {
    loom::model(|| {
        let inbox = Arc::new(Inbox::new());
        let producers: Vec<_> = [10, 20]
            .into_iter()
            .map(|base| {
                let inbox = Arc::clone(&inbox);
                loom::thread::spawn(move || {
                    send(&inbox, base + 1);
                    send(&inbox, base + 2);
                })
            })
            .collect();
        let mut seen: Vec<u32> = inbox.take().map(open).collect();
        for producer in producers {
            producer.join().expect("a producer panicked");
        }
        seen.extend(inbox.take().map(open));
        for base in [10, 20] {
            let own: Vec<u32> = seen.iter().copied().filter(|number| number / 10 == base / 10).collect();
            assert_eq!(own, [base + 1, base + 2], "a producer's nodes were lost or reordered");
        }
        assert_eq!(seen.len(), 4);
    });
}

#[test]
fn two_producers_and_an_owner() {
    producers_and_owner();
}

#[test]
#[should_panic(expected = "Causality violation")]
fn without_the_producers_release_the_owner_sees_half_a_node() {
    without(Half::Release, Of::Exchanges, producers_and_owner);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn without_the_owners_acquire_it_sees_half_a_node() {
    without(Half::Acquire, Of::Swaps, producers_and_owner);
}

#[test]
fn a_node_is_pushed_again_while_its_batch_is_open() {
    // A VP waits again and is woken again by another core while the controller still works on the batch it came in.
    loom::model(|| {
        let inbox = Arc::new(Inbox::new());
        send(&inbox, 1);
        send(&inbox, 2);
        let mut batch = inbox.take();
        let early = batch.next().expect("two were sent");
        let address = early.as_ptr() as usize;
        let waker = {
            let inbox = Arc::clone(&inbox);
            loom::thread::spawn(move || {
                let node = NonNull::new(address as *mut Link).expect("it came from a `NonNull`");
                // SAFETY: the node was handed out; it is freed by `open` after the next time.
                unsafe { inbox.push(node) };
            })
        };
        assert_eq!(batch.map(open).collect::<Vec<_>>(), [2]);
        waker.join().expect("the waker panicked");
        assert_eq!(inbox.take().map(open).collect::<Vec<_>>(), [1]);
    });
}
