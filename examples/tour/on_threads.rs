//! The programs on threads of the operating system.

use std::{sync, thread};

#[path = "index.rs"]
pub(crate) mod index;
#[path = "lock.rs"]
pub(crate) mod lock;
