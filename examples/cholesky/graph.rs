//! A drawing of the tasks and of which waits for which: a graph that is kept, run, and written.

use std::fs;
use std::path::Path;

use faer::MatRef;
use layout::backends::svg::SVGWriter;
use layout::gv::{DotParser, GraphBuilder};
use proto_runtime::core::Runtime;
use proto_runtime::tasks::KeptGraph;

use crate::factor::Tiled;
use crate::tiles::{Tile, cut, join};

/// Factorises `matrix`, and returns the factor and the graph of the tasks, in the language of Graphviz.
///
/// # Errors
///
/// What the runtime says if it cannot.
pub(crate) fn drawn(matrix: MatRef<'_, f64>, size: usize, runtime: &Runtime) -> Result<(Tile, String), String> {
    let tiled = Tiled::new(cut(matrix, size), size);
    let run = || {
        let mut graph = KeptGraph::record(|df| tiled.make(df));
        graph.run();
        graph.dot()
    };
    let mut dot = runtime.run(run).map_err(|error| error.to_string())?;
    for (kernel, colour) in [("potrf", "#f4a582"), ("trsm", "#fddbc7"), ("syrk", "#d1e5f0"), ("gemm", "#92c5de")] {
        let label = format!("[label=\"{kernel}");
        dot = dot.replace(&label, &format!("[style=filled, fillcolor=\"{colour}\", {}", &label[1..]));
    }
    Ok((join(tiled.into_tiles(), matrix.nrows(), size), dot))
}

/// Writes a graph: laid out if the file's name ends in `.svg`, as it is if in `.dot`.
///
/// # Errors
///
/// A sentence for the user that names the file.
pub(crate) fn write(file: &Path, dot: &str) -> Result<(), String> {
    let name = file.display();
    let text = match file.extension().and_then(|ending| ending.to_str()) {
        Some("dot") => dot.to_owned(),
        Some("svg") => svg(dot).map_err(|error| format!("{name}: the graph cannot be laid out: {error}"))?,
        _ => return Err(format!("{name}: a graph is written to a file whose name ends in .svg or .dot")),
    };
    fs::write(file, text).map_err(|error| format!("{name}: {error}"))
}

fn svg(dot: &str) -> Result<String, String> {
    let mut builder = GraphBuilder::new();
    builder.visit_graph(&DotParser::new(dot).process()?);
    let mut writer = SVGWriter::new();
    builder.get().do_it(false, false, false, &mut writer);
    Ok(writer.finalize())
}
