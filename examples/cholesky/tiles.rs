//! A symmetric matrix in square tiles: those on and below the diagonal.

use faer::{Mat, MatRef};

/// Why a matrix has no factor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NotPositiveDefinite {
    /// The row and column, from 0, whose pivot is not above zero.
    pub(crate) pivot: usize,
}

impl std::fmt::Display for NotPositiveDefinite {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "not positive definite: the pivot of row and column {} is not above zero", self.pivot + 1)
    }
}

/// The values of a tile, or why there are none: a failure travels from tile to tile like a value.
pub(crate) type Tile = Result<Mat<f64>, NotPositiveDefinite>;

/// Something for each tile on and below the diagonal.
#[derive(Debug)]
pub(crate) struct Lower<T> {
    /// Column `j` begins with its diagonal tile, (j, j).
    pub(crate) columns: Vec<Vec<T>>,
}

impl<T> Lower<T> {
    pub(crate) fn at(&self, i: usize, j: usize) -> &T {
        &self.columns[j][i - j]
    }

    /// How many tiles a column of the whole matrix has.
    pub(crate) fn count(&self) -> usize {
        self.columns.len()
    }

    pub(crate) fn map<U>(self, mut f: impl FnMut(T) -> U) -> Lower<U> {
        Lower { columns: self.columns.into_iter().map(|column| column.into_iter().map(&mut f).collect()).collect() }
    }
}

/// Copies the tiles of a matrix, `size` rows and columns each; the last ones may have fewer.
pub(crate) fn cut(matrix: MatRef<'_, f64>, size: usize) -> Lower<Tile> {
    let n = matrix.nrows();
    let part = |tile: usize| (tile * size, size.min(n - tile * size));
    let count = n.div_ceil(size);
    let tile = |i, j| {
        let ((row, rows), (column, columns)) = (part(i), part(j));
        Ok(matrix.submatrix(row, column, rows, columns).to_owned())
    };
    Lower { columns: (0..count).map(|j| (j..count).map(|i| tile(i, j)).collect()).collect() }
}

/// The lower triangle that the tiles make, or the failure of the first that has one.
pub(crate) fn join(tiles: Lower<Tile>, n: usize, size: usize) -> Tile {
    let mut whole = Mat::zeros(n, n);
    for (j, column) in tiles.columns.into_iter().enumerate() {
        for (below, tile) in column.into_iter().enumerate() {
            let tile = tile?;
            let mut place = whole.submatrix_mut((j + below) * size, j * size, tile.nrows(), tile.ncols());
            if below == 0 {
                place.copy_from_triangular_lower(&tile);
            } else {
                place.copy_from(&tile);
            }
        }
    }
    Ok(whole)
}
