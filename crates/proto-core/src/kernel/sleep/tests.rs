//! Pacing, the verbs one by one, and a stress with real parking. The races are in `kernel/model/sleep.rs`.

use std::sync::atomic::AtomicBool;

use proto_arch::park::Parker;

use super::*;

struct Machine {
    attention: Vec<AtomicU32>,
    parkers: Vec<Parker>,
}

impl Machine {
    fn new(cores: usize) -> Self {
        Self {
            attention: (0..cores).map(|_| AtomicU32::new(0)).collect(),
            parkers: (0..cores).map(|_| Parker::new()).collect(),
        }
    }

    fn has_sleeper_bit(&self, core: usize) -> bool {
        self.attention[core].load(Ordering::Relaxed) & Self::SLEEPER != 0
    }
}

impl Cores for Machine {
    const SLEEPER: u32 = 2;

    fn attention(&self, core: usize) -> &AtomicU32 {
        &self.attention[core]
    }

    fn unpark(&self, core: usize) {
        self.parkers[core].unpark();
    }
}

#[test]
fn naps_double_to_ten_milliseconds_and_a_find_resets_them() {
    let mut pacing = Pacing::new();
    let naps: Vec<u128> = (0..10).map(|_| pacing.fruitless().as_micros()).collect();
    assert_eq!(naps, [50, 100, 200, 400, 800, 1600, 3200, 6400, 10_000, 10_000]);
    pacing.found();
    assert_eq!(pacing.fruitless(), Pacing::SHORTEST);
}

#[test]
fn searchers_are_bounded() {
    let sleep = Sleep::<Asymmetric>::new(4);
    let machine = Machine::new(4);
    let mut rests: Vec<Rest> = (0..4).map(Rest::new).collect();
    assert_eq!(sleep.search(&rests[0]), Search::Go);
    assert_eq!(sleep.search(&rests[0]), Search::Go, "the same core asks again");
    assert_eq!(sleep.search(&rests[1]), Search::Go);
    assert_eq!(sleep.search(&rests[2]), Search::Enough);
    assert_eq!(sleep.found(&mut rests[1], &machine), Found::Run);
    assert_eq!(sleep.search(&rests[2]), Search::Go);
}

#[test]
fn one_fork_wakes_one_sleeper_and_the_woken_one_passes_it_on() {
    let sleep = Sleep::<Asymmetric>::new(3);
    let machine = Machine::new(3);
    let mut rests: Vec<Rest> = (0..3).map(Rest::new).collect();
    for core in [1, 2] {
        assert_eq!(sleep.announce(&mut rests[core], &machine, || false), Announced::Park);
    }
    assert!(machine.has_sleeper_bit(0));
    assert_eq!(sleep.wake_one(Some(0), &machine), Some(1));
    assert!(!machine.has_sleeper_bit(0), "the next fork pays nothing");
    assert_eq!(sleep.woken(&mut rests[1]), Some(Awake::ForWork));
    assert_eq!(sleep.found(&mut rests[1], &machine), Found::LookForMore);
    assert!(machine.has_sleeper_bit(0), "core 2 still sleeps");
    assert_eq!(sleep.wake_one(Some(0), &machine), Some(2));
    assert_eq!(sleep.woken(&mut rests[2]), Some(Awake::ForWork));
    assert_eq!(sleep.found(&mut rests[2], &machine), Found::Run, "nobody sleeps");
    assert_eq!(sleep.wake_one(None, &machine), None);
}

#[test]
fn a_core_woken_for_nothing_naps_and_only_mail_wakes_it() {
    let sleep = Sleep::<Asymmetric>::new(2);
    let machine = Machine::new(2);
    let mut rest = Rest::new(1);
    assert_eq!(sleep.begin_nap(&mut rest), None, "it was not woken");
    assert_eq!(sleep.announce(&mut rest, &machine, || false), Announced::Park);
    assert_eq!(sleep.wake_one(Some(0), &machine), Some(1));
    assert_eq!(sleep.woken(&mut rest), Some(Awake::ForWork));
    assert_eq!(sleep.begin_nap(&mut rest), Some(Pacing::SHORTEST));
    assert_eq!(sleep.wake_one(Some(0), &machine), None, "a fork wakes no napper");
    sleep.notify(1, &machine);
    assert_eq!(sleep.announce(&mut rest, &machine, || false), Announced::Awake(Awake::ForMail));
    assert_eq!(sleep.begin_nap(&mut rest), Some(Pacing::SHORTEST * 2), "it still owes");
    assert_eq!(sleep.announce(&mut rest, &machine, || false), Announced::Park);
    assert!(machine.has_sleeper_bit(0));
}

