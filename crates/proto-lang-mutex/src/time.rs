//! What all constructs share: deadlines, and how the types whose fields say nothing are shown.

use std::time::{Duration, Instant};

/// When a wait that begins now and may take `timeout` is over. `None`: later than the clock can say, so never.
pub(crate) fn after(timeout: Duration) -> Option<Instant> {
    Instant::now().checked_add(timeout)
}

/// A wait without a deadline ended without its reply: unwinds if it was cancelled, panics else.
#[cold]
#[track_caller]
pub(crate) fn failed(ended: proto_core::Ended) -> ! {
    let ended = ended.unwind_if_cancelled();
    panic!("{ended}")
}

/// Tells a deadline that passed from the ends that no construct of std can report.
#[track_caller]
pub(crate) fn timed<T>(outcome: Result<T, proto_core::Ended>) -> Option<T> {
    proto_core::OrUnwind::in_time(outcome)
}

/// Shows a type by its name alone, or with one field, whatever its parameters are.
macro_rules! opaque {
    ($name:ident<$($param:tt),+> $(, $field:ident)?) => {
        impl<$($param),+> std::fmt::Debug for $name<$($param),+> {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_struct(stringify!($name))$(.field(stringify!($field), &self.$field))?.finish_non_exhaustive()
            }
        }
    };
}
