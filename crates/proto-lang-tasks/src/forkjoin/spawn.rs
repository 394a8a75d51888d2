//! Work that outlives the frame it was made in.

use proto_core::{JoinHandle, VpBuilder};

/// Starts `f`, which borrows nothing, potentially in parallel, and gives a handle to its result.
///
/// Dropped, the handle changes nothing: `f` runs all the same, its process ends only when it has, and a panic of it is the process's. From an OS thread, `f`
/// runs on the default runtime. A virtual processor of its own from birth, it costs more than a task of a [`scope`](crate::scope), which may
/// also borrow.
///
/// # Panics
///
/// If it cannot be started: the runtime shuts down, or a limit of the system is reached.
///
/// # Examples
///
/// ```
/// let words = vec!["a", "few", "words"];
/// let longest = proto_lang_tasks::spawn(move || words.into_iter().max_by_key(|word| word.len()));
/// assert_eq!(longest.join().unwrap(), Some("words"));
/// ```
#[track_caller]
pub fn spawn<T: Send + 'static>(f: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    match VpBuilder::new().spawn(f) {
        Ok(handle) => handle,
        Err(error) => panic!("the closure could not be started: {error}"),
    }
}
