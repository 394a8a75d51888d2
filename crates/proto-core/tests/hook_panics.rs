//! A hook that panics is caught wherever it is told of something, and named once. (What hooks are told: `hooks.rs`.)

#![cfg(not(miri))]

mod common;

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use common::lang::Lock;
use common::{build, watched};
use proto_core::{Event, Hooks, Runtime, VpName, panicking, scope, yield_now};

/// Panics at each event, and counts them.
#[derive(Default)]
struct Clumsy {
    events: AtomicUsize,
    requests: AtomicUsize,
}

impl Hooks for Clumsy {
    fn event(&self, event: &Event) {
        self.events.fetch_add(1, Ordering::Relaxed);
        if matches!(event, Event::Request { .. }) {
            self.requests.fetch_add(1, Ordering::Relaxed);
        }
        panic!("clumsy");
    }

    fn hog(&self, _: &VpName, _: proto_core::CoreId) -> bool {
        panic!("clumsy as well");
    }
}

const CHILD: &str = "PROTO_HOOK_PANICS_CHILD";

/// In a child: what is written to standard error is looked at.
#[test]
fn a_panicking_hook_is_named_once_and_changes_nothing() {
    if std::env::var_os(CHILD).is_some() {
        return run();
    }
    watched("clumsy hooks", || {
        let output = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "a_panicking_hook_is_named_once_and_changes_nothing", "--nocapture"])
            .env(CHILD, "1")
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{text}");
        assert_eq!(text.matches("`Hooks::event` panicked: clumsy").count(), 1, "{text}");
    });
}

fn run() {
    let clumsy = Arc::new(Clumsy::default());
    let runtime = build(Runtime::builder().controllers(2).hooks(clumsy.clone()));
    let lock = Lock::new();
    runtime
        .run(|| {
            scope(|s| {
                for _ in 0..8 {
                    s.spawn(|| {
                        for _ in 0..8 {
                            // The hook panics under the lock of the environment: nobody would ever get it again.
                            drop(lock.lock());
                            yield_now();
                        }
                        assert!(!panicking(), "the hook's panic is not the timeline's");
                    });
                }
            });
        })
        .unwrap();
    drop(runtime);
    assert!(clumsy.requests.load(Ordering::Relaxed) >= 2 * 64);
    assert!(clumsy.events.load(Ordering::Relaxed) > clumsy.requests.load(Ordering::Relaxed));
}
