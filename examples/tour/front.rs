//! Part 5: dataflow. How far two files are from each other, by a wave front of tiles.
//!
//! The table of distances of all beginnings of one text to all of the other (Wagner and Fischer) is computed in tiles. A tile needs its upper edge,
//! which the tile above leaves, and its left edge, which its left neighbour leaves; it overwrites both with what the next ones need.
//!
//! ```text
//!            down[0]  down[1]  down[2]
//!   right[0] ┌──────┬────────┬────────┐     A task reads and writes one of `down` and one of `right`.
//!            │ 0, 0 →  0, 1  →  0, 2  │     All that can run at once lies on a diagonal; nobody has to say so.
//!   right[1] ├──↓───┼───↓────┼───↓────┤
//!            │ 1, 0 →  1, 1  →  1, 2  │
//!            └──────┴────────┴────────┘
//! ```

use std::path::Path;

use indicatif::HumanCount;
use proto_lang_tasks::{Data, dataflow};
use rayon::prelude::*;

use crate::rivals::{self, With};
use crate::search::{Found, name};

/// Bytes of each text that are compared: the table has the square of it.
const COMPARED: usize = 16 << 10;

/// The side of a tile. One takes some fifteen microseconds.
const TILE: usize = 128;

/// Compares the two files that have the passage of part 4, on one core and on all, and prints how far they are from each other.
///
/// # Errors
/// A sentence for the user: a side could not be started, or came to another result.
pub(crate) fn run(found: &Found, root: &Path, runs: usize, quick: bool) -> Result<(), String> {
    let Some(passage) = &found.passage else {
        println!("   Left out, for no two files have a passage in common: name a folder with more text.");
        return Ok(());
    };
    let owners = passage.owners(&found.texts);
    let most = if quick { COMPARED / 2 } else { COMPARED };
    let [a, b] = owners.map(|text| &text.bytes[..text.bytes.len().min(most)]);
    let [first, second] = owners.map(|text| name(text, root));
    let [of_first, of_second] = [a, b].map(|text| HumanCount(text.len() as u64));
    println!("   How far apart are {first} ({of_first} bytes) and {second} ({of_second})?");
    println!(
        "   {} × {} tiles, each after the ones above and to the left. Two loops, as they are, as dataflow tasks, and by\n   \
         rayon with a barrier after each diagonal: examples/tour/front.rs.\n",
        a.len().div_ceil(TILE),
        b.len().div_ceil(TILE),
    );
    let distance = rivals::compare(runs, |with, laps| {
        let distance = distance(with, a, b);
        laps.end("the table of tiles");
        distance
    })?;
    println!(
        "\n   All agree: {} bytes put in, taken out or replaced make one of the other.",
        HumanCount(distance.into())
    );
    Ok(())
}

fn distance(with: With, a: &[u8], b: &[u8]) -> u32 {
    match with {
        With::Plain => by_loops(a, b),
        With::Tasks => by_dataflow(a, b),
        With::Rayon => by_diagonals(a, b),
    }
}

/// What the tiles leave to the next: below each column of tiles, and to the right of each row.
struct Edges {
    down: Vec<Vec<u32>>,
    right: Vec<Vec<u32>>,
}

impl Edges {
    /// The distances of the beginnings to nothing.
    fn new(a: &[u8], b: &[u8]) -> Edges {
        let stretch = |from: usize, to: usize| (from as u32..=to as u32).collect();
        let starts = |length| (0..length).step_by(TILE);
        let down = starts(b.len()).map(|start| stretch(start, b.len().min(start + TILE)));
        let right = starts(a.len()).map(|start| stretch(start + 1, a.len().min(start + TILE)));
        Edges { down: down.collect(), right: right.collect() }
    }
}

/// The distance of the whole texts: the last corner.
fn corner(down: Option<Vec<u32>>, a: &[u8]) -> u32 {
    down.map_or(a.len() as u32, |edge| edge[edge.len() - 1])
}

