//! Asks VPs to end, in every way there is, and copes with a build that cannot.
//!
//! A cancel unwinds the VP's stack. A program built with `panic=abort` has no unwinding: there each way gives an error at once, and
//! nothing else changes. `ci/deep.sh` runs this in both kinds of builds.

use std::sync::Arc;
use std::time::Duration;

use proto_core::{CannotCancel, EnvCell, JoinError, OrUnwind, ProcessError, Runtime, VpBuilder, Waiters, scope};

/// Where VPs wait until it is opened.
struct Gate(EnvCell<GateEnv>);

struct GateEnv {
    open: bool,
    waiting: Waiters<()>,
}

impl Gate {
    fn new() -> Gate {
        Gate(EnvCell::new(GateEnv { open: false, waiting: Waiters::new() }))
    }

    fn pass(&self) {
        let passed = self.0.ask(
            |gate, caller, hidden| match gate.open {
                true => hidden.answer(caller, ()),
                false => gate.waiting.push(caller, hidden),
            },
            None,
        );
        passed.or_unwind();
    }

    fn open(&self) {
        self.0.update(|gate, _, hidden| {
            gate.open = true;
            while gate.waiting.resume_next((), hidden).is_ok() {}
        });
    }
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
            let gate = Arc::new(Gate::new());
            let inside = Arc::clone(&gate);
            let vp = VpBuilder::new().spawn(move || inside.pass()).expect("a VP");
            let ends = told("a VP", vp.cancel());
            if !ends {
                gate.open();
            }
            assert_eq!(matches!(vp.join(), Err(JoinError::Cancelled)), ends);
        })
        .expect("the process goes on");

    // All VPs of a scope.
    runtime
        .run(|| {
            let gate = Gate::new();
            scope(|s| {
                s.spawn(|| gate.pass());
                if !told("a scope", s.cancel()) {
                    gate.open();
                }
            });
        })
        .expect("the process goes on");

    // A process.
    let gate = Arc::new(Gate::new());
    let inside = Arc::clone(&gate);
    let process = runtime.start(move || inside.pass()).expect("a process");
    let ends = told("a process", process.cancel());
    if !ends {
        gate.open();
    }
    assert_eq!(matches!(process.wait(), Err(ProcessError::Cancelled)), ends);

    // What has come to its end by itself needs no cancel.
    let deadline = std::time::Instant::now() + Duration::from_secs(60);
    runtime.shutdown(deadline).expect("everything has ended");
    println!("the runtime is down");
}
