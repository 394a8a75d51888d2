//! No wake-up is lost: nobody stays asleep beside work that nobody else has in hand.
//!
//! The models do not park: a core whose `announce` says `Park` is done, and in the end its state tells whether somebody
//! has woken it. A lost wake-up is then a failed assertion, and the fence-less twins can be run like other tests.

use std::sync::Arc;

use loom::thread;

use crate::kernel::sleep::{Announced, Awake, Cores, Found, Rest, Sleep};
use crate::sync::{Asymmetric, AtomicU32, Barrier, Ordering, fence};

struct Machine<B: Barrier> {
    sleep: Sleep<B>,
    attention: Vec<AtomicU32>,
    /// Stands for a latent list: tasks that any core may take. Stored plainly by the forker.
    work: AtomicU32,
    /// Stands for core 1's inbox.
    mail: AtomicU32,
}

impl<B: Barrier> Cores for Machine<B> {
    const SLEEPER: u32 = 2;

    fn attention(&self, core: usize) -> &AtomicU32 {
        &self.attention[core]
    }

    fn unpark(&self, _core: usize) {}
}

impl<B: Barrier + 'static> Machine<B> {
    fn new(cores: usize) -> Arc<Self> {
        Arc::new(Self {
            sleep: Sleep::new(cores),
            attention: (0..cores).map(|_| AtomicU32::new(0)).collect(),
            work: AtomicU32::new(0),
            mail: AtomicU32::new(0),
        })
    }

    fn has_work(&self) -> bool {
        self.work.load(Ordering::Relaxed) != 0
    }

    /// What a forker does: a plain store, the light barrier, one load; a wake-up only if the bit says so.
    fn fork(&self) {
        self.work.store(1, Ordering::Relaxed);
        B::light();
        if self.attention[0].load(Ordering::Relaxed) & Self::SLEEPER != 0 {
            self.sleep.wake_one(Some(0), self);
        }
    }

    fn send_mail(&self) {
        self.mail.swap(1, Ordering::Release);
        self.sleep.notify(1, self);
    }

    fn has_mail(&self) -> bool {
        self.mail.load(Ordering::Relaxed) != 0
    }
}

struct WithoutLight;

impl Barrier for WithoutLight {
    fn light() {}
    fn heavy() {
        fence(Ordering::SeqCst);
    }
}

struct WithoutHeavy;

impl Barrier for WithoutHeavy {
    fn light() {
        fence(Ordering::SeqCst);
    }
    fn heavy() {}
}

/// Core 0 forks while cores 1 and 2 fall asleep: at least one of them is awake in the end.
fn fork_against_two_sleepers<B: Barrier + 'static>() {
    loom::model(|| {
        let machine = Machine::<B>::new(3);
        let sleepers: Vec<_> = [1, 2]
            .into_iter()
            .map(|core| {
                let machine = Arc::clone(&machine);
                thread::spawn(move || {
                    let mut rest = Rest::new(core);
                    let _how = machine.sleep.announce(&mut rest, &*machine, || machine.has_work());
                })
            })
            .collect();
        machine.fork();
        for sleeper in sleepers {
            sleeper.join().expect("a sleeper panicked");
        }
        let both = [1, 2].into_iter().all(|core| machine.sleep.is_asleep_hint(core));
        assert!(!both, "a task waits and everybody sleeps");
    });
}

#[test]
fn a_fork_is_not_slept_through() {
    fork_against_two_sleepers::<Asymmetric>();
}

#[test]
#[should_panic(expected = "everybody sleeps")]
fn without_the_forkers_half_of_the_barrier_a_fork_is_slept_through() {
    fork_against_two_sleepers::<WithoutLight>();
}

#[test]
#[should_panic(expected = "everybody sleeps")]
fn without_the_sleepers_half_of_the_barrier_a_fork_is_slept_through() {
    fork_against_two_sleepers::<WithoutHeavy>();
}

/// Mail for core 1 while it falls asleep.
fn mail_against_sleeper<B: Barrier + 'static>() {
    loom::model(|| {
        let machine = Machine::<B>::new(2);
        let sleeper = {
            let machine = Arc::clone(&machine);
            thread::spawn(move || {
                let _how = machine.sleep.announce(&mut Rest::new(1), &*machine, || machine.has_mail());
            })
        };
        machine.send_mail();
        sleeper.join().expect("the sleeper panicked");
        assert!(!machine.sleep.is_asleep_hint(1), "mail waits and its core sleeps");
    });
}

