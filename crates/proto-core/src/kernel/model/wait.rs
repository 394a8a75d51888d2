//! Answer, deadline, cancel and drop on one wait: exactly one wins, a loser keeps its value, no note is forgotten.
//!
//! The main thread of each model is the timeline and its home core; environments are loom's mutexes.

use std::sync::Arc;

use loom::cell::UnsafeCell;
use loom::sync::Mutex;
use loom::thread;

use crate::kernel::wait::{End, EndResult, Holding, Interrupt, Interrupted, Key, Lost, Place, WaitWord};
use crate::sync::model::{Half, Of, without};

/// A wait and the place of its reply; what `claim, write, publish` protects.
struct Record {
    word: WaitWord,
    reply: UnsafeCell<u32>,
}

// SAFETY: `reply` is written by the claimer only and read after the end; loom checks it.
unsafe impl Sync for Record {}

impl Record {
    fn new() -> Arc<Self> {
        Arc::new(Self { word: WaitWord::new(), reply: UnsafeCell::new(0) })
    }

    /// Answers with `value`, or gives it back.
    fn answer(&self, key: Key, value: u32) -> Result<(), (Lost, u32)> {
        match self.word.claim(key) {
            Ok(claim) => {
                // SAFETY: loom reports it if two claimers write, or the timeline reads already.
                self.reply.with_mut(|reply| unsafe { *reply = value });
                self.word.publish(claim);
                Ok(())
            }
            Err(lost) => Err((lost, value)),
        }
    }

    fn read(&self) -> u32 {
        // SAFETY: as in `answer`.
        self.reply.with(|reply| unsafe { *reply })
    }
}

fn answer_drop_deadline_and_cancel() {
    // A wait with two tokens: one is answered, one is dropped, on two other cores, while time runs out here and then a
    // cancel comes.
    loom::model(|| {
        let record = Record::new();
        let key = record.word.arm_free();
        let answerer = {
            let record = Arc::clone(&record);
            thread::spawn(move || record.answer(key, 7))
        };
        let dropper = {
            let record = Arc::clone(&record);
            thread::spawn(move || record.word.end(key.with_branch(1), End::Abandoned))
        };
        let deadline = record.word.interrupt(key, Interrupt::Deadline, Holding::Nothing);
        let cancel = record.word.interrupt(key, Interrupt::Cancel, Holding::Nothing);
        let early = record.word.poll(key);
        if early == Some(End::Answered(0)) {
            assert_eq!(record.read(), 7, "the end was seen before the reply");
        }
        let answered = answerer.join().expect("the answerer panicked");
        let dropped = dropper.join().expect("the dropper panicked");
        let wins =
            [answered.is_ok(), dropped == EndResult::Won, deadline == Interrupted::Won, cancel == Interrupted::Won];
        assert_eq!(wins.iter().filter(|won| **won).count(), 1, "not exactly one end: {wins:?}");
        let end = record.word.poll(key).expect("somebody won");
        let index = match end {
            End::Answered(0) => 0,
            End::Abandoned => 1,
            End::Deadline => 2,
            End::Cancelled => 3,
            other => panic!("nobody asked for {other:?}"),
        };
        assert!(wins[index], "the word says {end:?}, the winners are {wins:?}");
        if let Err((_, value)) = answered {
            assert_eq!(value, 7, "the loser keeps its value");
            assert_eq!(record.read(), 0, "a loser wrote a reply");
        }
        record.word.retire();
    });
}

#[test]
fn one_of_answer_drop_deadline_and_cancel_wins() {
    answer_drop_deadline_and_cancel();
}

