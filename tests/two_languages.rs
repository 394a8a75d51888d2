//! Two languages in one function, on one runtime: Vthread, and a rendezvous mailbox that knows nothing of it. They order each other's timelines, and
//! a cancel ends both kinds of waits. (A deadlock through both: `deadlock_of_two_languages.rs`.)

#![cfg(feature = "mutex")]

mod common;

use std::sync::Arc;
use std::time::{Duration, Instant};

use common::{Mailbox, Send};
use proto_runtime::core::{Assigner, Fifo, Priority, ProcessError, Runtime, WorkStealing};
use proto_runtime::mutex::sync::{Barrier, Condvar, Mutex, mpsc};
use proto_runtime::mutex::thread;

const WORKERS: u64 = 8;
const EACH: u64 = 50;

/// Each worker takes a lock of one language and meets the collector in the other, over and over; then all meet at a barrier.
fn both() -> (u64, u64) {
    let mailbox = Mailbox::new();
    let (total, changed) = (Mutex::new(0), Condvar::new());
    let together = Barrier::new(usize::try_from(WORKERS).unwrap());
    let (done, ends) = mpsc::sync_channel(1);
    thread::scope(|s| {
        for worker in 0..WORKERS {
            let (mailbox, total, changed, together, done) = (&mailbox, &total, &changed, &together, done.clone());
            s.spawn(move || {
                for n in 0..EACH {
                    // Held across a wait of the other language.
                    let mut total = total.lock().unwrap();
                    *total += n;
                    mailbox.send(worker * EACH + n);
                    drop(total);
                    changed.notify_all();
                }
                together.wait();
                done.send(worker).unwrap();
            });
        }
        drop(done);
        // A receiver that holds nothing, so it always comes back.
        let received: u64 = (0..WORKERS * EACH).map(|_| mailbox.receive()).sum();
        let all = WORKERS * (0..EACH).sum::<u64>();
        let total = changed.wait_while(total.lock().unwrap(), |total| *total < all).unwrap();
        assert_eq!(ends.iter().sum::<u64>(), (0..WORKERS).sum());
        (received, *total)
    })
}

fn expect(runtime: &Runtime, how: impl Assigner) {
    let process = runtime.start_with(how, both).unwrap();
    let count = WORKERS * EACH;
    assert_eq!(process.wait().unwrap(), (count * (count - 1) / 2, WORKERS * EACH * (EACH - 1) / 2));
}

#[test]
fn one_function_uses_both_on_any_number_of_cores_in_any_order() {
    for controllers in [1, 2, 5] {
        let runtime = Runtime::builder().controllers(controllers).pin(false).build().unwrap();
        expect(&runtime, WorkStealing);
        expect(&runtime, Fifo);
        expect(&runtime, Priority);
    }
}

#[test]
fn a_process_of_each_and_an_os_thread_meet_at_objects_of_both() {
    static MAILBOX: Mailbox<u32> = Mailbox::new();
    static LOG: Mutex<Vec<u32>> = Mutex::new(Vec::new());
    let runtime = Runtime::builder().controllers(2).pin(false).build().unwrap();
    let other = Runtime::builder().controllers(1).pin(false).build().unwrap();
    let sender = runtime.start(|| {
        for n in 0..20 {
            MAILBOX.send(n);
            LOG.lock().unwrap().push(n);
        }
    });
    let receiver = other.start(|| (0..10).map(|_| MAILBOX.receive()).sum::<u32>());
    // This thread is no virtual processor.
    let here: u32 = (0..10).map(|_| MAILBOX.receive()).sum();
    let there = receiver.unwrap().wait().unwrap();
    sender.unwrap().wait().unwrap();
    assert_eq!(here + there, (0..20).sum());
    assert_eq!(*LOG.lock().unwrap(), (0..20).collect::<Vec<_>>());
    assert_eq!(MAILBOX.receive_until(Instant::now() + Duration::from_millis(1)), None);
}

#[test]
fn a_cancel_ends_the_waits_of_both_and_poisons_nothing() {
    let runtime = Runtime::builder().controllers(2).pin(false).build().unwrap();
    let mailbox = Arc::new(Mailbox::<()>::new());
    let lock = Arc::new(Mutex::new(0));
    let (tell, told) = mpsc::channel();
    let process = {
        let (mailbox, lock) = (Arc::clone(&mailbox), Arc::clone(&lock));
        runtime.start(move || {
            thread::scope(|s| {
                s.spawn(|| {
                    let _guard = lock.lock().unwrap();
                    tell.send(()).unwrap();
                    mailbox.receive();
                });
                s.spawn(|| {
                    tell.send(()).unwrap();
                    mailbox.receive();
                    drop(lock.lock());
                });
            });
        })
    };
    let process = process.unwrap();
    // Both are about to wait, or do.
    told.recv().unwrap();
    told.recv().unwrap();
    process.cancel().unwrap();
    assert!(matches!(process.wait(), Err(ProcessError::Cancelled)));
    *lock.lock().expect("a cancel is no panic") += 1;
    // Nobody waits at the mailbox any more: who sends would be answered else.
    assert!(mailbox.0.request_until(Send(()), Some(Instant::now())).is_err());
}
