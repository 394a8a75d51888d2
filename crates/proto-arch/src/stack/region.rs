//! One region: a mapping cut into stacks of equal size, and a handle to one of them.
//!
//! # Who may do what
//!
//! | field | access |
//! |---|---|
//! | the pages of stack *n* | the holder of the one [`Stack`] for *n* |
//! | `Slot::owner` | written by that holder; read by it and by the signal handler of the thread that runs on the stack |
//! | `Slot::next` | under the arena's lock, while stack *n* is in the pool |
//! | `guarded` | under the arena's lock |
//!
//! A region lives, at one address, until its arena and all stacks of it are gone.

use std::fmt;
use std::ops::Deref;
use std::ptr::{self, NonNull};
use std::sync::OnceLock;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicPtr, AtomicU32};

use super::arena::Shared;
use super::map::{GuardKind, Mapping, ProtectBudget, page_size};
use super::registry::Entry;

/// How far the bases of neighbouring stacks are apart within their pages, see the head of `stack`.
const LINE: usize = 64;
/// After so many stacks the distances repeat. 16 lines leave three quarters of the first page to the frames.
const COLOURS: usize = 16;

/// Book-keeping of one stack: 16 bytes.
#[derive(Debug)]
pub(super) struct Slot {
    owner: AtomicPtr<()>,
    /// Name of the next stack in the pool, see [`Name`].
    pub(super) next: AtomicU32,
}

/// A mapping cut into stacks.
#[derive(Debug)]
pub(crate) struct Region {
    map: Mapping,
    /// The arena's shared part; it owns the region, so it outlives it.
    shared: NonNull<Shared>,
    number: u16,
    size: usize,
    guard: usize,
    kind: GuardKind,
    slots: Box<[Slot]>,
    /// Set once the region has its address.
    entry: OnceLock<Entry>,
}

// SAFETY: `shared` points to a `Shared`, which is `Sync`, owns this region and therefore outlives it. All else is `Send`
// and `Sync` by itself.
unsafe impl Send for Region {}
// SAFETY: as above.
unsafe impl Sync for Region {}

impl Region {
    /// Stacks a region can have: their index is the low half of a [`Name`].
    pub(super) const MAX_STACKS: usize = 1 << 16;

    /// Maps a region and makes it known to the registry.
    pub(super) fn map(
        shared: &Shared,
        number: u16,
        stacks: usize,
        size: usize,
        guard: usize,
        kind: GuardKind,
    ) -> std::io::Result<OwnedRegion> {
        debug_assert!(stacks <= Self::MAX_STACKS);
        let map = Mapping::reserve(stacks * (size + guard))?;
        let slots = (0..stacks)
            .map(|_| Slot { owner: AtomicPtr::new(ptr::null_mut()), next: AtomicU32::new(Name::NONE) })
            .collect();
        let region = Box::new(Self {
            map,
            shared: NonNull::from(shared),
            number,
            size,
            guard,
            kind,
            slots,
            entry: OnceLock::new(),
        });
        let region = OwnedRegion(NonNull::from(Box::leak(region)));
        region.entry.get_or_init(|| Entry::publish(region.0));
        Ok(region)
    }

    fn stride(&self) -> usize {
        self.size + self.guard
    }

    pub(crate) fn start(&self) -> usize {
        self.map.start()
    }

    pub(crate) fn end(&self) -> usize {
        self.map.start() + self.map.len()
    }

    pub(super) fn stacks(&self) -> usize {
        self.slots.len()
    }

    pub(super) fn slot(&self, index: u16) -> &Slot {
        &self.slots[usize::from(index)]
    }

    /// Makes the guard of stack `index` trap.
    ///
    /// # Safety
    ///
    /// - The caller holds the stack, and has not used it yet.
    pub(super) unsafe fn install_guard(&self, index: u16) -> std::io::Result<()> {
        let start = usize::from(index) * self.stride();
        // SAFETY: the guard's pages belong to nobody: a stack starts above them.
        unsafe { self.map.guard(start..start + self.guard, self.kind) }
    }

