//! The pool of stacks of one size, and how it grows.
//!
//! ```text
//!          take                     drop, give
//!   fresh ──────► handed out ◄──────────────────► pool (last in, first out: the warmest first)
//!   (never used,   (a `Stack`)       take
//!    no guard yet)
//! ```
//!
//! One lock per arena guards the lists; system calls are made outside of it, but for the rare mapping of a region
//! (14 to 30 of them on the way to a million stacks). `proto-core` keeps a few stacks per core and comes here seldom.
//!
//! # Lifetime
//!
//! A `Stack` may outlive the last [`StackArena`]. All stacks handed out together hold one reference to the shared part
//! (`State::kept`), taken when the first goes out and dropped when the last comes back, so that handing out a stack costs
//! no reference count of its own. A stack that is leaked (a VP that is stuck for ever) therefore keeps the arena's
//! address space, as it must.

use std::fmt;
use std::ptr::NonNull;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use corosensei::stack::valgrind::ValgrindStackRegistration;

use super::map::{self, GuardKind, ProtectBudget, page_size};
use super::region::{Name, OwnedRegion, Region, Stack};
use super::{DEFAULT_SIZE, MIN_SIZE, StackError};

/// Stacks of the first region; each region doubles it.
const FIRST_REGION: usize = if cfg!(miri) { 2 } else { 64 };

/// How stacks are guarded.
///
/// # Examples
///
/// ```
/// use proto_arch::stack::{Guards, StackArena, StackOptions};
///
/// let best = StackArena::new(StackOptions::default())?;
/// if best.guards_are_free() {
///     println!("as many stacks as there is memory");
/// }
/// let old = StackOptions { guards: Guards::Protected, ..StackOptions::default() };
/// assert!(!StackArena::new(old)?.guards_are_free());
/// assert_eq!(Guards::default(), Guards::Best);
/// # Ok::<(), proto_arch::stack::StackError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Guards {
    /// Markers where the kernel has them, protected pages elsewhere.
    #[default]
    Best,
    /// Protected pages, as on a kernel before 6.13: some 29,000 stacks with the usual limits.
    Protected,
}

/// What stacks an arena makes.
///
/// # Examples
///
/// ```
/// use proto_arch::stack::{Guards, StackArena, StackOptions};
///
/// // For C code with frames of many pages.
/// let options = StackOptions { size: 1 << 20, guard: 64 << 10, guards: Guards::Best };
/// let stack = StackArena::new(options)?.take()?;
/// assert_eq!((stack.size(), stack.guard()), (1 << 20, 64 << 10));
/// # Ok::<(), proto_arch::stack::StackError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct StackOptions {
    /// Usable bytes, rounded up to pages; at least [`MIN_SIZE`].
    pub size: usize,
    /// Bytes of the guard, rounded up to pages. One page catches all Rust code, which touches every page of a big frame;
    /// C code without stack-clash protection may jump over it: 64 KiB are advisable there, and cost address space only.
    pub guard: usize,
    /// How stacks are guarded.
    pub guards: Guards,
}

impl Default for StackOptions {
    fn default() -> Self {
        Self { size: DEFAULT_SIZE, guard: 1, guards: Guards::Best }
    }
}

impl StackOptions {
    /// Stacks of `size` bytes with a guard of one page.
    #[must_use]
    pub fn with_size(size: usize) -> Self {
        Self { size, ..Self::default() }
    }
}

/// A pool of stacks of one size, shared by its clones.
///
/// # Examples
///
/// ```
/// use proto_arch::stack::{StackArena, StackOptions};
///
/// let arena = StackArena::new(StackOptions::with_size(64 * 1024))?;
/// let stack = arena.take()?;
/// assert_eq!(stack.size(), 64 * 1024);
/// arena.give(stack);
/// # Ok::<(), proto_arch::stack::StackError>(())
/// ```
///
/// Its clones share what is in it:
///
/// ```
/// use proto_arch::stack::{StackArena, StackOptions};
///
/// let arena = StackArena::new(StackOptions::with_size(64 * 1024))?;
/// assert_eq!((arena.stack_size(), arena.regions()), (64 * 1024, 0));
/// let there = arena.clone();
/// let stack = std::thread::spawn(move || there.take()).join().expect("it does not panic")?;
/// assert_eq!((arena.in_use(), arena.regions()), (1, 1));
/// drop(stack); // the same as to give it back
/// assert_eq!(arena.in_use(), 0);
/// # Ok::<(), proto_arch::stack::StackError>(())
/// ```
#[derive(Clone)]
pub struct StackArena {
    shared: Arc<Shared>,
}

