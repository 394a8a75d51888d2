//! Programs of every kind do on 1, 2, 3, 8 and 32 controllers what they should, however many processors the machine has; on stacks that are
//! switched, and with an OS thread for each VP.

mod common;

use common::programs::run_all;
use common::{build, runtime, sized};
use proto_core::Runtime;

#[test]
fn one_controller_runs_everything() {
    run_all("1 controller", || runtime(1));
}

#[test]
fn two_controllers_run_everything() {
    run_all("2 controllers", || runtime(2));
}

#[test]
fn three_controllers_run_everything() {
    run_all("3 controllers", || runtime(sized(3, 2)));
}

#[test]
fn eight_controllers_run_everything() {
    run_all("8 controllers", || runtime(sized(8, 2)));
}

#[test]
fn many_more_controllers_than_processors_run_everything() {
    run_all("32 controllers", || runtime(sized(32, 3)));
}

#[test]
fn an_os_thread_for_each_vp_runs_everything() {
    for controllers in [1, 2, sized(5, 2)] {
        run_all(&format!("{controllers} controllers, a thread for each VP"), || {
            build(Runtime::builder().controllers(controllers).thread_per_vp(true))
        });
    }
}