#[test]
fn a_last_look_that_finds_work_ends_the_sleep() {
    let sleep = Sleep::<Asymmetric>::new(2);
    let machine = Machine::new(2);
    let mut rest = Rest::new(1);
    assert_eq!(sleep.announce(&mut rest, &machine, || true), Announced::Awake(Awake::ForMail));
    assert_eq!(sleep.wake_one(Some(0), &machine), None);
    let woken_meanwhile = sleep.announce(&mut rest, &machine, || {
        assert_eq!(sleep.wake_one(Some(0), &machine), Some(1));
        true
    });
    assert_eq!(woken_meanwhile, Announced::Awake(Awake::ForWork));
}

#[test]
fn no_mail_and_no_fork_is_slept_through() {
    // Core 0 alternates between mail for core 1 and work for anybody, and waits for each to be taken.
    let rounds = if cfg!(miri) { 20 } else { 20_000 };
    let sleep = Sleep::<Asymmetric>::new(2);
    let machine = Machine::new(2);
    let (mail, work) = (AtomicU32::new(0), AtomicU32::new(0));
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut rest = Rest::new(1);
            while !done.load(Ordering::Acquire) {
                let taken = mail.swap(0, Ordering::Acquire) + work.swap(0, Ordering::Acquire);
                if taken > 0 {
                    let _more = sleep.found(&mut rest, &machine);
                    continue;
                }
                let has_mail = || mail.load(Ordering::Relaxed) != 0 || done.load(Ordering::Relaxed);
                let _why = sleep.sleep(
                    &mut rest,
                    &machine,
                    has_mail,
                    || has_mail() || work.load(Ordering::Relaxed) != 0,
                    |nap| match nap {
                        Some(nap) => {
                            machine.parkers[1].park_timeout(nap);
                        }
                        None => machine.parkers[1].park(),
                    },
                );
            }
        });
        for round in 0..rounds {
            if round % 2 == 0 {
                mail.store(1, Ordering::Release);
                sleep.notify(1, &machine);
            } else {
                work.store(1, Ordering::Release);
                Asymmetric::light();
                if machine.has_sleeper_bit(0) {
                    sleep.wake_one(Some(0), &machine);
                }
            }
            while mail.load(Ordering::Relaxed) + work.load(Ordering::Relaxed) != 0 {
                std::thread::yield_now();
            }
        }
        done.store(true, Ordering::Release);
        sleep.notify(1, &machine);
    });
}

#[test]
fn a_core_that_owes_and_finds_work_on_its_last_look_still_passes_it_on() {
    let sleep = Sleep::<Asymmetric>::new(3);
    let machine = Machine::new(3);
    let mut rests: Vec<Rest> = (0..3).map(Rest::new).collect();
    for core in [1, 2] {
        assert_eq!(sleep.announce(&mut rests[core], &machine, || false), Announced::Park);
    }
    assert_eq!(sleep.wake_one(Some(0), &machine), Some(1));
    assert_eq!(sleep.woken(&mut rests[1]), Some(Awake::ForWork));
    // It came for nothing, and naps. Meanwhile core 0 forks a lot: its bit is clear, so it wakes nobody.
    assert!(sleep.begin_nap(&mut rests[1]).is_some());
    assert!(!machine.has_sleeper_bit(0));
    assert_eq!(sleep.announce(&mut rests[1], &machine, || true), Announced::Awake(Awake::ForMail));
    assert_eq!(sleep.found(&mut rests[1], &machine), Found::LookForMore, "core 2 sleeps beside what is left");
}
