//! What a controller does that has found nothing to run: search for about 20 µs, then sleep [design rules 5 and 8].
//!
//! ```text
//!   search: inbox · mail · latent tasks of others (asked for, taken cheaply) · after ~20 µs: pools, newborn work, latent tasks the hard way
//!   sleep:  `kernel::sleep`; the last look includes work that is too young to be taken: then search again
//! ```
//!
//! Unstarted work is left to its home core for its first ~20 µs: a core that starts its own work sooner keeps timelines together that
//! talk to each other, and a started VP stays where it is for good.
//!
//! The last core that falls asleep, with nobody else awake who could do anything, asks for the verdict (`report::verdict`).

use std::time::{Duration, Instant};

use super::controller::{self, view};
use super::core::Core;
use super::send;
use super::shared::Shared;
use crate::assign::instance::Instance;
use crate::assign::{Why, Work};
use crate::ctx::attention;
use crate::kernel::sleep::{Awake, Found, Search};
use crate::report::verdict;
use crate::task;

/// How long a core searches before it sleeps, and how old work has to be to be taken from its home.
const SEARCH: Duration = Duration::from_micros(20);

/// How long it searches after a sleep that was ended by mail before this time was over: sleeping and waking cost more than the search
/// would have. So two cores whose timelines answer each other within that time stay awake.
const PATIENT: Duration = Duration::from_micros(100);

/// Looks for mail before a core says that it searches. A timeline of another core that is just answering does so within a fraction of a
/// microsecond; to say so and to take it back costs both cores two lines of memory each time.
const GLANCES: u32 = 32;

/// Looks between two looks at the clock.
const LOOKS: u32 = 16;

/// Looks for something to run until there is something (`true`: the controller's loop goes on), or the runtime stops (`false`).
#[cold]
#[inline(never)]
pub(crate) fn idle(core: &'static Core) -> bool {
    let shared = core.shared();
    if !shared.crowded_machine && glance(core) {
        found(core);
        return true;
    }
    loop {
        if shared.is_stopping() && verdict::may_end(shared) {
            return false;
        }
        if has_own(core) {
            found(core);
            return true;
        }
        if search(core) {
            return true;
        }
        // SAFETY: the controller; `trim` neither switches nor comes back here.
        unsafe { core.owner(|owner| owner.fibers.trim()) };
        sleep(core);
    }
}

fn glance(core: &Core) -> bool {
    (0..GLANCES).any(|_| {
        std::hint::spin_loop();
        has_own(core)
    })
}

/// Whether this core has been sent something.
fn has_own(core: &Core) -> bool {
    !core.inbox.is_empty_hint()
        || !core.newborn.is_empty()
        || core.ctx.attention() & (attention::MAIL | attention::TIMER) != 0
        // SAFETY: the controller; the closure only looks.
        || unsafe { core.owner(|owner| !owner.local.is_empty() || !owner.orphans.is_empty()) }
}

/// This core will run something: whoever sleeps may be needed for the rest.
fn found(core: &'static Core) {
    let shared = core.shared();
    // SAFETY: the controller; `found` neither switches nor comes back here.
    let found = unsafe { core.owner(|owner| shared.sleep.found(&mut owner.rest, shared)) };
    if found == Found::LookForMore && anything_to_take(core) {
        shared.sleep.wake_one(Some(core.index), shared);
    }
}

