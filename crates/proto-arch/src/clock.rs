//! Time for the price of reading a register: the processor's cycle counter, calibrated once.
//!
//! [`cycles`] is `rdtsc` (x86-64) or `cntvct_el0` (AArch64): 5–10 ns less than `Instant::now`, no call. [`Clock`] turns
//! it into nanoseconds with one multiplication. Neither instruction is serialising: a reading may be taken a few
//! nanoseconds early or late, which is right for ticks, deadlines and reports and wrong for timing ten instructions.
//!
//! # Where the frequency comes from
//!
//! 1. AArch64: the register `cntfrq_el0`.
//! 2. x86-64: CPUID leaf 0x15, or the hypervisor's leaf 0x4000_0010, where they are filled in.
//! 3. Otherwise two milliseconds of spinning against [`Instant`], once; the error is some 50 parts per million.
//!
//! An x86-64 processor whose counter stops or changes speed (no "invariant TSC" bit) cannot be used that way: there
//! [`Clock`] reads [`Instant`], and [`Clock::source`] says so. Under Miri likewise.
//!
//! Counters of different processors agree as far as the kernel keeps them so; time read on two processors may go back
//! by some nanoseconds. Code that subtracts must saturate, as [`Clock::since`] does.

use std::fmt;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// The cycle counter of this processor: counts at a constant rate, starts anywhere.
///
/// # Examples
///
/// ```
/// use proto_arch::clock::{Clock, cycles};
///
/// let start = cycles();
/// let words = ["a"; 100].concat();
/// let counted = cycles().saturating_sub(start); // another processor's counter may be behind
/// println!("{} bytes took {} ns", words.len(), Clock::get().to_nanoseconds(counted));
/// ```
#[inline(always)]
#[must_use]
pub fn cycles() -> u64 {
    counter::read()
}

/// What a [`Clock`] reads, and how it learnt the rate.
///
/// # Examples
///
/// ```
/// use proto_arch::clock::{Clock, Source};
///
/// let trust = match Clock::get().source() {
///     Source::Stated => "exact",
///     Source::Measured => "good to a part in ten thousand or so",
///     Source::Instant => "exact, and 20 times as slow to read",
///     _ => "unknown",
/// };
/// println!("the clock is {trust}");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Source {
    /// The cycle counter; the processor or the hypervisor states the rate.
    Stated,
    /// The cycle counter; the rate was measured against [`Instant`].
    Measured,
    /// [`Instant`], because there is no counter with a constant rate.
    Instant,
}

/// A clock that counts nanoseconds since the first [`Clock::get`] of the program.
///
/// # Examples
///
/// ```
/// use proto_arch::clock::Clock;
///
/// let clock = Clock::get();
/// let start = clock.now();
/// let nanoseconds = clock.since(start);
/// assert!(nanoseconds < 1_000_000_000);
/// ```
///
/// To wait a while by the counter alone:
///
/// ```
/// use proto_arch::clock::{Clock, cycles};
/// use std::time::Duration;
///
/// let clock = Clock::get();
/// println!("{:?}, {} MHz", clock.source(), clock.frequency() / 1_000_000);
/// let span = clock.to_cycles(Duration::from_micros(20));
/// let start = cycles();
/// while cycles().wrapping_sub(start) < span {
///     std::hint::spin_loop();
/// }
/// assert!(clock.to_nanoseconds(span) <= 20_000);
/// ```
#[derive(Clone, Copy)]
pub struct Clock {
    /// Counter at the clock's zero.
    zero: u64,
    /// Nanoseconds per count, as a binary fraction with `SHIFT` digits. 0 means "read `Instant`", see `slow_now`.
    nanoseconds_per_count: u64,
    frequency: u64,
    source: Source,
}

/// Digits of the binary fraction: a count of 2.6 GHz is 0.38 ns, kept to 2⁻³²: an error of 0.6 parts per billion.
const SHIFT: u32 = 32;

static CLOCK: OnceLock<Clock> = OnceLock::new();
/// Zero of the clock where it reads `Instant`, and the measure of the calibration.
static START: OnceLock<Instant> = OnceLock::new();

