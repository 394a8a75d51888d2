//! Ready work, as an assigner sees it.

use std::fmt;
use std::mem::ManuallyDrop;

use proto_arch::topology::CoreId;

use crate::runtime::send;
use crate::vp::VpName;
use crate::vp::block::{Block, flag};

/// Why work is ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Why {
    /// It was just created.
    Born,
    /// Its wait is over.
    Resumed,
    /// It gave the core up, or was asked to, and could go on.
    Yielded,
    /// It was taken from another core.
    Stolen,
}

/// A VP that can run: one that waited, or one that has not started yet.
///
/// Affine: an assigner keeps it, or gives it to the controller by returning it. Dropped, it is run all the same, by the controller's own queue.
pub struct Work(&'static Block);

impl Work {
    pub(crate) fn new(block: &'static Block) -> Self {
        Work(block)
    }

    pub(crate) fn into_block(self) -> &'static Block {
        ManuallyDrop::new(self).0
    }

    #[inline]
    pub(crate) fn block(&self) -> &'static Block {
        self.0
    }

    /// Whether it has started: then it may run on its home core only.
    #[inline]
    pub fn is_started(&self) -> bool {
        self.0.is_started() && !self.0.may_migrate()
    }

    /// Whether other cores may take it: it has not started, or may migrate, and nobody asked for its place.
    #[inline]
    pub fn may_move(&self) -> bool {
        !self.is_started() && !self.0.has(flag::PLACED)
    }

    /// The priority given at its creation; 0 is the lowest, 128 the usual.
    #[inline]
    pub fn priority(&self) -> u8 {
        self.0.priority.get()
    }

    /// The core it lives on, or was asked to be started on.
    pub fn home(&self) -> Option<CoreId> {
        self.0.home().map(|home| home.place)
    }

    /// Its name.
    pub fn name(&self) -> VpName {
        VpName::of(self.0)
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        send::orphan(self.0);
    }
}

impl fmt::Debug for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Work").field("name", &self.name()).field("started", &self.is_started()).finish()
    }
}
