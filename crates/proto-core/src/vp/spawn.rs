//! Birth of VPs.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use proto_arch::fiber::Backend;
use proto_arch::topology::CoreId;
use smallvec::SmallVec;

use super::block::{Block, INLINE_PATH, flag};
use super::pair::Pair;
use super::start::Start;
use super::vpref::VpRef;
use super::{SpawnError, VpName, extra, slab};
use crate::assign::Work;
use crate::ctx::{self, attention};
use crate::hooks;
use crate::join::{JoinHandle, Packet};
use crate::language::{OfLanguage, Scheduled};
use crate::process::ProcessInner;
use crate::runtime::core::Core;
use crate::runtime::shared::Shared;
use crate::runtime::{controller, send};
use crate::scope::{Around, ScopeHead};

/// Where a VP is to start.
#[derive(Clone, Copy, Debug)]
enum Where {
    Anywhere,
    Core(CoreId),
    Near(VpRef),
}

/// Makes VPs: name, stack size, priority, place.
///
/// # Examples
///
/// ```
/// let runtime = proto_core::Runtime::builder().controllers(2).build()?;
/// let sum = runtime.run(|| {
///     let vp = proto_core::VpBuilder::new().name("adder").stack_size(64 << 10).spawn(|| 1 + 2).unwrap();
///     vp.join().unwrap()
/// })?;
/// assert_eq!(sum, 3);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Where it runs, and before whom; and one that nobody waits for:
///
/// ```
/// use proto_core::{Priority, Runtime, VpBuilder, VpRef, sleep_until};
///
/// let runtime = Runtime::builder().controllers(2).assigner(Priority).build()?;
/// let second = runtime.cores()[1];
/// let homes = runtime.run(|| {
///     VpBuilder::new().name("ticker").daemon().spawn(|| while sleep_until(None).is_ok() {}).unwrap();
///     let home = || VpRef::current().home();
///     let there = VpBuilder::new().home(second).priority(255).spawn(home).unwrap();
///     let beside = VpBuilder::new().near(&VpRef::current()).spawn(home).unwrap();
///     (there.join().unwrap(), beside.join().unwrap() == VpRef::current().home())
/// })?;
/// assert_eq!(homes, (Some(second), true));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until `spawn`"]
pub struct VpBuilder {
    name: Option<Arc<str>>,
    stack_size: Option<usize>,
    priority: u8,
    place: Where,
    language: Option<OfLanguage>,
    flags: u32,
}

impl Default for VpBuilder {
    fn default() -> Self {
        VpBuilder::new()
    }
}

impl VpBuilder {
    /// A VP without a name, with the runtime's stack size, priority 128, started wherever a core is free.
    pub const fn new() -> Self {
        VpBuilder { name: None, stack_size: None, priority: 128, place: Where::Anywhere, language: None, flags: 0 }
    }

