//! The goals of the project's table: what is compared, with whom, and how much is allowed.

/// On which side of its limit a figure has to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bound {
    AtMost,
    Below,
    AtLeast,
}

/// One comparison.
#[derive(Clone, Debug)]
pub(crate) struct Goal {
    /// What is measured, with its unit.
    pub(crate) what: String,
    /// Our median; `None` when it was not measured in this run.
    pub(crate) ours: Option<f64>,
    /// What it is compared with: a rival's name and median, or `None` for an absolute bound.
    pub(crate) rival: Option<(String, f64)>,
    /// What bounds the ratio to the rival; without one, the figure.
    pub(crate) limit: f64,
    pub(crate) bound: Bound,
}

/// Whether a goal was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Met,
    Missed,
    /// One side was not measured: neither a success nor a failure.
    Unknown,
}

impl Goal {
    /// Ours may take at most `limit` times the rival's figure.
    pub(crate) fn against(
        what: impl Into<String>,
        ours: Option<f64>,
        limit: f64,
        rival: &str,
        theirs: Option<f64>,
    ) -> Self {
        Self {
            what: what.into(),
            // Without the rival there is nothing to compare, and the goal is shown as unknown.
            ours: theirs.and(ours),
            rival: Some((rival.to_owned(), theirs.unwrap_or(f64::NAN))),
            limit,
            bound: Bound::AtMost,
        }
    }

    /// The same limit as the least: for figures of which more is better.
    pub(crate) fn or_more(self) -> Self {
        Self { bound: Bound::AtLeast, ..self }
    }

    /// Ours may be at most `limit`.
    pub(crate) fn at_most(what: impl Into<String>, ours: Option<f64>, limit: f64) -> Self {
        Self { what: what.into(), ours, rival: None, limit, bound: Bound::AtMost }
    }

    /// Ours must be below `limit`.
    pub(crate) fn below(what: impl Into<String>, ours: Option<f64>, limit: f64) -> Self {
        Self { bound: Bound::Below, ..Self::at_most(what, ours, limit) }
    }

    /// What is compared with the limit: the ratio, or the figure itself.
    pub(crate) fn figure(&self) -> Option<f64> {
        let ours = self.ours?;
        Some(self.rival.as_ref().map_or(ours, |(_, theirs)| ours / theirs))
    }

    /// Whether the goal was reached.
    pub(crate) fn verdict(&self) -> Verdict {
        let Some(figure) = self.figure() else { return Verdict::Unknown };
        let met = match self.bound {
            Bound::AtMost => figure <= self.limit,
            Bound::Below => figure < self.limit,
            Bound::AtLeast => figure >= self.limit,
        };
        if met { Verdict::Met } else { Verdict::Missed }
    }
}

/// The rival with the smallest figure, of those that were measured.
pub(crate) fn best<'a>(rivals: &[(&'a str, Option<f64>)]) -> (&'a str, Option<f64>) {
    let measured = rivals.iter().filter_map(|&(name, figure)| Some((name, figure?)));
    let best = measured.min_by(|a, b| a.1.total_cmp(&b.1));
    best.map_or(("none", None), |(name, figure)| (name, Some(figure)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_goal_is_judged_by_its_ratio_and_a_strict_one_excludes_its_limit() {
        let ratio = |ours| Goal::against("x", Some(ours), 0.5, "may", Some(20.0)).verdict();
        assert_eq!((ratio(10.0), ratio(10.1)), (Verdict::Met, Verdict::Missed));
        assert_eq!(Goal::at_most("x", Some(100.0), 100.0).verdict(), Verdict::Met);
        assert_eq!(Goal::below("x", Some(0.5), 0.5).verdict(), Verdict::Missed);
    }

    #[test]
    fn a_goal_to_reach_is_missed_from_below() {
        let share = |ours| Goal::against("x", Some(ours), 0.95, "std", Some(2.0)).or_more().verdict();
        assert_eq!((share(1.9), share(1.89), share(2.5)), (Verdict::Met, Verdict::Missed, Verdict::Met));
    }

    #[test]
    fn what_was_not_measured_is_neither_met_nor_missed() {
        assert_eq!(Goal::against("x", None, 0.5, "may", Some(1.0)).verdict(), Verdict::Unknown);
        assert_eq!(Goal::against("x", Some(1.0), 0.5, "may", None).verdict(), Verdict::Unknown);
        assert_eq!(best(&[("a", None), ("b", Some(2.0)), ("c", Some(1.0))]), ("c", Some(1.0)));
    }
}
