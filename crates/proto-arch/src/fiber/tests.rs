//! One suite, run over each back end. The list is corosensei's own, less what passes values or unwinds from outside.

use super::*;
use crate::stack::{StackArena, StackOptions};
use std::cell::{Cell, RefCell};
use std::panic::{self, AssertUnwindSafe};

/// A fiber that runs a closure. Safe to use: the closure is `'static` and owned, and `suspend` goes through the handle.
struct Running(*const Fiber);

impl Running {
    fn suspend(&self) {
        // SAFETY: a `Running` is only lent to the closure that runs on the fiber.
        unsafe { Fiber::suspend(self.0) };
    }

    fn stack_limit(&self) -> usize {
        // SAFETY: we run on it, so it is live.
        unsafe { &*self.0 }.stack_limit()
    }
}

type Body = Box<dyn FnOnce(Running)>;

struct Start {
    body: Cell<Option<Body>>,
    fiber: Cell<*const Fiber>,
}

unsafe fn entry(arg: *mut ()) {
    // SAFETY: `arg` is the leaked `Start` of `fiber` below, and only this call takes it back.
    let start = unsafe { Box::from_raw(arg.cast::<Start>()) };
    let body = start.body.take().expect("a body");
    let running = Running(start.fiber.get());
    drop(start);
    body(running);
}

fn fiber(backend: Backend, body: impl FnOnce(Running) + 'static) -> *mut Fiber {
    let stack = StackArena::new(StackOptions::default()).expect("arena").take().expect("stack");
    let start =
        Box::leak(Box::new(Start { body: Cell::new(Some(Box::new(body))), fiber: Cell::new(std::ptr::null()) }));
    let arg: *mut Start = start;
    // SAFETY: the bodies below do not unwind; what they own is theirs, and what they share is counted.
    let fiber = unsafe { Fiber::new(backend, stack, entry, arg.cast()) }.expect("fiber");
    let fiber = FiberBox::into_raw(fiber).as_ptr();
    // SAFETY: the fiber has not started, so nobody else looks at it.
    unsafe { &*arg }.fiber.set(fiber);
    fiber
}

/// Resumes; says whether it is finished.
fn resume(fiber: *mut Fiber) -> bool {
    // SAFETY: the tests resume live fibers, from one thread, until they are finished.
    unsafe { Fiber::resume(fiber) };
    // SAFETY: it is live and not running.
    unsafe { &*fiber }.is_finished()
}

fn into_box(fiber: *mut Fiber) -> FiberBox {
    let fiber = NonNull::new(fiber).expect("a fiber");
    // SAFETY: from `FiberBox::into_raw`, once in each test.
    unsafe { FiberBox::from_raw(fiber) }
}

fn runs_to_its_end_and_gives_the_stack_back(backend: Backend) {
    let fiber = fiber(backend, |_| {});
    assert!(resume(fiber));
    let fiber = into_box(fiber);
    let base = fiber.stack().base();
    assert_eq!(fiber.into_stack().base(), base);
}

fn suspends_and_resumes(backend: Backend) {
    let rounds = if cfg!(miri) { 5 } else { 1_000 };
    let count = std::rc::Rc::new(Cell::new(0));
    let inside = SendAnyway(count.clone());
    let fiber = fiber(backend, move |me| {
        let inside = inside;
        for _ in 0..rounds {
            inside.0.set(inside.0.get() + 1);
            me.suspend();
        }
    });
    for round in 1..=rounds {
        assert!(!resume(fiber));
        assert_eq!(count.get(), round);
    }
    assert!(resume(fiber));
    drop(into_box(fiber));
}

/// One side at a time touches it.
struct SendAnyway<T>(T);

fn catches_its_own_panics(backend: Backend) {
    let caught = std::rc::Rc::new(RefCell::new(String::new()));
    let inside = caught.clone();
    let fiber = fiber(backend, move |me| {
        let payload = panic::catch_unwind(AssertUnwindSafe(|| {
            me.suspend();
            panic::resume_unwind(Box::new("thrown on a fiber"));
        }))
        .expect_err("it panics");
        *inside.borrow_mut() = (*payload.downcast::<&str>().expect("a str")).to_owned();
        me.suspend();
    });
    assert!(!resume(fiber));
    assert!(!resume(fiber));
    assert_eq!(*caught.borrow(), "thrown on a fiber");
    assert!(resume(fiber));
    drop(into_box(fiber));
}

