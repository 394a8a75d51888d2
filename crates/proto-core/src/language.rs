//! What languages keep for each process: environments, and the assigners that they bring.

use std::any::{Any, TypeId};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::assign::Assigner;
use crate::assign::instance::Instance;
use crate::ctx::{self, Ctx};
use crate::env::EnvCell;
use crate::vp::block::Block;

/// A language that keeps an environment for each process.
///
/// ```
/// use proto_core::{Caller, Hidden, Language, RequestHandler};
/// struct Tickets;
/// #[derive(Default)]
/// struct Machine { next: u64 }
/// impl Language for Tickets {
///     type Env = Machine;
///     fn env() -> Machine { Machine::default() }
/// }
/// struct Draw;
/// impl RequestHandler<Draw> for Machine {
///     type Reply = u64;
///     fn handle(&mut self, _: Draw, caller: Caller<'_, u64>, hidden: &mut Hidden<'_>) {
///         self.next += 1;
///         hidden.answer(caller, self.next);
///     }
/// }
/// let runtime = proto_core::Runtime::builder().controllers(1).build()?;
/// let drawn = runtime.run(|| {
///     let machine = proto_core::language::<Tickets>();
///     (machine.request(Draw), machine.request(Draw))
/// })?;
/// assert_eq!(drawn, (Ok(1), Ok(2)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Language: 'static {
    /// Its state in one process.
    type Env: Send + 'static;

    /// Makes the state, at the first use in a process.
    fn env() -> Self::Env;
}

/// A language that brings an assigner: the VPs that it creates ([`VpBuilder::language`](crate::VpBuilder::language)) belong to that, of which
/// each process has one. What else the process runs belongs to the process's assigner, or the runtime's. A core asks the assigners in turn: each
/// that has ready work is asked at least once in as many assignments as there are assigners.
///
/// # Examples
///
/// ```
/// use proto_core::{Lifo, Scheduled, VpBuilder, scope};
/// use std::sync::Mutex;
///
/// /// Of this language's VPs, the last to become ready runs first.
/// struct Hasty;
/// impl Scheduled for Hasty {
///     type Assigner = Lifo;
///     fn assigner() -> Lifo { Lifo }
/// }
/// let runtime = proto_core::Runtime::builder().controllers(1).build()?;
/// let order = Mutex::new(Vec::new());
/// runtime.run(|| {
///     scope(|s| {
///         for n in 0..3 {
///             let order = &order;
///             s.spawn_with(VpBuilder::new().language::<Hasty>(), move || order.lock().unwrap().push(n)).unwrap();
///         }
///     });
/// })?;
/// // 2, 1, 0, unless the seed had to give its core up in between.
/// assert_eq!(order.into_inner().unwrap().len(), 3);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Scheduled: 'static {
    /// Its assigner.
    type Assigner: Assigner;

    /// Makes the assigner of one process, at the first VP that the language creates there. On the creating VP, outside any lock.
    fn assigner() -> Self::Assigner;
}

/// A language that brings an assigner.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OfLanguage {
    pub(crate) id: TypeId,
    /// For so many cores.
    pub(crate) make: fn(usize) -> Instance,
}

impl OfLanguage {
    pub(crate) fn new<L: Scheduled>() -> OfLanguage {
        OfLanguage { id: TypeId::of::<L>(), make: |cores| Instance::of_language::<L>(cores) }
    }
}

/// The environment of language `L` in the calling timeline's process. On an OS thread: in that of everything that OS threads create by
/// themselves.
///
/// # Examples
///
/// ```
/// use proto_core::{Language, Runtime, language};
///
/// struct Score;
/// impl Language for Score {
///     type Env = u32;
///     fn env() -> u32 { 0 }
/// }
/// fn goal() -> Option<u32> {
///     language::<Score>().update(|goals, _, _| { *goals += 1; *goals })
/// }
/// let runtime = Runtime::builder().controllers(1).build()?;
/// assert_eq!(runtime.run(|| (goal(), goal()))?, (Some(1), Some(2)));
/// assert_eq!(runtime.run(goal)?, Some(1), "another match");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn language<L: Language>() -> Arc<EnvCell<L::Env>> {
    belonging::<L, _>(|| EnvCell::new(L::env()))
}

/// The value of type `T` of which the calling timeline's process has its own, made at its first use there.
///
/// For what a language's constructs share in a process, and is no environment itself: tables of locks, objects made of other languages'. On an
/// OS thread: the value of everything that OS threads create by themselves.
///
/// # Examples
///
/// ```
/// use std::sync::atomic::{AtomicU32, Ordering};
///
/// #[derive(Default)]
/// struct Visits(AtomicU32);
/// fn visit() -> u32 {
///     proto_core::of_process::<Visits>().0.fetch_add(1, Ordering::Relaxed)
/// }
/// let runtime = proto_core::Runtime::builder().controllers(1).build()?;
/// assert_eq!(runtime.run(|| (visit(), visit()))?, (0, 1));
/// assert_eq!(runtime.run(visit)?, 0, "another process, another value");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn of_process<T: Default + Send + Sync + 'static>() -> Arc<T> {
    belonging::<(), T>(T::default)
}

/// What a process has one of each: values by the type that asks for them and their own.
#[derive(Debug)]
pub(crate) struct Belongings(Mutex<BTreeMap<TypeId, Arc<dyn Any + Send + Sync>>>);

/// Those of what OS threads create by themselves, whether or not the default runtime's process for that exists yet.
static OUTSIDE: Belongings = Belongings::new();

impl Belongings {
    pub(crate) const fn new() -> Belongings {
        Belongings(Mutex::new(BTreeMap::new()))
    }

    fn table(&self) -> MutexGuard<'_, BTreeMap<TypeId, Arc<dyn Any + Send + Sync>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The value of type `V` that belongs to the calling timeline's process under the name `K`.
fn belonging<K: 'static, V: Send + Sync + 'static>(make: impl FnOnce() -> V) -> Arc<V> {
    let process = ctx::installed().and_then(Ctx::current).and_then(Block::process);
    let belongings = process.filter(|process| !process.is_ambient()).map_or(&OUTSIDE, |process| process.belongings());
    let id = TypeId::of::<(K, V)>();
    let known = belongings.table().get(&id).map(Arc::clone);
    // The language's code, so outside of the lock; of two that are made at once the first counts.
    let value = known.unwrap_or_else(|| {
        let fresh: Arc<dyn Any + Send + Sync> = Arc::new(make());
        Arc::clone(belongings.table().entry(id).or_insert(fresh))
    });
    value.downcast().unwrap_or_else(|_| unreachable!("values are kept by their type"))
}
