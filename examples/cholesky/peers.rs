//! What the dataflow is compared with: the same tiles by rayon, and faer's own factorisation.

use std::time::{Duration, Instant};

use faer::{Mat, MatRef, Par};
use rayon::prelude::*;

use crate::kernels::{factorise, gemm, potrf, syrk, trsm};
use crate::tiles::{Lower, NotPositiveDefinite, Tile};

/// The usual way without dataflow: a parallel loop for the tiles of a column, then one for those to the right, again and again. Each loop ends before the
/// next begins.
pub(crate) fn by_rayon(tiles: &mut Lower<Tile>, size: usize) -> Duration {
    let begin = Instant::now();
    for k in 0..tiles.count() {
        let (column, right) = tiles.columns[k..].split_first_mut().expect("there is a column k");
        let (diagonal, below) = column.split_first_mut().expect("a column begins with its diagonal tile");
        potrf(diagonal, k * size);
        below.par_iter_mut().for_each(|tile| trsm(diagonal, tile));
        let below = &*below;
        let rows = right
            .iter_mut()
            .enumerate()
            .flat_map(|(j, column)| column.iter_mut().enumerate().map(move |(down, tile)| (j + down, j, tile)));
        rows.collect::<Vec<_>>().into_par_iter().for_each(|(i, j, tile)| match i == j {
            true => syrk(&below[i], tile),
            false => gemm(&below[i], &below[j], tile),
        });
    }
    begin.elapsed()
}

/// faer's own; returns the factor and how long it took.
///
/// # Errors
///
/// If there is none.
pub(crate) fn by_faer(matrix: MatRef<'_, f64>, par: Par) -> Result<(Mat<f64>, Duration), NotPositiveDefinite> {
    let mut factor = matrix.to_owned();
    let begin = Instant::now();
    factorise(factor.as_mut(), par)?;
    let time = begin.elapsed();
    let mut lower = Mat::zeros(matrix.nrows(), matrix.ncols());
    lower.copy_from_triangular_lower(&factor);
    Ok((lower, time))
}
