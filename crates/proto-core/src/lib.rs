//! core

// Under loom these two are all there is: every other module is `#[cfg(not(loom))]`.
mod kernel;
mod sync;

#[cfg(not(loom))]
mod guarded;

#[cfg(not(loom))]
pub use guarded::{
    Frozen, Grant, Guarded, Opened, OpenedShared, RangeGrant, RangeShares, SharedGrant,
    SharedRange, Shares,
};
