//! Where control blocks come from: type-stable memory of the whole program.
//!
//! Blocks are made by the chunk, shared by all runtimes of the program, and never freed [design §2, `Waiters`]: a token
//! that outlives its runtime still points at a block. A core keeps a short list of its own; the rest lie here.

use std::sync::{Mutex, PoisonError};

use super::block::Block;

/// Blocks made at once: 64 KiB to 80 KiB of memory.
const CHUNK: usize = 256;
/// Blocks a core takes or gives back at once.
pub(crate) const BATCH: usize = 64;

struct Slab {
    free: Vec<&'static Block>,
    chunks: Vec<&'static [Block]>,
}

static SLAB: Mutex<Slab> = Mutex::new(Slab { free: Vec::new(), chunks: Vec::new() });

/// Moves up to [`BATCH`] free blocks into `into`, at least one.
pub(crate) fn take(into: &mut Vec<&'static Block>) {
    let mut slab = SLAB.lock().unwrap_or_else(PoisonError::into_inner);
    if slab.free.is_empty() {
        let chunk: Vec<Block> = (0..CHUNK).map(|_| Block::free()).collect();
        let chunk: &'static [Block] = Box::leak(chunk.into_boxed_slice());
        chunk.iter().for_each(Block::settle);
        slab.chunks.push(chunk);
        slab.free.extend(chunk.iter().rev());
    }
    let keep = slab.free.len().saturating_sub(BATCH);
    into.extend(slab.free.drain(keep..));
}

/// One block, for a timeline that has no core (an attached OS thread).
pub(crate) fn take_one() -> &'static Block {
    let mut one = Vec::with_capacity(BATCH);
    take(&mut one);
    let block = one.pop().expect("take gives at least one block");
    give(&mut one, 0);
    block
}

/// Gives blocks back until `from` has `keep` left.
pub(crate) fn give(from: &mut Vec<&'static Block>, keep: usize) {
    let mut slab = SLAB.lock().unwrap_or_else(PoisonError::into_inner);
    slab.free.extend(from.drain(keep..));
}

/// Every block there is, free ones too. For listings: check birth numbers.
pub(crate) fn all() -> Vec<&'static [Block]> {
    SLAB.lock().unwrap_or_else(PoisonError::into_inner).chunks.clone()
}
