//! Queues from many senders to one receiver, in the shapes of [`std::sync::mpsc`]. Reached by users as `sync::mpsc`.
//!
//! The core's [`Channel`] is what passes the values; here are its two ends.
//!
//! | file | what lives there |
//! |---|---|
//! | `sender` | [`Sender`], [`SyncSender`] |
//! | `receiver` | [`Receiver`] and its iterators |

mod receiver;
mod sender;

pub use proto_core::SendTimeoutError;
pub use receiver::{IntoIter, Iter, Receiver, TryIter};
pub use sender::{Sender, SyncSender};

use std::marker::PhantomData;
use std::sync::Arc;

use proto_core::Channel;

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
fn ends<T, const BOUNDED: bool>(bound: usize) -> (Sender<T, BOUNDED>, Receiver<T>) {
    let channel = Arc::new(Channel::new(bound));
    (Sender { channel: Arc::clone(&channel) }, Receiver { channel, _one: PhantomData })
}
