//! Graphs that are made once and run again.

mod common;

use std::panic::{AssertUnwindSafe, catch_unwind};

use common::{in_runtime, sized};
use proto_lang_tasks::{Data, KeptGraph, Reduction, dataflow};

#[test]
fn a_wave_front_gives_the_same_whenever_it_runs() {
    const N: usize = sized(12, 4);
    let cells: Vec<Data<u64>> = (0..N * N).map(|_| Data::new(1)).collect();
    let total = Data::new(0);
    in_runtime(2, || {
        let mut graph = KeptGraph::record(|df| {
            for (row, column) in (1..N).flat_map(|row| (1..N).map(move |column| (row, column))) {
                let (above, left) = (&cells[(row - 1) * N + column], &cells[row * N + column - 1]);
                df.task().input(above).input(left).output(&cells[row * N + column]).again(|above, left, cell| {
                    *cell = above + left;
                });
            }
            df.task().input(&cells[N * N - 1]).inout(&total).again(|last, total| *total += last);
        });
        (0..5).for_each(|_| graph.run());
    });
    // The corner of Pascal's triangle.
    assert_eq!(total.into_inner(), 5 * sized(705_432, 20) as u64);
}

#[test]
fn all_kinds_of_access_are_dependences_of_a_kept_graph() {
    static SUM: Reduction<u64> = Reduction::new(|| 0, |sum, part| *sum += part);
    let cells: Data<[u64]> = Data::from(vec![0; 100]);
    let (sum, list) = (Data::new(0), Data::new(Vec::new()));
    in_runtime(3, || {
        let mut graph = KeptGraph::record(|df| {
            for (number, tile) in cells.tiles(10).enumerate() {
                df.task().output(tile).again(move |tile| tile.fill(number as u64));
            }
            df.task().inout(cells.range(5..95)).again(|middle| middle.iter_mut().for_each(|x| *x += 1));
            for tile in cells.tiles(25) {
                df.task().input(tile).reduction(&sum, &SUM).again(|tile, sum| *sum += tile.iter().sum::<u64>());
            }
            for number in 0..4 {
                df.task().input(&sum).commutative(&list).again(move |sum, list| list.push((*sum, number)));
            }
            df.task().inout(&list).again(|list| list.sort());
        });
        (0..3).for_each(|_| graph.run());
    });
    let expected = (1..=3).flat_map(|run| (0..4).map(move |number| (540 * run, number)));
    assert_eq!(list.into_inner(), Vec::from_iter(expected));
}

#[test]
fn a_kept_graph_that_panics_stops_says_so_and_heals_by_output() {
    let (x, runs) = (Data::new(0), Data::new(0));
    in_runtime(2, || {
        let mut turn = 0;
        let mut graph = KeptGraph::record(|df| {
            df.task().output(&x).again(move |x| {
                *x = 0;
                turn += 1;
                assert_ne!(turn, 2, "the second run");
            });
            df.task().input(&x).inout(&runs).again(|_, runs| *runs += 1);
        });
        graph.run();
        let panic = catch_unwind(AssertUnwindSafe(|| graph.run())).expect_err("the second run panics");
        assert!(panic.downcast_ref::<String>().is_some_and(|text| text.contains("the second run")));
        // What the second task was to write is poisoned: nobody writes it whole.
        assert!(graph.try_run().is_err());
    });
    let mut data = [x, runs];
    assert_eq!(data.each_mut().map(|data| data.poison().is_some()), [false, true]);
    assert_eq!(data.map(Data::into_inner)[1], 1);
}

#[test]
fn a_kept_graph_has_its_data_as_long_as_it_lives() {
    let x = Data::new(0);
    in_runtime(1, || {
        let mut graph = KeptGraph::record(|df| _ = df.task().inout(&x).again(|x| *x += 1));
        graph.run();
        assert!(catch_unwind(AssertUnwindSafe(|| dataflow(|df| _ = df.task().inout(&x).run(|x| *x += 10)))).is_err());
        drop(graph);
        dataflow(|df| _ = df.task().inout(&x).run(|x| *x += 100));
    });
    assert_eq!(x.into_inner(), 101);
}

#[test]
fn a_drawing_has_an_edge_for_each_wait_and_none_twice() {
    let (x, y) = (Data::new(0), Data::new(0));
    let mut graph = KeptGraph::record(|df| {
        df.task().label("write both").output(&x).output(&y).again(|_, _| ());
        df.task().label("read \"both\"").input(&x).input(&y).again(|_, _| ());
        df.task().label("read one").input(&x).again(|_| ());
        df.task().label("write").inout(&x).again(|_| ());
    });
    let expected = r#"digraph {
  t1 [label="write both"];
  t1 -> t2;
  t1 -> t3;
  t2 [label="read \"both\""];
  t2 -> t4;
  t3 [label="read one"];
  t3 -> t4;
  t4 [label="write"];
}
"#;
    assert_eq!(graph.dot(), expected);
}
