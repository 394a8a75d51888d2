//! Symmetric positive definite matrices, the same on every machine and with every version of every library, so that a test can make the files in `data` anew:
//! by operations whose results IEEE 754 fixes, from numbers that are mixed here.

use faer::Mat;

/// What kind of matrix is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Kind {
    /// Random values between -1 and 1, and N on the diagonal
    Random,
    /// The five-point Laplacian of a square grid, row after row: nearly all zeros
    Poisson,
    /// How much the values of a smooth field at N random points of a square have to do with each other
    Covariance,
}

/// An N × N matrix of that kind.
pub(crate) fn matrix(kind: Kind, n: usize) -> Mat<f64> {
    let entry: Box<dyn Fn(usize, usize) -> f64> = match kind {
        Kind::Random => Box::new(|row, column| if row == column { n as f64 } else { 2.0 * unit(row, column) - 1.0 }),
        Kind::Poisson => {
            let width = n.isqrt();
            Box::new(move |row, column| match row - column {
                0 => 4.0,
                1 if row % width != 0 => -1.0,
                distance if distance == width => -1.0,
                _ => 0.0,
            })
        }
        Kind::Covariance => Box::new(|row, column| {
            let across = unit(row, 0) - unit(column, 0);
            let up = unit(row, 1) - unit(column, 1);
            wendland((across * across + up * up).sqrt())
        }),
    };
    Mat::from_fn(n, n, |row, column| entry(row.max(column), row.min(column)))
}

/// Wendland's function C2, positive definite in the plane and zero from the distance 1 on (Advances in Computational Mathematics 4, 1995).
fn wendland(distance: f64) -> f64 {
    let inside = (1.0 - distance).max(0.0);
    let square = inside * inside;
    square * square * (4.0 * distance + 1.0)
}

/// A number from 0 to 1 for each place: the output of SplitMix64 for a state made of both.
fn unit(row: usize, column: usize) -> f64 {
    let state = ((row as u64) << 32 | column as u64).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    // The upper 53 bits: as many as a double has.
    ((mixed ^ (mixed >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
}

/// The comment in a file with a matrix that was made here: how to make it again.
pub(crate) fn comment(kind: Kind, n: usize) -> String {
    let kind = format!("{kind:?}").to_lowercase();
    format!("made by: cargo run --release --example cholesky -- --kind {kind} --n {n} --write FILE")
}
