//! What is said of a set of samples.
//!
//! Medians, because a shared machine's disturbances are one-sided: a mean would report the
//! neighbours. Minimum and maximum stand beside every median, so that a reader sees when a median
//! means little.

/// Median, minimum and maximum of some samples.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Summary {
    pub(crate) median: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
}

impl Summary {
    /// Summarizes `samples`; `None` when there are none.
    pub(crate) fn of(samples: &[f64]) -> Option<Self> {
        let mut sorted = samples.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (min, max) = (*sorted.first()?, *sorted.last()?);
        let half = sorted.len() / 2;
        let median = if sorted.len() % 2 == 1 { sorted[half] } else { f64::midpoint(sorted[half - 1], sorted[half]) };
        Some(Self { median, min, max })
    }
}

/// The geometric mean, the right mean of ratios; `None` for no values.
pub(crate) fn geometric_mean(values: &[f64]) -> Option<f64> {
    if values.is_empty() {
        return None;
    }
    let logs: f64 = values.iter().map(|value| value.ln()).sum();
    Some((logs / values.len() as f64).exp())
}

/// The largest `x` at which a falling curve of `(x, y)` still reaches `level`.
///
/// Between two points it is interpolated on logarithmic axes. A curve that is below `level`
/// everywhere yields its first `x`, one that never falls below it its last: both are bounds, not
/// crossings. Points must be in ascending order of `x`.
///
/// The *largest* is taken because a convoy makes a curve rise again: a first crossing would hide it.
pub(crate) fn last_crossing(points: &[(f64, f64)], level: f64) -> Option<f64> {
    let first = points.first()?.0;
    let Some(above) = points.iter().rposition(|&(_, y)| y >= level) else {
        return Some(first);
    };
    let (x0, y0) = points[above];
    let Some(&(x1, y1)) = points.get(above + 1) else {
        return Some(x0);
    };
    let share = (y0.ln() - level.ln()) / (y0.ln() - y1.ln());
    Some((x0.ln() + share * (x1.ln() - x0.ln())).exp())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_an_even_count_lies_between_the_middle_two() {
        let summary = Summary::of(&[4.0, 1.0, 3.0, 2.0]).expect("there are samples");
        assert_eq!(summary, Summary { median: 2.5, min: 1.0, max: 4.0 });
        assert_eq!(Summary::of(&[]), None);
    }

    #[test]
    fn the_geometric_mean_of_a_ratio_and_its_inverse_is_one() {
        let mean = geometric_mean(&[0.25, 4.0]).expect("there are values");
        assert!((mean - 1.0).abs() < 1e-12, "0.25 and 4 cancel, got {mean}");
    }

    #[test]
    fn a_curve_that_rises_again_crosses_where_it_falls_last() {
        let convoy = [(10.0, 4.0), (100.0, 1.5), (1_000.0, 3.0), (10_000.0, 1.0)];
        let crossing = last_crossing(&convoy, 2.0).expect("there are points");
        assert!((1_000.0..10_000.0).contains(&crossing), "the convoy must show, got {crossing}");
    }

    #[test]
    fn a_curve_that_never_crosses_yields_its_bound() {
        assert_eq!(last_crossing(&[(10.0, 1.5), (20.0, 1.1)], 2.0), Some(10.0));
        assert_eq!(last_crossing(&[(10.0, 9.0), (20.0, 5.0)], 2.0), Some(20.0));
    }
}