    /// Its name in reports.
    pub fn name(mut self, name: impl Into<Arc<str>>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// The bytes of its stack: reserved, not used until touched. Rounded up to a power of two, at least 32 KiB.
    pub fn stack_size(mut self, bytes: usize) -> Self {
        self.stack_size = Some(bytes);
        self
    }

    /// For assigners that look at it ([`Priority`](crate::Priority)): 0 is the lowest, 255 the highest, 128 the usual.
    pub fn priority(mut self, priority: u8) -> Self {
        self.priority = priority;
        self
    }

    /// The core on which it starts, and stays.
    pub fn home(mut self, core: CoreId) -> Self {
        self.place = Where::Core(core);
        self
    }

    /// It starts on the core where `other` lives, if that is settled.
    pub fn near(mut self, other: &VpRef) -> Self {
        self.place = Where::Near(*other);
        self
    }

    /// The VP is one of language `L`, whose assigner decides when it runs. What it creates itself is not, unless it says so again.
    pub fn language<L: Scheduled>(mut self) -> Self {
        self.language = Some(OfLanguage::new::<L>());
        self
    }

    /// Its process does not wait for it: when everything else has ended, it is cancelled.
    pub fn daemon(mut self) -> Self {
        self.flags |= flag::DAEMON;
        self
    }

    /// Lets the VP move to another core after it has started [design rule 7]. Needs the feature `migrate`, and has no effect with the
    /// one-OS-thread-per-VP back end.
    ///
    /// # Safety
    ///
    /// Between two constructs of any language the VP may be on another OS thread than before. The caller makes sure that nothing on its
    /// stack depends on the thread across a construct:
    ///
    /// - no value that is not `Send`, and no reference into a `thread_local!` or anything derived from one, is held across a construct;
    /// - no code that runs on it (the standard library's thread-locals included: `thread::current`, `RandomState`'s keys, `println!` capture) keeps the *address* of a
    ///   thread-local across a construct, which compilers do in optimised builds where both are inlined into one function;
    /// - no OS lock is held across a construct.
    ///
    /// # Examples
    ///
    /// ```
    /// let runtime = proto_core::Runtime::builder().controllers(2).build()?;
    /// // SAFETY: it holds a number across its construct, and that is all.
    /// let adder = || unsafe { proto_core::VpBuilder::new().migratable() }.spawn(|| proto_core::join(|| 1, || 2));
    /// assert_eq!(runtime.run(|| adder().map(|adder| adder.join().ok()))??, Some((1, 2)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[cfg(feature = "migrate")]
    pub unsafe fn migratable(mut self) -> Self {
        self.flags |= flag::MIGRATABLE;
        self
    }

    /// Creates the VP and gives a handle to join it.
    ///
    /// It may start on any core, so what it takes with it has to be `Send`:
    ///
    /// ```compile_fail,E0277
    /// let here = std::rc::Rc::new(1);
    /// let _ = proto_core::VpBuilder::new().spawn(move || *here);
    /// ```
    ///
    /// # Errors
    ///
    /// See [`SpawnError`]. The closure is dropped then. A VP gets its stack when it starts, so one that was created just before the system's
    /// limit was met may still not run: whoever joins it is told by [`JoinError::NeverRan`](crate::JoinError::NeverRan).
    pub fn spawn<T, F>(self, f: F) -> Result<JoinHandle<T>, SpawnError>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        let (packet, of_vp) = Packet::new();
        // SAFETY: `f` and `T` are 'static.
        let vp = unsafe { self.spawn_packet(f, of_vp, std::ptr::null()) }?;
        Ok(JoinHandle::new(packet, vp))
    }

    /// # Safety
    ///
    /// - Whatever `f` and `T` borrow outlives the VP: it belongs to `scope`, which waits for it, or they are 'static.
    pub(crate) unsafe fn spawn_packet<T, F>(
        self,
        f: F,
        packet: Pair<Packet<T>>,
        scope: *const ScopeHead,
    ) -> Result<VpRef, SpawnError>
    where
        T: Send,
        F: FnOnce() -> T + Send,
    {
        let run = crate::join::body(f, packet, scope);
        // SAFETY: duty of the caller; `F` and `T` are Send.
        let start = unsafe { Start::new(run) };
        let target = Target::find()?;
        // SAFETY: as said.
        unsafe { self.birth(&target, start, scope) }
    }

    /// Makes the VP and hands it over to a core.
    ///
    /// # Safety
    ///
    /// - `start` may run on any of the target's cores, and what it borrows lives until it has.
    unsafe fn birth(self, target: &Target, start: Start, scope: *const ScopeHead) -> Result<VpRef, SpawnError> {
        let (shared, process) = (target.shared, target.process);
        let class = match self.stack_size {
            None => shared.stack_class,
            Some(size) => crate::runtime::class_of(size).ok_or(SpawnError::StackSize(size))?,
        };
        if shared.is_stopping() {
            return Err(SpawnError::Stopping);
        }
        if shared.arenas.is_short(class) {
            let found = shared.arenas.try_short(class);
            found.map_err(|error| SpawnError::NoStack { bytes: 1 << class, why: error.to_string().into() })?;
        }
        let home = match self.place {
            Where::Anywhere => None,
            Where::Core(place) => Some(shared.core_at(place).ok_or(SpawnError::NoSuchCore(place))?),
            Where::Near(vp) => shared.core_of(vp.block.home_hint()).filter(|_| !vp.has_ended()),
        };
        let block = target.block();
        // SAFETY: a fresh block is this code's own.
        unsafe { block.put_start(start) };
        block.reset();
        block.instance.set(match self.language {
            None => process.instance(),
            Some(language) => process.instance_of(language, target.parent),
        });
        block.priority.set(self.priority);
        block.stack_class.set(class);
        block.set_process(Some(process));
        block.set_around(Around::scope(scope));
        if let Some(home) = home {
            block.set_home(home);
        }
        let mut flags = self.flags | if home.is_some() { flag::PLACED } else { 0 };
        if shared.backend == Backend::Thread {
            // Its OS thread is a core's for good.
            flags &= !flag::MIGRATABLE;
        }
        // ORDERING: Relaxed: handed over with the work.
        block.flags.store(flags, Ordering::Relaxed);
        name(block, target.parent, self.name);
        let birth = block.bear();
        let vp = VpRef { block, birth };
        if target.hooks {
            hooks::born(block);
        }
        process.count_birth(target.core, block.counted());
        target.hand_over(block, home);
        Ok(vp)
    }
}

