//! The data that travel: a case to a child, its measures back, the records to disk.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde::{Deserialize, Serialize};

use crate::calibrate::WorkPoint;
use crate::stats::Summary;

/// One thing to measure: a peer in one configuration of one workload.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Case {
    pub(crate) workload: String,
    pub(crate) peer: String,
    /// Workers of the peer's scheduler; for OS threads, the cores they are pinned to or may use.
    pub(crate) workers: usize,
    /// Which variant of the workload; empty when there is one only.
    pub(crate) param: String,
    /// Operations of one sample; the unit is the workload's.
    pub(crate) size: u64,
    /// The amounts of private work to sweep over; empty for most workloads.
    pub(crate) points: Vec<WorkPoint>,
    /// The program that is the peer, if it is one of its own.
    pub(crate) program: Option<PathBuf>,
}

impl Case {
    pub(crate) fn new(workload: &str, peer: &str, workers: usize, param: &str, size: u64) -> Self {
        Self {
            workload: workload.to_owned(),
            peer: peer.to_owned(),
            workers,
            param: param.to_owned(),
            size,
            points: Vec::new(),
            program: None,
        }
    }

    /// The one measure of a case that has one: `metric` under the case's own parameter.
    pub(crate) fn measure(&self, metric: &str, unit: &str, value: f64) -> Measure {
        Measure { param: self.param.clone(), metric: metric.to_owned(), unit: unit.to_owned(), value }
    }
}

/// One figure of one sample.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Measure {
    pub(crate) param: String,
    pub(crate) metric: String,
    pub(crate) unit: String,
    pub(crate) value: f64,
}

/// One line of `target/overhead/*.json`.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Record {
    pub(crate) workload: String,
    pub(crate) peer: String,
    pub(crate) workers: usize,
    pub(crate) param: String,
    pub(crate) metric: String,
    pub(crate) unit: String,
    pub(crate) median: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
}

/// `(peer, workers, param, metric)`: what tells two records of a workload apart.
type Key = (String, usize, String, String);

/// The samples of one workload, and after the last round its records.
#[derive(Debug, Default)]
pub(crate) struct Results {
    samples: BTreeMap<Key, (String, Vec<f64>)>,
    /// Keys in the order in which they first came, which is the order of the cases.
    order: Vec<Key>,
    /// `(case, why)` of every sample that was not to be had.
    pub(crate) failures: Vec<(String, String)>,
    /// Percent of the machine that others used during each sample that counts.
    pub(crate) disturbance: Vec<f64>,
}

impl Results {
    /// Adds the measures of one sample of `case`.
    pub(crate) fn add(&mut self, case: &Case, measures: Vec<Measure>) {
        for Measure { param, metric, unit, value } in measures {
            let key = (case.peer.clone(), case.workers, param, metric);
            let samples = self.samples.entry(key.clone()).or_insert_with(|| {
                self.order.push(key);
                (unit, Vec::new())
            });
            samples.1.push(value);
        }
    }

    /// Percent of the machine that others used during the median sample.
    pub(crate) fn others(&self) -> f64 {
        Summary::of(&self.disturbance).map_or(0.0, |summary| summary.median)
    }

    /// The summary of one metric, if it was measured.
    pub(crate) fn summary(&self, peer: &str, workers: usize, param: &str, metric: &str) -> Option<Summary> {
        let key = (peer.to_owned(), workers, param.to_owned(), metric.to_owned());
        Summary::of(&self.samples.get(&key)?.1)
    }

    /// The median of one metric, if it was measured.
    pub(crate) fn median(&self, peer: &str, workers: usize, param: &str, metric: &str) -> Option<f64> {
        Some(self.summary(peer, workers, param, metric)?.median)
    }

    /// Every metric, in the order of the cases.
    pub(crate) fn records(&self, workload: &str) -> Vec<Record> {
        let record = |key: &Key| {
            let (unit, samples) = &self.samples[key];
            let (peer, workers, param, metric) = key.clone();
            let summary = Summary::of(samples)?;
            Some(Record {
                workload: workload.to_owned(),
                peer,
                workers,
                param,
                metric,
                unit: unit.clone(),
                median: summary.median,
                min: summary.min,
                max: summary.max,
            })
        };
        self.order.iter().filter_map(record).collect()
    }
}

/// Writes `records` as a JSON array to `path`.
pub(crate) fn write_json(path: &Path, records: &[Record]) -> anyhow::Result<()> {
    let text = serde_json::to_string_pretty(records)?;
    std::fs::write(path, text + "\n").with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_keep_the_order_of_the_cases_and_summarize_their_rounds() {
        let mut results = Results::default();
        for value in [3.0, 1.0, 2.0] {
            for peer in ["zebra", "ant"] {
                let case = Case::new("switch", peer, 1, "", 1);
                let measure = case.measure("ns", "ns", value);
                results.add(&case, vec![measure]);
            }
        }
        let records = results.records("switch");
        let peers: Vec<_> = records.iter().map(|record| record.peer.as_str()).collect();
        assert_eq!(peers, ["zebra", "ant"], "not sorted by name");
        assert_eq!((records[0].median, records[0].min, records[0].max), (2.0, 1.0, 3.0));
        assert_eq!(results.median("ant", 1, "", "ns"), Some(2.0));
        assert_eq!(results.median("ant", 2, "", "ns"), None);
    }
}
