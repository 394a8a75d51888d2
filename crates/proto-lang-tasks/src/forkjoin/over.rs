//! Loops whose pieces are cut at run time, when another core asks for work.
//!
//! A loop runs a *block* of steps as a plain loop over a part of its range or slice, which the compiler may unroll and vectorise as if nothing else were
//! there; then it asks whether somebody wants a part of what is left (`dku`). So one core pays a question a block.
//!
//! # How long a block is
//!
//! As long as takes some eight microseconds: short enough that a core which asks is answered before it falls asleep, long enough that the question and the
//! look at the clock (some thirty nanoseconds together) do not count. The first block is one step, for that may take a second; from
//! there on the clock tells. What is left is not cut below two microseconds, nor below the grain that the user gave: to send it away would cost more.
//!
//! **Tried.** Blocks of a share of what is left, without a clock: a loop of a million steps of a microsecond each then answers nobody for a
//! hundred milliseconds, or a short one asks hundreds of times.

use std::ops::Range;
use std::time::{Duration, Instant};

use proto_core::{Places, filled};

use super::dku::{Divide, work};
use super::pieces::{IntoPieces, Pieces};

/// What a block should take.
const BLOCK: Duration = Duration::from_micros(8);

/// What a piece takes at least that is cut off, as far as known.
const PIECE: Duration = Duration::from_micros(2);

/// Runs `f` for each item, potentially in parallel: `over(pieces).for_each(f)`.
///
/// # Panics
///
/// As [`Over::for_each`].
///
/// # Examples
///
/// ```
/// use proto_lang_tasks::par_for;
///
/// let (a, b) = (vec![1.0; 1000], vec![2.0; 1000]);
/// let mut c = vec![0.5; 1000];
/// par_for((&mut c, &a, &b), |(c, a, b)| *c += a * b);
/// assert_eq!(c, vec![2.5; 1000]);
///
/// let sum = proto_lang_mutex::sync::Mutex::new(0);
/// par_for(0..10, |n| *sum.lock().unwrap() += n); // The body may wait, here for a lock.
/// assert_eq!(sum.into_inner().unwrap(), 45);
/// ```
#[inline]
#[track_caller]
pub fn par_for<I: IntoPieces>(pieces: I, f: impl Fn(<I::Pieces as Pieces>::Item) + Sync) {
    over(pieces).for_each(f);
}

/// A loop over ranges, slices, chunks of slices, or several of these side by side; see [`Pieces`].
///
/// Its body may wait for anything, and loop itself. A cancel of the caller meets the body at its next abandonable wait, on whatever core; a loop whose body never
/// waits is done to its end.
///
/// # Examples
///
/// ```
/// use proto_lang_tasks::over;
///
/// let words = ["fork", "join", "sync"];
/// assert_eq!(over(&words).map(|word| word.len()), [4, 4, 4]);
/// assert_eq!(over(0..1000u64).map_reduce(|n| n * n, |a, b| a + b), Some(332_833_500));
/// ```
#[must_use = "a loop does nothing before it is told what"]
pub fn over<I: IntoPieces>(pieces: I) -> Over<I::Pieces> {
    Over { pieces: pieces.into_pieces(), grain: 1 }
}

/// A loop that has not begun. See [`over`].
#[derive(Clone, Debug)]
#[must_use = "a loop does nothing before it is told what"]
pub struct Over<P> {
    pieces: P,
    grain: usize,
}

impl<P: Pieces> Over<P> {
    /// No piece that goes to another core is smaller than `items`. The least, 1, lets the clock decide.
    ///
    /// For loops that are known to be too short to be shared, or whose results ought to be put together from few pieces.
    ///
    /// # Examples
    ///
    /// ```
    /// use proto_lang_tasks::over;
    ///
    /// let mut tiny = [1, 2, 3];
    /// over(&mut tiny).grain(3).for_each(|n| *n *= 2); // never more than one piece
    /// assert_eq!(tiny, [2, 4, 6]);
    /// ```
    pub fn grain(self, items: usize) -> Self {
        Over { grain: items.max(1), ..self }
    }

    /// The same with the number of each item.
    ///
    /// # Examples
    ///
    /// ```
    /// let mut squares = [0; 5];
    /// proto_lang_tasks::over(&mut squares).enumerate().for_each(|(n, square)| *square = n * n);
    /// assert_eq!(squares, [0, 1, 4, 9, 16]);
    /// ```
    pub fn enumerate(self) -> Over<(Range<usize>, P)> {
        Over { pieces: (0..self.pieces.count(), self.pieces), grain: self.grain }
    }

    /// Runs `f` for each item, in order within a piece.
    ///
    /// # Panics
    ///
    /// If `f` panics: the rest of that piece is left out, others are done to their end. If several panic, that of the piece that
    /// comes first goes on.
    ///
    /// # Examples
    ///
    /// ```
    /// let mut words = ["of", "every", "length"].map(String::from);
    /// proto_lang_tasks::over(&mut words).for_each(|word| word.make_ascii_uppercase());
    /// assert_eq!(words.concat(), "OFEVERYLENGTH");
    /// ```
    #[inline]
    #[track_caller]
    pub fn for_each(self, f: impl Fn(P::Item) + Sync) {
        self.for_each_block(|block| block.items().for_each(&f));
    }

