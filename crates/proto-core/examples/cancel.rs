//! Asks VPs to end, in every way there is, and copes with a build that cannot.
//!
//! A cancel unwinds the VP's stack. A program built with `panic=abort` has no unwinding: there each way gives an error at once, and
//! nothing else changes. `ci/deep.sh` runs this in both kinds of builds.

use std::time::Duration;

use proto_core::{Caller, Hidden, OrUnwind, scope};
use proto_core::{CannotCancel, EnvCell, JoinError, Kind, ProcessError, RequestHandler, Runtime, VpBuilder, Waiters};

/// Where VPs wait until it is opened.
struct Gate {
    open: bool,
    waiting: Waiters<()>,
}

struct Pass;
struct Open;

impl RequestHandler<Pass> for Gate {
    type Reply = ();
    fn handle(&mut self, _: Pass, caller: Caller<'_, ()>, hidden: &mut Hidden<'_>) {
        if self.open { hidden.answer(caller, ()) } else { self.waiting.push(caller, hidden) }
    }
}

impl RequestHandler<Open> for Gate {
    type Reply = ();
    const KIND: Kind = Kind::Release;
    fn handle(&mut self, _: Open, caller: Caller<'_, ()>, hidden: &mut Hidden<'_>) {
        self.open = true;
        while self.waiting.resume_next((), hidden).is_ok() {}
        hidden.answer(caller, ());
    }
}

fn gate() -> EnvCell<Gate> {
    EnvCell::new(Gate { open: false, waiting: Waiters::new() })
}

/// Notes what came of asking `whom` to end, and checks that it fits the build. `true` if it will end.
fn told(whom: &str, asked: Result<(), CannotCancel>) -> bool {
    match asked {
        Ok(()) => println!("{whom}: is asked to end"),
        Err(refused) => println!("{whom}: {refused}"),
    }
    assert_eq!(asked.is_err(), cfg!(panic = "abort"), "cancels are refused where nothing unwinds, and only there");
    asked.is_ok()
}

fn main() {
    let runtime = Runtime::builder().controllers(2).pin(false).build().expect("a runtime");

    // One VP.
    runtime
        .run(|| {
            let gate = std::sync::Arc::new(gate());
            let inside = std::sync::Arc::clone(&gate);
            let vp = VpBuilder::new().spawn(move || inside.request(Pass).or_unwind()).expect("a VP");
            let ends = told("a VP", vp.cancel());
            if !ends {
                gate.release(Open);
            }
            assert_eq!(matches!(vp.join(), Err(JoinError::Cancelled)), ends);
        })
        .expect("the process goes on");

    // All VPs of a scope.
    runtime
        .run(|| {
            let gate = gate();
            scope(|s| {
                s.spawn(|| gate.request(Pass).or_unwind());
                if !told("a scope", s.cancel()) {
                    gate.release(Open);
                }
            });
        })
        .expect("the process goes on");

    // A process.
    let gate = std::sync::Arc::new(gate());
    let inside = std::sync::Arc::clone(&gate);
    let process = runtime.start(move || inside.request(Pass).or_unwind()).expect("a process");
    let ends = told("a process", process.cancel());
    if !ends {
        gate.release(Open);
    }
    assert_eq!(matches!(process.wait(), Err(ProcessError::Cancelled)), ends);

    // What has come to its end by itself needs no cancel.
    let deadline = std::time::Instant::now() + Duration::from_secs(60);
    runtime.shutdown(deadline).expect("everything has ended");
    println!("the runtime is down");
}
