//! That factors are right whatever the tiles and the cores; what is said of bad matrices and bad files; that the files here are what they say.

use std::fs;
use std::path::Path;

use clap::Parser;
use faer::Mat;
use proto_runtime::core::Runtime;

use crate::folder::Folder;
use crate::generate::{self, Kind};
use crate::tiles::{cut, join};
use crate::{Arguments, check, cholesky, graph, market, peers};

const KINDS: [Kind; 3] = [Kind::Random, Kind::Poisson, Kind::Covariance];

fn runtime(controllers: usize) -> Runtime {
    Runtime::builder().controllers(controllers).build().expect("a runtime")
}

/// What the program says, called with these arguments.
fn called(arguments: &[&str]) -> Result<(), String> {
    cholesky(&Arguments::parse_from(["cholesky"].iter().chain(arguments)))
}

#[test]
fn the_factor_is_right_for_all_kinds_of_matrix_and_any_tiles_on_any_number_of_cores() {
    for controllers in 1..=3 {
        let runtime = runtime(controllers);
        for (kind, (n, size)) in KINDS.into_iter().flat_map(|kind| {
            // One tile; smaller last tiles; tiles of one row.
            [(1, 1), (7, 16), (48, 16), (50, 16), (9, 1)].map(|shape| (kind, shape))
        }) {
            let matrix = generate::matrix(kind, n);
            let checked = check::factor(matrix.as_ref(), size, &runtime);
            let checked = checked.unwrap_or_else(|error| panic!("{kind:?}, {n} rows, tiles of {size}: {error}"));
            let tiles = n.div_ceil(size);
            assert_eq!(checked.tasks, tiles * (tiles + 1) * (tiles + 2) / 6, "tasks for {tiles} × {tiles} tiles");
        }
    }
}

#[test]
fn a_wrong_factor_is_found_out() {
    let matrix = generate::matrix(Kind::Random, 20);
    let (library, _) = peers::by_faer(matrix.as_ref(), faer::Par::Seq).expect("it is positive definite");
    let mut wrong = library.clone();
    wrong[(12, 5)] += 1e-6;
    let error = check::Checked::new(matrix.as_ref(), &wrong, &library, 0).expect_err("one value is wrong");
    assert!(error.starts_with("wrong: the residual is"), "{error}");
    wrong[(12, 5)] = f64::NAN;
    assert!(check::Checked::new(matrix.as_ref(), &wrong, &library, 0).is_err(), "NaN is no residual");
    // The residual does not change with the sign of a column.
    let mut other = library.clone();
    (0..20).for_each(|row| other[(row, 5)] *= -1.0);
    let error = check::Checked::new(matrix.as_ref(), &other, &library, 0).expect_err("not the library's factor");
    assert!(error.contains("from faer's factor"), "{error}");
}

#[test]
fn loops_of_rayon_give_the_same_factor_to_the_last_bit() {
    let (n, size) = (70, 16);
    let matrix = generate::matrix(Kind::Covariance, n);
    let mut tiles = cut(matrix.as_ref(), size);
    peers::by_rayon(&mut tiles, size);
    let loops = join(tiles, n, size).expect("positive definite");
    // The kernels, and for each tile their order, are the same.
    let (tasks, _) = graph::drawn(matrix.as_ref(), size, &runtime(2)).expect("it runs");
    assert_eq!(tasks, Ok(loops));
}

#[test]
fn the_first_pivot_that_is_not_positive_is_named_wherever_it_is() {
    let runtime = runtime(2);
    for row in [0, 15, 16, 40, 49] {
        let mut matrix = generate::matrix(Kind::Random, 50);
        matrix[(row, row)] = -1.0;
        let error = check::factor(matrix.as_ref(), 16, &runtime).expect_err("a negative value on the diagonal");
        let expected = format!("not positive definite: the pivot of row and column {} is not above zero", row + 1);
        assert_eq!(error, expected);
    }
}