    /// What is at `address`, which lies in the region.
    pub(crate) fn locate(&self, address: usize) -> Place {
        let offset = address - self.start();
        let (index, within) = (offset / self.stride(), offset % self.stride());
        let slot_start = self.start() + index * self.stride();
        Place {
            // Acquire: pairs with the Release in `set_owner`, in case another thread set the owner before this one was
            // handed the stack.
            owner: self.slots[index].owner.load(Acquire),
            in_guard: within < self.guard,
            slot: slot_start..slot_start + self.stride(),
            size: self.size,
        }
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // First out of the registry, so that no signal handler finds what is unmapped next.
        if let Some(entry) = self.entry.get() {
            entry.withdraw();
        }
        if self.kind == GuardKind::Protect {
            let guarded = self.slots.iter().filter(|slot| slot.was_handed_out()).count();
            ProtectBudget::give(guarded);
        }
    }
}

/// The owner of a region. Not a `Box`: that would claim, whenever it is moved, that nobody else has a pointer to it, while
/// stacks and the registry do.
#[derive(Debug)]
pub(super) struct OwnedRegion(NonNull<Region>);

// SAFETY: it owns a `Region`, which is `Send` and `Sync`.
unsafe impl Send for OwnedRegion {}
// SAFETY: as above.
unsafe impl Sync for OwnedRegion {}

impl OwnedRegion {
    pub(super) fn pointer(&self) -> NonNull<Region> {
        self.0
    }
}

impl Deref for OwnedRegion {
    type Target = Region;

    fn deref(&self) -> &Region {
        // SAFETY: the region lives until its owner is dropped.
        unsafe { self.0.as_ref() }
    }
}

impl Drop for OwnedRegion {
    fn drop(&mut self) {
        // SAFETY: from `Box::leak`, and dropped once. No stack is left: the arena, which owns us, goes when the last has
        // come back.
        drop(unsafe { Box::from_raw(self.0.as_ptr()) });
    }
}

impl Slot {
    /// A slot that was in the pool once carries a name or the pool's end; a fresh one carries `NONE`.
    fn was_handed_out(&self) -> bool {
        // Relaxed: the region is being dropped, nobody else has it.
        self.next.load(Relaxed) != Name::NONE
    }
}

/// What the registry knows about an address in a region.
#[derive(Debug)]
pub(crate) struct Place {
    /// What [`Stack::set_owner`] last said, or null.
    pub(crate) owner: *mut (),
    /// Whether the address is in the guard.
    pub(crate) in_guard: bool,
    /// The addresses of guard and stack together.
    pub(crate) slot: std::ops::Range<usize>,
    /// Usable bytes of the stack.
    pub(crate) size: usize,
}

/// The name of a stack within its arena: region and index in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Name(u32);

impl Name {
    /// No stack, and never handed out.
    pub(super) const NONE: u32 = u32::MAX;
    /// No stack: the end of the pool's list. Region 0xFFFF is never made, so neither is a name.
    pub(super) const END: u32 = u32::MAX - 1;

    pub(super) fn new(region: u16, index: u16) -> Self {
        Self(u32::from(region) << 16 | u32::from(index))
    }

    pub(super) fn from_word(word: u32) -> Option<Self> {
        (word < Self::END).then_some(Self(word))
    }

    pub(super) fn word(self) -> u32 {
        self.0
    }

    pub(super) fn region(self) -> usize {
        (self.0 >> 16) as usize
    }

    pub(super) fn index(self) -> u16 {
        self.0 as u16
    }
}

/// A stack: the right to use one, until it is dropped or [given](super::StackArena::give) back to its pool.
///
/// The memory stays as it was left: the next user finds old contents, and pages once touched stay resident until
/// [`trim`](Self::trim).
///
/// # Examples
///
/// ```
/// use proto_arch::stack::{Stack, StackArena, StackOptions};
///
/// let mut stack: Stack = StackArena::new(StackOptions::with_size(128 * 1024))?.take()?;
/// assert!(stack.base() - stack.limit() <= stack.size());
/// assert!(stack.guard() > 0);
///
/// static OWNER: &str = "for the overflow report";
/// stack.set_owner((&raw const OWNER).cast());
/// assert!(stack.high_water() <= stack.size());
/// if stack.trim(16 * 1024) {
///     println!("it had been deep");
/// }
/// stack.set_owner(std::ptr::null()); // nobody's, before it goes back
/// # Ok::<(), proto_arch::stack::StackError>(())
/// ```
pub struct Stack {
    region: NonNull<Region>,
    index: u16,
}

// SAFETY: a stack is memory. It is not in use while it is only a `Stack`; who runs on it keeps the `Stack` in place.
unsafe impl Send for Stack {}
// SAFETY: `&Stack` gives addresses, sets an atomic word, and asks the kernel what is resident.
unsafe impl Sync for Stack {}

