//! Controllers, virtual processors, environments, and the two traits that a parallel language implements.
//!
//! A language's author writes what its constructs mean ([`RequestHandler`]: sequential code that runs alone in the language's environment) and, if wanted,
//! which ready work a free core runs next ([`Assigner`]). Everything hard is here: switching, stealing, sleeping, waking, stacks, cancelling, reports.
//!
//! | I want to | |
//! |---|---|
//! | start a program on all cores | [`Runtime`] |
//! | write a construct | [`EnvCell`], [`RequestHandler`], [`Waiters`], [`Guarded`], [`Guard`] |
//! | keep state in my users' objects | [`Keyed`] |
//! | order accesses to data by what they declare | [`Lanes`], [`Claim`] |
//! | have a lock in it | [`RawLock`], [`RawRwLock`], [`Absentees`] |
//! | do something once | [`SetOnce`], [`Lazy`] |
//! | pass values through it | [`Channel`], [`Backlog`] |
//! | make VPs | [`VpBuilder`], [`scope()`] |
//! | fork tasks at the price of calls | [`join()`], [`task_scope()`] |
//! | fork parts of a loop when somebody wants them | [`work_wanted`], [`join_wanted`], [`divisible`] |
//! | have several write one vector | [`filled()`] |
//! | decide what runs where | [`Assigner`] and the ready-made ones |
//! | call something that blocks the OS thread | [`blocking()`] |
//! | be woken by something outside, or wait for a future | [`external`] |
//! | know the runtime that my caller runs in | [`Runtime::current`] |
//! | watch everything that orders timelines | [`Hooks`] |
//!
//! The words are those of the [design], whose rules comments in the code cite (`[design rule 7]`): a *VP* is a timeline with its own stack; a
//! *request* is a value that a timeline sends to an *environment*, whose *handler* answers it or keeps the timeline waiting; to resume it is a
//! *tie-point*.
//!
//! [design]: https://github.com/proto-runtime/proto-runtime/blob/main/docs/design.md

#![cfg_attr(loom, allow(dead_code, reason = "under loom only the models use the kernels"))]

// Under loom these two are all there is: every other module is `#[cfg(not(loom))]`.
mod kernel;
mod sync;

#[cfg(not(loom))]
mod guarded;

#[cfg(not(loom))]
mod assign;
#[cfg(not(loom))]
mod channel;
#[cfg(not(loom))]
mod ctx;
#[cfg(not(loom))]
mod ended;
#[cfg(not(loom))]
mod env;
#[cfg(not(loom))]
mod external;
#[cfg(not(loom))]
mod filled;
#[cfg(not(loom))]
mod hooks;
#[cfg(not(loom))]
mod join;
#[cfg(not(loom))]
mod language;
#[cfg(not(loom))]
mod lock;
#[cfg(not(loom))]
mod once;
#[cfg(not(loom))]
mod panics;
#[cfg(not(loom))]
mod process;
#[cfg(not(loom))]
mod report;
#[cfg(not(loom))]
mod runtime;
#[cfg(not(loom))]
mod scope;
#[cfg(not(loom))]
mod task;
#[cfg(not(loom))]
mod vp;

#[cfg(not(loom))]
pub use self::{
    assign::{Assigner, Cores, Fifo, Lifo, Locality, Locked, Pool, Priority, Why, Work, WorkStealing},
    channel::{Channel, SendTimeoutError},
    ended::{Cancelled, Ended, OrUnwind},
    env::{
        Ask, Backlog, Caller, EnvCell, Hidden, Kind, Loan, RequestHandler, Select, Suspended, Timeline, Waiters, Woken,
        sleep_until,
    },
    external::{ExternalEvent, ExternalWaker, external},
    filled::{Places, filled},
    guarded::{
        Claim, Claimed, Downgrade, Fronts, Frozen, Grant, Guard, Guarded, Keeper, Kept, Key, Keyed, LaneMode, LanePool,
        Lanes, Lender, Open, Opened, OpenedShared, PanicMark, RangeGrant, RangeShares, SharedGrant, SharedRange,
        Shares,
    },
    hooks::{Cause, Event, Hooks},
    join::{JoinError, JoinHandle},
    language::{Language, Scheduled, language, of_process},
    lock::{Absentees, Held, RawLock, RawRwLock},
    once::{Lazy, SetOnce, Turn},
    panics::resume_unwind,
    process::{OnSeedEnd, Process, ProcessBuilder, ProcessError},
    report::{Finding, Holder, Report, Wait},
    runtime::{Builder, Runtime, RuntimeError, RuntimeRef, ShutdownError, available_parallelism, blocking::blocking},
    scope::{Scope, ScopedJoinHandle, scope, scope_caught},
    task::{Cuts, Task, TaskScope, divisible, join, join_wanted, task_scope, work_wanted},
    vp::{
        AccessError, CannotCancel, SpawnError, VpBuilder, VpLocal, VpName, VpRef, binding, current_name, on_vp,
        panicking, unwinding, yield_now,
    },
};
#[cfg(not(loom))]
pub use proto_arch::topology::{CoreId, Topology};
