//! A stack overflow in a fiber ends with one clear line instead of a bare "Segmentation fault".
//!
//! [`install`] puts a handler in front of those for SIGSEGV and SIGBUS. It asks: did a thread touch the guard of one of our
//! stacks, while it was running on that stack? Then it prints whose stack it was and aborts. Everything else goes to
//! the handler that was there before, unchanged: a null pointer looks as it does without us, and an overflowing OS
//! thread gets Rust's own message.
//!
//! # How the handler runs
//!
//! On the thread's alternate signal stack (the overflown one has no room). Threads of `std::thread` and the main thread
//! have one; other threads call [`ensure_alt_stack`]. It may be entered at any instruction, so all it does is
//! async-signal-safe: it reads atomics, formats into a buffer of its own, and calls `write` and `abort`. The function
//! that describes the owner must keep to that, too.
//!
//! # What is not caught
//!
//! C code without stack-clash protection may jump over a guard of one page; see
//! [`StackOptions::guard`](crate::stack::StackOptions::guard).

mod report;

pub use report::ReportLine;

use std::cell::RefCell;
use std::fmt::Write as _;
use std::mem::{self, MaybeUninit};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::{io, process, ptr};

use libc::{c_int, c_void, siginfo_t};

use crate::stack::Mapping;
use crate::stack::registry;

/// Writes who owns a stack, as in `virtual processor 'worker/parse'`, to the line.
///
/// `owner` is what [`Stack::set_owner`](crate::stack::Stack::set_owner) was given; never null. It is called from inside a
/// signal handler: no lock, no allocation, no panic. It may run while the owner's state is half changed.
///
/// # Examples
///
/// ```
/// use proto_arch::overflow::{Describe, ReportLine};
/// use std::fmt::Write as _;
///
/// unsafe fn numbered(owner: *const (), out: &mut ReportLine) {
///     let _ = write!(out, "worker {}", owner.addr()); // the address is the number
/// }
/// let describe: Describe = numbered;
/// let mut line = ReportLine::new();
/// // SAFETY: `numbered` takes any owner.
/// unsafe { describe(std::ptr::without_provenance(7), &mut line) };
/// assert_eq!(line.as_bytes(), b"worker 7");
/// ```
pub type Describe = unsafe fn(owner: *const (), out: &mut ReportLine);

/// What the handler needs: set before it can run, never changed.
struct Installed {
    describe: Describe,
    /// The handlers that were there before us.
    segv: libc::sigaction,
    bus: libc::sigaction,
}

static INSTALLED: OnceLock<Installed> = OnceLock::new();

/// Installs the report. Once per program: the first `describe` stays, later calls return `Ok` and change nothing.
///
/// # Safety
///
/// - `describe` may be called with every owner that is set on a stack, at any moment from now on.
/// - `describe` is async-signal-safe.
///
/// # Errors
///
/// What the system says if it refuses a signal handler.
///
/// # Examples
///
/// ```
/// use proto_arch::overflow::{self, ReportLine};
/// use std::fmt::Write as _;
///
/// unsafe fn describe(owner: *const (), out: &mut ReportLine) {
///     // SAFETY: this program sets only pointers to `'static` strings as owners.
///     let name = unsafe { *owner.cast::<&'static str>() };
///     let _ = write!(out, "virtual processor '{name}'");
/// }
///
/// // SAFETY: `describe` formats a string, and that is all.
/// unsafe { overflow::install(describe) }?;
/// # Ok::<(), std::io::Error>(())
/// ```
pub unsafe fn install(describe: Describe) -> io::Result<()> {
    // Miri knows no signals, and reports an overflow itself.
    if cfg!(miri) {
        return Ok(());
    }
    static ARMED: Mutex<bool> = Mutex::new(false);
    let mut armed = ARMED.lock().unwrap_or_else(PoisonError::into_inner);
    if *armed {
        return Ok(());
    }
    // What was there before is looked at once, also if the arming failed and is tried again.
    if INSTALLED.get().is_none() {
        let (segv, bus) = (current_action(libc::SIGSEGV)?, current_action(libc::SIGBUS)?);
        let _ = INSTALLED.set(Installed { describe, segv, bus });
    }
    arm(libc::SIGSEGV)?;
    arm(libc::SIGBUS)?;
    *armed = true;
    Ok(())
}

