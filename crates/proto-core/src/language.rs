//! Languages that keep an environment for each process.

use std::sync::Arc;

use crate::ctx::{self, Ctx};
use crate::env::EnvCell;
use crate::process::ambient;
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

/// The environment of language `L` in the calling timeline's process. On an OS thread: in the default runtime's ambient process.
///
/// # Panics
///
/// On an OS thread, if the default runtime cannot be made.
pub fn language<L: Language>() -> Arc<EnvCell<L::Env>> {
    match ctx::installed().and_then(Ctx::current).and_then(Block::process) {
        Some(process) => process.language::<L>(),
        None => match ambient() {
            Ok(process) => process.language::<L>(),
            Err(error) => panic!("the default runtime could not be made: {error}"),
        },
    }
}
