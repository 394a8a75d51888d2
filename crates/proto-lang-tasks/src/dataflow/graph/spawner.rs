//! How ready tasks come to the cores: as latent tasks of one scope.

use proto_core::{EnvCell, TaskScope, work_wanted};

use super::Graph;
use crate::dataflow::job::{Job, finish};

/// Whoever leaves ready tasks to the cores.
#[derive(Clone, Copy)]
pub(in crate::dataflow) struct Spawner<'s, 'x, 'env> {
    pub(in crate::dataflow) scope: &'s TaskScope<'s, 'x>,
    pub(in crate::dataflow) graph: &'s EnvCell<Graph<'env>>,
}

impl<'s, 'env: 's> Spawner<'s, '_, 'env> {
    /// Leaves the running of a task; `None`: of whichever is to go first then.
    pub(in crate::dataflow) fn spawn(self, name: u64, mut next: Option<Box<Job<'env>>>) {
        self.scope.spawn_series(name as u32, move || {
            let job = next.take().or_else(|| self.graph.update(|graph, _, _| graph.fetch()).flatten())?;
            next = finish(self, job);
            // What others wait for is not kept from them by tasks that never fork.
            work_wanted();
            next.as_ref().map(|next| next.seq as u32)
        });
    }
}
