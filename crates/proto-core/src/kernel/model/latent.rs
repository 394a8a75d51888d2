//! The latent list: every entry is run exactly once, by its owner or by a thief, who then sees what the owner wrote. The fast way of a fork and its
//! join is in `joins`.

mod joins;

use core::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use loom::cell::UnsafeCell;
use loom::thread;

use crate::kernel::latent::{CAPACITY, Fate, LatentList, Newest, Own, Owner, Popped, Steal};
use crate::sync::model::{Half, Of, without};
use crate::sync::{Asymmetric, Barrier, Ordering, fence};

/// A task: its contents, written by the owner before the push; and how often it ran (not a part of the model).
struct Job {
    contents: UnsafeCell<u32>,
    ran: AtomicU32,
}

struct Scene<B: Barrier> {
    list: LatentList<Job, B>,
    jobs: Vec<Job>,
}

// SAFETY: `contents` is written before the push and read by the one that took the entry; loom checks it.
unsafe impl<B: Barrier> Sync for Scene<B> {}
// SAFETY: as above.
unsafe impl<B: Barrier> Send for Scene<B> {}

impl<B: Barrier> Scene<B> {
    fn new(jobs: usize) -> Arc<Self> {
        let jobs = (0..jobs).map(|_| Job { contents: UnsafeCell::new(0), ran: AtomicU32::new(0) });
        Arc::new(Self { list: LatentList::new(), jobs: jobs.collect() })
    }

    fn owner(&self) -> Owner<'_, Job, B> {
        // SAFETY: only the main thread of a model calls this.
        unsafe { self.list.owner() }
    }

    /// Entry `index`, with its contents.
    fn written(&self, index: usize) -> NonNull<Job> {
        let job = &self.jobs[index];
        // SAFETY: nobody has the job yet; loom checks it.
        job.contents.with_mut(|contents| unsafe { *contents = 1 });
        NonNull::from(job)
    }

    fn push(&self, index: usize) {
        self.owner().push(self.written(index)).expect("there is room");
    }

    /// A scene with all its jobs on the list.
    fn listed(jobs: usize) -> Arc<Self> {
        let scene = Self::new(jobs);
        (0..jobs).for_each(|index| scene.push(index));
        scene
    }

    fn run(job: NonNull<Job>) {
        // SAFETY: jobs live as long as the scene.
        let job = unsafe { job.as_ref() };
        // SAFETY: loom checks that the owner's write happened before.
        assert_eq!(job.contents.with(|contents| unsafe { *contents }), 1);
        job.ran.fetch_add(1, Relaxed);
    }

    fn pop(&self) -> bool {
        match self.owner().pop(0) {
            Popped::Mine(job) => Self::run(job),
            Popped::Stolen(_) => {}
            Popped::Empty => return false,
        }
        true
    }

    /// A thief on a thread of its own.
    fn thief(scene: &Arc<Self>, theft: fn(&LatentList<Job, B>) -> Steal<Job>) -> thread::JoinHandle<()>
    where
        B: 'static,
    {
        let scene = Arc::clone(scene);
        thread::spawn(move || {
            if let Steal::Taken(job) = theft(&scene.list) {
                Self::run(job);
            }
        })
    }

    /// The entries from `base` on leave the list; the owner runs those that nobody took.
    fn detach_from(&self, base: u32) {
        self.owner().detach_from(base, |job, fate| {
            if fate == Fate::Untaken {
                Self::run(job);
            }
        });
    }

    /// The owner pops what is left, and the thieves end: then each entry has run once.
    fn finish(&self, thieves: impl IntoIterator<Item = thread::JoinHandle<()>>) {
        while self.pop() {}
        for thief in thieves {
            thief.join().expect("a thief panicked");
        }
        self.each_ran_once();
    }

    fn each_ran_once(&self) {
        for (index, job) in self.jobs.iter().enumerate() {
            assert_eq!(job.ran.load(Relaxed), 1, "runs of entry {index}");
        }
    }
}

/// Both of the owner's entries against one hard thief.
fn pop_against_hard_theft<B: Barrier + 'static>() {
    loom::model(|| {
        let scene = Scene::<B>::listed(2);
        let thief = Scene::thief(&scene, LatentList::steal_hard);
        scene.finish([thief]);
    });
}

#[test]
fn a_hard_thief_and_a_popping_owner_share_nothing() {
    pop_against_hard_theft::<Asymmetric>();
}

struct WithoutLight;

impl Barrier for WithoutLight {
    fn light() {}
    fn heavy() {
        fence(Ordering::SeqCst);
    }
}

#[test]
#[should_panic(expected = "runs of entry")]
fn without_the_owners_half_of_the_barrier_an_entry_runs_twice() {
    pop_against_hard_theft::<WithoutLight>();
}

struct WithoutHeavy;

impl Barrier for WithoutHeavy {
    fn light() {
        fence(Ordering::SeqCst);
    }
    fn heavy() {}
}

#[test]
#[should_panic(expected = "runs of entry")]
fn without_the_thiefs_half_of_the_barrier_an_entry_runs_twice() {
    pop_against_hard_theft::<WithoutHeavy>();
}

