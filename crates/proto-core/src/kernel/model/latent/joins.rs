//! The fast way of a fork and its join: `push_quietly`, then `take_newest`, which asks the slow way only about what is shared.

use core::ptr::NonNull;

use loom::thread;

use super::{Job, Scene, WithoutLight};
use crate::kernel::latent::{CAPACITY, Fate, LatentList, Own, Steal, Top};
use crate::sync::{Asymmetric, Barrier};

impl<B: Barrier> Scene<B> {
    /// A fork of entry `index`, as `task::join` does it.
    fn fork(&self, index: usize) {
        self.owner().push_quietly(self.written(index)).expect("there is room");
        B::light();
    }

    /// Its join.
    fn join(&self, index: usize) {
        let job = NonNull::from(&self.jobs[index]);
        let mine = match self.owner().take_newest(job, B::light) {
            Top::Mine => true,
            Top::Shared => self.owner().take_shared() == Own::Mine,
            Top::Other => self.owner().pop_own(job) == Own::Mine,
        };
        if mine {
            Self::run(job);
        }
    }

    /// The thieves end, and each entry has run once.
    fn joined(&self, thieves: impl IntoIterator<Item = thread::JoinHandle<()>>) {
        assert_eq!(self.owner().head(), 0, "something is left on the list");
        self.finish(thieves);
    }
}

type Theft<B> = fn(&LatentList<Job, B>) -> Steal<Job>;

/// Two forks, one within the other, and their joins, while thieves are at work.
fn nested_against<B: Barrier + 'static, const N: usize>(thefts: [Theft<B>; N]) {
    loom::model(move || {
        let scene = Scene::<B>::new(2);
        scene.fork(0);
        scene.fork(1);
        let thieves = thefts.map(|theft| Scene::thief(&scene, theft));
        scene.join(1);
        scene.join(0);
        scene.joined(thieves);
    });
}

#[test]
fn two_thieves_and_an_owner_that_takes_its_newest_share_nothing() {
    nested_against::<Asymmetric, 2>([LatentList::steal_hard, LatentList::steal]);
}

#[test]
#[should_panic(expected = "runs of entry")]
fn without_the_barrier_of_a_join_its_entry_runs_twice() {
    nested_against::<WithoutLight, 1>([LatentList::steal_hard]);
}

/// The last entry, whose join and whose thief come at a time.
#[test]
fn the_only_fork_is_joined_or_stolen() {
    for publish in [false, true] {
        loom::model(move || {
            let scene = Scene::<Asymmetric>::new(1);
            scene.fork(0);
            if publish {
                scene.owner().publish();
            }
            let thieves = [LatentList::steal_hard, LatentList::steal].map(|theft| Scene::thief(&scene, theft));
            scene.join(0);
            scene.joined(thieves);
        });
    }
}

/// Forks one behind the other in one slot, while a thief, who came for the first, is at work.
fn one_slot_against(theft: Theft<Asymmetric>, publish: bool) {
    loom::model(move || {
        let scene = Scene::<Asymmetric>::new(2);
        let thief = Scene::thief(&scene, theft);
        for index in 0..2 {
            scene.fork(index);
            if publish {
                scene.owner().publish();
            }
            scene.join(index);
        }
        scene.joined([thief]);
    });
}

#[test]
fn forks_in_one_slot_and_a_hard_thief() {
    one_slot_against(LatentList::steal_hard, false);
}

#[test]
fn forks_in_one_slot_and_a_cheap_thief() {
    one_slot_against(LatentList::steal, true);
}

/// The timeline suspends between a fork and its join, and another one's fork lies in the slot when it comes back.
fn suspended_against(theft: Theft<Asymmetric>, publish: bool) {
    loom::model(move || {
        let scene = Scene::<Asymmetric>::new(3);
        scene.fork(0);
        scene.fork(1);
        if publish {
            scene.owner().publish();
        }
        let thief = Scene::thief(&scene, theft);
        // What nobody took has become a task that is no entry any more.
        let mut left = [false; 2];
        scene.owner().detach_from(0, |job, fate| {
            let index = usize::from(job == NonNull::from(&scene.jobs[1]));
            left[index] = fate == Fate::Untaken;
        });
        scene.fork(2);
        for index in [1, 0] {
            let job = NonNull::from(&scene.jobs[index]);
            match left[index] {
                true => Scene::<Asymmetric>::run(job),
                false => assert_eq!(scene.owner().take_newest(job, Asymmetric::light), Top::Other, "it was stolen"),
            }
        }
        scene.join(2);
        scene.joined([thief]);
    });
}

#[test]
fn a_join_after_a_suspension_and_a_cheap_thief() {
    suspended_against(LatentList::steal, true);
}

#[test]
fn a_join_after_a_suspension_and_a_hard_thief() {
    suspended_against(LatentList::steal_hard, false);
}

/// A task of a scope finds the list full: what it holds becomes ordinary, and there is room again, in slots that the thief may have looked at.
#[test]
fn a_full_list_is_left_behind_under_a_thief() {
    loom::model(|| {
        let scene = Scene::<Asymmetric>::new(CAPACITY + 1);
        (0..CAPACITY).for_each(|index| scene.push(index));
        let thief = Scene::thief(&scene, LatentList::steal_hard);
        scene.detach_from(0);
        scene.push(CAPACITY);
        scene.finish([thief]);
    });
}
