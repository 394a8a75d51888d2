//! Deadlines: none too early, none lost, in order, and without effect once the answer came.

mod common;

use std::sync::Mutex;
use std::time::{Duration, Instant};

use common::lang::{Gate, Mailbox, sleep};
use common::{Dice, runtime, sized, watched};
use proto_core::{Ended, external, scope, yield_now};

#[test]
fn many_deadlines_pass_and_none_too_early() {
    watched("many deadlines", || {
        for controllers in [1, 2, 4] {
            runtime(controllers)
                .run(|| {
                    scope(|s| {
                        for n in 0..sized(1000, 5) as u64 {
                            s.spawn(move || {
                                let mut dice = Dice::new(n + 1);
                                for _ in 0..3 {
                                    let time = Duration::from_micros(dice.below(5_000));
                                    let began = Instant::now();
                                    sleep(time);
                                    assert!(began.elapsed() >= time, "a deadline passed too early");
                                }
                            });
                        }
                    });
                })
                .unwrap();
        }
    });
}

#[test]
fn deadlines_of_one_core_pass_in_order() {
    watched("order", || {
        // All have to wait before the first deadline passes: with more time for it on a machine that is too slow.
        let mut lead = Duration::from_millis(20);
        loop {
            let (order, gate) = (Mutex::new(Vec::new()), Gate::new());
            let begin = Instant::now() + lead;
            let in_time = runtime(1).run(|| {
                scope(|s| {
                    for n in [5u32, 2, 9, 0, 7, 1, 3, 8, 4, 6] {
                        let (gate, order) = (&gate, &order);
                        s.spawn(move || {
                            assert_eq!(
                                gate.pass_until(begin + Duration::from_micros(u64::from(n))),
                                Err(Ended::Deadline)
                            );
                            order.lock().unwrap().push(n);
                        });
                    }
                    while gate.waiting() < 10 && Instant::now() < begin {
                        yield_now();
                    }
                    gate.waiting() == 10 && Instant::now() < begin
                })
            });
            if in_time.unwrap() {
                assert_eq!(order.into_inner().unwrap(), [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
                break;
            }
            lead *= 2;
        }
    });
}

#[test]
fn a_deadline_that_the_answer_beat_ends_no_later_wait() {
    watched("answer beats deadline", || {
        runtime(1)
            .run(|| {
                // The answer has to come first: with more time for it on a machine that is too slow.
                let (mut lead, mut rounds) = (Duration::from_millis(1), 0);
                while rounds < sized(20, 2) {
                    let (gate, later) = (Gate::new(), Gate::new());
                    let deadline = Instant::now() + lead;
                    let answered = scope(|s| {
                        let vp = s.spawn(|| {
                            let in_time = gate.pass_until(deadline).is_ok();
                            // Would be ended by the deadline of the wait before it.
                            assert_eq!(later.pass_until(deadline + Duration::from_secs(3600)), Ok(()));
                            in_time
                        });
                        while gate.waiting() == 0 && Instant::now() < deadline {
                            yield_now();
                        }
                        let waited = gate.waiting() == 1;
                        gate.open();
                        // Past the deadline, while the second wait lasts.
                        sleep((deadline + Duration::from_micros(100)).saturating_duration_since(Instant::now()));
                        later.open();
                        vp.join().unwrap() && waited
                    });
                    match answered {
                        true => rounds += 1,
                        false => lead *= 2,
                    }
                }
            })
            .unwrap();
    });
}

/// Answer against deadline: whichever wins, the value is with exactly one of the two.
#[test]
fn a_value_is_lost_to_no_deadline() {
    watched("answer against deadline", || {
        for controllers in [1, 2, 3] {
            let rounds = sized(500, 5) as u64;
            runtime(controllers)
                .run(|| {
                    let (event, waker) = external::<u64>();
                    let acknowledged = Mailbox::new();
                    scope(|s| {
                        s.spawn(|| {
                            for n in 0..rounds {
                                waker.wake(n);
                                acknowledged.take();
                            }
                        });
                        let mut dice = Dice::new(7);
                        for n in 0..rounds {
                            loop {
                                match event.wait(Some(Instant::now() + Duration::from_nanos(dice.below(30_000)))) {
                                    Ok(got) => {
                                        assert_eq!(got, Some(n), "in order, none lost, none twice");
                                        break;
                                    }
                                    Err(ended) => assert_eq!(ended, Ended::Deadline),
                                }
                            }
                            acknowledged.put(());
                        }
                    });
                })
                .unwrap();
        }
    });
}

#[test]
fn os_threads_keep_deadlines_too() {
    watched("OS threads", || {
        let gate = Gate::new();
        let began = Instant::now();
        assert_eq!(gate.pass_until(began + Duration::from_millis(2)), Err(Ended::Deadline));
        assert!(began.elapsed() >= Duration::from_millis(2));
        assert_eq!(gate.waiting(), 0, "who gave up stands in no queue");
        std::thread::scope(|s| {
            s.spawn(|| gate.pass_until(Instant::now() + Duration::from_secs(3600)).unwrap());
            while gate.waiting() == 0 {
                std::thread::yield_now();
            }
            gate.open();
        });
    });
}
