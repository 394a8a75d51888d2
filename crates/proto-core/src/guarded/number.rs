//! The number in a token, and the three states of it.
//!
//! ```text
//!   bit 63        62 ... 0
//!   ┌──────────┬───────────────┐
//!   │ unmarried│    number     │     1·0  unborn      1·n  single      0·n  married      0·0  never: the niche of Option
//!   └──────────┴───────────────┘
//! ```
//!
//! A cell stores 0 (single) or the bare number of its spouse. So only a married token of the right number is *equal* to
//! what the cell stores, and the opening of a cell is one compare; every other case goes the slow way.

use std::fmt;
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicU64, Ordering};

/// Set in the tokens that have not met a cell yet.
const UNMARRIED: u64 = 1 << 63;

/// The number of a token, with its state.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Number(NonZeroU64);

impl Number {
    /// No number yet.
    pub(super) const UNBORN: Self = Self(NonZeroU64::new(UNMARRIED).unwrap());

    /// What a cell stores that is married to this token; no cell stores it if the token is unborn or single.
    pub(super) const fn raw(self) -> u64 {
        self.0.get()
    }

    /// The number without its state; 0 if unborn.
    pub(super) const fn bare(self) -> u64 {
        self.0.get() & !UNMARRIED
    }

    pub(super) fn is_unborn(self) -> bool {
        self == Self::UNBORN
    }

    pub(super) const fn is_married(self) -> bool {
        self.0.get() & UNMARRIED == 0
    }

    /// This number, or a fresh one, not married yet, if it is unborn: needed before a token can be told from others.
    pub(super) fn born(self) -> Self {
        if self.is_unborn() { Self(self.0 | draw()) } else { self }
    }

    /// The same number, married. Must not be asked of an unborn one.
    pub(super) fn married(self) -> Self {
        Self(NonZeroU64::new(self.bare()).expect("an unborn token has no number to marry with"))
    }

    /// Whether both are of one number. Two unborn tokens are not: each may still get any number.
    pub(super) fn is_same(self, other: Self) -> bool {
        self.bare() == other.bare() && !self.is_unborn()
    }

    /// Learns from `other`, of the same number, that it is married: it then opens its cell the fast way.
    pub(super) fn learn(&mut self, other: Self) {
        debug_assert!(self.is_same(other), "only tokens of one number can learn from each other");
        if other.is_married() {
            *self = other;
        }
    }
}

impl fmt::Debug for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_unborn() {
            f.write_str("unborn")
        } else if self.is_married() {
            write!(f, "#{}", self.bare())
        } else {
            write!(f, "#{} (single)", self.bare())
        }
    }
}

/// Draws a number that nobody had and nobody else will have.
#[cold]
fn draw() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    // `Relaxed` pairs with nothing: only that each read-modify-write sees another value counts here.
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    if number >= UNMARRIED {
        // Centuries away at one number a nanosecond. Abort and not panic: the counter must not come round, and every
        // number from here to its end is one call of this function that ends the program.
        eprintln!("proto-core: guarded: all 2^63 grant numbers are used up");
        std::process::abort();
    }
    number
}
