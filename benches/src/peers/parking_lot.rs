//! parking_lot: its `Mutex` and `Condvar` on OS threads.

use parking_lot::{Condvar, Mutex};

use super::{CountLock, Turns};

/// `parking_lot::Mutex` around a count.
#[derive(Debug, Default)]
pub(crate) struct MutexCount(Mutex<u64>);

impl CountLock for MutexCount {
    #[inline]
    fn add(&self) {
        *self.0.lock() += 1;
    }
}

/// `parking_lot::Mutex` and `parking_lot::Condvar` around whose turn it is.
#[derive(Debug, Default)]
pub(crate) struct CondvarTurns {
    turn: Mutex<bool>,
    changed: Condvar,
}

impl Turns for CondvarTurns {
    fn pass(&self, mine: bool) {
        let mut turn = self.turn.lock();
        while *turn != mine {
            self.changed.wait(&mut turn);
        }
        *turn = !mine;
        self.changed.notify_one();
    }
}