    /// Runs `f` for blocks of the items, one behind the other and of a length chosen at run time, which together are all.
    ///
    /// # Panics
    ///
    /// As [`for_each`](Over::for_each).
    ///
    /// # Examples
    ///
    /// ```
    /// let text = b"to be or not to be".repeat(1000);
    /// let spaces = proto_lang_mutex::sync::Mutex::new(0);
    /// proto_lang_tasks::over(&text).for_each_block(|block| {
    ///     let here = block.iter().filter(|byte| **byte == b' ').count();
    ///     *spaces.lock().unwrap() += here; // once a block
    /// });
    /// assert_eq!(spaces.into_inner().unwrap(), 5000);
    /// ```
    #[inline]
    #[track_caller]
    pub fn for_each_block(self, f: impl Fn(P) + Sync) {
        self.run((), &|_: &mut (), block| f(block), &|_: &mut (), _| (), &|_: &mut (), ()| ());
    }

    /// What `f` makes of each item, in their order: written at once where it is to be, whoever makes it.
    ///
    /// # Panics
    ///
    /// As [`for_each`](Over::for_each); results are dropped then.
    ///
    /// # Examples
    ///
    /// ```
    /// let lengths = proto_lang_tasks::over(&["of", "every", "length"]).map(|word| word.len());
    /// assert_eq!(lengths, [2, 5, 6]);
    /// ```
    #[inline]
    #[track_caller]
    pub fn map<T: Send>(self, f: impl Fn(P::Item) -> T + Sync) -> Vec<T> {
        filled(self.pieces.count(), |places| {
            let kernel = |places: &mut Places<'_, T>, block: P| places.fill(block.items().map(&f));
            self.run(places, &kernel, &Places::split_off, &Places::append)
        })
    }

    /// What `f` makes of each item, all of it made one by `op`, which is associative; `None` if there are no items.
    ///
    /// Results are joined in the order of the items, in groups that depend on how the loop was cut: a sum of floating-point numbers may
    /// differ in its last digits from run to run.
    ///
    /// # Panics
    ///
    /// As [`for_each`](Over::for_each), also if `op` does.
    ///
    /// # Examples
    ///
    /// ```
    /// use proto_lang_tasks::over;
    ///
    /// let numbers = [3, -7, 5];
    /// assert_eq!(over(&numbers).map_reduce(|n| n * n, |a, b| a + b), Some(83));
    /// assert_eq!(over(&numbers).map_reduce(|n| *n, i32::min), Some(-7));
    /// ```
    #[inline]
    #[track_caller]
    pub fn map_reduce<T: Send>(self, f: impl Fn(P::Item) -> T + Sync, op: impl Fn(T, T) -> T + Sync) -> Option<T> {
        let kernel = |so_far: &mut Option<T>, block: P| {
            let mut values = block.items().map(&f);
            if let Some(first) = so_far.take().or_else(|| values.next()) {
                *so_far = Some(values.fold(first, &op));
            }
        };
        let undivide = |so_far: &mut Option<T>, other: Option<T>| {
            *so_far = match (so_far.take(), other) {
                (Some(a), Some(b)) => Some(op(a, b)),
                (a, b) => a.or(b),
            };
        };
        self.run(None, &kernel, &|_: &mut Option<T>, _| None, &undivide)
    }

    /// Puts the items into accumulators by `step`, in their order, and joins these by `merge`, the earlier with the later. Each part of the loop that another core
    /// takes has an accumulator of its own, which `begin` makes.
    ///
    /// # Panics
    ///
    /// As [`for_each`](Over::for_each), also if `begin` or `merge` does.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::collections::HashMap;
    /// use proto_lang_tasks::over;
    ///
    /// let words = ["to", "be", "or", "not", "to", "be"];
    /// let count = |counts: &mut HashMap<_, _>, word| *counts.entry(word).or_insert(0) += 1;
    /// let counts = over(&words).fold(HashMap::new, count, |counts, later| {
    ///     later.into_iter().for_each(|(word, n)| *counts.entry(word).or_insert(0) += n);
    /// });
    /// assert_eq!((counts[&"to"], counts[&"or"]), (2, 1));
    ///
    /// // Any number of results for each item, in order.
    /// let letters = over(&words).fold(Vec::new, |so_far, word| so_far.extend(word.bytes()), |so_far, later| so_far.extend(later));
    /// assert_eq!(letters, b"tobeornottobe");
    /// ```
    #[inline]
    #[track_caller]
    pub fn fold<A: Send>(
        self,
        begin: impl Fn() -> A + Sync,
        step: impl Fn(&mut A, P::Item) + Sync,
        merge: impl Fn(&mut A, A) + Sync,
    ) -> A {
        let kernel = |so_far: &mut A, block: P| block.items().for_each(|item| step(so_far, item));
        self.run(begin(), &kernel, &|_: &mut A, _| begin(), &merge)
    }

