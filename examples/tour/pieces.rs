//! Files are read in *pieces*, so that thousands of timelines find work in a few files.
//!
//! A word belongs to the piece in which it begins: a piece skips the word that runs into it and reads on behind its end
//! until its own last word is complete. Pieces are therefore independent of each other, and the index does not depend on
//! where the cuts are.
//!
//! A cut is always at an ASCII byte that is neither letter nor digit, so no UTF-8 sequence is ever torn apart.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use crate::survey::TextFile;

/// A part of a file, small enough for one timeline to read at a time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Piece {
    /// Index of the file in the survey.
    pub(crate) file: usize,
    start: u64,
    end: u64,
}

/// Hands out the pieces of all files, one after the other.
#[derive(Debug)]
pub(crate) struct Pieces {
    file: usize,
    offset: u64,
    size: u64,
    done: u64,
    total: u64,
}

impl Pieces {
    /// Pieces such that each of `timelines` gets about one, within 256 bytes to 16 KiB: smaller ones would measure opening
    /// files, larger ones would let the texts waiting in the queue outweigh the timelines.
    pub(crate) fn new(files: &[TextFile], timelines: usize) -> Self {
        let total: u64 = files.iter().map(|file| file.len).sum();
        let size = (total / timelines as u64).clamp(256, 16 << 10);
        Self { file: 0, offset: 0, size, done: 0, total }
    }

    /// The next piece, and the share of all bytes handed out so far, in percent.
    pub(crate) fn next(&mut self, files: &[TextFile]) -> Option<(Piece, u64)> {
        while self.offset >= files.get(self.file)?.len {
            self.file += 1;
            self.offset = 0;
        }
        let start = self.offset;
        let end = (start + self.size).min(files[self.file].len);
        self.offset = end;
        self.done += end - start;
        Some((Piece { file: self.file, start, end }, self.done * 100 / self.total))
    }
}

/// Of a word, as far as one byte tells.
pub(crate) fn is_word_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || !byte.is_ascii()
}

/// Reads the words that begin in `piece` of the file at `path`.
///
/// # Errors
/// Those of the operating system. A file that became shorter is no error: what is left is read.
pub(crate) fn read_piece(path: &Path, piece: Piece) -> io::Result<Vec<u8>> {
    read(File::open(path)?, piece)
}

fn read(mut file: impl Read + Seek, piece: Piece) -> io::Result<Vec<u8>> {
    // One byte more at the front tells whether a word runs into this piece.
    let from = piece.start.saturating_sub(1);
    file.seek(SeekFrom::Start(from))?;
    let length = piece.end - from;
    // Room for the end of the last word too, so that the buffer seldom grows.
    let mut text = Vec::with_capacity(length as usize + 64);
    file.by_ref().take(length).read_to_end(&mut text)?;
    if piece.start > 0 {
        let foreign = text.iter().take_while(|&&byte| is_word_byte(byte)).count();
        text.drain(..foreign);
        if text.is_empty() {
            // All of it is inside one huge word that began before: its end is not searched for here.
            return Ok(text);
        }
    }
    while text.last().is_some_and(|&byte| is_word_byte(byte)) {
        let known = text.len();
        if file.by_ref().take(64).read_to_end(&mut text)? == 0 {
            break;
        }
        if let Some(cut) = text[known..].iter().position(|&byte| !is_word_byte(byte)) {
            text.truncate(known + cut);
            break;
        }
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;
    use crate::words::{Ranking, Shard, count};

    const TEXT: &str = "The cat, the CAT & th\u{e9}\u{2014}cat; a 2nd x9 \u{1F600} donaudampfschifffahrt\n\nthe";

    /// The index of `TEXT`, read in pieces of `size` bytes.
    fn indexed(size: u64) -> Ranking {
        let len = TEXT.len() as u64;
        let mut whole = Shard::default();
        for start in (0..len).step_by(size as usize) {
            let piece = Piece { file: 0, start, end: (start + size).min(len) };
            let text = read(Cursor::new(TEXT), piece).expect("memory can be read");
            for counted in count(&text) {
                whole.add(counted, piece.file);
            }
        }
        let mut ranking = Ranking::default();
        whole.rank(0, 1, &mut ranking);
        ranking
    }

    #[test]
    fn index_does_not_depend_on_where_the_cuts_are() {
        let whole = indexed(TEXT.len() as u64);
        for size in 1..TEXT.len() as u64 {
            assert_eq!(indexed(size), whole, "in pieces of {size} bytes");
        }
    }
}
