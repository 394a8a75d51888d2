//! The system calls under a region of stacks: map, guard, give back, ask what is resident.
//!
//! Offsets are in bytes from the mapping's start. Everything is a multiple of [`page_size`].

use std::ops::Range;
use std::ptr::NonNull;
use std::sync::OnceLock;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::{fs, io, ptr};

/// Bytes of a page: 4 KiB, on some AArch64 systems 16 or 64 KiB.
pub(super) fn page_size() -> usize {
    static PAGE: OnceLock<usize> = OnceLock::new();
    *PAGE.get_or_init(|| {
        // SAFETY: sysconf has no precondition.
        let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
        usize::try_from(size).unwrap_or(4096)
    })
}

/// Private, anonymous memory that is committed page by page, when touched. Unmapped on drop.
#[derive(Debug)]
pub(crate) struct Mapping {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: the mapping is address space, not tied to a thread; what may be done with its pages at a time is the business
// of the callers of the unsafe functions below.
unsafe impl Send for Mapping {}
// SAFETY: as above; the safe functions only read the two fields.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Reserves `len` bytes, readable and writable.
    pub(crate) fn reserve(len: usize) -> io::Result<Self> {
        // Miri knows the plain form only.
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | if cfg!(miri) { 0 } else { libc::MAP_NORESERVE };
        // SAFETY: a mapping at an address of the kernel's choice replaces nothing.
        let start = unsafe { libc::mmap(ptr::null_mut(), len, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        let mapping = Self { start, len };
        // With huge pages "always", one touch would make 2 MiB resident: some thirty stacks. A kernel without them
        // answers EINVAL, which is as good.
        // SAFETY: the advice changes no contents.
        let _ = unsafe { mapping.advise(0..len, libc::MADV_NOHUGEPAGE) };
        Ok(mapping)
    }

    pub(crate) fn start(&self) -> usize {
        self.start.as_ptr() as usize
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// A pointer to `address`, which is in the mapping.
    #[cfg(not(miri))]
    pub(crate) fn pointer_to(&self, address: usize) -> NonNull<u8> {
        NonNull::new(self.start.as_ptr().with_addr(address)).expect("a mapping does not contain address zero")
    }

    /// madvise on a part of the mapping.
    ///
    /// # Safety
    ///
    /// - `advice` does to the contents of `range` only what their owner has agreed to.
    unsafe fn advise(&self, range: Range<usize>, advice: libc::c_int) -> io::Result<()> {
        assert!(range.end <= self.len, "range outside of the mapping");
        if cfg!(miri) {
            return Ok(());
        }
        let start = self.start.as_ptr().wrapping_add(range.start);
        // SAFETY: the range lies inside the mapping (asserted); its owner agrees (the caller's duty).
        let result = unsafe { libc::madvise(start.cast(), range.len(), advice) };
        if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// Makes every access to `range` trap.
    ///
    /// # Safety
    ///
    /// - Nobody needs the contents of `range`, now or later.
    pub(super) unsafe fn guard(&self, range: Range<usize>, kind: GuardKind) -> io::Result<()> {
        match kind {
            // SAFETY: the contents of the range are lost, which the caller allows.
            GuardKind::Marker => unsafe { self.advise(range, MADV_GUARD_INSTALL) },
            GuardKind::Protect => {
                assert!(range.end <= self.len, "range outside of the mapping");
                if cfg!(miri) {
                    return Ok(());
                }
                let start = self.start.as_ptr().wrapping_add(range.start);
                // SAFETY: the range lies inside the mapping (asserted), and nobody accesses it (the caller's duty).
                let result = unsafe { libc::mprotect(start.cast(), range.len(), libc::PROT_NONE) };
                if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
            }
        }
    }

    /// Gives the memory of `range` back to the system; it reads as zeros afterwards.
    ///
    /// # Safety
    ///
    /// - Nobody needs the contents of `range`.
    pub(super) unsafe fn discard(&self, range: Range<usize>) -> io::Result<()> {
        // SAFETY: the contents of the range are lost, which the caller allows.
        unsafe { self.advise(range, libc::MADV_DONTNEED) }
    }

    /// Offset of the lowest page in `range` that has memory. None if no page has.
    pub(super) fn lowest_resident(&self, range: Range<usize>) -> Option<usize> {
        assert!(range.end <= self.len, "range outside of the mapping");
        const CHUNK: usize = 64;
        let page = page_size();
        let mut pages = [0_u8; CHUNK];
        let mut offset = range.start;
        while offset < range.end && !cfg!(miri) {
            let count = ((range.end - offset) / page).min(CHUNK);
            let start = self.start.as_ptr().wrapping_add(offset);
            // SAFETY: the range lies inside the mapping (asserted), and `pages` has a byte for each of the pages.
            let result = unsafe { libc::mincore(start.cast(), count * page, pages.as_mut_ptr()) };
            if result != 0 {
                return None;
            }
            if let Some(first) = pages[..count].iter().position(|flags| flags & 1 != 0) {
                return Some(offset + first * page);
            }
            offset += count * page;
        }
        None
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours and whole, and whoever drops it knows that no stack in it is in use.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.len) };
    }
}

/// How a page is made to trap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GuardKind {
    /// A marker in the page table: no mapping (Linux 6.13).
    Marker,
    /// `mprotect`: two mappings.
    Protect,
}

/// From the kernel's `asm-generic/mman-common.h`; not in every libc yet.
const MADV_GUARD_INSTALL: libc::c_int = 102;

/// Whether this kernel can mark guards. Tried once, on a page of its own.
pub(super) fn has_guard_markers() -> bool {
    static HAS: OnceLock<bool> = OnceLock::new();
    *HAS.get_or_init(|| {
        let page = page_size();
        Mapping::reserve(page).is_ok_and(|mapping| {
            // SAFETY: the page has just been mapped; nobody knows it.
            unsafe { mapping.guard(0..page, GuardKind::Marker) }.is_ok()
        })
    })
}

/// The stacks of this process that have a protected page.
static PROTECTED: AtomicUsize = AtomicUsize::new(0);

/// How many may have one, and the limit that follows from.
#[derive(Clone, Copy, Debug)]
pub(super) struct ProtectBudget {
    pub(super) stacks: usize,
    pub(super) max_map_count: usize,
}

impl ProtectBudget {
    /// Half of the mappings that were left when it was first asked for, less a tenth.
    pub(super) fn get() -> Self {
        static BUDGET: OnceLock<ProtectBudget> = OnceLock::new();
        *BUDGET.get_or_init(|| {
            let max_map_count = fs::read_to_string("/proc/sys/vm/max_map_count")
                .ok()
                .and_then(|text| text.trim().parse().ok())
                .unwrap_or(65_530);
            let in_use = fs::read_to_string("/proc/self/maps").map_or(1_000, |maps| maps.lines().count());
            Self::of(max_map_count, in_use)
        })
    }

