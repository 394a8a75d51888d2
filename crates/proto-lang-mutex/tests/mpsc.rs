//! Channels.

mod common;

use std::time::Duration;

use common::{ROUNDS, cancelled_in_a_wait, much_later, on_1_2_4, runtime, soon, until, until_waits};
use proto_lang_mutex::sync::atomic::{AtomicUsize, Ordering};
use proto_lang_mutex::sync::mpsc::{
    RecvTimeoutError, SendError, SendTimeoutError, TryRecvError, TrySendError, channel, sync_channel,
};
use proto_lang_mutex::sync::{Arc, Mutex};
use proto_lang_mutex::thread;

#[test]
fn values_of_one_sender_come_in_order_and_none_is_lost() {
    on_1_2_4(|| {
        let (sender, receiver) = channel();
        for vp in 0..5 {
            let sender = sender.clone();
            thread::spawn(move || (0..ROUNDS).for_each(|value| sender.send((vp, value)).unwrap()));
        }
        drop(sender);
        let mut next = [0; 5];
        for (vp, value) in receiver {
            assert_eq!(value, next[vp], "a value overtook another of its sender");
            next[vp] += 1;
        }
        assert_eq!(next, [ROUNDS; 5]);
    });
}

#[test]
fn a_bounded_queue_holds_no_more_than_its_bound() {
    on_1_2_4(|| {
        for bound in [0, 1, 7] {
            let (sender, receiver) = sync_channel(bound);
            let sent = AtomicUsize::new(0);
            thread::scope(|s| {
                s.spawn(|| {
                    let sender = sender;
                    for value in 0..ROUNDS {
                        sender.send(value).unwrap();
                        sent.fetch_add(1, Ordering::Relaxed);
                    }
                });
                for value in 0..ROUNDS {
                    assert!(sent.load(Ordering::Relaxed) <= value + bound);
                    assert_eq!(receiver.recv(), Ok(value));
                }
                assert!(receiver.recv().is_err());
            });
        }
    });
}

#[test]
fn try_forms_never_wait() {
    on_1_2_4(|| {
        let (sender, receiver) = sync_channel(1);
        assert_eq!(receiver.try_recv(), Err(TryRecvError::Empty));
        sender.try_send(1).unwrap();
        assert_eq!(sender.try_send(2), Err(TrySendError::Full(2)));
        assert_eq!(receiver.try_recv(), Ok(1));
        drop(receiver);
        assert_eq!(sender.try_send(3), Err(TrySendError::Disconnected(3)));
        let (sender, receiver) = sync_channel(0);
        assert_eq!(sender.try_send(1), Err(TrySendError::Full(1)), "nobody receives");
        drop(sender);
        assert_eq!(receiver.try_recv(), Err(TryRecvError::Disconnected));
    });
}

#[test]
fn a_try_send_without_room_meets_a_receiver_that_waits() {
    on_1_2_4(|| {
        let (sender, receiver) = sync_channel(0);
        let received = thread::spawn(move || receiver.recv());
        until(|| sender.try_send(5).is_ok());
        assert_eq!(received.join().unwrap(), Ok(5));
    });
}

#[test]
fn timed_forms_give_up_and_give_back() {
    on_1_2_4(|| {
        let (sender, receiver) = sync_channel(1);
        assert_eq!(receiver.recv_timeout(Duration::from_millis(1)), Err(RecvTimeoutError::Timeout));
        sender.send("in the buffer".to_owned()).unwrap();
        let back = sender.send_timeout("comes back".to_owned(), Duration::from_millis(1));
        assert_eq!(back, Err(SendTimeoutError::Timeout("comes back".to_owned())));
        let back = sender.send_deadline("comes back".to_owned(), soon());
        assert_eq!(back, Err(SendTimeoutError::Timeout("comes back".to_owned())));
        assert_eq!(receiver.recv().unwrap(), "in the buffer");
        assert_eq!(
            receiver.recv_deadline(soon()),
            Err(RecvTimeoutError::Timeout),
            "what came back is not there as well"
        );
        sender.send_deadline("at once".to_owned(), much_later()).unwrap();
        assert_eq!(receiver.recv_deadline(much_later()).unwrap(), "at once");
        drop(sender);
        assert_eq!(receiver.recv_timeout(Duration::from_secs(60)), Err(RecvTimeoutError::Disconnected));
        assert_eq!(receiver.recv_deadline(much_later()), Err(RecvTimeoutError::Disconnected));
    });
}