fn fibers_nest(backend: Backend) {
    let log = std::rc::Rc::new(RefCell::new(Vec::new()));
    let outer_log = log.clone();
    let outer = fiber(backend, move |me| {
        let inner_log = outer_log.clone();
        let inner = fiber(backend, move |me| {
            inner_log.borrow_mut().push("inner 1");
            me.suspend();
            inner_log.borrow_mut().push("inner 2");
        });
        assert!(!resume(inner));
        outer_log.borrow_mut().push("outer 1");
        me.suspend();
        assert!(resume(inner));
        drop(into_box(inner));
        outer_log.borrow_mut().push("outer 2");
    });
    assert!(!resume(outer));
    assert!(resume(outer));
    drop(into_box(outer));
    assert_eq!(*log.borrow(), ["inner 1", "outer 1", "inner 2", "outer 2"]);
}

fn frames_are_aligned_and_above_the_limit(backend: Backend) {
    let fiber = fiber(backend, |me| {
        #[repr(align(64))]
        struct Line([u8; 64]);
        let line = std::hint::black_box(Line([0; 64]));
        assert_eq!(line.0.as_ptr().addr() % 64, 0, "an aligned local is not");
        assert!(cfg!(miri) || line.0.as_ptr().addr() > me.stack_limit());
        assert!(me.stack_limit() > 0);
        // Printing floats uses SSE moves that trap on a stack that is off by eight.
        assert_eq!(format!("{:.3}", std::hint::black_box(1.0 / 3.0)), "0.333");
    });
    assert!(resume(fiber));
    drop(into_box(fiber));
}

fn a_backtrace_can_be_taken(backend: Backend) {
    let fiber = fiber(backend, |_| {
        let trace = std::backtrace::Backtrace::force_capture().to_string();
        assert!(cfg!(miri) || trace.contains("a_backtrace_can_be_taken"), "no frame of ours in {trace}");
    });
    assert!(resume(fiber));
    drop(into_box(fiber));
}

fn a_fresh_fiber_is_dropped_without_running(backend: Backend) {
    let arena = StackArena::new(StackOptions::default()).expect("arena");
    unsafe fn never(_: *mut ()) {
        unreachable!("a fiber that is not resumed must not run");
    }
    for take in [false, true] {
        let stack = arena.take().expect("stack");
        // SAFETY: it never runs.
        let fiber = unsafe { Fiber::new(backend, stack, never, std::ptr::null_mut()) }.expect("fiber");
        assert!(!fiber.is_finished());
        if take {
            drop(fiber.into_stack());
        } else {
            drop(fiber);
        }
        assert_eq!(arena.in_use(), 0);
    }
}

#[cfg(not(miri))]
fn a_suspended_fiber_is_leaked_not_unwound(backend: Backend) {
    struct Loud;
    impl Drop for Loud {
        fn drop(&mut self) {
            panic!("a frame was unwound");
        }
    }
    let fiber = fiber(backend, |me| {
        let _loud = Loud;
        me.suspend();
    });
    assert!(!resume(fiber));
    drop(into_box(fiber));
}

#[cfg(not(miri))]
fn a_suspended_fiber_does_not_part_with_its_stack(backend: Backend) {
    let fiber = fiber(backend, |me| me.suspend());
    assert!(!resume(fiber));
    let fiber = into_box(fiber);
    let refused = panic::catch_unwind(AssertUnwindSafe(|| drop(fiber.into_stack())));
    assert!(refused.is_err());
}

fn a_fresh_fiber_that_is_trimmed_to_nothing_runs_all_the_same(backend: Backend) {
    let ran = std::rc::Rc::new(Cell::new(false));
    let here = std::rc::Rc::clone(&ran);
    let fiber = fiber(backend, move |_| here.set(true));
    // SAFETY: it is live, and not running; it has no frames yet.
    unsafe { Fiber::trim(fiber, 0) };
    assert!(resume(fiber));
    assert!(ran.get(), "its first frame was given back");
    drop(into_box(fiber));
}

macro_rules! suite {
    ($($backend:ident: $module:ident;)*) => {$(
        mod $module {
            use super::Backend;
            suite! { @tests Backend::$backend;
                runs_to_its_end_and_gives_the_stack_back
                suspends_and_resumes
                catches_its_own_panics
                fibers_nest
                frames_are_aligned_and_above_the_limit
                a_backtrace_can_be_taken
                a_fresh_fiber_is_dropped_without_running
                a_fresh_fiber_that_is_trimmed_to_nothing_runs_all_the_same
            }
            // What these leak on purpose, Miri would report.
            #[cfg(not(miri))]
            suite! { @tests Backend::$backend;
                a_suspended_fiber_is_leaked_not_unwound
                a_suspended_fiber_does_not_part_with_its_stack
            }
        }
    )*};
    (@tests $backend:expr; $($test:ident)*) => {$(
        #[test]
        fn $test() {
            super::$test($backend);
        }
    )*};
}

suite! {
    Coroutine: coroutine;
    Thread: thread;
}