impl Clock {
    /// The clock of this machine. The first call may take two milliseconds to calibrate it; keep the copy.
    #[must_use]
    pub fn get() -> Self {
        *CLOCK.get_or_init(Self::calibrate)
    }

    /// Nanoseconds since the clock's zero.
    #[inline]
    #[must_use]
    pub fn now(&self) -> u64 {
        if self.nanoseconds_per_count == 0 {
            return slow_now();
        }
        self.to_nanoseconds(counter::read().wrapping_sub(self.zero))
    }

    /// Nanoseconds since `start`, an earlier [`now`](Self::now); 0 if another processor's counter was ahead.
    #[inline]
    #[must_use]
    pub fn since(&self, start: u64) -> u64 {
        self.now().saturating_sub(start)
    }

    /// The time span of `cycles` counts of [`cycles`], in nanoseconds. Where the source is [`Source::Instant`] the counter has no constant rate, and
    /// a count is taken for a nanosecond.
    #[inline]
    #[must_use]
    pub fn to_nanoseconds(&self, cycles: u64) -> u64 {
        if self.nanoseconds_per_count == 0 {
            // Without a usable rate `cycles` is itself `Instant`'s nanoseconds or meaningless.
            return cycles;
        }
        ((u128::from(cycles) * u128::from(self.nanoseconds_per_count)) >> SHIFT) as u64
    }

    /// How far [`cycles`] counts in `span`, rounded down; without a constant rate as in [`to_nanoseconds`](Self::to_nanoseconds).
    #[must_use]
    pub fn to_cycles(&self, span: Duration) -> u64 {
        let cycles = span.as_nanos() * u128::from(self.frequency) / 1_000_000_000;
        u64::try_from(cycles).unwrap_or(u64::MAX)
    }

    /// Counts of [`cycles`] per second; without a constant rate as in [`to_nanoseconds`](Self::to_nanoseconds).
    #[must_use]
    pub fn frequency(&self) -> u64 {
        self.frequency
    }

    /// What the clock reads, and how it learnt the rate.
    #[must_use]
    pub fn source(&self) -> Source {
        self.source
    }

    fn calibrate() -> Self {
        START.get_or_init(Instant::now);
        if !counter::is_constant() {
            return Self { zero: 0, nanoseconds_per_count: 0, frequency: 1_000_000_000, source: Source::Instant };
        }
        let (frequency, source) = match counter::stated_frequency() {
            Some(frequency) => (frequency, Source::Stated),
            None => (measured_frequency(), Source::Measured),
        };
        Self {
            zero: counter::read(),
            nanoseconds_per_count: (1_000_000_000_u64 << SHIFT) / frequency,
            frequency,
            source,
        }
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Clock")
            .field("frequency", &self.frequency)
            .field("source", &self.source)
            .finish_non_exhaustive()
    }
}

#[cold]
fn slow_now() -> u64 {
    START.get_or_init(Instant::now).elapsed().as_nanos() as u64
}

