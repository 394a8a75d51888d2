//! The factorisation as a sequential program whose steps are tasks: all that is said of parallelism is which tiles each reads and writes.
//!
//! ```text
//! for k in 0..tiles                        of 3 × 3 tiles:
//!     potrf  (k,k)
//!     for i in k+1..tiles                  potrf 0 ─┬─ trsm 1 0 ─┬─ syrk 1 0 ── potrf 1 ─┬─ trsm 2 1 ─┬─ syrk 2 1 ── potrf 2
//!         trsm  (k,k) → (i,k)                       │            └─ gemm 2 1 0 ──────────┘            │
//!     for j in k+1..tiles                           │            ┌──────┘                             │
//!         syrk  (j,k) → (j,j)                       └─ trsm 2 0 ─┴─ syrk 2 0 ─────────────────────────┘
//!         for i in j+1..tiles
//!             gemm  (i,k), (j,k) → (i,j)
//! ```
//!
//! A step of the next column begins while the updates of this one go on: there is no barrier in the program.

use std::fmt;
use std::time::{Duration, Instant};

use proto_runtime::core::Runtime;
use proto_runtime::tasks::{Data, Maker, dataflow};

use crate::kernels::{gemm, potrf, syrk, trsm};
use crate::tiles::{Lower, Tile};

/// A task of the factorisation: (i, j) is the tile that it writes, k the column of what it reads.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    Potrf { k: usize },
    Trsm { i: usize, k: usize },
    Syrk { i: usize, k: usize },
    Gemm { i: usize, j: usize, k: usize },
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Step::Potrf { k } => write!(f, "potrf {k}"),
            Step::Trsm { i, k } => write!(f, "trsm {i} {k}"),
            Step::Syrk { i, k } => write!(f, "syrk {i} {k}"),
            Step::Gemm { i, j, k } => write!(f, "gemm {i} {j} {k}"),
        }
    }
}

impl Step {
    /// The steps for a matrix of `count` × `count` tiles, in the order of the sequential program.
    fn all(count: usize) -> impl Iterator<Item = Step> {
        (0..count).flat_map(move |k| {
            let solves = (k + 1..count).map(move |i| Step::Trsm { i, k });
            // A column after the other: the tile that all of its updates read stays in the cache.
            let updates = (k + 1..count).flat_map(move |j| {
                let below = (j + 1..count).map(move |i| Step::Gemm { i, j, k });
                [Step::Syrk { i: j, k }].into_iter().chain(below)
            });
            [Step::Potrf { k }].into_iter().chain(solves).chain(updates)
        })
    }

    /// Its priority. The longest chain of tasks is potrf k, trsm k+1 k, syrk k+1 k, potrf k+1 and so on: what is on it goes first.
    /// The others are not ranked: so a core goes on with what it has in its cache.
    fn priority(self) -> u8 {
        match self {
            Step::Potrf { .. } => 255,
            Step::Trsm { i, k } | Step::Syrk { i, k } if i == k + 1 => 255,
            _ => 128,
        }
    }
}

/// A matrix that tasks turn into its factor.
pub(crate) struct Tiled {
    size: usize,
    tiles: Lower<Data<Tile>>,
    /// With what errors and drawings call them.
    steps: Vec<(Step, String)>,
}

impl Tiled {
    /// `size` is how many rows and columns a tile has.
    pub(crate) fn new(tiles: Lower<Tile>, size: usize) -> Tiled {
        let steps = Step::all(tiles.count()).map(|step| (step, step.to_string())).collect();
        Tiled { size, tiles: tiles.map(Data::new), steps }
    }

    /// How many tasks there are.
    pub(crate) fn tasks(&self) -> usize {
        self.steps.len()
    }

    pub(crate) fn into_tiles(self) -> Lower<Tile> {
        self.tiles.map(Data::into_inner)
    }

    /// Makes the tasks: in a flow they run, in a recorder they are kept.
    pub(crate) fn make<'env>(&'env self, df: &impl Maker<'env>) {
        let tile = |i, j| self.tiles.at(i, j);
        for (step, name) in &self.steps {
            let task = df.task().label(name).priority(step.priority());
            match *step {
                Step::Potrf { k } => task.inout(tile(k, k)).again(move |a| potrf(a, k * self.size)),
                Step::Trsm { i, k } => task.input(tile(k, k)).inout(tile(i, k)).again(trsm),
                Step::Syrk { i, k } => task.input(tile(i, k)).inout(tile(i, i)).again(syrk),
                Step::Gemm { i, j, k } => task.input(tile(i, k)).input(tile(j, k)).inout(tile(i, j)).again(gemm),
            };
        }
    }

    /// Runs the tasks on the cores of `runtime`; returns how long that took.
    ///
    /// # Errors
    ///
    /// What the runtime says if it cannot.
    pub(crate) fn run(&self, runtime: &Runtime) -> Result<Duration, String> {
        let begin = Instant::now();
        runtime.run(|| dataflow(|df| self.make(df))).map_err(|error| error.to_string())?;
        Ok(begin.elapsed())
    }
}
