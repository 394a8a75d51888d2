//! How ready tasks come to the cores: as latent tasks of one scope.

use proto_core::{EnvCell, TaskScope};

use super::Graph;
use crate::dataflow::job::{Job, give_up, work};

/// Whoever leaves ready tasks to the cores.
#[derive(Clone, Copy)]
pub(in crate::dataflow) struct Spawner<'s, 'x, 'env> {
    pub(in crate::dataflow) scope: &'s TaskScope<'s, 'x>,
    pub(in crate::dataflow) graph: &'s EnvCell<Graph<'env>>,
}

impl<'s, 'env: 's> Spawner<'s, '_, 'env> {
    pub(in crate::dataflow) fn spawn(self, job: Box<Job<'env>>) {
        self.surely(move |runs| if runs { work(self, job) } else { give_up(self, job) });
    }

    /// Leaves the running of whichever ready task is to go first then.
    pub(in crate::dataflow) fn spawn_ticket(self) {
        self.surely(move |runs| match self.graph.update(|graph, _, _| graph.fetch()).flatten() {
            Some(job) if runs => work(self, job),
            job => job.into_iter().for_each(|job| give_up(self, job)),
        });
    }

    /// Spawns `f`; if it is never run, since its scope was cancelled before or there is no stack, it is called with `false` where it is dropped.
    pub(in crate::dataflow) fn surely(self, f: impl FnOnce(bool) + Send + 's) {
        struct Sure<F: FnOnce(bool)>(Option<F>);
        impl<F: FnOnce(bool)> Drop for Sure<F> {
            fn drop(&mut self) {
                self.0.take().into_iter().for_each(|f| f(false));
            }
        }
        let mut sure = Sure(Some(f));
        self.scope.spawn(move || sure.0.take().into_iter().for_each(|f| f(true)));
    }
}