/// Fills a tile. `top` begins with the corner that it shares with the tile to the left, `left` below that.
fn tile(a: &[u8], b: &[u8], top: &mut [u32], left: &mut [u32]) {
    for (x, left) in a.iter().zip(left) {
        let mut west = *left;
        let mut north_west = std::mem::replace(&mut top[0], west);
        for (y, north) in b.iter().zip(&mut top[1..]) {
            // What is known without the cell to the west comes first: only the rest of it waits for that cell.
            let from_north = (north_west + u32::from(x != y)).min(*north + 1);
            west = from_north.min(west + 1);
            north_west = std::mem::replace(north, west);
        }
        *left = west;
    }
}

fn by_loops(a: &[u8], b: &[u8]) -> u32 {
    let Edges { mut down, mut right } = Edges::new(a, b);
    for (rows, left) in a.chunks(TILE).zip(&mut right) {
        for (columns, top) in b.chunks(TILE).zip(&mut down) {
            tile(rows, columns, top, left);
        }
    }
    corner(down.pop(), a)
}

fn by_dataflow(a: &[u8], b: &[u8]) -> u32 {
    let edges = Edges::new(a, b);
    let mut down: Vec<_> = edges.down.into_iter().map(Data::new).collect();
    let right: Vec<_> = edges.right.into_iter().map(Data::new).collect();
    dataflow(|df| {
        for (rows, left) in a.chunks(TILE).zip(&right) {
            for (columns, top) in b.chunks(TILE).zip(&down) {
                df.task().inout(top).inout(left).run(move |top, left| tile(rows, columns, top, left));
            }
        }
    });
    corner(down.pop().map(Data::into_inner), a)
}

/// What is usual without dataflow: all tiles of a diagonal at once, and a barrier after each.
fn by_diagonals(a: &[u8], b: &[u8]) -> u32 {
    let Edges { mut down, mut right } = Edges::new(a, b);
    let (rows, columns): (Vec<_>, Vec<_>) = (a.chunks(TILE).collect(), b.chunks(TILE).collect());
    if rows.is_empty() || columns.is_empty() {
        return corner(down.pop(), a);
    }
    for diagonal in 0..rows.len() + columns.len() - 1 {
        let in_rows = (diagonal + 1).saturating_sub(columns.len())..rows.len().min(diagonal + 1);
        let in_columns = diagonal + 1 - in_rows.end..diagonal + 1 - in_rows.start;
        let lefts = rows[in_rows.clone()].par_iter().zip(&mut right[in_rows]);
        let tops = columns[in_columns.clone()].par_iter().zip(&mut down[in_columns]);
        lefts.zip(tops.rev()).for_each(|((a, left), (b, top))| tile(a, b, top, left));
    }
    corner(down.pop(), a)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By the definition, without tiles.
    fn by_definition(a: &[u8], b: &[u8]) -> u32 {
        let mut row: Vec<u32> = (0..=b.len() as u32).collect();
        for (i, x) in a.iter().enumerate() {
            let above = row.clone();
            row[0] = i as u32 + 1;
            for (j, y) in b.iter().enumerate() {
                row[j + 1] = (above[j] + u32::from(x != y)).min(above[j + 1] + 1).min(row[j] + 1);
            }
        }
        row[b.len()]
    }

    /// Bytes of few values, in no order.
    fn text(length: usize, seed: u32) -> Vec<u8> {
        let mut state = seed;
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 30) as u8
        };
        (0..length).map(|_| next()).collect()
    }

    #[test]
    fn the_distance_is_the_number_of_edits() {
        for with in [With::Plain, With::Tasks, With::Rayon] {
            assert_eq!(distance(with, b"kitten", b"sitting"), 3, "{with:?}");
            assert_eq!(distance(with, b"", b"abc"), 3, "{with:?}");
            assert_eq!(distance(with, b"abc", b""), 3, "{with:?}");
            assert_eq!(distance(with, b"", b""), 0, "{with:?}");
        }
    }

    #[test]
    fn tiles_of_every_shape_make_up_the_whole_table() {
        for (i, j) in [(1, 1), (TILE, TILE), (TILE + 1, TILE - 1), (1, 4 * TILE), (3 * TILE + 5, 2 * TILE), (700, 900)]
        {
            let (a, b) = (text(i, 1), text(j, 2));
            let expected = by_definition(&a, &b);
            for with in [With::Plain, With::Tasks, With::Rayon] {
                assert_eq!(distance(with, &a, &b), expected, "{with:?}, {i} × {j} bytes");
            }
        }
    }
}
