//! corosensei: the bare switch, without a scheduler.

use std::time::{Duration, Instant};

use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult};

/// `count` times resume and suspend of one coroutine: two switches each.
pub(crate) fn switch(count: u64) -> Duration {
    let mut coroutine = Coroutine::<(), (), ()>::new(move |yielder, ()| {
        for _ in 0..count {
            yielder.suspend(());
        }
    });
    let start = Instant::now();
    for _ in 0..count {
        coroutine.resume(());
    }
    let elapsed = start.elapsed();
    assert!(matches!(coroutine.resume(()), CoroutineResult::Return(())), "all switches were made");
    elapsed
}

/// Suspends `count` coroutines on stacks of `stack` bytes and a guard, calls `look` when all are,
/// then lets them end.
pub(crate) fn suspend_all(count: u64, stack: usize, look: impl FnOnce()) -> anyhow::Result<()> {
    let mut coroutines = Vec::with_capacity(count as usize);
    for _ in 0..count {
        let stack = DefaultStack::new(stack)?;
        let mut coroutine = Coroutine::<(), (), (), _>::with_stack(stack, |yielder, ()| yielder.suspend(()));
        coroutine.resume(());
        coroutines.push(coroutine);
    }
    look();
    for coroutine in &mut coroutines {
        coroutine.resume(());
    }
    Ok(())
}
