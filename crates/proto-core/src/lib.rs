//! core

// Under loom these two are all there is: every other module is `#[cfg(not(loom))]`.
mod kernel;
mod sync;
