//! The picture of part 3: a panel for each number of timelines, a line for each peer.

use std::error::Error;
use std::fs;
use std::path::Path;

use plotters::prelude::*;

use crate::overhead::{PEERS, Peer, Point, TIMELINES};

/// Draws the ratios over the private work, both axes logarithmic, and writes the picture as SVG.
///
/// # Errors
/// If the folder or the file cannot be written.
pub(crate) fn draw(points: &[Point], cores: usize, path: &Path) -> Result<(), Box<dyn Error>> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    // Drawn in memory, for a backend that meets an error while it is dropped has nobody to tell.
    let mut picture = String::new();
    {
        let all = SVGBackend::with_string(&mut picture, (1080, 440)).into_drawing_area();
        all.fill(&WHITE)?;
        let all = all.titled(&format!("What one shared lock costs on {cores} cores"), ("sans-serif", 20))?;
        let panels = all.split_evenly((1, TIMELINES.len()));
        for (panel, timelines) in panels.iter().zip(TIMELINES) {
            draw_panel(panel, points, timelines)?;
        }
        all.present()?;
    }
    fs::write(path, picture)?;
    Ok(())
}

type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;

fn draw_panel(area: &Area<'_>, points: &[Point], timelines: usize) -> Result<(), Box<dyn Error>> {
    let works = points.iter().map(|point| point.work);
    let (least, most) = works.fold((f64::INFINITY, 0.0_f64), |(a, b), w| (a.min(w), b.max(w)));
    let worst = points.iter().map(|point| point.ratio).fold(3.0, f64::max);
    // Twice the worst: room for the legend above the lines.
    let mut chart = ChartBuilder::on(area)
        .caption(format!("T = {timelines} timelines"), ("sans-serif", 16))
        .margin(10)
        .margin_right(25)
        .x_label_area_size(45)
        .y_label_area_size(50)
        .build_cartesian_2d((least..most).log_scale(), (0.8..worst * 2.0).log_scale())?;
    chart
        .configure_mesh()
        .x_desc("private work between two locks (ns)")
        .y_desc("time × cores / work")
        .x_label_formatter(&|work| format!("{work:.0}"))
        .y_label_formatter(&|ratio| format!("{ratio:.0}"))
        .light_line_style(TRANSPARENT)
        .draw()?;
    for peer in PEERS {
        let colour = colour(peer);
        let line: Vec<(f64, f64)> = points
            .iter()
            .filter(|point| point.timelines == timelines && point.peer == peer)
            .map(|point| (point.work, point.ratio))
            .collect();
        chart
            .draw_series(LineSeries::new(line.iter().copied(), colour.stroke_width(2)))?
            .label(peer.name())
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], colour.stroke_width(2)));
        chart.draw_series(line.iter().map(|&point| Circle::new(point, 3, colour.filled())))?;
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperRight)
        .background_style(WHITE)
        .border_style(BLACK.mix(0.2))
        .draw()?;
    Ok(())
}

/// Colours that differ in brightness too.
fn colour(peer: Peer) -> RGBColor {
    match peer {
        Peer::NoLock => RGBColor(160, 160, 160),
        Peer::Threads => RGBColor(230, 140, 0),
        Peer::Vps => RGBColor(0, 80, 170),
    }
}
