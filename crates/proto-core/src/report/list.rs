//! Reading the waits of timelines.
//!
//! A wait is read on its timeline's home core, by mail, while the timeline does not run; or by anybody when everything stands still.
//! The waiting frame then cannot go on, so the environment it is queued in is alive, and is locked to be read.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{PoisonError, mpsc};
use std::time::{Duration, Instant};

use super::{Holder, Wait};
use crate::runtime::core::Core;
use crate::runtime::shared::Shared;
use crate::runtime::{mail, watchdog};
use crate::vp::VpName;
use crate::vp::block::{Block, mode};
use crate::vp::slab;

/// Nanoseconds that cores have spent with listings.
static SPENT: AtomicU64 = AtomicU64::new(0);

/// How much time of the cores listings have taken so far, in nanoseconds.
pub(crate) fn spent() -> u64 {
    // ORDERING: Relaxed: statistics.
    SPENT.load(Ordering::Relaxed)
}

/// How long a listing waits for a core that is busy with a VP.
const PATIENCE: Duration = Duration::from_millis(100);
/// For one that is not, but does not get its processor, that many times as long.
const MOST_TIMES: u32 = 50;

/// A wait, with what a graph of owners needs.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    pub(crate) block: &'static Block,
    pub(crate) key: crate::kernel::wait::Key,
    pub(crate) holder: Option<(&'static Block, bool)>,
    pub(crate) wait: Wait,
}

/// Reads the wait of `block`.
///
/// # Safety
///
/// - `block` does not run, and cannot start to while this reads: the caller is its home core's controller, or everything stands still.
pub(crate) unsafe fn read(block: &'static Block) -> Option<Found> {
    if block.birth().is_multiple_of(2) || (!block.is_thread() && !block.is_started()) {
        return None;
    }
    let (info, sent_from) = block.reason()?;
    // SAFETY: it has started.
    let node = unsafe { block.node() };
    let key = node.key.get()?;
    if block.wait.is_over_hint(key) {
        return None;
    }
    let mut wait = Wait {
        vp: VpName::of(block),
        request: (info.request)(),
        environment: (info.environment)(),
        sent_from,
        made_at: None,
        object: None,
        holder: None,
        since: Duration::from_millis(u64::from(
            watchdog::coarse_ms().saturating_sub(block.since.load(Ordering::Relaxed)),
        )),
        timed: block.mode.get() & mode::TIMED != 0,
        binding: block.mode.get() & mode::ABANDONABLE == 0,
    };
    let mut holder = None;
    if let Some(cell) = node.cell() {
        // SAFETY: the waiting frame borrows the cell and does not go on (duty of the caller).
        let head = unsafe { &*cell };
        let version = head.lock();
        if node.cell() == Some(cell) {
            wait.made_at = Some(head.place.get());
            // SAFETY: the lock is held; the reference ends here.
            let named = unsafe { &*head.cold.get() }.as_ref().and_then(|cold| cold.name.clone());
            wait.object = named.or_else(|| head.heads.oldest().map(|first| (VpName::of(first), first.requests.get())));
            if let Some(by) = head.holder.first() {
                let ended = !by.is_thread() && !by.is_started();
                holder = Some((by, ended));
                wait.holder = Some(Holder {
                    vp: VpName::of(by),
                    taken_at: head.holder.place(),
                    ended,
                    others: head.holder.more(),
                });
            }
        }
        head.unlock(version);
    }
    Some(Found { block, key, holder, wait })
}

/// The waits of the timelines of `core`, whose controller this is.
fn of_core(core: &'static Core) -> Vec<Found> {
    slab::all()
        .into_iter()
        .flatten()
        .filter_map(|block| {
            let _at_home = block.at_home(core, block.birth())?;
            // SAFETY: this is the controller of the VP's home, and the VP stays there: so it does not run.
            unsafe { read(block) }
        })
        .collect()
}

fn alive(shared: &Shared) -> bool {
    *shared.alive.lock().unwrap_or_else(PoisonError::into_inner) > 0
}

/// The waits of all timelines of a runtime, as far as its cores answer in time. Not on a controller.
pub(crate) fn of_runtime(shared: &Shared) -> Vec<Found> {
    let (send, receive) = mpsc::channel();
    for core in &shared.cores {
        let send = send.clone();
        mail::post(
            core,
            Box::new(move |core| {
                let begin = Instant::now();
                let found = of_core(core);
                let took = u64::try_from(begin.elapsed().as_nanos()).unwrap_or(u64::MAX);
                // ORDERING: Relaxed: statistics.
                SPENT.fetch_add(took, Ordering::Relaxed);
                // Nobody listens any more: it came too late.
                let _ = send.send((core.index, found));
            }),
        );
    }
    drop(send);
    let mut all = Vec::new();
    let mut silent: Vec<usize> = (0..shared.cores.len()).collect();
    let mut times = 0;
    while !silent.is_empty() {
        match receive.recv_timeout(PATIENCE) {
            Ok((index, found)) => {
                all.extend(found);
                silent.retain(|&other| other != index);
            }
            Err(mpsc::RecvTimeoutError::Disconnected) => break,
            Err(mpsc::RecvTimeoutError::Timeout) => {
                times += 1;
                // One that runs no VP is on its way, but the machine is busy.
                let none_comes = silent.iter().all(|&index| shared.cores[index].ctx.current().is_some());
                if none_comes || times >= MOST_TIMES || !alive(shared) {
                    break;
                }
            }
        }
    }
    all
}
