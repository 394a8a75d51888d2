//! References to VPs.

use std::any::TypeId;
use std::fmt;
use std::sync::Arc;

use proto_arch::topology::CoreId;

use super::block::Block;
use super::{VpName, cancel, extra};
use crate::ctx::{self, Ctx};
use crate::env::EnvCell;
use crate::report::verdict;
use crate::runtime::core::Core;

/// A reference to a VP: for its name, to cancel it, to place others near it. Does not keep it alive, and may outlive it.
///
/// # Examples
///
/// ```
/// use proto_core::{OrUnwind, Runtime, VpBuilder, VpRef, sleep_until};
///
/// let runtime = Runtime::builder().controllers(1).build()?;
/// let (name, ended) = runtime.run(|| {
///     let me = VpRef::current();
///     let sleeper = VpBuilder::new().name("sleeper").spawn(|| sleep_until(None).or_unwind()).unwrap();
///     let vp = sleeper.vp();
///     assert!(vp != me && vp.id() != me.id());
///     assert_eq!((me.home().is_some(), vp.has_ended()), (true, false));
///     let name = vp.name(); // while it lives
///     vp.cancel().unwrap();
///     while !vp.has_ended() {
///         proto_core::yield_now();
///     }
///     (name, vp.has_ended())
/// })?;
/// assert_eq!((name.user(), ended), (Some("sleeper"), true));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy)]
pub struct VpRef {
    pub(super) block: &'static Block,
    pub(super) birth: u64,
}

impl fmt::Debug for VpRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("VpRef").field(&self.name().to_string()).finish()
    }
}

impl PartialEq for VpRef {
    fn eq(&self, other: &VpRef) -> bool {
        std::ptr::eq(self.block, other.block) && self.birth == other.birth
    }
}

impl Eq for VpRef {}

impl VpRef {
    pub(crate) fn of(block: &'static Block) -> VpRef {
        VpRef { block, birth: block.birth() }
    }

    /// The calling timeline, VP or OS thread.
    ///
    /// # Panics
    ///
    /// On a controller's own stack.
    pub fn current() -> VpRef {
        VpRef::of(ctx::get().current().expect("an assigner or a hook is no timeline"))
    }

    /// Its name, if it still lives; otherwise the name of whatever timeline uses its control block now, so better ask early.
    pub fn name(&self) -> VpName {
        VpName::of(self.block)
    }

    /// Whether it has ended.
    pub fn has_ended(&self) -> bool {
        self.block.birth() != self.birth
    }

    /// The core it lives on, once that is settled and until it has ended.
    pub fn home(&self) -> Option<CoreId> {
        let home = self.block.home_hint();
        if self.has_ended() || home.is_null() {
            return None;
        }
        match ctx::installed().and_then(Ctx::core).and_then(|core| core.shared().core_of(home)) {
            Some(home) => Some(home.place),
            None => verdict::runtimes().iter().find_map(|shared| shared.core_of(home).map(|home| home.place)),
        }
    }

    /// A number that no other timeline of the program has.
    pub fn id(&self) -> u64 {
        (std::ptr::from_ref(self.block).addr() as u64) ^ self.birth.rotate_right(20)
    }

    /// The environment of type `E` that belongs to this timeline, made at its first use by anybody. `None` if the timeline has ended.
    ///
    /// What a language keeps for each timeline and others send requests to: a mailbox, a permit to go on. Few timelines have one, so none
    /// pays for it at birth. The timeline's end drops it, unless a reference is left.
    ///
    /// # Examples
    ///
    /// ```
    /// use proto_core::{Caller, Hidden, Kind, RequestHandler, VpRef};
    ///
    /// #[derive(Default)]
    /// struct Praise { times: u32 }
    /// struct Add;
    /// impl RequestHandler<Add> for Praise {
    ///     type Reply = u32;
    ///     const KIND: Kind = Kind::Release;
    ///     fn handle(&mut self, _: Add, caller: Caller<'_, u32>, hidden: &mut Hidden<'_>) {
    ///         self.times += 1;
    ///         hidden.answer(caller, self.times);
    ///     }
    /// }
    /// let me = VpRef::current();
    /// proto_core::scope(|s| {
    ///     s.spawn(move || me.environment::<Praise>().unwrap().release_asking(Add));
    /// });
    /// assert_eq!(me.environment::<Praise>().unwrap().release_asking(Add), Some(2));
    /// ```
    #[track_caller]
    pub fn environment<E: Default + Send + 'static>(&self) -> Option<Arc<EnvCell<E>>> {
        let kind = TypeId::of::<E>();
        let cell = match extra::environment(self.block, self.birth, kind, &mut None) {
            Some(cell) => cell,
            None if self.has_ended() => return None,
            None => {
                let mut fresh: Option<extra::AnyCell> = Some(Arc::new(EnvCell::new(E::default())));
                extra::environment(self.block, self.birth, kind, &mut fresh)?
            }
        };
        Some(cell.downcast().unwrap_or_else(|_| unreachable!("environments are kept by their type")))
    }

    /// Cancels the VP and everything in the scopes it stands in [design rule 13]: it unwinds from its next abandonable wait.
    /// Does nothing to an OS thread, or to a VP that has ended.
    ///
    /// # Errors
    ///
    /// In a `panic=abort` build, where nothing can unwind.
    pub fn cancel(&self) -> Result<(), cancel::CannotCancel> {
        cancel::check_possible()?;
        if self.block.is_thread() || self.has_ended() {
            return Ok(());
        }
        let home = self.block.home_hint();
        let here = ctx::installed().and_then(Ctx::core).map(Core::shared);
        match here.filter(|shared| shared.core_of(home).is_some()) {
            Some(shared) => cancel::cancel(shared, self.block, self.birth),
            // Not settled yet, of another runtime, or of one that is gone meanwhile.
            None => {
                for shared in verdict::runtimes() {
                    if home.is_null() || shared.core_of(home).is_some() {
                        cancel::cancel(&shared, self.block, self.birth);
                    }
                }
            }
        }
        Ok(())
    }
}