    fn of(max_map_count: usize, in_use: usize) -> Self {
        let left = max_map_count.saturating_sub(in_use);
        Self { stacks: left / 2 - left / 20, max_map_count }
    }

    /// Takes one from the budget. False if it is used up.
    pub(super) fn take(self) -> bool {
        // Relaxed: a count that orders nothing.
        PROTECTED.fetch_update(Relaxed, Relaxed, |used| (used < self.stacks).then_some(used + 1)).is_ok()
    }

    /// Gives `stacks` back, when their region is unmapped.
    pub(super) fn give(stacks: usize) {
        // Relaxed: as above.
        PROTECTED.fetch_sub(stacks, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budget_leaves_half_of_the_mappings_and_a_tenth() {
        let budget = ProtectBudget::of(65_530, 530);
        assert_eq!(budget.stacks, 32_500 - 3_250);
        assert_eq!(ProtectBudget::of(100, 200).stacks, 0);
    }

    #[test]
    #[cfg(not(miri))] // Miri does not know what is resident
    fn residence_follows_touch_and_discard() {
        let page = page_size();
        let mapping = Mapping::reserve(100 * page).expect("mapping");
        assert_eq!(mapping.lowest_resident(0..mapping.len()), None);
        let touched = (mapping.start() + 70 * page) as *mut u8;
        // SAFETY: inside the mapping, which nobody else knows.
        unsafe { touched.write(1) };
        assert_eq!(mapping.lowest_resident(0..mapping.len()), Some(70 * page));
        // SAFETY: nobody needs the byte written above.
        unsafe { mapping.discard(0..mapping.len()) }.expect("discard");
        assert_eq!(mapping.lowest_resident(0..mapping.len()), None);
    }
}
