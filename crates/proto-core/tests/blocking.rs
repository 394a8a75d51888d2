//! `blocking`: calls that block an OS thread leave the core to others. (When a cancel comes meanwhile: `cancel.rs`.)

mod common;

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::mpsc;

use common::{runtime, sized, watched};
use proto_core::{blocking, on_vp, scope};

#[test]
fn others_run_while_a_call_blocks() {
    watched("others run", || {
        runtime(1)
            .run(|| {
                let (send, receive) = mpsc::channel();
                scope(|s| {
                    // If it held the only core, nobody could ever send.
                    let reader = s.spawn(move || blocking(move || receive.recv().unwrap()));
                    s.spawn(move || send.send(5).unwrap());
                    assert_eq!(reader.join().unwrap(), 5);
                });
            })
            .unwrap();
    });
}

#[test]
fn a_thousand_at_once() {
    watched("a thousand", || {
        let count = sized(1000, 4);
        let sum = runtime(2)
            .run(move || {
                scope(|s| {
                    let calls: Vec<_> = (0..count).map(|n| s.spawn(move || blocking(|| n))).collect();
                    calls.into_iter().map(|call| call.join().unwrap()).sum::<usize>()
                })
            })
            .unwrap();
        assert_eq!(sum, count * (count - 1) / 2);
    });
}

#[test]
fn a_panic_comes_back() {
    watched("panic", || {
        let payload = runtime(1)
            .run(|| {
                let caught = catch_unwind(AssertUnwindSafe(|| blocking(|| resume_unwind(Box::new(9u8)))));
                *caught.map(|(): ()| ()).unwrap_err().downcast::<u8>().unwrap()
            })
            .unwrap();
        assert_eq!(payload, 9);
    });
}

#[test]
fn outside_of_vps_it_is_a_call() {
    let here = std::thread::current().id();
    assert_eq!(blocking(|| std::thread::current().id()), here);
    assert!(!on_vp());
}
