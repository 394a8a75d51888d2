//! Which processors this program may use, how many are worth using, and staying on one of them.
//!
//! # The trap
//!
//! The affinity mask is asked for *per thread*, and pinning changes it: a thread that has pinned itself sees one
//! processor, and so do the threads it starts. So the mask is read once, at the first use of this module, and everything
//! below answers from that reading. A runtime touches it before it pins anything.
//!
//! Threads that are started by a pinned one, and that nobody meant to stay there, call [`drop_inherited`].
//!
//! A cgroup's CPU set needs no reading of its own: the kernel keeps the affinity mask inside it.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::{io, thread};

/// What was read at the first use.
struct Usable {
    cpus: Vec<usize>,
    parallelism: usize,
}

fn usable() -> &'static Usable {
    static USABLE: OnceLock<Usable> = OnceLock::new();
    USABLE.get_or_init(|| {
        // std's count is the mask's, cut down to the CPU-time quota of the cgroup (v1 and v2).
        let counted = thread::available_parallelism().map_or(1, usize::from);
        let cpus = mask::read().unwrap_or_else(|_| (0..counted).collect());
        let parallelism = counted.min(cpus.len()).max(1);
        Usable { cpus, parallelism }
    })
}

/// The processors this program may run on, by the operating system's numbers, ascending. Never empty.
///
/// That is the affinity mask of the thread that asked first, which lies inside the cgroup's CPU set.
///
/// # Examples
///
/// ```
/// let cpus = proto_arch::pin::usable_cpus();
/// assert!(!cpus.is_empty());
/// assert!(proto_arch::pin::usable_parallelism() <= cpus.len());
/// ```
#[must_use]
pub fn usable_cpus() -> &'static [usize] {
    &usable().cpus
}

/// How many threads can compute at a time: the number of [`usable_cpus`], or less if the cgroup's quota of CPU time
/// (`cpu.max`; v1: `cpu.cfs_quota_us`) allows less. At least 1; a fraction of a processor is rounded down.
///
/// # Examples
///
/// ```
/// let workers: Vec<_> = (0..proto_arch::pin::usable_parallelism()).map(|n| std::thread::spawn(move || n)).collect();
/// assert!(!workers.is_empty());
/// # workers.into_iter().for_each(|worker| drop(worker.join()));
/// ```
#[must_use]
pub fn usable_parallelism() -> usize {
    usable().parallelism
}

/// Keeps the calling thread on the processor with the operating system's number `cpu`, until [`unpin_current_thread`].
///
/// Threads started by it later inherit that.
///
/// # Errors
///
/// `InvalidInput` if the processor is not one of [`usable_cpus`]; otherwise what the system says.
///
/// # Examples
///
/// ```
/// use proto_arch::pin;
///
/// pin::pin_current_thread(pin::usable_cpus()[0])?;
/// // … work that stays there …
/// pin::unpin_current_thread()?;
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn pin_current_thread(cpu: usize) -> io::Result<()> {
    if usable_cpus().binary_search(&cpu).is_err() {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("processor {cpu} is not among those this program may use: {:?}", usable_cpus()),
        ));
    }
    // ORDERING: Relaxed: who inherits the mask was started by this thread, which orders it.
    PINNED.store(true, Ordering::Relaxed);
    if cpu < MAX_CORE_AFFINITY && core_affinity::set_for_current(core_affinity::CoreId { id: cpu }) {
        return Ok(());
    }
    // Beyond what that crate's fixed set holds, or to learn why it failed.
    mask::write(&[cpu])
}

/// Lets the calling thread run on all [`usable_cpus`] again.
///
/// # Errors
///
/// What the system says.
///
/// # Examples
///
/// ```
/// use proto_arch::pin;
///
/// fn measured<T>(work: impl FnOnce() -> T) -> std::io::Result<T> {
///     pin::pin_current_thread(pin::usable_cpus()[0])?;
///     let result = work();
///     pin::unpin_current_thread()?;
///     Ok(result)
/// }
/// assert_eq!(measured(|| 6 * 7)?, 42);
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn unpin_current_thread() -> io::Result<()> {
    mask::write(usable_cpus())
}

