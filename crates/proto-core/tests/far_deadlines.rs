//! A time so long that the clock cannot say when it is over is no deadline, and nothing panics at it.

mod common;

use std::time::{Duration, Instant};

use common::lang::Gate;
use common::{build, runtime, watched};
use proto_core::Runtime;

#[test]
fn a_process_is_waited_for_as_long_as_it_takes() {
    watched("wait_timeout", || {
        let runtime = runtime(1);
        let process = runtime.start(|| 7).unwrap();
        assert_eq!(process.wait_timeout(Duration::MAX).unwrap().unwrap(), 7);
        // On a VP, whose core keeps the deadlines.
        let inner = runtime.start(|| 8).unwrap();
        let outcome = runtime.run(move || inner.wait_timeout(Duration::MAX).map_err(drop).unwrap().unwrap());
        assert_eq!(outcome.unwrap(), 8);
    });
}

#[test]
fn a_drop_waits_as_long_as_it_takes() {
    watched("drop", || {
        let runtime = build(Runtime::builder().controllers(1).drop_deadline(Duration::MAX));
        let waiting = runtime.start(|| Gate::new().pass()).unwrap();
        // In the unwinding of a panic as well: a panic of this drop would end the program.
        let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _runtime = runtime;
            std::panic::resume_unwind(Box::new("dropped while unwinding"));
        }));
        assert!(caught.is_err());
        assert!(waiting.wait().is_err(), "it was cancelled, or had waited for ever");
    });
}

#[test]
fn a_deadline_in_a_hundred_years_does_not_come_today() {
    watched("a hundred years", || {
        let far = Instant::now() + Duration::from_secs(100 * 365 * 24 * 3600);
        let (event, waker) = proto_core::external::<u8>();
        let outsider = std::thread::spawn(move || waker.wake(1));
        assert_eq!(runtime(1).run(move || event.wait(Some(far))).unwrap(), Ok(Some(1)));
        outsider.join().unwrap();
        runtime(2).shutdown(far).unwrap();
    });
}
