//! The verbs one by one, on one thread. The races are in `kernel/model/wait.rs`.

use super::*;

#[test]
fn a_queued_wait_is_answered_once_and_retired() {
    let word = WaitWord::new();
    let key = word.arm_queued();
    assert_eq!(word.poll(key), None);
    let claim = word.claim(key).expect("nobody else wants it");
    assert_eq!(word.claim(key).expect_err("claimed twice"), Lost::Gone);
    assert_eq!(word.interrupt(key, Interrupt::Cancel, Holding::Queue), Interrupted::Lost);
    word.publish(claim);
    assert_eq!(word.poll(key), Some(End::Answered(0)));
    word.retire();
    let next = word.arm_free();
    assert_ne!(key, next);
    assert_eq!(word.claim(key).expect_err("a stale key won"), Lost::Gone);
    assert_eq!(word.end(next, End::Abandoned), EndResult::Won);
    assert_eq!(word.poll(next), Some(End::Abandoned));
}

#[test]
fn a_queued_wait_is_interrupted_under_its_lock_only() {
    let word = WaitWord::new();
    let key = word.arm_queued();
    assert_eq!(word.interrupt(key, Interrupt::Deadline, Holding::Nothing), Interrupted::LockFirst);
    assert_eq!(word.interrupt(key, Interrupt::Deadline, Holding::Queue), Interrupted::Won);
    assert_eq!(word.poll(key), Some(End::Deadline));
}

#[test]
fn arming_tells_what_came_meanwhile() {
    let word = WaitWord::new();
    let key = word.begin_arming();
    assert_eq!(word.claim(key.with_branch(1)).expect_err("won while arming"), Lost::Missed);
    assert_eq!(word.end(key.with_branch(2), End::Broken), EndResult::Noted);
    assert_eq!(word.interrupt(key, Interrupt::Cancel, Holding::Nothing), Interrupted::Noted);
    assert_eq!(word.finish_arming(key), Notes { missed: true, cancel: true, deadline: false });
    assert!(word.finish_arming(key).is_empty(), "notes are handed out once");
    let claim = word.claim(key.with_branch(4095)).expect("it is free now");
    word.publish(claim);
    assert_eq!(word.poll(key), Some(End::Answered(4095)));
}

#[test]
fn a_forwarded_branch_wins_against_its_sisters() {
    let word = WaitWord::new();
    let key = word.begin_arming();
    assert!(word.finish_arming(key).is_empty());
    let forward = word.begin_forward(key.with_branch(3)).expect("free");
    assert_eq!(word.claim(key.with_branch(1)).expect_err("two branches won"), Lost::Gone);
    assert!(word.finish_forward(forward, Place::Queued).is_empty());
    assert_eq!(word.claim(key.with_branch(1)).expect_err("wrong lock, and it won"), Lost::Gone);
    assert_eq!(word.end(key.with_branch(1), End::Abandoned), EndResult::Lost);
    assert_eq!(word.interrupt(key, Interrupt::Cancel, Holding::Queue), Interrupted::Won);
    assert_eq!(word.poll(key), Some(End::Cancelled));
}

#[test]
#[should_panic(expected = "at most 4096 branches")]
fn branches_are_bounded() {
    let _ = WaitWord::new().arm_free().with_branch(Key::BRANCHES);
}
