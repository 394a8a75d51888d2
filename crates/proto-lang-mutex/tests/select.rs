//! `select!` and `Select`.

mod common;

use std::time::Duration;

use common::{ROUNDS, cancelled_in_a_wait, on_1_2_4};
use proto_lang_mutex::sync::mpsc::{Receiver, RecvError, channel, sync_channel};
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
fn of_those_that_are_ready_the_first_wins_if_that_is_wanted() {
    let (one, ones) = channel();
    let (two, twos) = channel();
    two.send(2).unwrap();
    for _ in 0..20 {
        one.send(1).unwrap();
        let first = Select::biased().recv(&ones, Result::unwrap).recv(&twos, Result::unwrap).wait();
        assert_eq!(first, 1);
        one.send(1).unwrap();
        assert!(select! { biased; recv(ones) -> _ => true, recv(twos) -> _ => false });
    }
    assert_eq!(twos.try_recv(), Ok(2), "the other kept its value");
}

#[test]
fn of_those_that_are_always_ready_each_is_served() {
    on_1_2_4(|| {
        let ends: [_; 3] = std::array::from_fn(|_| channel());
        ends.iter().for_each(|(sender, _)| (0..ROUNDS).for_each(|value| sender.send(value).unwrap()));
        let [(_, ones), (_, twos), (_, threes)] = &ends;
        let mut served = [0; 3];
        for _ in 0..ROUNDS {
            // Two in turn: a count of all selects would begin each with the same branch every time.
            select! {
                recv(ones) -> _ => served[0] += 1,
                recv(twos) -> _ => served[1] += 1,
                recv(threes) -> _ => served[2] += 1,
            }
            select! { recv(ones) -> _ => {}, recv(twos) -> _ => {}, recv(threes) -> _ => {}, default => unreachable!() }
        }
        assert!(served.iter().all(|times| *times >= ROUNDS / 5), "one was starved: {served:?}");
    });
}

#[test]
fn its_arms_are_plain_code() {
    fn sum(numbers: &Receiver<u32>, words: &Receiver<String>) -> Result<u32, RecvError> {
        let mut log = Vec::new();
        'all: loop {
            for _ in 0..2 {
                let length = select! {
                    recv(numbers) -> number => {
                        log.push(number?);
                        continue
                    },
                    recv(words) -> word => match word {
                        Ok(word) if word.is_empty() => break 'all,
                        Ok(word) => word.len() as u32,
                        Err(_) => return Ok(0),
                    },
                };
                log.push(length);
            }
        }
        Ok(log.iter().sum())
    }
    on_1_2_4(|| {
        let ((number, numbers), (word, words)) = (channel(), channel());
        number.send(40).unwrap();
        word.send("word".to_owned()).unwrap();
        thread::spawn({
            let word = word.clone();
            move || word.send(String::new()).unwrap()
        });
        let got = sum(&numbers, &words).unwrap();
        assert!([4, 44].contains(&got), "the last word may be looked at before the number: {got}");
        drop(word);
        let left = numbers.try_iter().count();
        assert_eq!(left, usize::from(got == 4));
        assert_eq!(sum(&numbers, &words), Ok(0), "`return` leaves the function");
        drop(number);
        let (_kept, silent) = channel();
        assert_eq!(sum(&numbers, &silent), Err(RecvError), "and so does `?`");
    });
}

#[test]
fn a_cancelled_select_leaves_all_its_queues() {
    on_1_2_4(|| {
        let (one, ones) = sync_channel::<u32>(0);
        let (two, twos) = sync_channel::<u32>(0);
        cancelled_in_a_wait(move || select! { recv(ones) -> value => value, recv(twos) -> value => value });
        assert!(one.send(1).is_err() && two.send(2).is_err());
    });
}