/// Whether any thread has pinned itself here.
static PINNED: AtomicBool = AtomicBool::new(false);

/// Lets the calling thread run on all [`usable_cpus`] again if it may run on one of them only, which it then has from a thread that had called
/// [`pin_current_thread`] and started it, or that one's ancestor. Nothing happens in a program in which no thread has pinned itself here, nor to
/// a thread with a wider mask: what others have set stays.
///
/// To be called first on a thread that nobody meant to keep where its parent is. Two system calls at most.
///
/// # Errors
///
/// What the system says.
///
/// # Examples
///
/// ```
/// use proto_arch::pin;
///
/// pin::pin_current_thread(pin::usable_cpus()[0])?;
/// let everywhere = std::thread::spawn(|| {
///     pin::drop_inherited()?;
///     Ok::<_, std::io::Error>(std::thread::available_parallelism()?.get())
/// });
/// assert_eq!(everywhere.join().unwrap()?, pin::usable_parallelism());
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn drop_inherited() -> io::Result<()> {
    // ORDERING: Relaxed: see `pin_current_thread`.
    if !PINNED.load(Ordering::Relaxed) || usable_cpus().len() == 1 || mask::read()?.len() != 1 {
        return Ok(());
    }
    unpin_current_thread()
}

/// Bits of the kernel interface's fixed-size set, which `core_affinity` uses.
const MAX_CORE_AFFINITY: usize = libc::CPU_SETSIZE as usize;

/// The affinity mask as a list, for any number of processors.
mod mask {
    use std::io;

    type Word = libc::c_ulong;
    const BITS: usize = Word::BITS as usize;

    pub(super) fn read() -> io::Result<Vec<usize>> {
        // Miri has processors (`-Zmiri-num-cpus`), but no such call.
        if cfg!(miri) {
            return Ok((0..std::thread::available_parallelism()?.get()).collect());
        }
        let mut words = vec![0 as Word; 16];
        loop {
            let bytes = size_of_val(words.as_slice());
            // The system call, not glibc's function: only the call says how many bytes the kernel wrote.
            // SAFETY: the kernel writes at most `bytes` bytes to the words.
            let written = unsafe { libc::syscall(libc::SYS_sched_getaffinity, 0, bytes, words.as_mut_ptr()) };
            if written > 0 {
                break;
            }
            let error = io::Error::last_os_error();
            // EINVAL: the kernel's mask is larger.
            if error.raw_os_error() != Some(libc::EINVAL) || words.len() > 1 << 12 {
                return Err(error);
            }
            words.resize(words.len() * 2, 0);
        }
        let cpus = words.iter().enumerate().flat_map(|(index, word)| {
            (0..BITS).filter(move |bit| word >> bit & 1 == 1).map(move |bit| index * BITS + bit)
        });
        Ok(cpus.collect())
    }