struct WithoutBoth;

impl Barrier for WithoutBoth {
    fn light() {}
    fn heavy() {}
}

/// On the machine the light barrier orders nothing for the other side's eyes; in the models above it is a fence, and
/// would hide an ordering that is too weak. Here entries may run twice, but none is seen half-written.
fn whole_tasks(theft: fn(&LatentList<Job, WithoutBoth>) -> Steal<Job>, publish: bool) {
    loom::model(move || {
        let scene = Scene::<WithoutBoth>::new(2);
        let thief = Scene::thief(&scene, theft);
        scene.push(0);
        if publish {
            scene.owner().publish();
        }
        scene.push(1);
        while scene.pop() {}
        thief.join().expect("the thief panicked");
    });
}

#[test]
fn thieves_see_whole_tasks_without_any_barrier() {
    whole_tasks(LatentList::steal_hard, false);
    whole_tasks(LatentList::steal, true);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn without_the_release_of_a_push_a_hard_thief_sees_half_a_task() {
    without(Half::Release, Of::Stores, || whole_tasks(LatentList::steal_hard, false));
}

#[test]
#[should_panic(expected = "Causality violation")]
fn without_its_acquire_a_hard_thief_sees_half_a_task() {
    without(Half::Acquire, Of::Loads, || whole_tasks(LatentList::steal_hard, false));
}

#[test]
#[should_panic(expected = "Causality violation")]
fn without_the_release_of_a_publication_a_cheap_thief_sees_half_a_task() {
    without(Half::Release, Of::Exchanges, || whole_tasks(LatentList::steal, true));
}

#[test]
#[should_panic(expected = "Causality violation")]
fn without_its_acquire_a_cheap_thief_sees_half_a_task() {
    // It acquires twice: what is in the slot by its look at the word, the rest by its exchange too.
    let cheap = || whole_tasks(LatentList::steal, true);
    without(Half::Acquire, Of::Loads, || without(Half::Acquire, Of::Exchanges, cheap));
}

#[test]
fn the_last_public_entry_is_taken_once() {
    loom::model(|| {
        let scene = Scene::<Asymmetric>::listed(1);
        assert!(scene.owner().publish());
        let thieves = [Scene::thief(&scene, LatentList::steal), Scene::thief(&scene, LatentList::steal)];
        scene.finish(thieves);
    });
}

#[test]
fn two_cheap_thieves_and_a_popping_owner() {
    loom::model(|| {
        let scene = Scene::<Asymmetric>::listed(3);
        assert!(scene.owner().publish());
        let thieves = [Scene::thief(&scene, LatentList::steal), Scene::thief(&scene, LatentList::steal)];
        scene.finish(thieves);
    });
}

#[test]
fn a_hard_and_a_cheap_thief_and_a_publishing_owner() {
    loom::model(|| {
        let scene = Scene::<Asymmetric>::listed(2);
        let thieves = [Scene::thief(&scene, LatentList::steal_hard), Scene::thief(&scene, LatentList::steal)];
        scene.owner().publish();
        scene.finish(thieves);
    });
}

#[test]
fn two_hard_thieves_and_a_popping_owner() {
    loom::model(|| {
        let scene = Scene::<Asymmetric>::listed(2);
        let thieves = [Scene::thief(&scene, LatentList::steal_hard), Scene::thief(&scene, LatentList::steal_hard)];
        scene.finish(thieves);
    });
}

#[test]
fn a_slot_is_used_again_under_a_hard_thief() {
    // The thief raised the split over entry 0; the owner pops it and pushes another into the same slot.
    loom::model(|| {
        let scene = Scene::<Asymmetric>::new(3);
        scene.push(0);
        let thief = Scene::thief(&scene, LatentList::steal_hard);
        scene.pop();
        scene.push(1);
        scene.push(2);
        scene.finish([thief]);
    });
}

/// The owner takes the public entry back and publishes another one in the same slot.
fn slot_is_used_again() {
    loom::model(|| {
        let scene = Scene::<Asymmetric>::new(2);
        scene.push(0);
        assert!(scene.owner().publish());
        let thief = Scene::thief(&scene, LatentList::steal);
        scene.pop();
        scene.push(1);
        scene.owner().publish();
        scene.finish([thief]);
    });
}

#[test]
fn a_slot_is_used_again_under_a_cheap_thief() {
    slot_is_used_again();
}

#[test]
#[should_panic(expected = "runs of entry")]
fn without_the_acquire_of_its_look_a_thief_takes_what_was_in_the_slot_before() {
    without(Half::Acquire, Of::Loads, slot_is_used_again);
}

#[test]
#[should_panic(expected = "runs of entry")]
fn without_the_acquire_of_an_exchange_that_failed_a_thief_takes_what_was_in_the_slot_before() {
    without(Half::Acquire, Of::FailedExchanges, slot_is_used_again);
}

/// Three entries, of which some are public if that is said, and two thieves, one of them a cheap one.
fn three_against(
    theft: fn(&LatentList<Job, Asymmetric>) -> Steal<Job>,
    publish: bool,
) -> (Arc<Scene<Asymmetric>>, [thread::JoinHandle<()>; 2]) {
    let scene = Scene::<Asymmetric>::listed(3);
    if publish {
        scene.owner().publish();
    }
    let thieves = [Scene::thief(&scene, theft), Scene::thief(&scene, LatentList::steal)];
    (scene, thieves)
}

/// The timeline at base 1 suspends while a thief is at work; the entry below stays.
fn detach_against(theft: fn(&LatentList<Job, Asymmetric>) -> Steal<Job>, publish: bool) {
    loom::model(move || {
        let (scene, thieves) = three_against(theft, publish);
        scene.detach_from(1);
        assert_eq!(scene.owner().head(), 1, "the entries of the other timeline stay");
        scene.finish(thieves);
    });
}

#[test]
fn a_suspending_owner_and_a_cheap_thief() {
    detach_against(LatentList::steal, true);
}

#[test]
fn a_suspending_owner_and_a_hard_thief() {
    detach_against(LatentList::steal_hard, false);
}

/// A touch out of order while a thief is at work.
fn touch_against(theft: fn(&LatentList<Job, Asymmetric>) -> Steal<Job>, publish: bool) {
    loom::model(move || {
        let (scene, thieves) = three_against(theft, publish);
        if scene.owner().touch(0) == Fate::Untaken {
            Scene::<Asymmetric>::run(NonNull::from(&scene.jobs[0]));
        }
        scene.finish(thieves);
    });
}

#[test]
fn a_touch_out_of_order_and_cheap_thieves() {
    touch_against(LatentList::steal, true);
}

#[test]
fn a_touch_out_of_order_and_a_hard_thief() {
    touch_against(LatentList::steal_hard, false);
}

#[test]
fn a_full_list_refuses_under_a_thief() {
    loom::model(|| {
        let scene = Scene::<Asymmetric>::new(CAPACITY + 1);
        for index in 0..CAPACITY {
            scene.push(index);
        }
        let thief = Scene::thief(&scene, LatentList::steal_hard);
        let refused = scene.owner().push(NonNull::from(&scene.jobs[CAPACITY]));
        assert!(refused.is_err(), "a stolen entry does not make room before its owner popped it");
        scene.jobs[CAPACITY].ran.fetch_add(1, Relaxed);
        scene.finish([thief]);
    });
}

/// Whose entry this is, by a look into it: entry 0 is the caller's. Loom checks that nobody else has the entry.
fn is_first(scene: &Scene<Asymmetric>, job: NonNull<Job>) -> bool {
    // SAFETY: jobs live as long as the scene.
    let contents = &unsafe { job.as_ref() }.contents;
    // A write, so that two that look at once are seen: a thief reads.
    // SAFETY: loom checks that the caller alone has it.
    contents.with_mut(|contents| unsafe { *contents += 0 });
    job == NonNull::from(&scene.jobs[0])
}

/// A join comes for its entry, on which a task of an outer scope was left.
fn own_entry_against(theft: fn(&LatentList<Job, Asymmetric>) -> Steal<Job>, publish: bool) {
    loom::model(move || {
        let (scene, thieves) = three_against(theft, publish);
        let job = NonNull::from(&scene.jobs[1]);
        let mut own = scene.owner().pop_own(job);
        if let Own::Covered(from) = own {
            scene.detach_from(from);
            own = scene.owner().pop_own(job);
        }
        match own {
            Own::Mine => Scene::<Asymmetric>::run(job),
            Own::Stolen => {}
            Own::Covered(_) => panic!("what lay on top has left the list"),
        }
        scene.finish(thieves);
    });
}

#[test]
fn a_covered_join_and_cheap_thieves() {
    own_entry_against(LatentList::steal, true);
}

#[test]
fn a_covered_join_and_a_hard_thief() {
    own_entry_against(LatentList::steal_hard, false);
}

/// A scope comes for its task, on which one of another scope was left.
fn wanted_entry_against(theft: fn(&LatentList<Job, Asymmetric>) -> Steal<Job>, publish: bool) {
    loom::model(move || {
        let scene = Scene::<Asymmetric>::listed(2);
        if publish {
            scene.owner().publish();
        }
        let thief = Scene::thief(&scene, theft);
        let owner = scene.owner();
        loop {
            match owner.pop_if(|job| is_first(&scene, job)) {
                Newest::Mine(job) => Scene::<Asymmetric>::run(job),
                Newest::Empty => break,
                Newest::Other => match owner.find(0, |job| is_first(&scene, job)) {
                    None => break,
                    Some(index) => scene.detach_from(index + 1),
                },
            }
        }
        scene.finish([thief]);
    });
}

#[test]
fn a_scope_that_looks_for_its_tasks_and_a_cheap_thief() {
    wanted_entry_against(LatentList::steal, true);
}

#[test]
fn a_scope_that_looks_for_its_tasks_and_a_hard_thief() {
    wanted_entry_against(LatentList::steal_hard, false);
}
