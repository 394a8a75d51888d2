//! External events: clones of a waker are one party, and one without a value is what reactors and futures call a `Waker`. (What an open program
//! is to verdicts: `open_program.rs`.)

mod common;

use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::thread;

use common::{runtime, sized, watched};
use proto_core::{Ended, ExternalEvent, ExternalWaker, external, scope};

fn is_shared_freely<T: Send + Sync>(_: &T) {}

#[test]
fn the_event_is_over_when_the_last_clone_is_gone() {
    watched("clones", || {
        let (event, waker) = external::<u32>();
        let clones: Vec<_> = (0..sized(100, 4)).map(|_| waker.clone()).collect();
        is_shared_freely(&waker);
        drop(waker);
        let outsider = thread::spawn(move || {
            let mut clones = clones;
            let last = clones.pop().unwrap();
            drop(clones);
            last.clone().wake(1);
            last
        });
        let runtime = runtime(1);
        let event = runtime
            .run(move || {
                assert_eq!(event.wait(None), Ok(Some(1)));
                event
            })
            .unwrap();
        // One is left: it may still wake.
        let last = outsider.join().unwrap();
        assert_eq!(event.wait(Some(std::time::Instant::now())), Err(Ended::Deadline));
        let waits = runtime.start(move || (event.wait(None), event.wait(None))).unwrap();
        drop(last);
        assert_eq!(waits.wait().unwrap(), (Ok(None), Ok(None)));
    });
}

#[test]
fn every_clone_wakes() {
    watched("every clone", || {
        let count = sized(8, 3);
        let (events, wakers): (Vec<ExternalEvent<usize>>, Vec<ExternalWaker<usize>>) =
            (0..count).map(|_| external()).unzip();
        let sum = runtime(2).run(|| {
            scope(|s| {
                let waits: Vec<_> = events.iter().map(|event| s.spawn(|| event.wait(None).unwrap().unwrap())).collect();
                for (n, waker) in wakers.iter().enumerate() {
                    let clone = waker.clone();
                    thread::spawn(move || clone.wake(n));
                }
                waits.into_iter().map(|wait| wait.join().unwrap()).sum::<usize>()
            })
        });
        assert_eq!(sum.unwrap(), count * (count - 1) / 2);
    });
}

#[test]
fn wakes_before_the_wait_are_kept_as_one() {
    watched("kept", || {
        let (event, waker) = external();
        let waker = Waker::from(waker);
        is_shared_freely(&waker);
        let clone = waker.clone();
        // It compares addresses of tables, of which Miri makes several.
        assert!(cfg!(miri) || waker.will_wake(&clone));
        waker.wake_by_ref();
        clone.wake();
        runtime(1)
            .run(move || {
                assert_eq!(event.wait(None), Ok(Some(())));
                assert_eq!(event.wait(Some(std::time::Instant::now())), Err(Ended::Deadline));
                drop(waker);
                assert_eq!(event.wait(None), Ok(None));
            })
            .unwrap();
    });
}

/// Polls `future` on a VP, which waits in between.
fn wait_for<T>(future: impl Future<Output = T>) -> T {
    let (event, waker) = external();
    let waker = Waker::from(waker);
    let mut future = std::pin::pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(value) => return value,
            Poll::Pending => assert_eq!(event.wait(None), Ok(Some(()))),
        }
    }
}

/// Ready at its last turn; a thread of its own wakes for the next one, before or after the poll has returned.
fn turns(count: usize) -> impl Future<Output = usize> {
    let mut turn = 0;
    std::future::poll_fn(move |context| {
        turn += 1;
        let waker = Arc::new(context.waker().clone());
        let outsider = thread::spawn({
            let waker = Arc::clone(&waker);
            move || waker.wake_by_ref()
        });
        if turn % 2 == 0 {
            outsider.join().unwrap();
        }
        if turn == count { Poll::Ready(turn) } else { Poll::Pending }
    })
}

#[test]
fn vps_wait_for_futures_and_no_wake_is_lost() {
    watched("futures", || {
        let sum = runtime(2)
            .run(|| {
                scope(|s| {
                    let vps: Vec<_> = (0..8).map(|_| s.spawn(|| wait_for(turns(sized(50, 3))))).collect();
                    vps.into_iter().map(|vp| vp.join().unwrap()).sum::<usize>()
                })
            })
            .unwrap();
        assert_eq!(sum, 8 * sized(50, 3));
        // An OS thread may wait as well.
        assert_eq!(wait_for(turns(3)), 3);
    });
}