#[test]
fn a_timed_value_is_received_or_comes_back_never_both() {
    on_1_2_4(|| {
        let (sender, receiver) = sync_channel(0);
        let (mut back, mut sum) = (0, 0);
        thread::scope(|s| {
            let sends = s.spawn(|| {
                let sender = sender;
                let mut back = 0;
                for value in 1..=ROUNDS {
                    match sender.send_timeout(Box::new(value), Duration::from_micros((value % 30) as u64)) {
                        Ok(()) => {}
                        Err(SendTimeoutError::Timeout(value)) => back += *value,
                        Err(SendTimeoutError::Disconnected(_)) => unreachable!("the receiver stays"),
                    }
                }
                back
            });
            for value in receiver.iter() {
                sum += *value;
                thread::yield_now();
            }
            back = sends.join().unwrap();
        });
        assert_eq!(sum + back, ROUNDS * (ROUNDS + 1) / 2);
    });
}

#[test]
fn a_receiver_that_goes_gives_every_waiting_sender_its_value_back() {
    on_1_2_4(|| {
        let (sender, receiver) = sync_channel(0);
        let waits = Arc::new(AtomicUsize::new(0));
        let senders: Vec<_> = (0..6)
            .map(|value| {
                let (sender, waits) = (sender.clone(), Arc::clone(&waits));
                thread::spawn(move || {
                    waits.fetch_add(1, Ordering::Relaxed);
                    if value % 2 == 0 {
                        sender.send(value)
                    } else {
                        sender
                            .send_timeout(value, Duration::from_secs(600))
                            .map_err(|error| SendError(error.into_inner()))
                    }
                })
            })
            .collect();
        until(|| waits.load(Ordering::Relaxed) == 6);
        drop(receiver);
        for (value, sender) in senders.into_iter().enumerate() {
            assert_eq!(sender.join().unwrap(), Err(SendError(value)));
        }
    });
}

#[test]
fn the_last_sender_that_goes_wakes_the_receiver() {
    on_1_2_4(|| {
        let (sender, receiver) = channel::<u32>();
        let receives = thread::spawn(move || receiver.recv());
        let other = sender.clone();
        until_waits(receives.thread());
        drop(sender);
        drop(other);
        assert!(receives.join().unwrap().is_err());
    });
}

#[test]
fn what_nobody_receives_is_dropped_with_the_receiver() {
    struct Counts(Arc<Mutex<usize>>);
    impl Drop for Counts {
        fn drop(&mut self) {
            // A request: it would panic if it were made inside the channel's handler.
            *self.0.lock().unwrap() += 1;
        }
    }
    on_1_2_4(|| {
        let dropped = Arc::new(Mutex::new(0));
        let (sender, receiver) = channel();
        for _ in 0..3 {
            sender.send(Counts(Arc::clone(&dropped))).map_err(drop).unwrap();
        }
        drop(receiver);
        assert_eq!(*dropped.lock().unwrap(), 3);
        drop(sender.send(Counts(Arc::clone(&dropped))));
        assert_eq!(*dropped.lock().unwrap(), 4);
    });
}

#[test]
fn cancelled_ends_leave_the_other_end_working() {
    on_1_2_4(|| {
        let (sender, receiver) = sync_channel(0);
        cancelled_in_a_wait({
            let sender = sender.clone();
            move || sender.send(1)
        });
        assert_eq!(receiver.try_recv(), Err(TryRecvError::Empty), "its value went with it");
        cancelled_in_a_wait(move || receiver.recv());
        assert_eq!(sender.send(2), Err(SendError(2)), "the receiver was dropped by its unwinding");
    });
}

#[test]
fn operating_system_threads_and_virtual_processors_share_a_channel() {
    let (to, from_main) = sync_channel(1);
    let (back, at_main) = channel();
    let runtime = runtime(2);
    std::thread::scope(|s| {
        s.spawn(|| {
            runtime.run(move || from_main.iter().for_each(|value: usize| back.send(value + 1).unwrap())).unwrap();
        });
        for value in 0..ROUNDS {
            to.send(value).unwrap();
            assert_eq!(at_main.recv(), Ok(value + 1));
        }
        drop(to);
    });
}

#[test]
fn iterators_end_with_the_senders_or_the_values() {
    let (sender, receiver) = channel();
    sender.send(1).unwrap();
    sender.send(2).unwrap();
    assert_eq!(receiver.try_iter().collect::<Vec<_>>(), [1, 2]);
    sender.send(3).unwrap();
    drop(sender);
    assert_eq!((&receiver).into_iter().collect::<Vec<_>>(), [3]);
    assert_eq!(receiver.into_iter().count(), 0);
}
