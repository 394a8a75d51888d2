//! `select!` and `Select`.

mod common;

use std::time::Duration;

use common::{ROUNDS, on_1_2_4};
use proto_core::Cancelled;
use proto_lang_mutex::sync::mpsc::{channel, sync_channel};
use proto_lang_mutex::{Select, select, thread};

#[test]
fn every_value_of_every_channel_arrives_once() {
    on_1_2_4(|| {
        let (one, ones) = channel();
        let (two, twos) = sync_channel(0);
        let (three, threes) = sync_channel(2);
        thread::spawn(move || (0..ROUNDS).for_each(|value| one.send(value).unwrap()));
        thread::spawn(move || (0..ROUNDS).for_each(|value| two.send(value).unwrap()));
        thread::spawn(move || (0..ROUNDS).for_each(|value| three.send(value).unwrap()));
        let mut next = [0; 3];
        while next != [ROUNDS; 3] {
            let (channel, value) = select! {
                recv(ones) -> value => value.map_or((9, 0), |value| (0, value)),
                recv(twos) -> value => value.map_or((9, 0), |value| (1, value)),
                recv(threes) -> value => value.map_or((9, 0), |value| (2, value)),
            };
            if channel == 9 {
                // One has lost its sender, and would win for ever.
                break;
            }
            assert_eq!(value, next[channel]);
            next[channel] += 1;
        }
        // What is left, of each.
        next[0] += ones.iter().count();
        next[1] += twos.iter().count();
        next[2] += threes.iter().count();
        assert_eq!(next, [ROUNDS; 3]);
    });
}

#[test]
fn a_default_is_taken_when_nothing_is_there() {
    on_1_2_4(|| {
        let (sender, receiver) = channel();
        let look = || {
            select! {
                recv(receiver) -> value => value.ok(),
                default => None,
            }
        };
        assert_eq!(look(), None);
        sender.send(1).unwrap();
        assert_eq!(look(), Some(1));
        let waited = select! {
            recv(receiver) -> value => value.ok(),
            default(Duration::from_millis(1)) => Some(0),
        };
        assert_eq!(waited, Some(0));
    });
}

#[test]
fn a_channel_without_senders_is_ready() {
    on_1_2_4(|| {
        let (_kept, silent) = channel::<u32>();
        let (sender, closed) = channel::<u32>();
        thread::spawn(move || drop(sender));
        assert!(Select::new().recv(&silent, |value| value).recv(&closed, |value| value).wait().is_err());
    });
}

#[test]
fn the_first_that_is_ready_wins() {
    let (one, ones) = channel();
    let (two, twos) = channel();
    two.send(2).unwrap();
    one.send(1).unwrap();
    let first = Select::new().recv(&ones, Result::unwrap).recv(&twos, Result::unwrap).wait();
    assert_eq!(first, 1);
    assert_eq!(twos.try_recv(), Ok(2), "the other kept its value");
}

#[test]
fn a_cancelled_select_leaves_all_its_queues() {
    on_1_2_4(|| {
        let (one, ones) = sync_channel::<u32>(0);
        let (two, twos) = sync_channel::<u32>(0);
        let (kept, selects) = (twos, thread::Builder::new());
        let selects =
            selects.spawn(move || select! { recv(ones) -> value => value, recv(kept) -> value => value }).unwrap();
        selects.cancel().unwrap();
        assert!(selects.join().unwrap_err().is::<Cancelled>());
        assert!(one.send(1).is_err() && two.send(2).is_err());
    });
}
