//! What the processor can be told about memory that is about to be used.

/// Says that the line of memory at `place` is about to be written: it is fetched meanwhile, for this core alone.
///
/// For a line that another core has, and that is written behind something which takes as long (an exchange on a line of that
/// core's, say): both come in the time of one. A hint: `place` may be anything, nothing is read or written, and where the processor has no such
/// instruction nothing happens.
///
/// # Examples
///
/// ```
/// let mut next = 0_u64;
/// proto_arch::cache::about_to_write(&raw const next);
/// next += 1;
/// # assert_eq!(next, 1);
/// ```
#[inline(always)]
pub fn about_to_write<T: ?Sized>(place: *const T) {
    let place = place.cast::<u8>();
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: it faults at no address and changes nothing that the program can see. Processors without it take it for a no-op.
    unsafe {
        core::arch::asm!("prefetchw [{}]", in(reg) place, options(nostack, preserves_flags, readonly));
    }
    #[cfg(all(target_arch = "aarch64", not(miri)))]
    // SAFETY: as above.
    unsafe {
        core::arch::asm!("prfm pstl1keep, [{}]", in(reg) place, options(nostack, preserves_flags, readonly));
    }
    #[cfg(miri)]
    let _ = place;
}