#[test]
fn mail_is_not_slept_through() {
    mail_against_sleeper::<Asymmetric>();
}

#[test]
#[should_panic(expected = "its core sleeps")]
fn without_the_senders_half_of_the_barrier_mail_is_slept_through() {
    mail_against_sleeper::<WithoutLight>();
}

#[test]
#[should_panic(expected = "its core sleeps")]
fn without_the_sleepers_half_of_the_barrier_mail_is_slept_through() {
    mail_against_sleeper::<WithoutHeavy>();
}

#[test]
fn mail_ends_a_nap_or_the_sleep_after_it() {
    // Core 1 was woken for nothing, naps, and falls asleep while mail comes.
    loom::model(|| {
        let machine = Machine::<Asymmetric>::new(2);
        let mut rest = Rest::new(1);
        assert_eq!(machine.sleep.announce(&mut rest, &*machine, || false), Announced::Park);
        assert_eq!(machine.sleep.wake_one(Some(0), &*machine), Some(1));
        assert_eq!(machine.sleep.woken(&mut rest), Some(Awake::ForWork));
        let sleeper = {
            let machine = Arc::clone(&machine);
            thread::spawn(move || {
                let nap = machine.sleep.begin_nap(&mut rest);
                assert!(nap.is_some(), "it was woken for nothing");
                let seen_early = machine.has_mail();
                let how = machine.sleep.announce(&mut rest, &*machine, || machine.has_mail());
                assert!(!seen_early || how != Announced::Park, "it saw its mail and parks");
            })
        };
        machine.send_mail();
        sleeper.join().expect("the sleeper panicked");
        assert!(!machine.sleep.is_asleep_hint(1), "mail waits and its core sleeps");
    });
}

/// Cores 1 and 2 slept; a first fork woke core 1 and cleared core 0's bit. While core 1 takes that task, core 0 forks
/// another, without a bit to tell it that core 2 sleeps: core 1 owes that wake-up.
fn second_fork_while_the_woken_core_gets_busy<B: Barrier + 'static>() {
    loom::model(|| {
        let machine = Machine::<B>::new(3);
        let mut rests: Vec<Rest> = (1..3).map(Rest::new).collect();
        for rest in &mut rests {
            assert_eq!(machine.sleep.announce(rest, &*machine, || false), Announced::Park);
        }
        assert_eq!(machine.sleep.wake_one(Some(0), &*machine), Some(1));
        let mut rest = rests.swap_remove(0);
        let woken = {
            let machine = Arc::clone(&machine);
            thread::spawn(move || {
                assert_eq!(machine.sleep.woken(&mut rest), Some(Awake::ForWork));
                if machine.sleep.found(&mut rest, &*machine) == Found::LookForMore && machine.has_work() {
                    machine.sleep.wake_one(Some(1), &*machine);
                }
            })
        };
        machine.fork();
        woken.join().expect("the woken core panicked");
        assert!(
            !machine.sleep.is_asleep_hint(2),
            "the second task waits, its forker and core 1 are busy, core 2 sleeps"
        );
    });
}

#[test]
fn the_woken_core_passes_the_wake_up_on() {
    second_fork_while_the_woken_core_gets_busy::<Asymmetric>();
}

#[test]
#[should_panic(expected = "core 2 sleeps")]
fn without_the_debtors_half_of_the_barrier_the_second_fork_is_slept_through() {
    second_fork_while_the_woken_core_gets_busy::<WithoutHeavy>();
}

#[test]
fn two_forkers_and_a_sleeper_that_announces_again() {
    // Both forkers see the bit, one wakes; the sleeper's next announcement must not be cleared away unseen.
    loom::model(|| {
        let machine = Machine::<Asymmetric>::new(2);
        let mut rest = Rest::new(1);
        assert_eq!(machine.sleep.announce(&mut rest, &*machine, || false), Announced::Park);
        let forker = {
            let machine = Arc::clone(&machine);
            thread::spawn(move || {
                // Not work yet: a join of core 0 that sees the bit.
                machine.sleep.wake_one(Some(0), &*machine);
                machine.fork();
            })
        };
        if machine.sleep.woken(&mut rest).is_some() {
            let _nap = machine.sleep.begin_nap(&mut rest);
            let _how = machine.sleep.announce(&mut rest, &*machine, || machine.has_work());
        }
        forker.join().expect("the forker panicked");
        assert!(!machine.sleep.is_asleep_hint(1), "a task waits and everybody sleeps");
    });
}