    pub(super) fn write(cpus: &[usize]) -> io::Result<()> {
        let highest = cpus.iter().copied().max().unwrap_or(0);
        let mut words = vec![0 as Word; highest / BITS + 1];
        for cpu in cpus {
            words[cpu / BITS] |= 1 << (cpu % BITS);
        }
        let bytes = size_of_val(words.as_slice());
        // SAFETY: the kernel reads `bytes` bytes from the words.
        let result = unsafe { libc::sched_setaffinity(0, bytes, words.as_ptr().cast()) };
        if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn pinning_is_seen_by_the_system_and_undone() {
        let all = usable_cpus();
        thread::scope(|scope| {
            scope.spawn(|| {
                for cpu in all {
                    pin_current_thread(*cpu).expect("pin");
                    assert_eq!(mask::read().expect("mask"), [*cpu]);
                    assert_eq!(usable_cpus(), all, "the first reading stays");
                }
                unpin_current_thread().expect("unpin");
                assert_eq!(mask::read().expect("mask"), all);
            });
        });
    }

    #[test]
    fn a_thread_of_a_pinned_one_gets_its_processors_back() {
        let all = usable_cpus();
        let child = thread::spawn(move || {
            pin_current_thread(all[0]).expect("pin");
            thread::spawn(move || {
                assert_eq!(mask::read().expect("mask"), all[..1], "it is inherited");
                drop_inherited().expect("unpin");
                assert_eq!(mask::read().expect("mask"), all);
            })
            .join()
        });
        child.join().expect("parent").expect("child");
    }

    #[test]
    fn a_mask_that_others_have_set_stays() {
        let all = usable_cpus();
        let some = &all[..all.len().div_ceil(2).max(2).min(all.len())];
        let seen = thread::spawn(move || {
            pin_current_thread(all[0]).expect("pin");
            mask::write(some).expect("mask");
            drop_inherited().expect("nothing to do");
            mask::read().expect("mask")
        });
        assert_eq!(seen.join().expect("thread"), some);
    }

    #[test]
    fn a_processor_that_is_not_ours_is_refused_by_number() {
        let error = pin_current_thread(1 << 20).expect_err("no such processor");
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        assert!(error.to_string().contains("1048576"), "{error}");
    }

    #[test]
    fn a_restricted_program_sees_its_cpus_only() {
        const CHILD: &str = "PROTO_ARCH_PIN_CHILD";
        let last = *usable_cpus().last().expect("never empty");
        if std::env::var_os(CHILD).is_some() {
            assert_eq!(usable_cpus(), [last]);
            assert_eq!(usable_parallelism(), 1);
            return;
        }
        let program = std::env::current_exe().expect("this program");
        let name = "pin::tests::a_restricted_program_sees_its_cpus_only";
        // A thread of its own, whose narrow mask the child inherits.
        let output = thread::spawn(move || {
            pin_current_thread(last).expect("pin");
            Command::new(program).args(["--exact", name]).env(CHILD, "1").output()
        });
        let output = output.join().expect("thread").expect("child");
        assert!(output.status.success(), "{output:?}");
    }

    /// The quota is std's to read, and this shows that it does, for both versions of cgroups: in children with a view of the file system in which
    /// the cgroup's files are ours.
    #[test]
    fn a_quota_of_processor_time_counts_as_fewer_processors() {
        const CHILD: &str = "PROTO_ARCH_QUOTA_CHILD";
        if let Ok(expected) = std::env::var(CHILD) {
            assert_eq!(usable_parallelism().to_string(), expected, "of {} processors", usable_cpus().len());
            return;
        }
        let all = usable_cpus().len();
        let name = "pin::tests::a_quota_of_processor_time_counts_as_fewer_processors";
        for (quota, expected) in [(-1, all), (50_000, 1), (199_999, 1), (200_000, all.min(2)), (6_400_000, all.min(64))]
        {
            let maximum = if quota < 0 { "max".to_owned() } else { quota.to_string() };
            let version_1 = format!(
                "mkdir cpu && echo {quota} >cpu/cpu.cfs_quota_us && echo 100000 >cpu/cpu.cfs_period_us && echo 1:cpu:/ >own"
            );
            // The limit of a group further out counts as well.
            let version_2 = format!(
                "mkdir -p a/b && touch a/b/cgroup.controllers && echo {maximum} 100000 >a/cpu.max && echo 0::/a/b >own"
            );
            for files in [version_1, version_2] {
                let script = format!(
                    "mount -t tmpfs none /sys/fs/cgroup && cd /sys/fs/cgroup && {files} && mount --bind own /proc/$$/cgroup \
                     || exit 1; exec \"$0\" --exact {name}"
                );
                let child = Command::new("unshare")
                    .args(["--mount", "--map-root-user", "sh", "-c", &script])
                    .arg(std::env::current_exe().expect("this program"))
                    .env(CHILD, expected.to_string())
                    .output();
                match child {
                    // No such program, or no right to a view of its own.
                    Err(_) => return,
                    Ok(output) if output.stdout.is_empty() => {
                        assert!(!output.status.success(), "a test that ran says so: {output:?}");
                        return;
                    }
                    Ok(output) => assert!(output.status.success(), "{files}: {output:?}"),
                }
            }
        }
    }
}
