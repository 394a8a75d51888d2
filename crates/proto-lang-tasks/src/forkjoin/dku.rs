//! Divider, kernel, undivider: work of any shape that is cut at run time, into as many parts as are wanted.
//!
//! ```text
//!   run:  ┌─▶ kernel: a bit of it ─▶ does a core want work? ── no ──┐
//!         └─────────────────────────────────────────────────────────┤
//!                                                                  yes ─▶ divide ─▶ join(run what is left, run the part) ─▶ undivide
//! ```
//!
//! A part that is cut off and not taken after all is run by its owner, after the rest. Each half is asked again, so the depth of the forks is the number of
//! times that work can be halved.

use proto_core::{Cuts, divisible, join, join_wanted, work_wanted};

/// Work that can be cut in two while it is being done: the *divider*, the *kernel* and the *undivider* of the DKU model. See [`work`].
pub trait Divide: Sized + Send {
    /// Does the next bit of the work; `false` if nothing is left. What a bit is worth doing depends on how fast others are to be served: between two bits, and
    /// only there, a part may be cut off. A few microseconds are a good measure.
    fn kernel(&mut self) -> bool;

    /// Cuts a part off for another core, best one half of what is left; `None` if that is not worth it.
    fn divide(&mut self) -> Option<Self>;

    /// Takes a part back that was cut off by [`divide`](Divide::divide); both have nothing left to do.
    fn undivide(&mut self, part: Self);
}

/// Does all of `work`, and cuts off parts of it while other cores want something to do.
///
/// With hooks that watch the runtime the parts have names, so it is cut in 64 at the beginning, whoever wants them.
///
/// # Panics
///
/// If a kernel, a divider or an undivider does: parts that were cut off are done to their end, then that panic goes on; if several panicked, that of the
/// part which comes first in the work.
///
/// # Examples
///
/// A tree that is counted from an explicit stack: its oldest subtree is the part that others get.
///
/// ```
/// use proto_lang_tasks::{Divide, work};
///
/// struct Node(Vec<Node>);
///
/// struct Count<'a> {
///     left: Vec<&'a Node>,
///     counted: usize,
/// }
///
/// impl Divide for Count<'_> {
///     fn kernel(&mut self) -> bool {
///         for _ in 0..100 {
///             let Some(node) = self.left.pop() else { return false };
///             self.counted += 1;
///             self.left.extend(&node.0);
///         }
///         true
///     }
///
///     fn divide(&mut self) -> Option<Self> {
///         let oldest = self.left.len() / 2;
///         (oldest > 0).then(|| Count { left: self.left.drain(..oldest).collect(), counted: 0 })
///     }
///
///     fn undivide(&mut self, part: Self) {
///         self.counted += part.counted;
///     }
/// }
///
/// fn tree(depth: usize) -> Node {
///     Node((0..depth).map(tree).collect())
/// }
/// let root = tree(14);
/// assert_eq!(work(Count { left: vec![&root], counted: 0 }).counted, 1 << 14);
/// ```
#[track_caller]
pub fn work<W: Divide>(mut work: W) -> W {
    divisible(|cuts| match cuts {
        Cuts::AsWanted => run(&mut work),
        Cuts::Fixed => run_cut(&mut work, FIXED_CUTS),
    });
    work
}

/// How many times work is halved where the cuts are fixed.
const FIXED_CUTS: u32 = 6;

fn run<W: Divide>(work: &mut W) {
    loop {
        if work_wanted()
            && let Some(mut part) = work.divide()
        {
            join_wanted(|| run(work), || run(&mut part));
            return work.undivide(part);
        }
        if !work.kernel() {
            return;
        }
    }
}

fn run_cut<W: Divide>(work: &mut W, cuts: u32) {
    if cuts > 0
        && let Some(mut part) = work.divide()
    {
        join(|| run_cut(work, cuts - 1), || run_cut(&mut part, cuts - 1));
        return work.undivide(part);
    }
    while work.kernel() {}
}

/// [`work`] for a recursion: `divide` cuts a piece in two, or gives it back if it is small enough for `kernel`; `undivide` joins the results
/// of two.
///
/// Each cut is a fork, so it costs a few nanoseconds, whether anybody takes the second half or not; what goes to other cores is decided at run time.
///
/// # Panics
///
/// As [`join`](crate::join()).
///
/// # Examples
///
/// ```
/// use proto_lang_tasks::dku;
///
/// /// The bounds of the points: divided like a tree, whose leaves are small.
/// fn bounds(points: &[f64]) -> (f64, f64) {
///     dku(
///         points,
///         |points: &'_ [f64]| match points.len() {
///             0..1000 => Err(points),
///             len => Ok(points.split_at(len / 2)),
///         },
///         |points| points.iter().fold((f64::MAX, f64::MIN), |(low, high), &x| (low.min(x), high.max(x))),
///         |a, b| (a.0.min(b.0), a.1.max(b.1)),
///     )
/// }
/// let points: Vec<f64> = (0..100_000).map(|n| (n as f64).sin()).collect();
/// assert!(bounds(&points).1 > 0.999_999);
/// ```
#[track_caller]
pub fn dku<D: Send, R: Send>(
    data: D,
    divide: impl Fn(D) -> Result<(D, D), D> + Sync,
    kernel: impl Fn(D) -> R + Sync,
    undivide: impl Fn(R, R) -> R + Sync,
) -> R {
    // From an OS thread all of it goes to the cores at once, not each half by itself.
    divisible(|_| run_dku(data, &(&divide, &kernel, &undivide)))
}

/// One reference to all three: it lies in every frame.
fn run_dku<D, R, Divider, Kernel, Undivider>(data: D, verbs: &(Divider, Kernel, Undivider)) -> R
where
    D: Send,
    R: Send,
    Divider: Fn(D) -> Result<(D, D), D> + Sync,
    Kernel: Fn(D) -> R + Sync,
    Undivider: Fn(R, R) -> R + Sync,
{
    match (verbs.0)(data) {
        Err(piece) => (verbs.1)(piece),
        Ok((first, second)) => {
            let (first, second) = join(|| run_dku(first, verbs), || run_dku(second, verbs));
            (verbs.2)(first, second)
        }
    }
}