impl Stack {
    /// The one handle to a stack.
    ///
    /// # Safety
    ///
    /// - The stack is counted as handed out by its arena, so that the region stays.
    /// - There is no other `Stack` for it.
    pub(super) unsafe fn from_raw(region: NonNull<Region>, index: u16) -> Self {
        Self { region, index }
    }

    fn region(&self) -> &Region {
        // SAFETY: a region lives as long as there is a stack of it (the duty of `from_raw`).
        unsafe { self.region.as_ref() }
    }

    /// The highest address, where the first frame goes: stacks grow downwards. A multiple of 64; up to 960 bytes below the
    /// end of the stack's memory, see the head of [the module](crate::stack).
    #[inline]
    #[must_use]
    pub fn base(&self) -> usize {
        self.region().start() + self.end() - usize::from(self.index) % COLOURS * LINE
    }

    /// A pointer to `address`, which is in the stack's memory.
    #[cfg(not(miri))]
    pub(crate) fn pointer_to(&self, address: usize) -> NonNull<u8> {
        debug_assert!((self.limit()..self.limit() + self.size()).contains(&address));
        self.region().map.pointer_to(address)
    }

    /// Offset of the end of the stack's memory in its region.
    #[inline]
    fn end(&self) -> usize {
        (usize::from(self.index) + 1) * self.region().stride()
    }

    /// The lowest address that may be used. The guard is below it.
    #[inline]
    #[must_use]
    pub fn limit(&self) -> usize {
        self.region().start() + self.end() - self.size()
    }

    /// Bytes of memory, the guard not counted: as many as were asked for, up to 960 of them above [`base`](Self::base).
    #[inline]
    #[must_use]
    pub fn size(&self) -> usize {
        self.region().size
    }

    /// Bytes of the guard below [`limit`](Self::limit).
    #[must_use]
    pub fn guard(&self) -> usize {
        self.region().guard
    }

    /// Says on whose behalf the stack is used: the pointer that [`overflow`](crate::overflow) hands to the function
    /// that describes it. Null when nobody is. It must stay good for that function while it is set.
    #[inline]
    pub fn set_owner(&self, owner: *const ()) {
        // Release: pairs with the Acquire in `Region::locate`.
        self.region().slot(self.index).owner.store(owner.cast_mut(), Release);
    }

    /// Bytes from the end of the memory down to the deepest page that is resident: how deep the stack ever was since it was last
    /// trimmed, in whole pages. A system call per 64 pages; for reports and tests.
    #[must_use]
    pub fn high_water(&self) -> usize {
        let region = self.region();
        let end = self.end();
        let range = end - self.size()..end;
        region.map.lowest_resident(range).map_or(0, |lowest| end - lowest)
    }

    /// Gives the memory below the top `keep` bytes (rounded up to pages) back to the system. Returns whether there was
    /// any.
    ///
    /// It looks at the one page below `keep` first, because a deep call touches every page it passes: so it costs one
    /// system call (half a microsecond) after a shallow use, and more only after a deep one. Call it when a stack goes back
    /// to a pool shared by cores, not between two uses on one core.
    ///
    /// `&mut`: nobody runs on the stack, or all that does is in the top `keep` bytes and *is* the caller.
    pub fn trim(&mut self, keep: usize) -> bool {
        let page = page_size();
        let keep = keep.div_ceil(page).saturating_mul(page);
        if keep >= self.size() {
            return false;
        }
        let region = self.region();
        let end = self.end();
        let cut = end - keep;
        if region.map.lowest_resident(cut - page..cut).is_none() {
            return false;
        }
        // SAFETY: this is the stack's one handle, and what is below a stack's used part is dead.
        unsafe { region.map.discard(end - self.size()..cut) }.is_ok()
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        let region = self.region();
        // Relaxed: who is handed the stack next sees it by the arena's lock.
        region.slot(self.index).owner.store(ptr::null_mut(), Relaxed);
        let name = Name::new(region.number, self.index);
        // SAFETY: this is the stack's one handle, and the region's arena is the stack's. Neither is used below.
        let kept = unsafe { Shared::put(region.shared, name) };
        // Last: it may free the arena, and the region with it.
        drop(kept);
    }
}

impl fmt::Debug for Stack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stack")
            .field("base", &format_args!("{:#x}", self.base()))
            .field("size", &self.size())
            .finish_non_exhaustive()
    }
}
