//! Names of timelines: stable from run to run, never addresses [design rule 9].

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use smallvec::SmallVec;

use super::block::{Block, INLINE_PATH};
use super::extra;
use crate::task::JobHead;

/// A timeline's name: its process, its path (parent, n-th child) and, if it was given one, the user's name.
///
/// The seed of process 1 is `1:0`, its second child `1:0.1`, the first child of that one `1:0.1.0`. An attached OS thread is `thread n`.
///
/// ```
/// let runtime = proto_core::Runtime::builder().controllers(1).build()?;
/// let name = runtime.run(|| proto_core::VpBuilder::new().name("worker").spawn(|| ()).unwrap().name())?;
/// assert_eq!(name.user(), Some("worker"));
/// assert!(name.to_string().starts_with("'worker' ("));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// ```
/// use proto_core::{Runtime, current_name, scope};
///
/// let runtime = Runtime::builder().controllers(1).build()?;
/// let name = runtime.run(|| scope(|s| s.spawn(current_name).join()))?.expect("it does not panic");
/// assert_eq!((name.process(), name.path()), (Some(1), &[0, 0][..]));
/// assert_eq!(current_name().process(), None);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct VpName {
    process: Option<u64>,
    path: Vec<u32>,
    user: Option<Arc<str>>,
}

impl VpName {
    /// Reads the name of `block`. If it ends meanwhile the name may be that of a later timeline: callers that care compare its birth number.
    pub(crate) fn of(block: &Block) -> VpName {
        let depth = usize::from(block.depth.get());
        let (user, mut path) = extra::name_and_prefix(block);
        let inline = depth.saturating_sub(path.len()).min(INLINE_PATH);
        path.extend(block.path[..inline].iter().map(|step| step.load(Ordering::Relaxed)));
        let process = block.process_id();
        VpName { process, path, user }
    }

    /// Writes what a signal handler may read of a timeline's name: no lock, no allocation.
    pub(crate) fn write_in_signal(block: &Block, out: &mut impl fmt::Write) {
        // The line is cut if it is too long; nothing can be done about it here.
        let _ = extra::write_name(block, out);
        let _ = match block.process_id() {
            Some(process) => write!(out, "vp {process}:"),
            None => write!(out, "thread "),
        };
        let inline = usize::from(block.depth.get()).min(INLINE_PATH);
        for (index, step) in block.path[..inline].iter().enumerate() {
            let dot = if index == 0 { "" } else { "." };
            let _ = write!(out, "{dot}{}", step.load(Ordering::Relaxed));
        }
    }

    /// The path of a latent task: that of whoever forked it, and which child it was.
    ///
    /// # Safety
    ///
    /// - `job` points to a task that is not over, and was made of a pointer to the whole of it.
    pub(crate) unsafe fn path_of(mut job: *const JobHead) -> Vec<u32> {
        // No recursion: this may run where little stack is left.
        let mut backwards: SmallVec<[u32; 32]> = SmallVec::new();
        loop {
            // SAFETY: duty of the caller; and what was forked in a task, or in a scope opened there, is over before that is. (Other tasks say
            // themselves where they come from.)
            let head = unsafe { &*job };
            backwards.push(head.number());
            // SAFETY: as above.
            let (around, owner) = match unsafe { JobHead::task(job) } {
                None => (head.outer(), head.owner()),
                Some(task) => {
                    backwards.extend(task.steps().iter().rev().copied());
                    (task.scope().around(), task.scope().owner())
                }
            };
            if around.is_null() {
                let mut path = Self::of(owner).path;
                path.extend(backwards.iter().rev());
                return path;
            }
            job = around;
        }
    }

    /// The name of the code that runs here: that of the timeline, or of the latent task that it runs inline.
    pub(crate) fn current(block: &Block) -> VpName {
        let job = block.inline_job();
        if job.is_null() {
            return VpName::of(block);
        }
        // SAFETY: the task that runs inline is not over.
        let path = unsafe { Self::path_of(job) };
        VpName { process: block.process_id(), path, user: None }
    }

    /// The name its creator gave it.
    pub fn user(&self) -> Option<&str> {
        self.user.as_deref()
    }

    /// The number of its process; `None` for an OS thread.
    pub fn process(&self) -> Option<u64> {
        self.process
    }

    /// The path: for each step from the seed (or the outermost OS thread) on, which child it was.
    pub fn path(&self) -> &[u32] {
        &self.path
    }
}

impl fmt::Display for VpName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(user) = &self.user {
            write!(f, "'{user}' (")?;
        }
        match self.process {
            Some(process) => write!(f, "vp {process}:")?,
            None => f.write_str("thread ")?,
        }
        for (index, step) in self.path.iter().enumerate() {
            if index > 0 {
                f.write_str(".")?;
            }
            write!(f, "{step}")?;
        }
        if self.user.is_some() { f.write_str(")") } else { Ok(()) }
    }
}
