//! Who a thread is: the core's reference to a timeline, and its name, in std's shape. Operating-system threads have one too.

use std::sync::Arc;

use proto_core::VpRef;

/// A handle to a thread: a virtual processor, or an operating-system thread that uses these constructs.
///
/// # Examples
///
/// ```
/// use proto_lang_mutex::thread::{self, Thread};
///
/// let parked = thread::Builder::new().name("parked".to_owned()).spawn(thread::park)?;
/// let thread: Thread = parked.thread().clone();
/// assert_eq!(thread.name(), Some("parked"));
/// assert_ne!(thread.id(), thread::current().id());
/// println!("{} runs on {:?}", thread.vp().name(), thread.vp().home());
/// thread.unpark();
/// parked.join().unwrap();
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Thread {
    pub(super) vp: VpRef,
    pub(super) name: Option<Arc<str>>,
}

/// A number that no other thread of the program has.
///
/// # Examples
///
/// ```
/// use proto_lang_mutex::thread::{self, ThreadId};
/// use std::collections::HashMap;
///
/// let mut names: HashMap<ThreadId, &str> = HashMap::new();
/// names.insert(thread::current().id(), "here");
/// assert!(thread::spawn(move || !names.contains_key(&thread::current().id())).join().unwrap());
/// ```
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
