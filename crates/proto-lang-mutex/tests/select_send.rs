//! `select!` with branches that send.

mod common;

use std::time::Duration;

use common::{ROUNDS, cancelled_in_a_wait, on_1_2_4};
use proto_lang_mutex::sync::mpsc::{channel, sync_channel};
use proto_lang_mutex::sync::{Arc, Mutex};
use proto_lang_mutex::{Select, select, thread};

#[test]
fn a_value_is_sent_or_comes_back() {
    on_1_2_4(|| {
        let (sender, receiver) = sync_channel(1);
        let mut value = Some("first".to_owned());
        let sent = select! { send(sender, value) -> sent => sent.is_ok(), default => false };
        assert!(sent && value.is_none());
        value = Some("second".to_owned());
        let sent = select! { send(sender, value) -> _ => true, default => false };
        assert!(!sent, "there is no room");
        let sent = select! { send(sender, value) -> _ => true, default(Duration::from_millis(1)) => false };
        assert!(!sent && value.as_deref() == Some("second"));
        assert_eq!(receiver.recv().unwrap(), "first");
        assert!(receiver.try_recv().is_err(), "what came back is not there as well");
        drop(receiver);
        let back = select! { send(sender, value) -> sent => sent.unwrap_err().0 };
        assert_eq!(back, "second", "the receiver is gone");
    });
}

#[test]
fn every_value_goes_to_one_of_two_receivers() {
    on_1_2_4(|| {
        let (one, ones) = sync_channel(0);
        let (two, twos) = sync_channel(2);
        let sums = [ones, twos].map(|receiver| thread::spawn(move || receiver.iter().sum::<usize>()));
        for value in 1..=ROUNDS {
            let (mut first, mut second) = (Some(value), Some(value));
            let went = select! {
                send(one, first) -> sent => sent.map(|()| 1),
                send(two, second) -> sent => sent.map(|()| 2),
            };
            match went.unwrap() {
                1 => assert_eq!((first, second), (None, Some(value))),
                _ => assert_eq!((first, second), (Some(value), None)),
            }
        }
        drop((one, two));
        assert_eq!(sums.map(|sum| sum.join().unwrap()).iter().sum::<usize>(), ROUNDS * (ROUNDS + 1) / 2);
    });
}

#[test]
fn two_selects_meet_each_other() {
    on_1_2_4(|| {
        let (to, from_other) = sync_channel(0);
        let (back, from_here) = sync_channel(0);
        let other = thread::spawn(move || {
            let (mut sum, mut next) = (0, Some(1));
            loop {
                let over = select! {
                    send(back, next) -> sent => sent.is_err(),
                    recv(from_other) -> value => value.map(|value| sum += value).is_err(),
                };
                if over {
                    return sum;
                }
                next.get_or_insert(1);
            }
        });
        let (mut sent, mut received, mut next) = (0, 0, Some(1_usize));
        while sent < ROUNDS {
            select! {
                send(to, next) -> done => { done.unwrap(); sent += 1 },
                recv(from_here) -> value => received += value.unwrap_or(0_usize),
            }
            next.get_or_insert(1);
        }
        drop((to, from_here));
        assert_eq!(other.join().unwrap(), ROUNDS, "{received} came the other way");
    });
}

#[test]
fn an_unbounded_channel_takes_at_once() {
    on_1_2_4(|| {
        let (sender, receiver) = channel();
        let (_kept, silent) = channel::<()>();
        for value in 0..20 {
            let mut value = Some(value);
            select! { recv(silent) -> _ => unreachable!("nobody sends"), send(sender, value) -> sent => sent.unwrap() }
        }
        assert_eq!(receiver.try_iter().collect::<Vec<_>>(), (0..20).collect::<Vec<_>>());
    });
}

#[test]
fn a_cancelled_select_drops_its_value_once() {
    struct Counts(Arc<Mutex<usize>>);
    impl Drop for Counts {
        fn drop(&mut self) {
            // A request: it would panic if it were made inside a handler.
            *self.0.lock().unwrap() += 1;
        }
    }
    on_1_2_4(|| {
        let (sender, receiver) = sync_channel(0);
        let dropped = Arc::new(Mutex::new(0));
        let counts = Counts(Arc::clone(&dropped));
        cancelled_in_a_wait(move || Select::new().send(&sender, &mut Some(counts), |sent| sent.is_ok()).wait());
        assert_eq!(*dropped.lock().unwrap(), 1);
        assert!(receiver.recv().is_err(), "its sender went with it");
    });
}

#[test]
#[should_panic(expected = "no value to send")]
fn a_select_has_something_to_send() {
    let (sender, _receiver) = sync_channel::<u32>(1);
    Select::new().send(&sender, &mut None, drop).wait();
}
