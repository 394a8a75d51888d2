//! What this process uses of the machine, as the kernel counts it.

use std::fs;
use std::time::Duration;

use anyhow::Context as _;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use rustix::time::{ClockId, clock_gettime};

/// Memory of this process at one moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Memory {
    /// Bytes that are in memory now.
    pub(crate) resident: u64,
    /// Mappings of the address space, which the kernel limits (`vm.max_map_count`).
    pub(crate) mappings: u64,
}

impl Memory {
    /// Reads it.
    pub(crate) fn now() -> anyhow::Result<Self> {
        let statm = fs::read_to_string("/proc/self/statm").context("cannot read /proc/self/statm")?;
        let pages = statm.split_whitespace().nth(1).context("no resident field in statm")?;
        let maps = fs::read("/proc/self/maps").context("cannot read /proc/self/maps")?;
        Ok(Self {
            resident: pages.parse::<u64>()? * rustix::param::page_size() as u64,
            mappings: maps.iter().filter(|&&byte| byte == b'\n').count() as u64,
        })
    }
}

/// Processor time this process has used, of all its threads, user and system.
///
/// The process clock and not `getrusage`: both count the same, but where the kernel accounts by
/// ticks, `getrusage` sees nothing of a thread that always sleeps before the tick.
pub(crate) fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// How much of the machine was used, and how much of that by this process and its children.
///
/// From `/proc/stat` and `/proc/self/stat`, which count in ticks of 10 ms: enough over seconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    all: f64,
    used: f64,
    own: f64,
}

impl Load {
    /// Reads the counters.
    pub(crate) fn now() -> anyhow::Result<Self> {
        let stat = fs::read_to_string("/proc/stat").context("cannot read /proc/stat")?;
        let line = stat.lines().next().context("/proc/stat is empty")?;
        let ticks: Vec<f64> = numbers(line.split_whitespace().skip(1))?;
        // user nice system idle iowait irq softirq steal; the rest is contained in the first two.
        let ticks = ticks.get(..8).context("/proc/stat has too few fields")?;
        let all = ticks.iter().sum::<f64>();
        let own = fs::read_to_string("/proc/self/stat").context("cannot read /proc/self/stat")?;
        // Counted from behind the name, which may contain blanks: utime stime cutime cstime.
        let fields = own.rsplit(')').next().unwrap_or_default().split_whitespace();
        let own = numbers(fields.skip(11).take(4))?.iter().sum();
        Ok(Self { all, used: all - ticks[3] - ticks[4], own })
    }

    /// The share of the machine that others used since `start`, in percent.
    pub(crate) fn others_since(&self, start: &Self) -> f64 {
        let others = (self.used - start.used) - (self.own - start.own);
        (others / (self.all - start.all).max(1.0) * 100.0).max(0.0)
    }
}

/// Parses every word as a number.
fn numbers<'a>(words: impl Iterator<Item = &'a str>) -> anyhow::Result<Vec<f64>> {
    words.map(|word| Ok(word.parse::<f64>()?)).collect()
}

/// Pins the calling thread to the `index`-th core of those it may use (counted around).
pub(crate) fn pin(index: usize) {
    let allowed = sched_getaffinity(None).expect("a thread may ask for its own CPU set");
    let cores: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|&core| allowed.is_set(core)).collect();
    let mut one = CpuSet::new();
    one.set(cores[index % cores.len()]);
    sched_setaffinity(None, &one).expect("the core is in the set that was just read");
}

/// Cores this process may use.
pub(crate) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn touched_memory_is_counted() {
        let before = Memory::now().expect("procfs is mounted");
        let block = std::hint::black_box(vec![1_u8; 32 << 20]);
        let after = Memory::now().expect("procfs is mounted");
        let grown = after.resident.saturating_sub(before.resident);
        assert!(grown >= 31 << 20, "32 MiB were written, {grown} bytes were counted");
        drop(block);
    }
}