/// What the clones of an arena and its regions share.
#[derive(Debug)]
pub(super) struct Shared {
    size: usize,
    guard: usize,
    kind: GuardKind,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    regions: Vec<OwnedRegion>,
    /// The pool: word of a [`Name`], linked by `Slot::next`.
    pool: u32,
    /// Stacks of the last region that have been handed out at least once.
    used_of_last: usize,
    /// Stacks handed out now.
    out: usize,
    /// invariant: some exactly if `out > 0`.
    kept: Option<Arc<Shared>>,
}

/// What the lock found for `take`.
enum Found {
    Pooled(NonNull<Region>, u16),
    Fresh(NonNull<Region>, u16),
}

impl StackArena {
    /// An arena without stacks. Reserves nothing until the first [`take`](Self::take).
    ///
    /// # Errors
    ///
    /// [`StackError::BadSize`] if the size is below [`MIN_SIZE`] or absurdly large.
    pub fn new(options: StackOptions) -> Result<Self, StackError> {
        let page = page_size();
        let bad_size = StackError::BadSize { size: options.size };
        let size = options.size.checked_next_multiple_of(page);
        let guard = options.guard.max(1).checked_next_multiple_of(page);
        let (Some(size), Some(guard)) = (size, guard) else {
            return Err(bad_size);
        };
        let fits = size.checked_add(guard).is_some_and(|sum| sum <= isize::MAX as usize / Region::MAX_STACKS);
        if options.size < MIN_SIZE || !fits {
            return Err(bad_size);
        }
        let kind = match options.guards {
            Guards::Best if map::has_guard_markers() => GuardKind::Marker,
            Guards::Best | Guards::Protected => GuardKind::Protect,
        };
        let state = Mutex::new(State { regions: Vec::new(), pool: Name::END, used_of_last: 0, out: 0, kept: None });
        let shared = Arc::new(Shared { size, guard, kind, state });
        Ok(Self { shared })
    }

    /// A stack: the one given back last, or a fresh one.
    ///
    /// # Errors
    ///
    /// [`StackError::Map`], [`StackError::GuardBudget`] or [`StackError::Guard`] if a fresh one is needed and a limit of
    /// the system is reached. What was handed out stays good.
    pub fn take(&self) -> Result<Stack, StackError> {
        match self.shared.find(&self.shared)? {
            // SAFETY: `find` counted the stack as handed out and took it from the pool, where each is once.
            Found::Pooled(region, index) => Ok(unsafe { Stack::from_raw(region, index) }),
            Found::Fresh(region, index) => {
                // SAFETY: `find` counted it, and hands out each fresh stack once.
                let stack = unsafe { Stack::from_raw(region, index) };
                self.prepare(region, index, stack)
            }
        }
    }

    /// Gives a stack back to its pool; the same as dropping it.
    pub fn give(&self, stack: Stack) {
        drop(stack);
    }

    /// Usable bytes of each stack.
    #[must_use]
    pub fn stack_size(&self) -> usize {
        self.shared.size
    }

    /// Stacks handed out now.
    #[must_use]
    pub fn in_use(&self) -> usize {
        self.shared.lock().out
    }

    /// Mappings the arena consists of, the protected pages of the fallback not counted.
    #[must_use]
    pub fn regions(&self) -> usize {
        self.shared.lock().regions.len()
    }

    /// Whether guards cost no mappings here.
    #[must_use]
    pub fn guards_are_free(&self) -> bool {
        self.shared.kind == GuardKind::Marker
    }

    /// Installs the guard of a fresh stack, outside of the lock. On failure the stack stays unused for ever (it cannot
    /// go to the pool without a guard).
    #[cold]
    fn prepare(&self, region: NonNull<Region>, index: u16, stack: Stack) -> Result<Stack, StackError> {
        // SAFETY: the region lives as long as `stack`.
        let region = unsafe { region.as_ref() };
        // SAFETY: we hold the stack, and nobody has used it.
        if let Err(source) = unsafe { region.install_guard(index) } {
            std::mem::forget(stack);
            return Err(StackError::Guard { source });
        }
        if !cfg!(miri) {
            // Valgrind must know stacks to tell a switch from a wild stack pointer; elsewhere it is a few instructions
            // without effect. Not taken back: a range that is unmapped later costs Valgrind a search, and us no memory.
            let registration = ValgrindStackRegistration::new(stack.limit() as *mut u8, stack.base() - stack.limit());
            std::mem::forget(registration);
        }
        Ok(stack)
    }
}