/// Searches for a while. `true` if something was found, which then lies where the controller's loop looks.
fn search(core: &'static Core) -> bool {
    let shared = core.shared();
    // SAFETY: the controller; the closure only looks.
    let (search, patience) = unsafe { core.owner(|owner| (shared.sleep.search(&owner.rest), owner.patience)) };
    let began = Instant::now();
    if search == Search::Enough {
        return wait_for_own(core, began, patience.max(SEARCH));
    }
    controller::note_instances(core);
    note_ages(core);
    task::ask_for_latent(core);
    loop {
        for _ in 0..LOOKS {
            if has_own(core) {
                found(core);
                return true;
            }
            std::hint::spin_loop();
        }
        if let Some(work) = task::take_published(core) {
            return keep(core, work);
        }
        if shared.is_stopping() {
            return false;
        }
        let elapsed = began.elapsed();
        if elapsed >= patience {
            break;
        }
        if elapsed >= SEARCH
            && let Some(work) = take_aged(core)
        {
            return keep(core, work);
        }
        if shared.crowded_machine {
            // Whoever is waited for may need this processor.
            std::thread::yield_now();
        }
    }
    match take_aged(core).or_else(|| task::take_hard(core)) {
        Some(work) => keep(core, work),
        None => false,
    }
}

/// Enough others search: this core only waits a little for what may be sent to it. A timeline that talks to one of another core is answered
/// within a microsecond; to sleep at once would cost it a wake-up each time.
fn wait_for_own(core: &'static Core, began: Instant, patience: Duration) -> bool {
    let shared = core.shared();
    while began.elapsed() < patience && !shared.is_stopping() {
        for _ in 0..LOOKS {
            if has_own(core) {
                found(core);
                return true;
            }
            std::hint::spin_loop();
        }
        if shared.crowded_machine {
            std::thread::yield_now();
        }
    }
    false
}

fn keep(core: &'static Core, work: Work) -> bool {
    found(core);
    // What was taken with it lay nowhere for a moment, and a core that fell asleep just then has not seen it.
    task::published(core);
    // SAFETY: the controller; the closure only writes.
    unsafe { core.owner(|owner| owner.found = Some(work)) };
    true
}

/// Notes what others' pools and newborn lists have been given so far: what is still there after the search is old enough.
fn note_ages(core: &'static Core) {
    let shared = core.shared();
    // SAFETY: the controller; the closure only reads counters.
    unsafe {
        core.owner(|owner| {
            owner.aged.clear();
            owner.aged.extend(shared.cores.iter().map(|other| other.newborn.given()));
            for instance in &owner.instances {
                owner.aged.extend(instance.pools.iter().map(|pool| pool.given()));
            }
        });
    }
}

/// Asks the assigners that this core knows, in the order of `Owner::instances`, until one has an answer.
fn ask_instances<R>(core: &'static Core, mut ask: impl FnMut(usize, &Instance) -> Option<R>) -> Option<R> {
    for index in 0.. {
        // SAFETY: the controller, outside of `owner`. The reference is not used beyond `ask`, which runs an assigner's code and so cannot
        // come to `note_instances` or `wind_up`.
        let instance = unsafe { controller::instance_at(core, index) }?;
        let answer = ask(index, instance);
        if answer.is_some() {
            return answer;
        }
    }
    None
}

/// Takes unstarted work of other cores that is about 20 µs old.
fn take_aged(core: &'static Core) -> Option<Work> {
    let shared = core.shared();
    let count = shared.cores.len();
    // SAFETY: the controller; the closure only takes a buffer out.
    let aged = unsafe { core.owner(|owner| std::mem::take(&mut owner.aged)) };
    let mut taken = None;
    for victim in core.others() {
        let Some(&given) = aged.get(victim) else { continue };
        let mut loot = shared.cores[victim].newborn.steal_oldest(given);
        taken = loot.pop_front();
        // It is here now, whatever an assigner would say of its place: so not into this core's newborn work, which is asked for.
        for work in loot {
            controller::ready(core, work.into_block(), Why::Stolen);
        }
        if taken.is_some() {
            break;
        }
    }
    if taken.is_none() {
        taken = ask_instances(core, |number, instance| {
            let ages = aged.get(count * (number + 1)..count * (number + 2));
            let work = instance.idle(&view(core, instance, ages.or(Some(&[]))))?;
            // It may have brought more into this core's pool.
            let more = instance.pools[core.index].len();
            // SAFETY: the controller; the closure only counts.
            unsafe { core.owner(|owner| owner.ready = owner.ready.max(more)) };
            Some(work)
        });
    }
    if let Some(work) = &taken {
        controller::note_stolen(core, work.block(), Why::Stolen);
    }
    // SAFETY: the controller; the closure only puts the buffer back.
    unsafe { core.owner(|owner| owner.aged = aged) };
    taken
}

