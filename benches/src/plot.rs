//! SVG drawings of the figures.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::anyhow;
use plotters::prelude::*;

use crate::record::Record;
use crate::table::figure;

const SIZE: (u32, u32) = (900, 540);
/// Ours stands out; rivals take the others in turn.
const OURS: RGBColor = RGBColor(0xd6, 0x27, 0x28);
const RIVALS: [RGBColor; 8] = [
    RGBColor(0x1f, 0x77, 0xb4),
    RGBColor(0x2c, 0xa0, 0x2c),
    RGBColor(0x94, 0x67, 0xbd),
    RGBColor(0x8c, 0x56, 0x4b),
    RGBColor(0xff, 0x7f, 0x0e),
    RGBColor(0x17, 0xbe, 0xcf),
    RGBColor(0x7f, 0x7f, 0x7f),
    RGBColor(0xbc, 0xbd, 0x22),
];

/// The colour of a peer, by its place among the rivals.
fn colour(peer: &str, place: usize) -> RGBColor {
    if peer == "proto" { OURS } else { RIVALS[place % RIVALS.len()] }
}

/// The range of `values` with some room, for a logarithmic axis.
fn range(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let positive = values.filter(|value| *value > 0.0 && value.is_finite());
    let (low, high) = positive.fold((f64::MAX, f64::MIN), |(low, high), value| (low.min(value), high.max(value)));
    if low > high { (0.5, 2.0) } else { (low / 1.2, high * 1.2) }
}

/// A line for each peer, through the points of its records.
pub(crate) fn lines(
    records: &[Record],
    point: impl Fn(&Record) -> Option<(f64, f64)>,
) -> Vec<(String, Vec<(f64, f64)>)> {
    let mut lines: Vec<(String, Vec<(f64, f64)>)> = Vec::new();
    for record in records {
        let Some(point) = point(record) else {
            continue;
        };
        match lines.iter_mut().find(|(peer, _)| *peer == record.peer) {
            Some((_, points)) => points.push(point),
            None => lines.push((record.peer.clone(), vec![point])),
        }
    }
    lines
}

/// Draws one line per peer on logarithmic axes.
pub(crate) fn curves(
    lines: &[(String, Vec<(f64, f64)>)],
    file: &Path,
    title: &str,
    x_name: &str,
    y_name: &str,
) -> anyhow::Result<()> {
    let all = || lines.iter().flat_map(|(_, points)| points.iter().copied());
    let (x_low, x_high) = range(all().map(|(x, _)| x));
    let (y_low, y_high) = range(all().map(|(_, y)| y));
    let root = SVGBackend::new(file, SIZE).into_drawing_area();
    root.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&root)
        .caption(title, ("sans-serif", 20))
        .margin(12)
        .x_label_area_size(40)
        .y_label_area_size(50)
        .build_cartesian_2d((x_low..x_high).log_scale(), (y_low..y_high).log_scale())?;
    chart
        .configure_mesh()
        .x_label_formatter(&|x| figure(*x))
        .y_label_formatter(&|y| figure(*y))
        .x_desc(x_name)
        .y_desc(y_name)
        .draw()?;
    for (place, (peer, points)) in lines.iter().enumerate() {
        let colour = colour(peer, place);
        let width = if peer == "proto" { 3 } else { 1 };
        let style = colour.stroke_width(width);
        chart
            .draw_series(LineSeries::new(points.iter().copied(), style).point_size(2))?
            .label(peer)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], style));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperRight)
        .background_style(WHITE.mix(0.8))
        .border_style(BLACK)
        .draw()?;
    root.present()?;
    Ok(())
}

/// Draws one panel per metric, one bar per record, on a logarithmic axis.
pub(crate) fn bars(records: &[Record], file: &Path, title: &str) -> anyhow::Result<()> {
    let metrics: BTreeSet<&str> = records.iter().map(|record| record.metric.as_str()).collect();
    let most = metrics.iter().map(|metric| of(records, metric).count()).max().unwrap_or(0);
    let height = (most as u32 * 24 + 90) * metrics.len() as u32 + 40;
    let root = SVGBackend::new(file, (SIZE.0, height)).into_drawing_area();
    root.fill(&WHITE)?;
    let body = root.titled(title, ("sans-serif", 18))?;
    for (panel, metric) in body.split_evenly((metrics.len().max(1), 1)).iter().zip(&metrics) {
        let shown: Vec<&Record> = of(records, metric).collect();
        let unit = shown.first().map_or("", |record| &record.unit);
        let (low, high) = range(shown.iter().map(|record| record.median));
        let name = |index: usize| {
            // The first record stands on top.
            let record = shown.get(shown.len().checked_sub(index + 1)?)?;
            Some(format!("{} {} w{}", record.peer, record.param, record.workers))
        };
        let mut chart =
            ChartBuilder::on(panel).margin(10).x_label_area_size(36).y_label_area_size(200).build_cartesian_2d(
                (low / 2.0..high * 1.8).log_scale(),
                (0..shown.len().saturating_sub(1)).into_segmented(),
            )?;
        chart
            .configure_mesh()
            .disable_y_mesh()
            .x_desc(format!("{metric}, {unit}"))
            .x_labels(5)
            .x_label_formatter(&|value| figure(*value))
            .y_labels(shown.len())
            .y_label_formatter(&|place| match place {
                SegmentValue::CenterOf(index) => name(*index).unwrap_or_default(),
                _ => String::new(),
            })
            .draw()?;
        let bar = |(place, record): (usize, &&Record)| {
            let row = shown.len() - 1 - place;
            let corners = [(low / 2.0, SegmentValue::Exact(row)), (record.median, SegmentValue::Exact(row + 1))];
            let colour = if record.peer == "proto" { OURS } else { RIVALS[0] };
            let mut bar = Rectangle::new(corners, colour.mix(0.8).filled());
            bar.set_margin(4, 4, 0, 0);
            bar
        };
        chart.draw_series(shown.iter().enumerate().map(bar))?;
        let label = |(place, record): (usize, &&Record)| {
            let row = shown.len() - 1 - place;
            let foot = (record.median, SegmentValue::CenterOf(row));
            let text = Text::new(figure(record.median), (4, -6), ("sans-serif", 12));
            EmptyElement::at(foot) + text
        };
        chart.draw_series(shown.iter().enumerate().map(label))?;
    }
    root.present().map_err(|error| anyhow!("{}: {error}", file.display()))
}

/// The records of one metric.
fn of<'a>(records: &'a [Record], metric: &'a str) -> impl Iterator<Item = &'a Record> {
    records.iter().filter(move |record| record.metric == metric)
}
