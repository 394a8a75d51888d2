use super::*;

fn arena(size: usize) -> StackArena {
    StackArena::new(StackOptions::with_size(size)).expect("arena")
}

/// Writes to the lowest and the highest word of the top `depth` bytes.
fn touch(stack: &Stack, depth: usize) {
    for address in [stack.base() - depth, stack.base() - size_of::<usize>()] {
        // SAFETY: inside a stack that the caller holds and on which nobody runs.
        unsafe { std::ptr::with_exposed_provenance_mut::<usize>(address).write(address) };
    }
}

#[test]
fn sizes_are_checked_and_rounded() {
    let error = StackArena::new(StackOptions::with_size(MIN_SIZE - 1)).expect_err("too small");
    assert!(error.to_string().contains("32768"), "{error}");
    StackArena::new(StackOptions::with_size(usize::MAX)).expect_err("too big");
    let stack = arena(MIN_SIZE + 1).take().expect("stack");
    assert_eq!(stack.size() % map::page_size(), 0);
    assert!(stack.size() > MIN_SIZE);
    assert_eq!(stack.base() - stack.limit(), stack.size(), "the first of an arena is not shifted");
}

#[test]
fn the_stack_given_last_is_taken_first() {
    let arena = arena(MIN_SIZE);
    let (a, b) = (arena.take().expect("stack"), arena.take().expect("stack"));
    let (first, second) = (a.base(), b.base());
    assert_ne!(first, second);
    arena.give(a);
    drop(b);
    assert_eq!(arena.in_use(), 0);
    assert_eq!(arena.take().expect("stack").base(), second);
    let again = [arena.take().expect("stack"), arena.take().expect("stack")];
    assert_eq!(again.each_ref().map(Stack::base), [second, first]);
}

#[test]
fn stacks_do_not_overlap_and_survive_their_arena() {
    let arena = arena(MIN_SIZE);
    let count = if cfg!(miri) { 5 } else { 500 };
    let mut stacks: Vec<Stack> = (0..count).map(|_| arena.take().expect("stack")).collect();
    drop(arena);
    stacks.sort_by_key(Stack::base);
    for pair in stacks.windows(2) {
        assert!(
            pair[0].base() + pair[1].guard() <= pair[1].limit(),
            "{:?} reaches into the guard of {:?}",
            pair[0],
            pair[1]
        );
    }
    if !cfg!(miri) {
        for stack in &stacks {
            touch(stack, stack.base() - stack.limit());
        }
    }
    // The last of them frees the regions.
}

#[test]
fn the_registry_finds_live_stacks_only() {
    let stack = arena(MIN_SIZE).take().expect("stack");
    let owner = 42_u8;
    stack.set_owner((&raw const owner).cast());
    let look = |address| registry::find(address, |region| region.locate(address));
    let inside = look(stack.limit()).expect("the lowest byte is the stack's");
    assert!(!inside.in_guard);
    assert_eq!(inside.owner.cast_const(), (&raw const owner).cast());
    let below = look(stack.limit() - 1).expect("the guard is the stack's");
    assert!(below.in_guard);
    assert_eq!(below.size, MIN_SIZE);
    assert_eq!(below.slot.end, stack.base());
    let limit = stack.limit();
    drop(stack); // and with it the arena
    // Another arena's stack may have come to lie there.
    assert!(look(limit).is_none_or(|place| place.owner.cast_const() != (&raw const owner).cast()));
    assert!(look(8).is_none(), "a null pointer is nobody's stack");
}

#[test]
fn many_threads_take_and_give() {
    let arena = arena(MIN_SIZE);
    let rounds = if cfg!(miri) { 3 } else { 2_000 };
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for round in 0..rounds {
                    let held: Vec<Stack> = (0..round % 7).map(|_| arena.take().expect("stack")).collect();
                    for stack in &held {
                        let owner: *const Stack = stack;
                        stack.set_owner(owner.cast());
                    }
                }
            });
        }
    });
    assert_eq!(arena.in_use(), 0);
}

/// The last of them frees the arena, while the other one may still be on its way out of it: Miri looks.
#[test]
fn the_last_two_stacks_of_an_arena_may_come_back_at_once() {
    for _ in 0..if cfg!(miri) { 5 } else { 500 } {
        let arena = arena(MIN_SIZE);
        let stacks = [arena.take().expect("stack"), arena.take().expect("stack")];
        drop(arena);
        let start = std::sync::Barrier::new(2);
        std::thread::scope(|scope| {
            for stack in stacks {
                let start = &start;
                scope.spawn(move || {
                    start.wait();
                    drop(stack);
                });
            }
        });
    }
}

#[cfg(not(miri))]
mod native {
    use super::*;

    fn resident_bytes() -> usize {
        let statm = std::fs::read_to_string("/proc/self/statm").expect("statm");
        let pages: usize = statm.split(' ').nth(1).expect("field").parse().expect("number");
        pages * map::page_size()
    }

    #[test]
    fn high_water_follows_depth_and_trim_gives_back() {
        let mut stack = arena(256 * 1024).take().expect("stack");
        let page = map::page_size();
        assert_eq!(stack.high_water(), 0, "nothing is touched yet");
        touch(&stack, 16);
        assert_eq!(stack.high_water(), page);
        assert!(!stack.trim(page), "nothing below the first page");
        for depth in (page..=200 * 1024).step_by(page) {
            touch(&stack, depth);
        }
        assert_eq!(stack.high_water(), 200 * 1024);
        assert!(stack.trim(2 * page), "a deep excursion");
        assert_eq!(stack.high_water(), 2 * page);
        assert!(!stack.trim(usize::MAX));
        touch(&stack, stack.size());
    }

    #[test]
    fn a_hundred_thousand_stacks_are_a_page_each_and_few_mappings() {
        const STACKS: usize = 100_000;
        let arena = arena(64 * 1024);
        let before = resident_bytes();
        let stacks: Vec<Stack> = (0..STACKS)
            .map(|_| {
                let stack = arena.take().expect("stack");
                touch(&stack, 64);
                stack
            })
            .collect();
        let each = (resident_bytes() - before) / STACKS;
        // A page, 16 bytes of book-keeping and 16 of handle; other tests of this process may add some.
        if map::page_size() == 4096 {
            assert!(each <= 4096 + 512, "{each} resident bytes each");
        }
        assert!(arena.regions() <= 30, "{} regions", arena.regions());
        drop(stacks);
    }

    #[test]
    fn protected_pages_are_refused_before_the_limit_with_the_remedy() {
        let arena = StackArena::new(StackOptions { guards: Guards::Protected, ..StackOptions::with_size(MIN_SIZE) })
            .expect("arena");
        assert!(!arena.guards_are_free());
        let mut stacks = Vec::new();
        let error = loop {
            match arena.take() {
                Ok(stack) => stacks.push(stack),
                Err(error) => break error,
            }
            assert!(stacks.len() < 10_000_000, "no end in sight");
        };
        assert!(matches!(error, StackError::GuardBudget { .. }), "{error}");
        assert!(error.to_string().contains("vm.max_map_count"), "{error}");
        let before = stacks.len();
        assert!(stacks.pop().is_some());
        let again = arena.take().expect("a stack given back can be taken");
        stacks.push(again);
        assert_eq!(stacks.len(), before);
        drop(stacks);
        drop(arena);
        let fresh = StackArena::new(StackOptions { guards: Guards::Protected, ..StackOptions::with_size(MIN_SIZE) })
            .expect("arena");
        fresh.take().expect("the budget came back with the region");
    }
}
