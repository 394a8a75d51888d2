//! Queues from many senders to one receiver, in the shapes of [`std::sync::mpsc`]. Reached by users as `sync::mpsc`.
//!
//! | file | what lives there |
//! |---|---|
//! | `queue` | the environment of a channel, its requests, its dangerous races |
//! | `sender` | [`Sender`], [`SyncSender`] |
//! | `receiver` | [`Receiver`] and its iterators |

mod queue;
mod receiver;
mod sender;

pub use receiver::{IntoIter, Iter, Receiver, TryIter};
pub use sender::{SendTimeoutError, Sender, SyncSender};

pub(crate) use queue::{Receive, Send};

use std::sync::Arc;

use proto_core::EnvCell;

use queue::Queue;

/// A queue without a bound: sending never waits.
///
/// # Examples
///
/// ```
/// use proto_lang_mutex::sync::mpsc;
/// use proto_lang_mutex::thread;
///
/// let (sender, receiver) = mpsc::channel();
/// thread::spawn(move || sender.send("hello").unwrap());
/// assert_eq!(receiver.recv(), Ok("hello"));
/// assert!(receiver.recv().is_err(), "the only sender is gone");
/// ```
#[track_caller]
pub fn channel<T>() -> (Sender<T>, Receiver<T>) {
    ends(usize::MAX)
}

/// A queue with room for `bound` values: sending waits while it is full. With a bound of 0 each send waits for its receive.
///
/// # Examples
///
/// ```
/// use proto_lang_mutex::sync::mpsc;
/// let (sender, receiver) = mpsc::sync_channel(1);
/// sender.send(1).unwrap();
/// assert!(sender.try_send(2).is_err(), "full");
/// assert_eq!(receiver.recv(), Ok(1));
/// ```
#[track_caller]
pub fn sync_channel<T>(bound: usize) -> (SyncSender<T>, Receiver<T>) {
    ends(bound)
}

#[track_caller]
fn ends<T, B>(bound: usize) -> (Sender<T, B>, Receiver<T>) {
    let queue = Arc::new(EnvCell::new(Queue::new(bound)));
    (Sender::new(Arc::clone(&queue)), Receiver::new(queue))
}
