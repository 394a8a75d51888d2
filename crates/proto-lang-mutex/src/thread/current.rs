//! Who a thread is: the core's reference to a timeline, and its name, in std's shape. Operating-system threads have one too.

use std::sync::Arc;

use proto_core::VpRef;

/// A handle to a thread: a virtual processor, or an operating-system thread that uses these constructs.
#[derive(Clone, Debug)]
pub struct Thread {
    pub(super) vp: VpRef,
    pub(super) name: Option<Arc<str>>,
}

/// A number that no other thread of the program has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ThreadId(u64);

/// The calling thread.
///
/// # Examples
///
/// ```
/// use proto_lang_mutex::thread;
/// let thread = thread::spawn(|| thread::current().id());
/// let id = thread.thread().id();
/// assert_eq!(thread.join().unwrap(), id);
/// ```
///
/// # Panics
///
/// In an assigner or a hook: those run on no thread.
pub fn current() -> Thread {
    let vp = VpRef::current();
    Thread { vp, name: vp.name().user().map(Arc::from) }
}

impl Thread {
    /// Its number.
    pub fn id(&self) -> ThreadId {
        ThreadId(self.vp.id())
    }

    /// The name it was given.
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// The core's reference to it: for its full name, its home, or to cancel it.
    pub fn vp(&self) -> VpRef {
        self.vp
    }
}