#[test]
#[should_panic(expected = "Causality violation")]
fn without_the_release_of_an_end_the_reply_is_not_seen() {
    without(Half::Release, Of::Stores, answer_drop_deadline_and_cancel);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn without_the_acquire_of_a_poll_the_reply_is_not_seen() {
    without(Half::Acquire, Of::Loads, answer_drop_deadline_and_cancel);
}

/// The key of the first wait of any word: for who knows it from nobody.
fn first_key() -> Key {
    WaitWord::new().arm_free()
}

/// The timeline says where the reply goes, and arms; a claimer comes meanwhile.
fn arming_and_claim() {
    loom::model(|| {
        let record = Record::new();
        let claimer = {
            let record = Arc::clone(&record);
            thread::spawn(move || record.word.claim(first_key()).map(|_claim| assert_eq!(record.read(), 3)).is_ok())
        };
        // SAFETY: loom reports it if the claimer reads already.
        record.reply.with_mut(|reply| unsafe { *reply = 3 });
        record.word.arm_free();
        claimer.join().expect("the claimer panicked");
    });
}

#[test]
fn who_claims_sees_where_the_reply_goes() {
    arming_and_claim();
}

#[test]
#[should_panic(expected = "Causality violation")]
fn without_the_release_of_an_arming_the_claimer_does_not_see_where() {
    without(Half::Release, Of::Stores, arming_and_claim);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn without_the_acquire_of_a_claim_it_does_not_see_where() {
    // It reads the word twice, and acquires by both.
    without(Half::Acquire, Of::Loads, || without(Half::Acquire, Of::Exchanges, arming_and_claim));
}

/// A resumer that comes while the timeline arms has changed something, and leaves the note that makes the timeline look.
fn arming_and_note() {
    loom::model(|| {
        let record = Record::new();
        let resumer = {
            let record = Arc::clone(&record);
            thread::spawn(move || {
                // SAFETY: loom reports it if the timeline reads already.
                record.reply.with_mut(|change| unsafe { *change = 4 });
                record.word.end(first_key(), End::Abandoned)
            })
        };
        let key = record.word.begin_arming();
        let noted = record.word.finish_arming(key).missed;
        if noted {
            assert_eq!(record.read(), 4);
        }
        assert_eq!(resumer.join().expect("the resumer panicked") == EndResult::Noted, noted);
    });
}

#[test]
fn who_finds_a_note_sees_what_came_before_it() {
    arming_and_note();
}

#[test]
#[should_panic(expected = "Causality violation")]
fn without_the_release_of_a_note_the_timeline_does_not_see_what_came_before() {
    without(Half::Release, Of::Exchanges, arming_and_note);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn without_the_acquire_of_who_finds_a_note_it_does_not_see_what_came_before() {
    without(Half::Acquire, Of::Swaps, arming_and_note);
}

#[test]
fn one_branch_of_a_select_wins() {
    loom::model(|| {
        let record = Record::new();
        let key = record.word.begin_arming();
        let resumers: Vec<_> = (0..2_u16)
            .map(|branch| {
                let record = Arc::clone(&record);
                thread::spawn(move || record.answer(key.with_branch(branch), 10 + u32::from(branch)))
            })
            .collect();
        let notes = record.word.finish_arming(key);
        let wait_is_free = notes.is_empty() || record.word.finish_arming(key).is_empty();
        let results: Vec<_> = resumers.into_iter().map(|each| each.join().expect("a resumer panicked")).collect();
        let winners = results.iter().filter(|result| result.is_ok()).count();
        assert!(winners <= 1, "two branches won");
        match record.word.poll(key) {
            Some(End::Answered(branch)) => {
                assert!(results[usize::from(branch)].is_ok());
                assert_eq!(record.read(), 10 + u32::from(branch));
            }
            Some(other) => panic!("nobody asked for {other:?}"),
            None => {
                assert_eq!(winners, 0);
                let all_missed = results.iter().all(|result| matches!(result, Err((Lost::Missed, _))));
                assert!(all_missed, "a resumer found the wait gone though it is not: {results:?}");
                assert!(!notes.is_empty() || !wait_is_free, "a MISSED was swallowed");
            }
        }
    });
}

/// One environment: a place for a waiter, and a buffered item.
#[derive(Default)]
struct Channel {
    waiter: Option<Key>,
    item: Option<u32>,
}

#[test]
fn a_select_that_arms_misses_no_item() {
    // The timeline has entered the channel's queue and is still busy with its other branches when the sender comes.
    loom::model(|| {
        let record = Record::new();
        let channel = Arc::new(Mutex::new(Channel::default()));
        let key = record.word.begin_arming();
        let sender = {
            let (record, channel) = (Arc::clone(&record), Arc::clone(&channel));
            thread::spawn(move || {
                let mut channel = channel.lock().expect("not poisoned");
                channel.item = Some(5);
                if let Some(waiter) = channel.waiter {
                    let item = channel.item.take().expect("just put");
                    match record.answer(waiter, item) {
                        Ok(()) => channel.waiter = None,
                        Err((_, item)) => channel.item = Some(item),
                    }
                }
            })
        };
        let found = loop {
            let found = {
                let mut channel = channel.lock().expect("not poisoned");
                let item = channel.item.take();
                channel.waiter = item.is_none().then_some(key);
                item
            };
            if let Some(item) = found {
                let claim = record.word.claim_own(key);
                record.word.publish(claim);
                assert_eq!(item, 5);
                break found;
            }
            if record.word.finish_arming(key).is_empty() {
                break None;
            }
        };
        sender.join().expect("the sender panicked");
        match (found, record.word.poll(key)) {
            (Some(5), Some(End::Answered(_))) => {}
            (None, Some(End::Answered(0))) => assert_eq!(record.read(), 5),
            (found, end) => panic!("the item waits and so does the receiver: {found:?}, {end:?}"),
        }
    });
}

#[test]
fn a_queued_wait_is_answered_or_interrupted() {
    loom::model(|| {
        let record = Record::new();
        let key = record.word.arm_queued();
        let channel = Arc::new(Mutex::new(Channel { waiter: Some(key), item: None }));
        let sender = {
            let (record, channel) = (Arc::clone(&record), Arc::clone(&channel));
            thread::spawn(move || {
                let mut channel = channel.lock().expect("not poisoned");
                let waiter = channel.waiter.take()?;
                Some(record.answer(waiter, 5))
            })
        };
        let mut interrupted = record.word.interrupt(key, Interrupt::Deadline, Holding::Nothing);
        if interrupted == Interrupted::LockFirst {
            let mut channel = channel.lock().expect("not poisoned");
            let still_queued = channel.waiter.is_some();
            interrupted = record.word.interrupt(key, Interrupt::Deadline, Holding::Queue);
            assert_eq!(still_queued, interrupted == Interrupted::Won, "the word and the queue disagree");
            channel.waiter = None;
        }
        let answered = sender.join().expect("the sender panicked");
        match record.word.poll(key) {
            Some(End::Answered(0)) => {
                assert_eq!((answered, interrupted), (Some(Ok(())), Interrupted::Lost));
                assert_eq!(record.read(), 5);
            }
            Some(End::Deadline) => assert_eq!((answered, interrupted), (None, Interrupted::Won)),
            other => panic!("the wait ended as {other:?}"),
        }
    });
}

#[test]
fn a_cancel_survives_a_forward() {
    // A condition variable sends its waiter on to the mutex while the waiter is cancelled: the cancel is carried out by
    // the home core, or by the forwarder who finds the note, but it is carried out.
    loom::model(|| {
        let record = Record::new();
        let key = record.word.arm_queued();
        let condvar = Arc::new(Mutex::new(Channel { waiter: Some(key), item: None }));
        let mutex = Arc::new(Mutex::new(Channel::default()));
        let notifier = {
            let (record, condvar, mutex) = (Arc::clone(&record), Arc::clone(&condvar), Arc::clone(&mutex));
            thread::spawn(move || {
                let forward = {
                    let mut condvar = condvar.lock().expect("not poisoned");
                    let Some(waiter) = condvar.waiter.take() else {
                        return;
                    };
                    record.word.begin_forward(waiter).expect("a queued wait is open under its lock")
                };
                let mut mutex = mutex.lock().expect("not poisoned");
                let notes = record.word.finish_forward(forward, Place::Queued);
                if notes.cancel {
                    let ended = record.word.interrupt(key, Interrupt::Cancel, Holding::Queue);
                    assert_eq!(ended, Interrupted::Won, "under the lock nobody comes first");
                } else {
                    mutex.waiter = Some(key);
                }
            })
        };
        let mut interrupted = record.word.interrupt(key, Interrupt::Cancel, Holding::Nothing);
        // The node says in which queue the wait is; here one looks into both, each under its lock.
        for queue in [&condvar, &mutex] {
            if interrupted != Interrupted::LockFirst {
                break;
            }
            let mut queue = queue.lock().expect("not poisoned");
            interrupted = match queue.waiter.take() {
                Some(_) => record.word.interrupt(key, Interrupt::Cancel, Holding::Queue),
                None => record.word.interrupt(key, Interrupt::Cancel, Holding::Nothing),
            };
        }
        notifier.join().expect("the notifier panicked");
        assert_ne!(interrupted, Interrupted::Lost, "nobody else ends this wait");
        assert_eq!(record.word.poll(key), Some(End::Cancelled), "the cancel was lost: {interrupted:?}");
    });
}

#[test]
fn a_forward_that_answers_wins_against_a_noted_deadline() {
    loom::model(|| {
        let record = Record::new();
        let key = record.word.arm_free();
        let forwarder = {
            let record = Arc::clone(&record);
            thread::spawn(move || {
                let Ok(forward) = record.word.begin_forward(key) else {
                    return false;
                };
                let claim = record.word.claim_forwarded(forward);
                // SAFETY: the claim is this thread's; loom checks it.
                record.reply.with_mut(|reply| unsafe { *reply = 9 });
                record.word.publish(claim);
                true
            })
        };
        let interrupted = record.word.interrupt(key, Interrupt::Deadline, Holding::Nothing);
        let answered = forwarder.join().expect("the forwarder panicked");
        assert_eq!(answered, interrupted != Interrupted::Won);
        let expected = if answered { End::Answered(0) } else { End::Deadline };
        assert_eq!(record.word.poll(key), Some(expected));
        assert_eq!(record.read(), if answered { 9 } else { 0 });
    });
}

#[test]
fn a_stale_token_never_ends_the_next_wait() {
    loom::model(|| {
        let record = Record::new();
        let old = record.word.arm_free();
        let late = {
            let record = Arc::clone(&record);
            thread::spawn(move || record.answer(old, 1))
        };
        if record.word.interrupt(old, Interrupt::Deadline, Holding::Nothing) == Interrupted::Won {
            record.word.retire();
            let next = record.word.arm_free();
            let late = late.join().expect("the late answerer panicked");
            assert_eq!(late, Err((Lost::Gone, 1)), "a stale token won");
            assert_eq!(record.word.poll(next), None, "a stale token ended the next wait");
        } else {
            assert_eq!(late.join().expect("the answerer panicked"), Ok(()));
        }
    });
}
