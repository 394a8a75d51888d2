//! Which controllers are pinned, and who leaves the processor of a pinned one again. Each part in a child process: only the first runtime of a
//! program pins by itself.

#![cfg(not(miri))]

mod common;

use std::collections::BTreeSet;
use std::process::Command;

use common::watched;
use proto_core::{CoreId, Runtime, VpBuilder, available_parallelism, blocking};

const PART: &str = "PROTO_PINNING_PART";

/// The processors that the calling OS thread may run on, as the kernel writes them, and how many these are.
fn mask() -> (String, usize) {
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap().trim().to_owned();
    let count = list.split(',').map(|part| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        last.parse::<usize>().unwrap() - first.parse::<usize>().unwrap() + 1
    });
    let count = count.sum();
    (list, count)
}

/// The masks of a runtime's controllers, by one VP on each.
fn masks(runtime: &Runtime) -> Vec<(String, usize)> {
    let homes: Vec<CoreId> = runtime.cores();
    runtime
        .run(|| {
            homes.into_iter().map(|core| VpBuilder::new().home(core).spawn(mask).unwrap().join().unwrap()).collect()
        })
        .unwrap()
}

fn all_pinned(runtime: &Runtime) {
    let masks = masks(runtime);
    assert!(masks.iter().all(|(_, count)| *count == 1), "{masks:?}");
    let different: BTreeSet<_> = masks.iter().collect();
    assert_eq!(different.len(), masks.len(), "each has a processor of its own: {masks:?}");
}

fn none_pinned(runtime: &Runtime) {
    let own = mask();
    assert!(masks(runtime).iter().all(|mask| *mask == own), "{:?} of {own:?}", masks(runtime));
}

/// Does nothing unless it is run as a child.
#[test]
fn the_child() {
    let Ok(part) = std::env::var(PART) else { return };
    let all = mask();
    let usual = || Runtime::builder().build().unwrap();
    match part.as_str() {
        "the first" => {
            let first = usual();
            all_pinned(&first);
            // The second one is not, although it is as large.
            none_pinned(&usual());
        }
        "a part" => {
            let part = Runtime::builder().controllers(1).build().unwrap();
            none_pinned(&part);
        }
        "more" => none_pinned(&Runtime::builder().controllers(all.1 + 1).build().unwrap()),
        "asked for" => {
            none_pinned(&Runtime::builder().pin(false).build().unwrap());
            all_pinned(&Runtime::builder().pin(true).controllers(1).build().unwrap());
        }
        "what VPs start" => {
            let pinned = usual();
            let controllers = pinned.controllers();
            pinned
                .run(|| {
                    assert_eq!(mask().1, 1);
                    // What std answers here is the thread's.
                    assert_eq!(std::thread::available_parallelism().unwrap().get(), 1);
                    assert_eq!(available_parallelism().get(), controllers);
                    // The pool's thread, the first time and when it is there already.
                    for _ in 0..2 {
                        assert_eq!(
                            blocking(mask),
                            all,
                            "a call in `blocking` shares the core of the VP that waits for it"
                        );
                        assert_eq!(blocking(|| available_parallelism().get()), controllers);
                    }
                    // A runtime of another size, and one of the same.
                    none_like(&Runtime::builder().controllers(1).build().unwrap(), &all);
                    none_like(&usual(), &all);
                    // As the porting page says: the system gives it to a thread.
                    assert_eq!(std::thread::spawn(mask).join().unwrap().1, 1);
                    assert_eq!(mask().1, 1, "the controller itself stays");
                })
                .unwrap();
            assert_eq!(mask(), all, "the thread that made the runtime was left alone");
        }
        other => panic!("no part is called {other}"),
    }
}

/// As `none_pinned`, from a VP of a pinned controller.
fn none_like(runtime: &Runtime, all: &(String, usize)) {
    let masks = masks(runtime);
    assert!(masks.iter().all(|mask| mask == all), "{masks:?} of {all:?}");
}

fn child(part: &str) {
    watched(part, || {
        let output = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "the_child", "--nocapture", "--test-threads=1"])
            .env(PART, part)
            .output()
            .unwrap();
        assert!(output.status.success(), "{part}: {}", String::from_utf8_lossy(&output.stderr));
    });
}

#[test]
fn the_first_runtime_is_pinned_and_the_second_is_not() {
    child("the first");
}

#[test]
fn a_runtime_of_another_size_than_the_machine_is_not_pinned() {
    // On one processor a part is the whole.
    if std::thread::available_parallelism().unwrap().get() > 1 {
        child("a part");
    }
    child("more");
}

#[test]
fn who_asks_is_obeyed() {
    child("asked for");
}

#[test]
fn what_a_pinned_vp_starts_goes_anywhere() {
    child("what VPs start");
}