    #[inline]
    #[track_caller]
    fn run<S, K, D, U>(self, state: S, kernel: &K, divide: &D, undivide: &U) -> S
    where
        S: Send,
        K: Fn(&mut S, P) + Sync,
        D: Fn(&mut S, usize) -> S + Sync,
        U: Fn(&mut S, S) + Sync,
    {
        let pace = Pace::new(self.grain);
        work(Loop { left: Some(self.pieces), pace, state, kernel, divide, undivide }).state
    }
}

/// A loop, or the part of it that is left, with what came of it so far.
struct Loop<'f, P, S, K, D, U> {
    /// None only while a block is cut off, or if a body has panicked.
    left: Option<P>,
    pace: Pace,
    state: S,
    kernel: &'f K,
    /// What the part of the last so many items begins with.
    divide: &'f D,
    undivide: &'f U,
}

impl<P, S, K, D, U> Divide for Loop<'_, P, S, K, D, U>
where
    P: Pieces,
    S: Send,
    K: Fn(&mut S, P) + Sync,
    D: Fn(&mut S, usize) -> S + Sync,
    U: Fn(&mut S, S) + Sync,
{
    #[inline]
    fn kernel(&mut self) -> bool {
        let Some(left) = self.left.take() else { return false };
        let count = left.count();
        let size = self.pace.block;
        if count <= size {
            if count > 0 {
                (self.kernel)(&mut self.state, left);
            }
            return false;
        }
        let (block, rest) = left.cut(size);
        self.left = Some(rest);
        self.pace.begin();
        (self.kernel)(&mut self.state, block);
        self.pace.end();
        true
    }

    fn divide(&mut self) -> Option<Self> {
        let left = self.left.take()?;
        let count = left.count();
        if count / 2 < self.pace.least {
            self.left = Some(left);
            return None;
        }
        let (first, second) = left.cut(count - count / 2);
        self.left = Some(first);
        self.pace.ended = None;
        let state = (self.divide)(&mut self.state, count / 2);
        Some(Loop { left: Some(second), pace: self.pace.clone(), state, ..*self })
    }

    fn undivide(&mut self, part: Self) {
        (self.undivide)(&mut self.state, part.state);
    }
}

/// How many steps make a block. See the head of the file.
#[derive(Clone, Debug)]
struct Pace {
    grain: usize,
    /// The steps of the next block.
    block: usize,
    /// The least steps that are cut off.
    least: usize,
    /// When the last block ended, if nothing has been done since.
    ended: Option<Instant>,
}

impl Pace {
    fn new(grain: usize) -> Pace {
        Pace { grain, block: 1, least: grain, ended: None }
    }

    /// A block begins.
    fn begin(&mut self) {
        self.ended.get_or_insert_with(Instant::now);
    }

    /// A whole block was done.
    fn end(&mut self) {
        self.end_at(Instant::now());
    }

    fn end_at(&mut self, now: Instant) {
        let Some(began) = self.ended.replace(now) else { return };
        let took = now.duration_since(began);
        self.least = self.grain.max(share(self.block, PIECE, took));
        // The measure of a few steps is a rough one: not more than eight times as many at once.
        let wanted = share(self.block, BLOCK, took);
        self.block = wanted.clamp(self.block.div_ceil(4), self.block.saturating_mul(8)).max(1);
    }
}

/// How many steps are done in `time`, if `steps` took `took`.
fn share(steps: usize, time: Duration, took: Duration) -> usize {
    (steps as f64 * time.div_duration_f64(took.max(Duration::from_nanos(1)))) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_takes_its_time_whatever_a_step_takes() {
        for step in [1, 30, 1000, 100_000, 50_000_000] {
            let mut pace = Pace::new(1);
            let mut now = Instant::now();
            for _ in 0..12 {
                pace.ended = Some(now);
                now += Duration::from_nanos(step * pace.block as u64);
                pace.end_at(now);
            }
            let block = Duration::from_nanos(step * pace.block as u64);
            assert!(pace.block == 1 || (BLOCK / 2..=BLOCK).contains(&block), "{block:?} of steps of {step} ns");
            assert!(pace.least as u64 * step <= PIECE.as_nanos() as u64 || pace.least == 1);
        }
    }

    #[test]
    fn one_slow_block_does_not_make_the_next_ones_short_for_long() {
        let mut pace = Pace::new(1);
        let mut now = Instant::now();
        let mut step = |pace: &mut Pace, nanoseconds: u64| {
            pace.ended = Some(now);
            now += Duration::from_nanos(nanoseconds);
            pace.end_at(now);
        };
        (0..10).for_each(|_| step(&mut pace, 4000));
        let before = pace.block;
        step(&mut pace, 1_000_000_000);
        assert!(pace.block >= before / 4);
    }
}
