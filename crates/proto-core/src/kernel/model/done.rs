//! A job that is run elsewhere, and who comes for its result: it is run once, no result is read before it is there, who waits is woken, and
//! a result that nobody wants is dropped once.

use std::sync::Arc;

use loom::cell::UnsafeCell;
use loom::thread;

use crate::kernel::done::{After, Done};
use crate::sync::model::{Half, Of, without};

/// What a frame or an arena holds: the word, the key of whoever waits, the job's result.
struct Job {
    done: Done,
    key: UnsafeCell<u32>,
    result: UnsafeCell<u32>,
}

// SAFETY: the cells are handed over by `done`; loom checks it.
unsafe impl Sync for Job {}
// SAFETY: as above.
unsafe impl Send for Job {}

/// What the runner did at the end.
#[derive(PartialEq, Debug)]
enum End {
    Left,
    /// It woke who waits under this key.
    Woke(u32),
    Dropped,
    /// Somebody else ran the job.
    NotRun,
}

impl Job {
    fn new() -> Arc<Self> {
        Arc::new(Job { done: Done::new(), key: UnsafeCell::new(0), result: UnsafeCell::new(0) })
    }

    fn run(&self) {
        // SAFETY: loom checks that nobody else is at the result.
        self.result.with_mut(|result| unsafe { *result += 7 });
    }

    fn run_and_finish(&self) -> End {
        self.done.runs_on(3);
        self.run();
        match self.done.finish() {
            After::Left => End::Left,
            // SAFETY: loom checks that the write of who waits happened before.
            After::Wake => End::Woke(self.key.with(|key| unsafe { *key })),
            After::Drop => {
                // SAFETY: loom checks that nobody else is at the result.
                self.result.with_mut(|result| unsafe { *result = 0 });
                End::Dropped
            }
        }
    }

    /// Takes the job out of its bundle, and runs it if it is still there.
    fn unbundle(&self) -> End {
        if self.done.regain() { self.run_and_finish() } else { End::NotRun }
    }

    /// Comes for the result. Whether it has to wait.
    fn comes(&self) -> bool {
        if self.done.is_done() {
            return false;
        }
        if self.done.take() {
            self.run();
            return false;
        }
        // SAFETY: loom checks that nobody else is at the key.
        self.key.with_mut(|key| unsafe { *key = 5 });
        self.done.awaits()
    }

    fn result(&self) -> u32 {
        // SAFETY: loom checks that the runner's write happened before.
        self.result.with(|result| unsafe { *result })
    }

    fn on_a_thread(this: &Arc<Self>, does: fn(&Self) -> End) -> thread::JoinHandle<End> {
        let this = Arc::clone(this);
        thread::spawn(move || does(&this))
    }
}

fn owner_and_runner() {
    loom::model(|| {
        let job = Job::new();
        let runner = Job::on_a_thread(&job, Job::run_and_finish);
        let waits = job.comes();
        if !waits {
            assert_eq!(job.result(), 7);
        }
        let end = runner.join().unwrap();
        assert_eq!(end, if waits { End::Woke(5) } else { End::Left }, "who waits is woken, and nobody else");
    });
}

#[test]
fn who_comes_waits_exactly_if_it_is_woken() {
    owner_and_runner();
}

#[test]
#[should_panic(expected = "Causality violation")]
fn without_the_runners_release_the_owner_does_not_see_the_result() {
    without(Half::Release, Of::Swaps, owner_and_runner);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn without_the_owners_acquire_it_does_not_see_the_result() {
    without(Half::Acquire, Of::Loads, owner_and_runner);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn without_the_owners_release_the_runner_does_not_see_the_key() {
    without(Half::Release, Of::Exchanges, owner_and_runner);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn without_the_runners_acquire_it_does_not_see_the_key() {
    without(Half::Acquire, Of::Swaps, owner_and_runner);
}

#[test]
fn a_job_in_a_bundle_is_run_by_its_toucher_or_by_the_bundle() {
    loom::model(|| {
        let job = Job::new();
        job.done.loosen();
        let bundle = Job::on_a_thread(&job, Job::unbundle);
        let waits = job.comes();
        if !waits {
            assert_eq!(job.result(), 7, "run once");
        }
        match bundle.join().unwrap() {
            End::Woke(5) => assert!(waits, "a timeline was woken that did not wait"),
            End::Left | End::NotRun => assert!(!waits, "a timeline waits, and nobody wakes it"),
            other => panic!("{other:?}"),
        }
        assert_eq!(job.result(), 7, "run once");
    });
}

#[test]
fn a_job_that_is_put_into_a_bundle_under_its_toucher_is_run_once() {
    loom::model(|| {
        let job = Job::new();
        // The job's own timeline suspends, and another core runs what it left behind.
        let bundle = Job::on_a_thread(&job, |job| {
            job.done.loosen();
            job.unbundle()
        });
        let waits = job.comes();
        let end = bundle.join().unwrap();
        assert_eq!(waits, end == End::Woke(5));
        assert_eq!(job.result(), 7, "run once");
    });
}

#[test]
fn an_abandoned_result_is_dropped_once() {
    for bundled in [false, true] {
        loom::model(move || {
            let job = Job::new();
            let runner = Job::on_a_thread(&job, if bundled { Job::unbundle } else { Job::run_and_finish });
            if bundled {
                job.done.loosen();
            }
            if job.done.abandon() {
                assert_eq!(job.result(), 7, "the result is there");
                assert_eq!(runner.join().unwrap(), End::Left);
            } else {
                assert_eq!(runner.join().unwrap(), End::Dropped);
                assert_eq!(job.result(), 0);
            }
        });
    }
}