/// Whether there is anything that this core could take, however young.
fn anything_to_take(core: &'static Core) -> bool {
    let shared = core.shared();
    let has_work = |_, instance: &Instance| instance.has_work_for_all(&view(core, instance, None)).then_some(());
    // An assigner that this core does not know yet may have work.
    ask_instances(core, has_work).is_some()
        || !controller::knows_instances(core)
        || shared.cores.iter().any(|other| !other.newborn.is_empty())
        || task::any_latent(shared)
}

/// Sleeps until there is something to do, or might be.
fn sleep(core: &'static Core) {
    let shared: &'static Shared = core.shared();
    let mail = || has_own(core) || shared.is_stopping();
    let scan = || {
        let awake = has_own(core) || anything_to_take(core) || (shared.is_stopping() && verdict::may_end(shared));
        if !awake {
            verdict::core_falls_asleep();
        }
        awake || has_own(core)
    };
    let park = |nap: Option<Duration>| {
        let until = earliest_deadline(core);
        let time = match (nap, until) {
            (Some(nap), Some(until)) => Some(nap.min(until)),
            (nap, until) => nap.or(until),
        };
        match time {
            Some(time) => {
                core.parker.park_timeout(time);
            }
            None => core.parker.park(),
        }
        if earliest_deadline(core).is_some_and(|left| left.is_zero()) {
            core.ctx.raise(attention::TIMER);
            // Ends the sleep by mail from itself.
            send::wake(core);
        }
    };
    // SAFETY: the controller. `sleep` calls the closures above, which come to `owner` again, but only for other parts than `rest`;
    // so `rest` is taken out first.
    let mut rest =
        unsafe { core.owner(|owner| std::mem::replace(&mut owner.rest, crate::kernel::sleep::Rest::new(core.index))) };
    let began = Instant::now();
    let awake = shared.sleep.sleep(&mut rest, shared, mail, scan, park);
    let short = awake == Awake::ForMail && began.elapsed() < PATIENT;
    // SAFETY: as above.
    unsafe {
        core.owner(|owner| {
            owner.rest = rest;
            owner.patience = if short && !shared.crowded_machine { PATIENT } else { SEARCH };
        });
    }
    shared.watchdog.poke();
}

/// How long until this core's earliest deadline.
fn earliest_deadline(core: &'static Core) -> Option<Duration> {
    // SAFETY: the controller; the closure only looks.
    let at = unsafe { core.owner(|owner| owner.timers.first_key_value().map(|((at, _), _)| *at)) }?;
    Some(at.saturating_duration_since(Instant::now()))
}

/// The controller ends: gives back what it holds.
pub(crate) fn wind_up(core: &'static Core) {
    controller::give_fibers_back(core);
    // SAFETY: the controller; the closure only takes out.
    let instances = unsafe { core.owner(|owner| std::mem::take(&mut owner.instances)) };
    for instance in instances {
        instance.forget_core(core.index);
    }
    // SAFETY: the controller; the closure only takes out.
    for chunk in unsafe { core.owner(|owner| std::mem::take(&mut owner.chunks)) } {
        // SAFETY: `Arena::give_back` put it into this core's list when nobody had a place of it and it had left its ring; from there it goes
        // to one arena (`Arena::grow` pops it) or, here, to nobody.
        unsafe { task::free_chunk(chunk) };
    }
    // SAFETY: the controller; `give` and `give_back` take locks, but neither switch nor come back here.
    unsafe {
        core.owner(|owner| {
            crate::vp::slab::give(&mut owner.blocks, 0);
            owner.pieces.give_back();
        });
    };
}
