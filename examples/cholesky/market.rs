//! Matrices in files of the MatrixMarket format, <https://math.nist.gov/MatrixMarket/formats.html>.
//!
//! Read are real and integer matrices, `coordinate` or `array`, `symmetric` or `general`. The reader is strict: a factorisation of a matrix that was misread
//! looks as good as any other. (The best kept crate that reads this format, nalgebra-sparse, would bring a second linear algebra.)

use std::fmt::Write as _;
use std::path::Path;
use std::{fs, iter};

use faer::Mat;

/// The most rows a matrix may have here: all values are kept, zeros as well, and 2 GiB is enough.
pub(crate) const MOST: usize = 16_384;

/// What is wrong, and in which line if it is in one.
type Wrong = (Option<usize>, String);

/// Reads a symmetric matrix.
///
/// # Errors
///
/// A sentence for the user: the file, the line, and what is wrong with it.
pub(crate) fn read(file: &Path) -> Result<Mat<f64>, String> {
    let name = file.display();
    let text = fs::read_to_string(file).map_err(|error| format!("{name}: {error}"))?;
    parse(&text).map_err(|(line, what)| match line {
        Some(line) => format!("{name}:{line}: {what}"),
        None => format!("{name}: {what}"),
    })
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Format {
    Coordinate,
    Array,
}

fn parse(text: &str) -> Result<Mat<f64>, Wrong> {
    let mut lines = (1..).zip(text.lines());
    let (_, header) = lines.next().ok_or((None, "the file is empty".to_owned()))?;
    let (format, symmetric) = parse_header(header).map_err(|what| (Some(1), what))?;

    let mut lines = lines.filter(|(_, line)| !line.starts_with('%') && !line.trim().is_empty());
    let (line, sizes) = lines.next().ok_or((None, "the file ends before the line with the sizes".to_owned()))?;
    let (n, entries) = parse_sizes(sizes, format, symmetric).map_err(|what| (Some(line), what))?;

    // NaN, which no file may give, is what has not been given.
    let mut matrix = Mat::from_fn(n, n, |_, _| f64::NAN);
    let mut places = (0..n).flat_map(|column| (if symmetric { column } else { 0 }..n).map(move |row| (row, column)));
    let mut given = 0;
    for (line, text) in lines {
        let entry = match format {
            Format::Coordinate => parse_entry(text, n),
            Format::Array => parse_value(text).map(|value| (places.next().unwrap_or_default(), value)),
        };
        let ((row, column), value) = entry.map_err(|what| (Some(line), what))?;
        let wrong = |what| Err((Some(line), what));
        if given == entries {
            return wrong(format!("one entry more than the {entries} that there should be"));
        }
        if symmetric && row < column {
            let place = format!("({}, {})", row + 1, column + 1);
            return wrong(format!("{place} is above the diagonal; of a symmetric matrix only what is below is given"));
        }
        if !matrix[(row, column)].is_nan() {
            return wrong(format!("a second value for ({}, {})", row + 1, column + 1));
        }
        matrix[(row, column)] = value;
        given += 1;
    }
    if given < entries {
        return Err((None, format!("the file ends after {given} of {entries} entries")));
    }
    complete(matrix, symmetric).map_err(|what| (None, what))
}

/// The first line: the format, and whether only the lower triangle is given.
fn parse_header(line: &str) -> Result<(Format, bool), String> {
    let words: Vec<String> = line.split_whitespace().map(str::to_ascii_lowercase).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let ["%%matrixmarket", "matrix", format, field, symmetry] = words[..] else {
        return Err(
            "not a MatrixMarket file: it should begin with `%%MatrixMarket matrix FORMAT FIELD SYMMETRY`".into()
        );
    };
    let format = match format {
        "coordinate" => Format::Coordinate,
        "array" => Format::Array,
        other => return Err(format!("format `{other}`, which is neither `coordinate` nor `array`")),
    };
    if !matches!(field, "real" | "integer") {
        return Err(format!("values that are `{field}`; only `real` and `integer` ones can be factorised here"));
    }
    match symmetry {
        "symmetric" => Ok((format, true)),
        "general" => Ok((format, false)),
        other => Err(format!("a matrix that is `{other}`; only `symmetric` and `general` ones can be factorised here")),
    }
}

/// The line with the sizes: how many rows there are, and how many entries follow.
fn parse_sizes(line: &str, format: Format, symmetric: bool) -> Result<(usize, usize), String> {
    let sizes: Result<Vec<usize>, _> = line.split_whitespace().map(str::parse).collect();
    let (rows, columns, entries) = match (format, sizes.as_deref()) {
        (Format::Coordinate, Ok(&[rows, columns, entries])) => (rows, columns, Some(entries)),
        (Format::Array, Ok(&[rows, columns])) => (rows, columns, None),
        (Format::Coordinate, _) => return Err(format!("`{line}` should be the numbers of rows, columns and entries")),
        (Format::Array, _) => return Err(format!("`{line}` should be the numbers of rows and columns")),
    };
    if rows != columns {
        return Err(format!("not square: {rows} rows and {columns} columns"));
    }
    if !(1..=MOST).contains(&rows) {
        return Err(format!("{rows} rows; there can be 1 to {MOST}"));
    }
    let all = if symmetric { rows * (rows + 1) / 2 } else { rows * rows };
    Ok((rows, entries.unwrap_or(all)))
}

/// An entry with its place.
fn parse_entry(line: &str, n: usize) -> Result<((usize, usize), f64), String> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [row, column, value] = words[..] else {
        return Err(format!("`{line}` should be a row, a column and a value"));
    };
    let index = |word: &str| match word.parse::<usize>() {
        Ok(index) if (1..=n).contains(&index) => Ok(index - 1),
        _ => Err(format!("`{word}` should be a row or column from 1 to {n}")),
    };
    Ok(((index(row)?, index(column)?), parse_value(value)?))
}