#[test]
fn the_files_here_are_what_they_say_they_are() {
    for (name, kind, n) in [("poisson-144", Kind::Poisson, 144), ("covariance-48", Kind::Covariance, 48)] {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("examples/cholesky/data/{name}.mtx"));
        let matrix = market::read(&file).unwrap_or_else(|error| panic!("{error}"));
        assert!(matrix == generate::matrix(kind, n), "{name}: made anew it is another matrix");
        let text = fs::read_to_string(&file).expect("it was read before");
        assert_eq!(text, market::to_text(&matrix, &generate::comment(kind, n)), "{name}");
    }
}

#[test]
fn all_four_kinds_of_file_are_read() {
    let expected = faer::mat![[4.0, -1.5, 0.0], [-1.5, 5.0, 2.0], [0.0, 2.0, 6.0]];
    let folder = Folder::new("kinds");
    for (header, body) in [
        ("coordinate real symmetric", "3 3 5\n1 1 4\n2 2 5.0\n3 3 6e0\n2 1 -1.5\n3 2 +2\n"),
        ("coordinate real general", "3 3 7\n1 1 4\n2 2 5\n3 3 6\n2 1 -1.5\n1 2 -1.5\n3 2 2\n2 3 2\n"),
        ("array real symmetric", "3 3\n4\n-1.5\n0\n5\n2\n6\n"),
        ("ARRAY Real General", "% a comment\n\n3 3\n4\n-1.5\n0\n-1.5\n5\n2\n0\n2\n6"),
    ] {
        let file = folder.file("matrix.mtx", format!("%%MatrixMarket matrix {header}\n%\n{body}"));
        assert_eq!(market::read(&file).as_ref(), Ok(&expected), "{header}");
    }
    let file = folder.file("matrix.mtx", "%%MatrixMarket matrix array integer general\n1 1\n7\n");
    assert_eq!(market::read(&file), Ok(Mat::full(1, 1, 7.0)));
}

#[test]
fn what_is_wrong_with_a_file_is_said_with_its_line() {
    let folder = Folder::new("wrong");
    let (symmetric, array) =
        ("%%MatrixMarket matrix coordinate real symmetric", "%%MatrixMarket matrix array real general");
    for (text, said) in [
        (String::new(), ": the file is empty"),
        (
            "1 1\n".into(),
            ":1: not a MatrixMarket file: it should begin with `%%MatrixMarket matrix FORMAT FIELD SYMMETRY`",
        ),
        (
            "%%MatrixMarket matrix table real general".into(),
            ":1: format `table`, which is neither `coordinate` nor `array`",
        ),
        (
            "%%MatrixMarket matrix array complex general".into(),
            ":1: values that are `complex`; only `real` and `integer`",
        ),
        ("%%MatrixMarket matrix array real skew-symmetric".into(), ":1: a matrix that is `skew-symmetric`; only"),
        (format!("{symmetric}\n% nothing more"), ": the file ends before the line with the sizes"),
        (format!("{symmetric}\n3 3"), ":2: `3 3` should be the numbers of rows, columns and entries"),
        (format!("{array}\n\n3 three"), ":3: `3 three` should be the numbers of rows and columns"),
        (format!("{array}\n3 4"), ":2: not square: 3 rows and 4 columns"),
        (format!("{array}\n0 0"), ":2: 0 rows; there can be 1 to 16384"),
        (format!("{symmetric}\n99999999999 99999999999 1"), ":2: 99999999999 rows; there can be 1 to 16384"),
        (format!("{symmetric}\n2 2 2\n1 1 1\n"), ": the file ends after 1 of 2 entries"),
        (format!("{symmetric}\n2 2 1\n1 1 1\n2 2 1\n"), ":4: one entry more than the 1 that there should be"),
        (format!("{array}\n1 1\n1\n% and\n2"), ":5: one entry more than the 1 that there should be"),
        (format!("{symmetric}\n2 2 1\n1 1"), ":3: `1 1` should be a row, a column and a value"),
        (format!("{symmetric}\n2 2 1\n3 1 1"), ":3: `3` should be a row or column from 1 to 2"),
        (format!("{symmetric}\n2 2 1\n1 0 1"), ":3: `0` should be a row or column from 1 to 2"),
        (format!("{symmetric}\n2 2 1\n1 2 1"), ":3: (1, 2) is above the diagonal; of a symmetric matrix only"),
        (format!("{symmetric}\n2 2 2\n1 1 1\n1 1 1"), ":4: a second value for (1, 1)"),
        (format!("{symmetric}\n2 2 1\n1 1 NaN"), ":3: `NaN` should be a finite number"),
        (format!("{array}\n1 1\n1e999"), ":3: `1e999` should be a finite number"),
        (format!("{array}\n2 2\n1\n2\n3\n4"), ": not symmetric: (2, 1) is 2, but (1, 2) is 3"),
    ] {
        let file = folder.file("bad.mtx", &text);
        let error = market::read(&file).expect_err(&text);
        assert!(error.starts_with(&format!("{}{said}", file.display())), "{text:?} gave {error:?}, not {said:?}");
    }
}

