//! Loom models of the kernels: small scenarios, every interleaving within the preemption bound.
//!
//! A scenario's first lines tell its story. A twin that leaves a fence out and must fail (`should_panic`) shows that
//! the model can see the fault it is there for.

mod inbox;
mod latent;
mod sleep;
mod spin;
mod wait;
