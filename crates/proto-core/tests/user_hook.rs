//! A handler's panic is shown to the user's hook after the unlock, so a hook may use the very environment that broke. One test, alone in its
//! program: the hook is the whole program's, and has to be there before the first runtime is made.

mod common;

use std::sync::atomic::{AtomicUsize, Ordering};

use common::{runtime, watched};
use proto_core::{Caller, Ended, EnvCell, Hidden, RequestHandler};

struct Env;
struct Shout;
struct Ask;

impl RequestHandler<Shout> for Env {
    type Reply = ();
    fn handle(&mut self, _: Shout, _: Caller<'_, ()>, _: &mut Hidden<'_>) {
        panic!("shouted in a handler");
    }
}

impl RequestHandler<Ask> for Env {
    type Reply = ();
    fn handle(&mut self, _: Ask, caller: Caller<'_, ()>, hidden: &mut Hidden<'_>) {
        hidden.answer(caller, ());
    }
}

static CELL: EnvCell<Env> = EnvCell::new(Env);
static SHOUTS: AtomicUsize = AtomicUsize::new(0);
static OTHERS: AtomicUsize = AtomicUsize::new(0);

#[test]
fn the_users_hook_runs_after_the_unlock_and_may_use_the_environment() {
    watched("user's hook", || {
        std::panic::set_hook(Box::new(|info| {
            // `panic_any` with a `String`, or a literal.
            let text = info.payload_as_str().unwrap_or_default();
            if text.starts_with("shouted in a handler") {
                // Under the lock this would spin for ever, or be a request inside a handler.
                assert!(matches!(CELL.request(Ask), Err(Ended::Broken(_))));
                assert!(text.contains("user_hook.rs:"), "the place of the panic is told: {text}");
                SHOUTS.fetch_add(1, Ordering::Relaxed);
            } else {
                OTHERS.fetch_add(1, Ordering::Relaxed);
            }
        }));
        let runtime = runtime(1);
        runtime.run(|| assert!(CELL.request(Shout).is_err())).unwrap();
        assert_eq!(SHOUTS.load(Ordering::Relaxed), 1, "the hook is called once");
        // Only the first request ran the handler.
        runtime.run(|| assert!(CELL.request(Shout).is_err())).unwrap();
        assert_eq!(SHOUTS.load(Ordering::Relaxed), 1);
        // An ordinary panic is shown at once, once.
        let panicked = runtime.run(|| panic!("an ordinary one"));
        assert!(panicked.is_err());
        assert_eq!(OTHERS.load(Ordering::Relaxed), 1);
    });
}