fn parse_value(word: &str) -> Result<f64, String> {
    match word.trim().parse::<f64>() {
        Ok(value) if value.is_finite() => Ok(value),
        _ => Err(format!("`{}` should be a finite number", word.trim())),
    }
}

/// Puts in what the file need not give.
fn complete(mut matrix: Mat<f64>, symmetric: bool) -> Result<Mat<f64>, String> {
    for (row, column) in (0..matrix.nrows()).flat_map(|row| (0..=row).map(move |column| (row, column))) {
        let value = |given: f64| if given.is_nan() { 0.0 } else { given };
        let (below, above) = (value(matrix[(row, column)]), value(matrix[(column, row)]));
        if !symmetric && below != above {
            let (row, column) = (row + 1, column + 1);
            return Err(format!("not symmetric: ({row}, {column}) is {below}, but ({column}, {row}) is {above}"));
        }
        (matrix[(row, column)], matrix[(column, row)]) = (below, below);
    }
    Ok(matrix)
}

/// A file with a symmetric matrix: `coordinate` if most of it is zeros, else `array`. `comment` is one line.
pub(crate) fn to_text(matrix: &Mat<f64>, comment: &str) -> String {
    let n = matrix.nrows();
    let entries: Vec<_> = (0..n)
        .flat_map(|column| (column..n).map(move |row| (row, column)))
        .map(|(row, column)| (row + 1, column + 1, matrix[(row, column)]))
        .collect();
    let others = entries.iter().filter(|(.., value)| *value != 0.0).count();
    let sparse = others < entries.len() / 2;
    let format = if sparse { "coordinate" } else { "array" };
    let mut text = format!("%%MatrixMarket matrix {format} real symmetric\n% {comment}\n");
    let sizes = [n, n].into_iter().chain(sparse.then_some(others)).map(|size| size.to_string());
    let lines =
        entries.iter().filter(|(.., value)| !sparse || *value != 0.0).map(|(row, column, value)| match sparse {
            true => format!("{row} {column} {value:?}"),
            false => format!("{value:?}"),
        });
    for line in iter::once(sizes.collect::<Vec<_>>().join(" ")).chain(lines) {
        let _ = writeln!(text, "{line}");
    }
    text
}
