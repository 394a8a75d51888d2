//! Benchmarks of proto-runtime against the systems its users would otherwise choose.
//!
//! `cargo bench --bench overhead` measures every workload, ours and the rivals', interleaved in one
//! run, prints a table with each goal met or missed, and writes JSON and SVG files to
//! `target/overhead/`. `-- --quick` takes some minutes, `-- NAME` runs one workload, `-- --list`
//! tells the names. `cargo bench --bench micro` measures the micro-operations with criterion.
//!
//! What a number means is said at the head of the workload's file (`workloads/`); how a rival is
//! used, at the head of its family's file (`peers/`). Rivals in C and C++ (`native/`) are compiled by the
//! run; without a compiler or a library for one, the run says so and goes on.
//!
//! ```text
//! arguments ─► plan ─► interleave: round 1..n, every case ─► child process ─► workload.measure(case)
//!                           │                                     │                 └─ peers/*
//!                           └─ samples ─► summary ─► goals, table, json, plot ◄─ one line of JSON
//! ```

#![warn(missing_docs)]

mod calibrate;
mod child;
mod cli;
mod goal;
mod interleave;
mod lattice;
mod machine;
mod peers;
mod plan;
mod plot;
mod record;
mod stats;
mod table;
mod workloads;

pub use cli::overhead;
