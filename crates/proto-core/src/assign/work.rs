//! Ready work, as an assigner sees it.

use std::fmt;
use std::mem::ManuallyDrop;

use proto_arch::topology::CoreId;

use crate::runtime::send;
use crate::vp::VpName;
use crate::vp::block::{Block, flag};

/// Why work is ready.
///
/// # Examples
///
/// Who was kept waiting goes before who was not:
///
/// ```
/// use std::collections::VecDeque;
///
/// use proto_core::{Assigner, Cores, Locked, Runtime, Why, Work};
///
/// struct WaitersFirst;
/// impl Assigner for WaitersFirst {
///     type Core = [VecDeque<Work>; 3];
///     type Shared = ();
///     fn core(&self, _: &Cores<'_>) -> Self::Core { Default::default() }
///     fn shared(&self) {}
///     fn ready(&self, queues: &mut Self::Core, _: &Locked<()>, _: &Cores<'_>, work: Work, why: Why) {
///         let rank = match why {
///             Why::Resumed => 0,
///             Why::Born | Why::Stolen => 1,
///             Why::Yielded | _ => 2,
///         };
///         queues[rank].push_back(work);
///     }
///     fn assign(&self, queues: &mut Self::Core, _: &Locked<()>, _: &Cores<'_>) -> Option<Work> {
///         queues.iter_mut().find_map(VecDeque::pop_front)
///     }
/// }
/// let runtime = Runtime::builder().controllers(1).assigner(WaitersFirst).build()?;
/// let joined = runtime.run(|| proto_core::scope(|s| s.spawn(|| 6 * 7).join()))?;
/// assert_eq!(joined.ok(), Some(42));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
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
///
/// # Examples
///
/// A heap of what has to stay on its core, by priority; what may move goes into the pool. Each assigned piece is written down.
///
/// ```
/// use std::collections::BTreeMap;
/// use std::sync::{Arc, Mutex};
///
/// use proto_core::{Assigner, Cores, Locked, Runtime, VpBuilder, Why, Work};
///
/// struct Noted(Arc<Mutex<Vec<String>>>);
/// impl Assigner for Noted {
///     type Core = BTreeMap<u8, Vec<Work>>;
///     type Shared = ();
///     fn core(&self, _: &Cores<'_>) -> Self::Core { BTreeMap::new() }
///     fn shared(&self) {}
///     fn ready(&self, core: &mut Self::Core, _: &Locked<()>, cores: &Cores<'_>, work: Work, _: Why) {
///         if work.may_move() {
///             cores.mine().push(work).expect("it may");
///         } else {
///             core.entry(work.priority()).or_default().push(work);
///         }
///     }
///     fn assign(&self, core: &mut Self::Core, _: &Locked<()>, cores: &Cores<'_>) -> Option<Work> {
///         let work = core.values_mut().rev().find_map(Vec::pop).or_else(|| cores.mine().pop())?;
///         let (name, begins) = (work.name(), !work.is_started());
///         if begins && name.user().is_some() {
///             assert!(work.home().is_none_or(|home| home == cores.place_of(cores.index())));
///             self.0.lock().unwrap().push(name.to_string());
///         }
///         Some(work)
///     }
/// }
/// let notes = Arc::new(Mutex::new(Vec::new()));
/// let runtime = Runtime::builder().controllers(1).assigner(Noted(notes.clone())).build()?;
/// runtime.run(|| VpBuilder::new().name("reader").spawn(|| ()).map(|reader| reader.join()))?.unwrap().unwrap();
/// assert_eq!(*notes.lock().unwrap(), ["'reader' (vp 1:0.0)"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
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