impl fmt::Debug for StackArena {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.shared.lock();
        f.debug_struct("StackArena")
            .field("stack_size", &self.shared.size)
            .field("in_use", &state.out)
            .field("regions", &state.regions.len())
            .finish_non_exhaustive()
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing below leaves the state half changed if it panics.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn find(&self, this: &Arc<Self>) -> Result<Found, StackError> {
        let mut state = self.lock();
        let found = if let Some(name) = Name::from_word(state.pool) {
            let region = &state.regions[name.region()];
            // Relaxed: written and read under the lock.
            let next = region.slot(name.index()).next.load(Relaxed);
            let found = Found::Pooled(region.pointer(), name.index());
            state.pool = next;
            found
        } else {
            self.find_fresh(&mut state)?
        };
        state.out += 1;
        if state.out == 1 {
            state.kept = Some(Arc::clone(this));
        }
        Ok(found)
    }

    fn find_fresh(&self, state: &mut State) -> Result<Found, StackError> {
        let full = state.regions.last().is_none_or(|last| state.used_of_last == last.stacks());
        if full {
            self.grow(state)?;
        }
        if self.kind == GuardKind::Protect {
            let budget = ProtectBudget::get();
            if !budget.take() {
                return Err(StackError::GuardBudget { budget: budget.stacks, max_map_count: budget.max_map_count });
            }
        }
        let index = state.used_of_last as u16; // below Region::MAX_STACKS
        state.used_of_last += 1;
        let region = state.regions.last().expect("grow has added one");
        // Relaxed: under the lock. From now on the slot counts as handed out, see `Slot::was_handed_out`.
        region.slot(index).next.store(Name::END, Relaxed);
        Ok(Found::Fresh(region.pointer(), index))
    }

    /// Maps another region, twice as big as the last; smaller ones if the kernel refuses.
    #[cold]
    fn grow(&self, state: &mut State) -> Result<(), StackError> {
        let mapped: usize = state.regions.iter().map(|region| region.stacks()).sum();
        let mut stacks = (FIRST_REGION << state.regions.len().min(16)).min(Region::MAX_STACKS);
        let number = u16::try_from(state.regions.len()).ok().filter(|number| *number < u16::MAX);
        let number = number.ok_or(StackError::Map {
            bytes: self.size,
            stacks: mapped,
            source: std::io::ErrorKind::OutOfMemory.into(),
        })?;
        loop {
            match Region::map(self, number, stacks, self.size, self.guard, self.kind) {
                Ok(region) => {
                    state.regions.push(region);
                    state.used_of_last = 0;
                    return Ok(());
                }
                Err(_) if stacks > 1 => stacks /= 2,
                Err(source) => {
                    return Err(StackError::Map { bytes: self.size + self.guard, stacks: mapped, source });
                }
            }
        }
    }

    /// Puts a stack into the pool. If it was the last one out, returns the reference that all had together: dropping it
    /// may free the arena, so it is for the caller to drop, when no borrow of it is left.
    ///
    /// A pointer, not a reference: as soon as the lock is open another thread may put the then last stack, and free the arena, while this
    /// function is still on its way out.
    ///
    /// # Safety
    ///
    /// - `this` is the arena of the stack `name`, which the caller holds; it uses neither afterwards.
    #[must_use]
    pub(super) unsafe fn put(this: NonNull<Self>, name: Name) -> Option<Arc<Self>> {
        // SAFETY: an arena lives as long as a stack of it is out, and so until the lock is open again (the caller's duty).
        let mut state = unsafe { this.as_ref() }.lock();
        let pool = state.pool;
        let slot = state.regions[name.region()].slot(name.index());
        // Relaxed: under the lock.
        slot.next.store(pool, Relaxed);
        state.pool = name.word();
        state.out -= 1;
        if state.out == 0 { state.kept.take() } else { None }
    }
}
