//! Parking: each thread has one token; [`park`] takes it or waits for it, [`Thread::unpark`] gives it, once.
//!
//! Few threads ever park, so a thread does not pay for it at birth: tokens that were given and parked threads are listed in a
//! table, under the thread's number. The table is cut into [`SHARDS`] environments so that no lock is all threads'.
//!
//! *The dangerous race*: a park whose time is over or that is cancelled, while its thread is still listed. An unpark that then finds the
//! dead wait leaves the token in its place; a park that ended without a token takes itself off the list, or finds the token. A thread
//! that ends with a token nobody took is forgotten when its shard is next swept, which is when it has doubled.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use proto_core::{Caller, EnvCell, Hidden, Kind, RequestHandler, Suspended, VpRef};

use super::Thread;
use crate::time;

const SHARDS: usize = 64;

static PARKED: [EnvCell<Shard>; SHARDS] =
    [const { EnvCell::new(Shard { listed: BTreeMap::new(), sweep_at: 64 }) }; SHARDS];

struct Shard {
    listed: BTreeMap<u64, Listed>,
    sweep_at: usize,
}

enum Listed {
    Token(VpRef),
    Parked(Suspended<()>),
}

struct Park(u64);
struct Unpark(VpRef);
/// The park of this thread ended without a token: is there one all the same?
struct Leave(u64);

impl RequestHandler<Park> for Shard {
    type Reply = ();
    fn handle(&mut self, Park(id): Park, caller: Caller<'_, ()>, hidden: &mut Hidden<'_>) {
        if let Some(Listed::Token(_)) = self.listed.remove(&id) {
            hidden.answer(caller, ());
        } else {
            let parked = hidden.suspend(caller);
            self.listed.insert(id, Listed::Parked(parked));
        }
    }
}

impl RequestHandler<Unpark> for Shard {
    type Reply = ();
    const KIND: Kind = Kind::Release;
    fn handle(&mut self, Unpark(vp): Unpark, caller: Caller<'_, ()>, hidden: &mut Hidden<'_>) {
        let resumed = match self.listed.remove(&vp.id()) {
            Some(Listed::Parked(parked)) => hidden.resume(parked, ()).is_ok(),
            Some(Listed::Token(_)) | None => false,
        };
        if !resumed && !vp.has_ended() {
            self.listed.insert(vp.id(), Listed::Token(vp));
            if self.listed.len() > self.sweep_at {
                self.listed.retain(|_, listed| !matches!(listed, Listed::Token(vp) if vp.has_ended()));
                self.sweep_at = 64.max(2 * self.listed.len());
            }
        }
        hidden.answer(caller, ());
    }
}

impl RequestHandler<Leave> for Shard {
    type Reply = bool;
    const KIND: Kind = Kind::Binding;
    fn handle(&mut self, Leave(id): Leave, caller: Caller<'_, bool>, hidden: &mut Hidden<'_>) {
        let token = matches!(self.listed.remove(&id), Some(Listed::Token(_)));
        hidden.answer(caller, token);
    }
}

fn shard(id: u64) -> &'static EnvCell<Shard> {
    // The number is an address under some mixing: the product's high bits tell neighbours apart.
    let mixed = id.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    &PARKED[mixed as usize % SHARDS]
}

#[track_caller]
fn park_by(deadline: Option<Instant>) {
    let id = VpRef::current().id();
    let shard = shard(id);
    if let Err(ended) = shard.request_until(Park(id), deadline) {
        let _token = shard.request(Leave(id));
        time::timed::<()>(Err(ended));
    }
}

/// Waits for the calling thread's token, and takes it.
///
/// # Panics
///
/// Unwinds if the calling virtual processor is cancelled.
///
/// # Examples
///
/// ```
/// use proto_lang_mutex::thread;
/// let parked = thread::spawn(|| {
///     thread::park();
///     "went on"
/// });
/// parked.thread().unpark(); // before or after it parks: the token stays
/// assert_eq!(parked.join().unwrap(), "went on");
/// ```
#[track_caller]
pub fn park() {
    park_by(None);
}

/// As [`park`], for at most `timeout`.
///
/// # Panics
///
/// As [`park`].
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// proto_lang_mutex::thread::park_timeout(Duration::from_millis(1)); // nobody unparks it: returns all the same
/// ```
#[track_caller]
pub fn park_timeout(timeout: Duration) {
    park_by(time::after(timeout));
}

impl Thread {
    /// Gives the thread its token, if it has none: it goes on if it is parked, or when it next parks.
    pub fn unpark(&self) {
        shard(self.vp().id()).release(Unpark(self.vp()));
    }
}
