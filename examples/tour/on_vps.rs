//! The programs on virtual processors: the same files, with other `thread` and `sync`. This is the whole port.

use proto_lang_mutex::{sync, thread};

#[expect(clippy::duplicate_mod, reason = "the same source on both sides is the point")]
#[path = "index.rs"]
pub(crate) mod index;
#[expect(clippy::duplicate_mod, reason = "the same source on both sides is the point")]
#[path = "lock.rs"]
pub(crate) mod lock;