#[test]
fn the_program_names_the_file_that_it_cannot_do() {
    let folder = Folder::new("program");
    let none = folder.path().join("none.mtx").display().to_string();
    assert!(called(&[&none]).expect_err("no file").starts_with(&format!("{none}: No such file")));
    let bad =
        folder.file("bad.mtx", "%%MatrixMarket matrix array real general\n2 2\n1\n2\n2\n1\n").display().to_string();
    let error = called(&[&bad]).expect_err("its eigenvalues are 3 and -1");
    assert_eq!(error, format!("{bad}: not positive definite: the pivot of row and column 2 is not above zero"));
    let error = called(&["--graph", "graph.png"]).expect_err("no such kind");
    assert_eq!(error, "graph.png: a graph is written to a file whose name ends in .svg or .dot");
}

#[test]
fn what_is_written_is_read_again_and_factorised() {
    let folder = Folder::new("written");
    let file = folder.path().join("covariance.mtx").display().to_string();
    for kind in ["random", "poisson", "covariance"] {
        assert_eq!(called(&["--kind", kind, "--n", "33", "--write", &file]), Ok(()), "{kind}");
        assert_eq!(called(&["--tile", "10", "--runs", "1", &file]), Ok(()), "{kind}");
    }
}

#[test]
fn the_graph_is_drawn_with_a_node_for_each_task_and_the_edges_that_there_must_be() {
    let folder = Folder::new("graph");
    let [dot, svg] = ["graph.dot", "graph.svg"].map(|name| folder.path().join(name));
    for file in [&dot, &svg] {
        assert_eq!(called(&["--graph", &file.display().to_string()]), Ok(()));
    }
    let dot = fs::read_to_string(dot).expect("written");
    let named = |name: &str| {
        let line = dot.lines().find(|line| line.contains(&format!("label=\"{name}\""))).expect(name);
        line.split_whitespace().next().expect("a name")
    };
    for (before, after) in
        [("potrf 0", "trsm 5 0"), ("trsm 1 0", "syrk 1 0"), ("trsm 2 0", "gemm 2 1 0"), ("syrk 5 4", "potrf 5")]
    {
        assert!(dot.contains(&format!("  {} -> {};", named(before), named(after))), "{before} -> {after}");
    }
    assert!(!dot.contains(&format!("  {} -> {};", named("trsm 2 0"), named("trsm 1 0"))), "they may run at once");
    let svg = fs::read_to_string(svg).expect("written");
    for (kernel, tasks) in [("potrf", 6), ("trsm", 15), ("syrk", 15), ("gemm", 20)] {
        assert_eq!(dot.matches(&format!("label=\"{kernel} ")).count(), tasks, "{kernel}");
        assert_eq!(svg.matches(&format!(">{kernel} ")).count(), tasks, "{kernel} in the drawing");
    }
}
