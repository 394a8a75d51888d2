//! core

mod kernel;
mod sync;
