//! What is done with tiles: four operations of faer, each on one core.
//!
//! Their names are those of LAPACK and BLAS. If a tile that one needs has failed, the tile that it writes fails, too.

use faer::dyn_stack::{MemBuffer, MemStack};
use faer::linalg::cholesky::llt::factor::{LltError, cholesky_in_place, cholesky_in_place_scratch};
use faer::linalg::matmul::matmul;
use faer::linalg::matmul::triangular::{self, BlockStructure};
use faer::linalg::triangular_solve::solve_lower_triangular_in_place;
use faer::prelude::default;
use faer::{Accum, Mat, MatMut, Par};

use crate::tiles::{NotPositiveDefinite, Tile};

/// Replaces the lower triangle of a symmetric matrix by its factor; the rest is left as it is.
pub(crate) fn factorise(matrix: MatMut<'_, f64>, par: Par) -> Result<(), NotPositiveDefinite> {
    let mut memory = MemBuffer::new(cholesky_in_place_scratch::<f64>(matrix.nrows(), par, default()));
    match cholesky_in_place(matrix, default(), par, MemStack::new(&mut memory), default()) {
        Ok(_) => Ok(()),
        Err(LltError::NonPositivePivot { index }) => Err(NotPositiveDefinite { pivot: index }),
    }
}

/// A diagonal tile, whose first row is `first` of the whole matrix, becomes its factor.
pub(crate) fn potrf(tile: &mut Tile, first: usize) {
    let done = tile.as_mut().map_err(|failure| *failure).and_then(|tile| {
        factorise(tile.as_mut(), Par::Seq).map_err(|failure| NotPositiveDefinite { pivot: first + failure.pivot })
    });
    if let Err(failure) = done {
        *tile = Err(failure);
    }
}

/// A tile below the diagonal becomes one of the factor: B ← B L⁻ᵀ, as L Xᵀ = Bᵀ is solved.
pub(crate) fn trsm(factor: &Tile, tile: &mut Tile) {
    update([factor], tile, |[factor], tile| {
        solve_lower_triangular_in_place(factor.as_ref(), tile.transpose_mut(), Par::Seq);
    });
}

/// What a tile of the factor contributes to the diagonal tile of its row: C ← C − A Aᵀ, the lower triangle.
pub(crate) fn syrk(a: &Tile, diagonal: &mut Tile) {
    use BlockStructure::{Rectangular, TriangularLower};
    update([a], diagonal, |[a], c| {
        triangular::matmul(c, TriangularLower, Accum::Add, a, Rectangular, a.transpose(), Rectangular, -1.0, Par::Seq);
    });
}

/// What two tiles of one column of the factor contribute to the tile of the first one's row and the other's column: C ← C − A Bᵀ.
pub(crate) fn gemm(a: &Tile, b: &Tile, tile: &mut Tile) {
    update([a, b], tile, |[a, b], c| matmul(c, Accum::Add, a, b.transpose(), -1.0, Par::Seq));
}

fn update<const N: usize>(from: [&Tile; N], tile: &mut Tile, f: impl FnOnce([&Mat<f64>; N], MatMut<'_, f64>)) {
    match from.iter().find_map(|from| from.as_ref().err()) {
        Some(&failure) => *tile = Err(failure),
        None => {
            let from = from.map(|from| from.as_ref().expect("none has failed"));
            if let Ok(tile) = tile {
                f(from, tile.as_mut());
            }
        }
    }
}