/// The action for `signal` at present.
fn current_action(signal: c_int) -> io::Result<libc::sigaction> {
    let mut action = MaybeUninit::zeroed();
    // SAFETY: with a null new action this only writes the old one.
    let result = unsafe { libc::sigaction(signal, ptr::null(), action.as_mut_ptr()) };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call has succeeded; and all zeros would be valid, too.
    Ok(unsafe { action.assume_init() })
}

/// Sets the action for `signal`.
fn set_action(signal: c_int, action: &libc::sigaction) -> io::Result<()> {
    // SAFETY: the action is one that the system gave us, the default, or our handler, which is right for its flags.
    let result = unsafe { libc::sigaction(signal, action, ptr::null_mut()) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn default_action() -> libc::sigaction {
    // SAFETY: all zeros is SIG_DFL without flags and with an empty mask.
    unsafe { MaybeUninit::zeroed().assume_init() }
}

fn arm(signal: c_int) -> io::Result<()> {
    let mut action = default_action();
    action.sa_sigaction = handler as extern "C" fn(c_int, *mut siginfo_t, *mut c_void) as usize;
    action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
    set_action(signal, &action)
}

extern "C" fn handler(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    // Set before the handler was.
    let Some(installed) = INSTALLED.get() else {
        return;
    };
    // SAFETY: the kernel passes valid pointers to a handler with SA_SIGINFO.
    let info_ref = unsafe { &*info };
    // SAFETY: as above, and the third is a `ucontext_t`.
    let context_ref = unsafe { &*context.cast::<libc::ucontext_t>() };
    if let Some(overflow) = Overflow::recognise(info_ref, context_ref) {
        overflow.report(installed.describe);
    }
    let previous = if signal == libc::SIGBUS { &installed.bus } else { &installed.segv };
    // SAFETY: the arguments are the kernel's.
    unsafe { forward(previous, signal, info, context) }
}

/// A thread that ran on one of our stacks has touched the guard of that stack.
struct Overflow {
    owner: *const (),
    size: usize,
    address: usize,
    instruction: usize,
}

impl Overflow {
    fn recognise(info: &siginfo_t, context: &libc::ucontext_t) -> Option<Self> {
        // Not from the kernel: somebody called `kill`, and there is no address.
        if info.si_code <= 0 {
            return None;
        }
        // SAFETY: SIGSEGV and SIGBUS from the kernel carry an address.
        let address = unsafe { info.si_addr() } as usize;
        let place = registry::find(address, |region| region.locate(address))?;
        let (instruction, stack_pointer) = registers(context);
        // A wild pointer into a guard is no overflow. The stack pointer of one is in the stack, or below it by what C code
        // without stack-clash protection may have jumped.
        const JUMP: usize = 64 * 1024;
        let near = place.slot.start.saturating_sub(JUMP)..=place.slot.end;
        (place.in_guard && near.contains(&stack_pointer)).then_some(Self {
            owner: place.owner,
            size: place.size,
            address,
            instruction,
        })
    }

    fn report(&self, describe: Describe) -> ! {
        let mut line = ReportLine::new();
        let _ = line.write_str("proto-runtime: ");
        if self.owner.is_null() {
            let _ = line.write_str("a fiber without a name");
        } else {
            // SAFETY: an owner that is set may be described, which `install`'s caller and `set_owner`'s answer for.
            unsafe { describe(self.owner, &mut line) };
        }
        let _ = write!(
            line,
            " overflowed its {} KiB stack (guard page touched at {:#x}, instruction {:#x}); give it a larger one with \
             `stack_size`",
            self.size / 1024,
            self.address,
            self.instruction
        );
        line.emit();
        process::abort();
    }
}

/// Instruction pointer and stack pointer at the fault.
fn registers(context: &libc::ucontext_t) -> (usize, usize) {
    let machine = &context.uc_mcontext;
    #[cfg(target_arch = "x86_64")]
    {
        let register = |which: c_int| machine.gregs[which as usize] as usize;
        (register(libc::REG_RIP), register(libc::REG_RSP))
    }
    #[cfg(target_arch = "aarch64")]
    (machine.pc as usize, machine.sp as usize)
}

/// Does what would have happened without us.
///
/// # Safety
///
/// - Called by a signal handler, with the arguments it got.
unsafe fn forward(previous: &libc::sigaction, signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    match previous.sa_sigaction {
        libc::SIG_DFL | libc::SIG_IGN => {
            // SAFETY: `info` is the kernel's.
            let sent = unsafe { (*info).si_code } <= 0;
            if sent && previous.sa_sigaction == libc::SIG_IGN {
                return;
            }
            // The faulting instruction runs again after the return, and the default action ends the program.
            let _ = set_action(signal, &default_action());
            if sent {
                // Nothing would fault again. The signal is blocked here, so it comes after the return.
                // SAFETY: no precondition.
                unsafe { libc::raise(signal) };
            }
        }
        function if previous.sa_flags & libc::SA_SIGINFO != 0 => {
            type Handler = unsafe extern "C" fn(c_int, *mut siginfo_t, *mut c_void);
            // SAFETY: with SA_SIGINFO this is the address of such a function.
            let function = unsafe { mem::transmute::<usize, Handler>(function) };
            // SAFETY: the arguments are those that the kernel would have passed.
            unsafe { function(signal, info, context) };
        }
        function => {
            // SAFETY: without SA_SIGINFO this is the address of such a function.
            let function = unsafe { mem::transmute::<usize, unsafe extern "C" fn(c_int)>(function) };
            // SAFETY: the argument is the one that the kernel would have passed.
            unsafe { function(signal) };
        }
    }
}

/// Gives the calling thread an alternate signal stack if it has none, so that an overflow on it can be reported.
///
/// For threads made by foreign code that run fibers; those of `std::thread` have one. It is taken back when the thread
/// ends.
///
/// # Errors
///
/// What the system says if it has no memory for it.
///
/// # Examples
///
/// ```
/// // At the start of a thread that C code made:
/// proto_arch::overflow::ensure_alt_stack()?;
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn ensure_alt_stack() -> io::Result<()> {
    let mut old = MaybeUninit::<libc::stack_t>::zeroed();
    // SAFETY: with a null new stack this only writes the old one.
    if unsafe { libc::sigaltstack(ptr::null(), old.as_mut_ptr()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call has succeeded; and all zeros would be valid, too.
    let old = unsafe { old.assume_init() };
    if old.ss_flags & libc::SS_DISABLE == 0 {
        return Ok(());
    }
    let mapping = Mapping::reserve(ALT_STACK_SIZE)?;
    let new =
        libc::stack_t { ss_sp: ptr::with_exposed_provenance_mut(mapping.start()), ss_flags: 0, ss_size: mapping.len() };
    // SAFETY: the mapping is whole, unused, and stays until `AltStack` is dropped, which disables it first.
    if unsafe { libc::sigaltstack(&raw const new, ptr::null_mut()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    ALT_STACK.with_borrow_mut(|place| *place = Some(AltStack { _mapping: mapping }));
    Ok(())
}

/// Room for the widest register set (11 KiB with AMX) and our handler and Rust's, with a margin.
const ALT_STACK_SIZE: usize = 64 * 1024;

thread_local! {
    static ALT_STACK: RefCell<Option<AltStack>> = const { RefCell::new(None) };
}

/// The alternate stack of this thread, if it is one of ours.
struct AltStack {
    _mapping: Mapping,
}

impl Drop for AltStack {
    fn drop(&mut self) {
        let none = libc::stack_t { ss_sp: ptr::null_mut(), ss_flags: libc::SS_DISABLE, ss_size: ALT_STACK_SIZE };
        // SAFETY: disabling is always allowed but from a handler, and thread-locals are not dropped in one.
        unsafe { libc::sigaltstack(&raw const none, ptr::null_mut()) };
    }
}
