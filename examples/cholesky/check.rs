//! Whether a factor is right: by what it gives when it is multiplied out, and beside faer's own.

use faer::linalg::matmul::triangular::{BlockStructure, matmul};
use faer::linalg::triangular_solve::solve_lower_triangular_in_place;
use faer::{Accum, Mat, MatRef, Par};
use proto_runtime::core::Runtime;

use crate::factor::Tiled;
use crate::peers::by_faer;
use crate::tiles::{cut, join};

/// How right a factor L of A is; norms are Frobenius's.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Checked {
    /// Tasks that made it.
    pub(crate) tasks: usize,
    /// ‖A − LLᵀ‖ / ‖A‖.
    pub(crate) residual: f64,
    /// What the residual of a right program is at most.
    pub(crate) allowed: f64,
    /// ‖L − L'‖ / ‖L‖, where L' is faer's.
    pub(crate) apart: f64,
    /// What two right programs are apart at most, given their residuals.
    pub(crate) apart_allowed: f64,
}

/// Factorises `matrix` by dataflow, in tiles of `size` rows, and checks the factor.
///
/// # Errors
///
/// A sentence for the user: there is no factor, or it is wrong.
pub(crate) fn factor(matrix: MatRef<'_, f64>, size: usize, runtime: &Runtime) -> Result<Checked, String> {
    let tiled = Tiled::new(cut(matrix, size), size);
    let tasks = tiled.tasks();
    tiled.run(runtime)?;
    let ours = join(tiled.into_tiles(), matrix.nrows(), size);
    let library = by_faer(matrix, Par::rayon(0)).map(|(factor, _)| factor);
    match (ours, library) {
        (Ok(ours), Ok(library)) => Checked::new(matrix, &ours, &library, tasks),
        (Err(ours), Err(_)) => Err(ours.to_string()),
        (Ok(_), Err(library)) => Err(format!("wrong: the tasks found a factor, but faer says: {library}")),
        (Err(ours), Ok(_)) => Err(format!("wrong: faer found a factor, but the tasks say: {ours}")),
    }
}

impl Checked {
    /// Compares two factors of `matrix`.
    ///
    /// # Errors
    ///
    /// What is wrong with the first.
    pub(crate) fn new(
        matrix: MatRef<'_, f64>,
        l: &Mat<f64>,
        library: &Mat<f64>,
        tasks: usize,
    ) -> Result<Checked, String> {
        let norm = matrix.norm_l2();
        let residual = residual(matrix, l);
        // |A − LLᵀ| ≤ γ |L||Lᵀ| with γ = (n + 1) u, entry by entry, whatever the order of the sums (Higham, Accuracy and Stability of Numerical Algorithms,
        // 2nd edition, theorem 10.3); the norm of the right side is at most the trace of A. Twice that, for the residual is rounded as well.
        let trace: f64 = (0..matrix.nrows()).map(|i| matrix[(i, i)]).sum();
        let allowed = (matrix.nrows() + 1) as f64 * f64::EPSILON * trace / norm;
        // A relative change of A changes L by at most the condition of A times as much (ibid., theorem 10.8).
        let mut inverse = Mat::<f64>::identity(matrix.nrows(), matrix.ncols());
        solve_lower_triangular_in_place(l.as_ref(), inverse.as_mut(), Par::rayon(0));
        let condition = norm * inverse.norm_l2().powi(2);
        let apart_allowed = condition * (allowed + allowed);
        let apart = (l - library).norm_l2() / library.norm_l2();
        let checked = Checked { tasks, residual, allowed, apart, apart_allowed };
        if residual.is_nan() || residual > allowed {
            return Err(format!("wrong: the residual is {residual:.1e}; rounding explains {allowed:.1e} at most"));
        }
        if apart.is_nan() || apart > apart_allowed {
            return Err(format!(
                "wrong: {apart:.1e} from faer's factor; rounding explains {apart_allowed:.1e} at most"
            ));
        }
        Ok(checked)
    }
}

/// ‖A − LLᵀ‖ / ‖A‖, from the lower triangles.
fn residual(matrix: MatRef<'_, f64>, l: &Mat<f64>) -> f64 {
    use BlockStructure::{TriangularLower, TriangularUpper};
    let mut rest = Mat::zeros(matrix.nrows(), matrix.ncols());
    rest.copy_from_triangular_lower(matrix);
    let all = Par::rayon(0);
    matmul(rest.as_mut(), TriangularLower, Accum::Add, l, TriangularLower, l.transpose(), TriangularUpper, -1.0, all);
    let diagonal: f64 = (0..rest.nrows()).map(|i| rest[(i, i)].powi(2)).sum();
    (2.0 * rest.norm_l2().powi(2) - diagonal).sqrt() / matrix.norm_l2()
}
