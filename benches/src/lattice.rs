//! What the tasks of the dataflow workloads compute: a lattice of cells.
//!
//! ```text
//! grid    rows × columns cells, one task each:   cell = work(3 cell + above + left)
//! chains  rows cells, `columns` tasks each:      cell = work(3 cell + the task's number in its chain)
//! ```
//!
//! A grid has a border, above and to the left, that nobody writes, so that all its tasks are alike. Every cell
//! is 1 at first. Tasks are made row by row in a grid; in chains the first task of each, then the second.
//!
//! [`private_work`] is an affine function of its seed. So what a task computes depends on all before it, in its
//! time and in its value; and yet what must come out can be told without doing the work. A task that is lost,
//! runs twice or too early changes a cell, and with it the checksum. The rivals in C and C++ compute the same
//! (`native/lattice.h`), and are held against the same checksum.

use anyhow::ensure;

use crate::calibrate::{WorkPoint, private_work};

/// How the tasks depend on each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    Grid,
    Chains,
}

impl Shape {
    /// What the native rivals call it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Grid => "grid",
            Self::Chains => "chains",
        }
    }
}

/// Some tasks and the cells they fill.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lattice {
    pub(crate) shape: Shape,
    pub(crate) rows: usize,
    pub(crate) columns: usize,
    /// Steps of work in each task.
    pub(crate) steps: u32,
}

/// The chains of a lattice of chains.
const CHAINS: usize = 64;

impl Lattice {
    /// About `tasks` tasks with the work of `point`.
    pub(crate) fn new(shape: Shape, tasks: u64, point: &WorkPoint) -> Self {
        let tasks = usize::try_from(tasks).expect("tasks fit the memory");
        let rows = if shape == Shape::Grid { tasks.isqrt() } else { CHAINS };
        Self { shape, rows, columns: (tasks / rows).max(1), steps: point.steps }
    }

    /// How many tasks there are.
    pub(crate) fn tasks(&self) -> u64 {
        (self.rows * self.columns) as u64
    }

    /// How many cells there are, with the border.
    pub(crate) fn cells(&self) -> usize {
        if self.shape == Shape::Grid { (self.rows + 1) * (self.columns + 1) } else { self.rows }
    }

    /// The cells of a grid that have a task, each with the one above and the one to the left, as their tasks are made.
    pub(crate) fn grid(&self) -> impl Iterator<Item = [usize; 3]> + use<> {
        let (rows, width) = (self.rows, self.columns + 1);
        (1..=rows)
            .flat_map(move |row| (row * width + 1..(row + 1) * width).map(move |cell| [cell, cell - width, cell - 1]))
    }

    /// Cell and number of each task of the chains, as they are made.
    pub(crate) fn chains(&self) -> impl Iterator<Item = (usize, u64)> + use<> {
        let rows = self.rows;
        (0..self.columns as u64).flat_map(move |number| (0..rows).map(move |cell| (cell, number)))
    }

    /// Whether the cells are right after all tasks have run `times` times.
    ///
    /// # Errors
    /// When they are not: the peer lost a task, or ran one twice or too early.
    pub(crate) fn check(&self, times: u32, checksum: u64) -> anyhow::Result<()> {
        ensure!(checksum == self.right_checksum(times), "tasks were lost or did not run in order: {self:?}");
        Ok(())
    }

    /// The checksum that is right after all tasks have run `times` times, one after the other.
    pub(crate) fn right_checksum(&self, times: u32) -> u64 {
        let add = private_work(0, self.steps);
        let factor = private_work(1, self.steps).wrapping_sub(add);
        let work = |seed: u64| seed.wrapping_mul(factor).wrapping_add(add);
        let mut cells = vec![1_u64; self.cells()];
        for _ in 0..times {
            match self.shape {
                Shape::Grid => self.grid().for_each(|[cell, above, left]| {
                    cells[cell] = work(grid_seed(cells[cell], cells[above], cells[left]));
                }),
                Shape::Chains => self.chains().for_each(|(cell, number)| {
                    cells[cell] = work(chain_seed(cells[cell], number));
                }),
            }
        }
        checksum(cells)
    }
}

/// What a grid's task works on.
pub(crate) fn grid_seed(cell: u64, above: u64, left: u64) -> u64 {
    cell.wrapping_mul(3).wrapping_add(above).wrapping_add(left)
}

/// What a chain's task works on.
pub(crate) fn chain_seed(cell: u64, number: u64) -> u64 {
    cell.wrapping_mul(3).wrapping_add(number)
}

/// One number for the values of all cells and their places.
pub(crate) fn checksum(cells: impl IntoIterator<Item = u64>) -> u64 {
    cells.into_iter().fold(0, |sum, cell| sum.wrapping_mul(31).wrapping_add(cell))
}

/// One lattice, measured: nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Timing {
    /// One task's work, alone on a core.
    pub(crate) work: f64,
    /// All of it: making the tasks, running them, forgetting them.
    pub(crate) all: f64,
    /// The running alone, where it can be told apart.
    pub(crate) run: Option<f64>,
    /// Running the same graph once more.
    pub(crate) again: Option<f64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    const POINT: WorkPoint = WorkPoint { cycles: 10, steps: 7, ns: 1.0 };

    #[test]
    fn the_checksum_is_that_of_doing_the_work() {
        let lattice = Lattice::new(Shape::Grid, 30, &POINT);
        let mut cells = vec![1; lattice.cells()];
        for [cell, above, left] in lattice.grid() {
            cells[cell] = private_work(grid_seed(cells[cell], cells[above], cells[left]), 7);
        }
        assert_eq!(checksum(cells), lattice.right_checksum(1));
    }

    #[test]
    fn tasks_in_a_wrong_order_change_the_checksum() {
        for shape in [Shape::Grid, Shape::Chains] {
            let lattice = Lattice::new(shape, 200, &POINT);
            let mut cells = vec![1; lattice.cells()];
            let mut tasks: Vec<_> = (0..lattice.tasks() as usize).collect();
            // The last two, which depend on one another in a grid; the last two of one chain.
            let last = tasks.len() - 1;
            tasks.swap(last, if shape == Shape::Grid { last - 1 } else { last - CHAINS });
            let (grid, chains) = (lattice.grid().collect::<Vec<_>>(), lattice.chains().collect::<Vec<_>>());
            for task in tasks {
                if shape == Shape::Grid {
                    let [cell, above, left] = grid[task];
                    cells[cell] = private_work(grid_seed(cells[cell], cells[above], cells[left]), 7);
                } else {
                    let (cell, number) = chains[task];
                    cells[cell] = private_work(chain_seed(cells[cell], number), 7);
                }
            }
            assert_ne!(checksum(cells), lattice.right_checksum(1), "{shape:?}");
        }
    }
}