/// Gives `block` its place in the tree: the next child of `parent`.
#[inline]
fn name(block: &Block, parent: Option<&Block>, user: Option<Arc<str>>) {
    let Some(parent) = parent else {
        block.depth.set(1);
        block.path[0].store(0, Ordering::Relaxed);
        return extra::set_name(block, user, &[]);
    };
    if !parent.inline_job().is_null() {
        return name_in_job(block, parent, user);
    }
    let number = parent.children.get();
    parent.children.set(number.wrapping_add(1));
    let depth = usize::from(parent.depth.get());
    if depth < INLINE_PATH {
        for (step, of_parent) in block.path.iter().zip(&parent.path[..depth]) {
            step.store(of_parent.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        block.path[depth].store(number, Ordering::Relaxed);
        block.depth.set(parent.depth.get() + 1);
        if user.is_some() {
            extra::set_name(block, user, &[]);
        }
        return;
    }
    let mut path: SmallVec<[u32; 32]> = VpName::of(parent).path().iter().copied().collect();
    path.push(number);
    set_path(block, &path, user);
}

/// As [`name`], of a VP that is made by the latent task that `parent`, which runs here, runs inline: it is the task's child, as if that had a VP.
#[cold]
fn name_in_job(block: &Block, parent: &Block, user: Option<Arc<str>>) {
    // SAFETY: what runs inline is not over.
    let mut path = unsafe { VpName::path_of(parent.inline_job()) };
    path.push(crate::task::next_child(parent, parent.inline_job()));
    set_path(block, &path, user);
}

/// Writes a path of any length: the last steps stay in the block, the others go into the extra part. Paths beyond 255 steps forget
/// their beginning.
#[cold]
fn set_path(block: &Block, path: &[u32], user: Option<Arc<str>>) {
    let path = &path[path.len().saturating_sub(usize::from(u8::MAX))..];
    let prefix = path.len().saturating_sub(INLINE_PATH);
    for (step, of_path) in block.path.iter().zip(&path[prefix..]) {
        step.store(*of_path, Ordering::Relaxed);
    }
    block.depth.set(u8::try_from(path.len()).unwrap_or(u8::MAX));
    extra::set_name(block, user, &path[..prefix]);
}

/// An OS thread is attached: its block's name and state.
pub(crate) fn prepare_thread(block: &'static Block) {
    static NUMBER: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    block.flags.store(flag::THREAD, Ordering::Relaxed);
    block.reset();
    block.set_process(None);
    block.set_around(Around::nothing());
    block.depth.set(1);
    block.path[0].store(NUMBER.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
    // SAFETY: the fresh block is this thread's own; a thread has a node from the start.
    unsafe { block.put_node() };
    if let Some(name) = std::thread::current().name() {
        extra::set_name(block, Some(Arc::from(name)), &[]);
    }
}

/// Where new VPs go: the runtime and process of whoever creates them.
struct Target {
    shared: &'static Shared,
    process: &'static ProcessInner,
    /// The core that the creator runs on; `None`: an OS thread.
    core: Option<&'static Core>,
    parent: Option<&'static Block>,
    hooks: bool,
}

impl Target {
    #[inline]
    fn find() -> Result<Target, SpawnError> {
        let ctx = ctx::get();
        let Some(parent) = ctx.current() else { panic!("an assigner or a hook creates no VPs") };
        assert!(ctx.in_handler.get().is_none(), "a handler creates no VPs: answer, and let the wrapper do it");
        let hooks = ctx.attention() & attention::HOOKS != 0;
        match (ctx.core(), parent.process()) {
            (Some(core), Some(process)) => {
                if ctx.attention() & (attention::TICK | attention::MAIL | attention::TIMER) != 0
                    && !crate::panics::unwinding(ctx)
                {
                    controller::yield_now(ctx, parent);
                }
                // Read again: with migration compiled in this may be another core than before.
                let core = ctx::again(ctx).core().unwrap_or(core);
                Ok(Target { shared: core.shared(), process, core: Some(core), parent: Some(parent), hooks })
            }
            _ => {
                let process = crate::process::ambient().map_err(|error| SpawnError::NoRuntime(error.to_string()))?;
                Ok(Target {
                    shared: process.shared(),
                    process,
                    core: None,
                    parent: Some(parent),
                    hooks: process.shared().hooks.any(),
                })
            }
        }
    }

    fn seed(process: &'static ProcessInner) -> Target {
        let ctx = ctx::get();
        let shared = process.shared();
        let core = ctx.core().filter(|core| std::ptr::eq(core.shared(), shared));
        Target { shared, process, core, parent: None, hooks: shared.hooks.any() }
    }

    #[inline]
    fn block(&self) -> &'static Block {
        match self.core {
            // SAFETY: the creator runs on that core; `take` locks, but neither switches nor comes back here.
            Some(core) => unsafe {
                core.owner(|owner| {
                    if owner.blocks.is_empty() {
                        slab::take(&mut owner.blocks);
                    }
                    owner.blocks.pop().expect("the slab gives at least one block")
                })
            },
            None => slab::take_one(),
        }
    }

    #[inline]
    fn hand_over(&self, block: &'static Block, home: Option<&'static Core>) {
        match (home, self.core) {
            (None, Some(core)) => {
                send::bear(core, block, self.hooks);
                crate::task::published(core);
            }
            (Some(home), Some(core)) => send::make_ready(&core.ctx, home, block),
            (Some(home), None) => send::deliver(home, block),
            (None, None) => {
                let core = self.shared.core_for_outsider();
                // May move, so it is taken in.
                let _ = core.newborn.push(Work::new(block));
                // (Whether the core is crowded is its controller's to say; the watchdog looks at newborn work itself.)
                self.shared.watchdog.poke();
                crate::task::published_from_outside(core);
            }
        }
    }
}

/// Creates the seed VP of a process.
///
/// # Safety
///
/// - What `f` borrows outlives the process.
pub(crate) unsafe fn seed<F: FnOnce() + Send>(process: &'static ProcessInner, f: F) -> Result<VpRef, SpawnError> {
    // SAFETY: duty of the caller.
    let start = unsafe { Start::new(f) };
    // SAFETY: `F` is Send; duty of the caller.
    unsafe { VpBuilder::new().birth(&Target::seed(process), start, std::ptr::null()) }
}

/// Makes a VP with this path, for a latent task of `owner` that `core`, which runs this, has won.
pub(crate) fn adopt(core: &'static Core, owner: &'static Block, path: &[u32], start: Start) -> Work {
    let process = owner.process().expect("a VP that forks has a process");
    let target = Target { shared: core.shared(), process, core: Some(core), parent: Some(owner), hooks: false };
    let block = target.block();
    // SAFETY: a fresh block is this code's own.
    unsafe { block.put_start(start) };
    block.reset();
    block.instance.set(owner.instance.get());
    block.priority.set(owner.priority.get());
    block.stack_class.set(owner.stack_class.get());
    block.set_process(Some(process));
    block.set_around(Around::nothing());
    block.flags.store(owner.flags.load(Ordering::Relaxed) & flag::DAEMON, Ordering::Relaxed);
    set_path(block, path, None);
    block.bear();
    if core.ctx.attention() & attention::HOOKS != 0 {
        hooks::born(block);
    }
    process.count_birth(Some(core), block.counted());
    Work::new(block)
}
