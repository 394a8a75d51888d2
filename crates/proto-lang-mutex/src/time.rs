//! What all constructs share: deadlines, how the types whose fields say nothing are shown, and defaults.

use std::time::{Duration, Instant};

/// When a wait that begins now and may take `timeout` is over. `None`: later than the clock can say, so never.
pub(crate) fn after(timeout: Duration) -> Option<Instant> {
    Instant::now().checked_add(timeout)
}

/// Shows a type by its name alone, or with one field, whatever its parameters are.
macro_rules! opaque {
    ($name:ident[$($param:tt)*], $type:ty $(, $field:ident)?) => {
        impl<$($param)*> std::fmt::Debug for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_struct(stringify!($name))$(.field(stringify!($field), &self.$field))?.finish_non_exhaustive()
            }
        }
    };
}

/// The default of a type that is made without arguments. Reports name it by the place where it is asked for.
macro_rules! made_by_new {
    ($name:ident $(<$param:ident>)?) => {
        impl $(<$param>)? Default for $name $(<$param>)? {
            #[track_caller]
            fn default() -> Self {
                $name::new()
            }
        }
    };
}
