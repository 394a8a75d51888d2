//! User data behind tokens: how safe code hands out `&mut`.
//!
//! A language's lock is a wrapper without `unsafe`: its environment decides in a sequential handler *who* may touch the
//! user's data, its guard must then *let* that timeline touch it. Between the two stands a token. The data lies in a
//! [`Guarded`] cell; the environment keeps a [`Grant`] and gives it to whoever may enter; `cell.open(grant)` eats the
//! grant and gives access, `close()` gives the grant back to be returned to the environment. A wrong handler can lose a
//! grant (the cell stays locked for ever) or give it to the wrong cell (a panic that says so). It cannot alias.
//!
//! # Words and states
//!
//! A token carries a *number*. Numbers are 64 bits wide, drawn from one counter, and never used twice.
//!
//! ```text
//!             share, freeze, split: something             opens a cell that
//!             must be told apart before a cell is met     has no spouse yet
//!   unborn ─────────────────────────────────────▶ single ──────────────────▶ married
//!   (no number; `const`)                          (a number, no cell)         (a number, a cell)
//!      └──────────────── opens a cell that has no spouse yet ────────────────────▲
//! ```
//!
//! A cell is *single* (spouse 0) until a token that is not married opens it; from then on it keeps that number for life,
//! wherever it is moved. A married token never marries again. Everything else panics at the caller's line.
//!
//! | token | covers | may be | comes from, goes back to |
//! |---|---|---|---|
//! | [`Grant`] | every index | opened as `&mut T` | `Grant::new`, `close` |
//! | [`RangeGrant`] | start..end | opened as `&mut [T]`, split, joined | `RangeGrant::new`, a `Grant`, [`RangeShares::take`] |
//! | [`SharedGrant`] | every index | opened as `&T` (`T: Sync`) | [`Shares::lend`], [`Shares::take_back`] |
//! | [`SharedRange`] | start..end | opened as `&[T]` (`T: Sync`), split, joined | [`RangeShares::lend`], [`RangeShares::take_back`] |
//! | [`Frozen`] | every index | read as `&T` for the cell's life, copied | [`Grant::freeze`] |
//! | [`Claim`], held | start..end | opened as either, while it is borrowed | [`Keeper::take`], [`Keeper::put`] |
//!
//! Beside these stands a [`Keyed`] cell: it holds what an *environment* keeps in a user's object, so nothing is given away, and all such cells of an
//! environment open with the one [`Key`] that its handlers have. See `keyed`.
//!
//! *Who comes when* is the language's business. For those that order accesses by what these declare to touch there are [`Lanes`], and [`Fronts`].
//!
//! # The invariant
//!
//! > **For every number and every index, there is at most one exclusive token, or there are any number of shared ones.
//! > A cell has at most one number in its life.**
//!
//! Precisely: for a number *n* and an index *i* in `0..usize::MAX`, let *x* be how many exclusive tokens of *n* cover
//! *i* (a keeper counts as one: [`Shares`], or [`RangeShares`] where it lists *i*), *s* how many [`SharedGrant`]s and
//! [`SharedRange`]s do (a [`Claim`] counts as what it is held as), and *f* whether a [`Frozen`] does. An [`Opened`] holds its token and counts as that token. Then
//! *x* ≤ 1; *s* > 0 only where the exclusive one is a keeper whose count for *i* is ≥ *s*; and *f* only where *x* = 0
//! and *s* = 0.
//!
//! *Proof sketch*, by the operations, which are all in this folder because the fields are private to it. An unborn token
//! is of no number and counts nowhere. Drawing makes *x* = 1 (or *f*) for a number that nobody had. `share` turns the
//! exclusive token into a keeper with count 0. `lend` raises the count, then makes one shared token; `take_back`
//! destroys one of the same number, then lowers it. `reclaim` and `take` need count 0, hence *s* = 0, and turn the
//! keeper (or the indices taken from its list) into the exclusive token. `split` and `join` take tokens by value and
//! cover the same indices as before, each as often. `freeze` eats the one exclusive token, and there are no shared ones
//! as it was no keeper. No token but [`Frozen`] is `Clone`. Losing or leaking a token only lowers *x*, *s* or *f*. ∎
//!
//! *Why access is sound.* An open cell was reached with a token of the cell's own number that lies inside the guard, so
//! by the invariant two guards of one cell that both live either cover different indices or both only read. In time: a
//! token reaches another thread only by safe code, thus with a happens-before edge, and a guard must be closed to have
//! the token back. So all that was done through the last exclusive guard happens before all that is done through the
//! next one; the same edge runs from each shared guard through the keeper to the next exclusive token. The cell itself
//! therefore needs no ordering: its one atomic is `Relaxed`, see [`cell`].
//!
//! That *one number marries one cell* is not needed: copies of a single token (say, two [`SharedGrant`]s lent before the
//! first opening) can marry two cells. Then each of the two is guarded by all of that number's tokens.
//!
//! # The dangerous races
//!
//! Two tokens that are not married open the same single cell: a compare-and-exchange of the spouse, one wins, the other
//! panics without having touched the data, unless both are of one number and so cannot be exclusive both.
//!
//! A guard that outlives its token: `fn unlock(guard: Opened<'_, T>)` closes its argument and returns the grant to the
//! environment; another core then writes, while `unlock` is still running. Were the guard made of a `&mut T`, the
//! compiler could assume that nobody else touches it until `unlock` returns. So guards hold a raw pointer, and become
//! references only for the length of a borrow of the guard.
//!
//! # What was tried
//!
//! *The cell's address as the number*: addresses are reused after a move or a drop, and then an old grant opens a new
//! cell. *A lifetime as brand* (the ghost-cell way): no cost at all, but a brand is a closure's scope, and a lock in a
//! `static` has none. *A number drawn by the constructor*: not `const`, so no statics. *A flag "is open" in the cell
//! instead of tokens*: catches aliasing at run time, but costs a read-modify-write on every opening and closing, on top
//! of the lock's own. *The atomics from the model checker's module*: its cells have no `const` constructor; there is one
//! atomic here and its argument fits in a paragraph, so this folder is checked by Miri instead.

mod cell;
mod claim;
mod fronts;
mod grant;
mod guard;
mod keyed;
mod lanes;
mod ledger;
mod number;
mod opened;
mod range;
mod slice;

pub use cell::Guarded;
pub use claim::{Claim, Claimed, Keeper};
pub use fronts::Fronts;
pub use grant::{Frozen, Grant, SharedGrant, Shares};
pub use guard::{Downgrade, Guard, Lender, Open, PanicMark};
pub use keyed::{Kept, Key, Keyed};
pub use lanes::{LaneMode, LanePool, Lanes};
pub use ledger::RangeShares;
pub use opened::{Opened, OpenedShared};
pub use range::{RangeGrant, SharedRange};

#[cfg(test)]
mod test;
