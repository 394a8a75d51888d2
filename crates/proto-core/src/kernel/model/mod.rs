//! Loom models of the kernels: small scenarios, every interleaving within the preemption bound.
//!
//! A scenario's first lines tell its story. A twin that leaves a fence or an ordering out (`sync::model`) and must fail
//! (`should_panic`) shows that the model can see the fault it is there for.
//!
//! A preemption bound of 2 is for every day (`ci/test.sh`); the deep run (`ci/deep.sh`) has 4, without the turns of
//! `sync::model`: there are faults that take three preemptions. Beware of what the barrier's stand-in hides: its light half
//! is a fence here and none on the machine, so what one thread shows another needs an ordering of its own, and a model
//! without any barrier to check it.

mod done;
mod ends;
mod inbox;
mod latent;
mod sleep;
mod spin;
mod tally;
mod wait;
