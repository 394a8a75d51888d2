//! The word that the owner and the thieves of a latent list share: `version | HARD | split | tail`.

/// A snapshot of the shared word. See the head of `latent`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Word(pub(super) u64);

impl Word {
    const SPLIT_SHIFT: u32 = 16;
    const INDEX: u64 = 0xffff;
    /// A hard thief has raised `split` and not yet looked at `head`: nothing is public.
    const HARD: u64 = 1 << 32;
    const VERSION: u64 = 1 << 33;

    /// The oldest entry that was not stolen.
    pub(super) fn tail(self) -> u32 {
        (self.0 & Self::INDEX) as u32
    }

    /// The first private entry.
    #[inline(always)]
    pub(super) fn split(self) -> u32 {
        (self.0 >> Self::SPLIT_SHIFT & Self::INDEX) as u32
    }

    pub(super) fn is_hard(self) -> bool {
        self.0 & Self::HARD != 0
    }

    /// Whether cheap thieves find something.
    pub(super) fn has_public(self) -> bool {
        !self.is_hard() && self.tail() < self.split()
    }

    /// The same with the oldest entry stolen.
    pub(super) fn stolen_from(self) -> Word {
        Word(self.0 + 1)
    }

    /// The next version, with these bounds.
    pub(super) fn with(self, tail: u32, split: u32) -> Word {
        let version = (self.0 & !(Self::VERSION - 1)).wrapping_add(Self::VERSION);
        Word(version | u64::from(split) << Self::SPLIT_SHIFT | u64::from(tail))
    }

    /// The same, not yet public.
    pub(super) fn hard(self) -> Word {
        Word(self.0 | Self::HARD)
    }
}