/// Counts per second, by watching the counter for two milliseconds.
fn measured_frequency() -> u64 {
    const SPAN: Duration = Duration::from_millis(2);
    // A reading between two readings of `Instant`, the closest of several: an interrupt between them does no harm.
    fn sample() -> (Instant, u64) {
        let mut best = (Duration::MAX, Instant::now(), 0);
        for _ in 0..5 {
            let before = Instant::now();
            let count = counter::read();
            let width = before.elapsed();
            if width < best.0 {
                best = (width, before + width / 2, count);
            }
        }
        (best.1, best.2)
    }
    let (start, first) = sample();
    while start.elapsed() < SPAN {
        std::hint::spin_loop();
    }
    let (end, last) = sample();
    let nanoseconds = end.duration_since(start).as_nanos().max(1);
    let counts = u128::from(last.wrapping_sub(first));
    ((counts * 1_000_000_000 / nanoseconds) as u64).max(1)
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
mod counter {
    use std::arch::x86_64::{__cpuid, _rdtsc};

    #[inline(always)]
    pub(super) fn read() -> u64 {
        // SAFETY: every x86-64 processor has the instruction, and Linux leaves it enabled for user code.
        unsafe { _rdtsc() }
    }

    fn cpuid(leaf: u32) -> std::arch::x86_64::CpuidResult {
        #[allow(unused_unsafe, reason = "safe in newer compilers, unsafe in our oldest")]
        // SAFETY: every x86-64 processor has the instruction; an unknown leaf gives zeros or another leaf's values,
        // and the callers ask for the highest leaf first.
        unsafe {
            __cpuid(leaf)
        }
    }

    /// The "invariant TSC" bit: constant rate in all power states.
    pub(super) fn is_constant() -> bool {
        const POWER: u32 = 0x8000_0007;
        cpuid(0x8000_0000).eax >= POWER && cpuid(POWER).edx & (1 << 8) != 0
    }

    pub(super) fn stated_frequency() -> Option<u64> {
        crystal().or_else(hypervisor)
    }

    /// Leaf 0x15: crystal frequency in ecx, times ebx / eax.
    fn crystal() -> Option<u64> {
        if cpuid(0).eax < 0x15 {
            return None;
        }
        let leaf = cpuid(0x15);
        if leaf.eax == 0 || leaf.ebx == 0 || leaf.ecx == 0 {
            return None;
        }
        Some(u64::from(leaf.ecx) * u64::from(leaf.ebx) / u64::from(leaf.eax))
    }

    /// Leaf 0x4000_0010: the rate in kHz, by the convention of VMware, which KVM and Xen can follow.
    fn hypervisor() -> Option<u64> {
        const PRESENT: u32 = 1 << 31;
        const TIMING: u32 = 0x4000_0010;
        if cpuid(1).ecx & PRESENT == 0 {
            return None;
        }
        let highest = cpuid(0x4000_0000).eax;
        if !(TIMING..0x4001_0000).contains(&highest) {
            return None;
        }
        let kilohertz = cpuid(TIMING).eax;
        (kilohertz != 0).then(|| u64::from(kilohertz) * 1_000)
    }
}

#[cfg(all(target_arch = "aarch64", not(miri)))]
mod counter {
    use std::arch::asm;

    #[inline(always)]
    pub(super) fn read() -> u64 {
        let count: u64;
        // SAFETY: Linux lets user code read the virtual counter (it emulates it where the hardware is broken).
        unsafe { asm!("mrs {}, cntvct_el0", out(reg) count, options(nomem, nostack)) };
        count
    }

    /// The architecture demands a constant rate.
    pub(super) fn is_constant() -> bool {
        stated_frequency().is_some()
    }

    pub(super) fn stated_frequency() -> Option<u64> {
        let frequency: u64;
        // SAFETY: readable by user code, as the counter is.
        unsafe { asm!("mrs {}, cntfrq_el0", out(reg) frequency, options(nomem, nostack)) };
        (frequency != 0).then_some(frequency)
    }
}

#[cfg(miri)]
mod counter {
    pub(super) fn read() -> u64 {
        super::slow_now()
    }
    pub(super) fn is_constant() -> bool {
        false
    }
    pub(super) fn stated_frequency() -> Option<u64> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(not(miri))] // there it is the same clock
    fn agrees_with_instant_within_one_percent() {
        let clock = Clock::get();
        // The closest of several spans, so that a moment of preemption between two readings does not count.
        let best = (0..20)
            .map(|_| {
                let (instant, start) = (Instant::now(), clock.now());
                while instant.elapsed() < Duration::from_millis(5) {
                    std::hint::spin_loop();
                }
                let (ours, theirs) = (clock.since(start) as f64, instant.elapsed().as_nanos() as f64);
                (ours / theirs - 1.0).abs()
            })
            .fold(f64::INFINITY, f64::min);
        assert!(best < 0.01, "{clock:?} is off by {:.2} %", best * 100.0);
    }

    #[test]
    fn conversions_are_inverse() {
        let clock = Clock::get();
        let span = Duration::from_secs(3_600);
        let back = clock.to_nanoseconds(clock.to_cycles(span));
        let error = back.abs_diff(span.as_nanos() as u64);
        assert!(error < 10_000, "an hour there and back is off by {error} ns");
    }

    #[test]
    fn never_goes_back_on_one_thread() {
        let clock = Clock::get();
        let mut last = clock.now();
        for _ in 0..if cfg!(miri) { 10 } else { 100_000 } {
            let now = clock.now();
            assert!(now >= last, "{now} after {last}");
            last = now;
        }
    }
}
