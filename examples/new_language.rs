//! A complete new language, with an assigner of its own: *shares*.
//!
//! ```text
//! cargo run --release --example new_language
//! ```
//!
//! Three departments use the same cores, and are promised 1, 2 and 5 parts of them. Each has four members, which do a piece of
//! work, report it, and do the next. An auditor wants to see how the parts are kept, now and then.
//!
//! A language is two halves, and neither knows threads, atomics or cores' queues:
//!
//! 1. what its constructs *mean*: an environment, and a handler for each request (`Ledger`, below);
//! 2. which ready work a free core runs: an assigner (`Shares`, below). Most languages bring none and use one that is there.
//!
//! Around them goes a thin wrapper, the functions that users of the language call (`turn`, `audit`).

use std::collections::{BTreeMap, VecDeque};
use std::fmt;

use proto_core::{
    Assigner, Caller, CoreId, Cores, Ended, EnvCell, Hidden, Locked, RequestHandler, Runtime, VpBuilder, Waiters, Why,
    Work, scope, yield_now,
};

const DEPARTMENTS: [(&str, u8); 3] = [("archive", 10), ("kitchen", 20), ("press", 50)];
const MEMBERS: usize = 4;
const TURNS: u64 = 40_000;

// ---------------------------------------------------------------------------------------------------------------------
// The first half: what the constructs mean.

/// The environment of the language: what has been done, and who waits to hear of it.
///
/// Handlers run alone in it, so these are plain fields.
struct Ledger {
    turns: [u64; DEPARTMENTS.len()],
    /// The auditor waits here for a total, which it leaves with its place in the queue.
    auditors: Waiters<Page, u64>,
}

/// What an auditor gets to see.
#[derive(Clone, Copy)]
struct Page([u64; DEPARTMENTS.len()]);

/// "I have done a piece of work": answered with whether there is more to do.
struct Report {
    department: usize,
}

impl RequestHandler<Report> for Ledger {
    type Reply = bool;

    fn handle(&mut self, Report { department }: Report, caller: Caller<'_, bool>, hidden: &mut Hidden<'_>) {
        self.turns[department] += 1;
        let total: u64 = self.turns.iter().sum();
        // The tie-point of this language: a report orders the auditor that waited for it. It is made ready after this handler,
        // on its own core; nothing here waits for that.
        while self.auditors.peek(hidden).is_some_and(|wanted| *wanted <= total) {
            if self.auditors.resume_next(Page(self.turns), hidden).is_err() {
                break; // it gave up meanwhile
            }
        }
        // Answered at once, on the caller's own stack: a report costs a lock, these lines, and an unlock.
        hidden.answer(caller, total < TURNS);
    }
}

/// "Show me the ledger once so many pieces are done": the requester is queued until then.
struct Audit {
    at: u64,
}

impl RequestHandler<Audit> for Ledger {
    type Reply = Page;

    fn handle(&mut self, Audit { at }: Audit, caller: Caller<'_, Page>, hidden: &mut Hidden<'_>) {
        if self.turns.iter().sum::<u64>() >= at {
            hidden.answer(caller, Page(self.turns));
        } else {
            self.auditors.push_with(caller, at, hidden);
        }
    }
}

// ---------------------------------------------------------------------------------------------------------------------
// The second half: which ready work a free core runs. Stride scheduling: every class of work has a clock that a turn of it moves
// by the inverse of its share, and the class whose clock is behind runs next.

struct Shares;

/// The ready work of one priority on one core. The priority is the share.
#[derive(Default)]
struct Class {
    clock: u64,
    ready: VecDeque<Work>,
}

/// One core's part. Only that core's controller touches it: no lock.
#[derive(Default)]
struct Classes {
    by_share: BTreeMap<u8, Class>,
    /// The clock of the class that ran last: where a class starts that had nothing to run for a while.
    now: u64,
}

impl Assigner for Shares {
    type Core = Classes;
    /// The core that gets the next new VP, so that each has its part of every class.
    type Shared = usize;

    fn core(&self, _: &Cores<'_>) -> Classes {
        Classes::default()
    }

    fn shared(&self) -> usize {
        0
    }

    fn ready(&self, core: &mut Classes, _: &Locked<usize>, _: &Cores<'_>, work: Work, _: Why) {
        let class = core.by_share.entry(work.priority()).or_default();
        if class.ready.is_empty() {
            // What was not used is not saved up.
            class.clock = class.clock.max(core.now);
        }
        class.ready.push_back(work);
    }

    fn assign(&self, core: &mut Classes, _: &Locked<usize>, _: &Cores<'_>) -> Option<Work> {
        let behind = core.by_share.iter_mut().filter(|(_, class)| !class.ready.is_empty());
        let (share, class) = behind.min_by_key(|(_, class)| class.clock)?;
        core.now = class.clock;
        class.clock += (1 << 20) / u64::from(*share).max(1);
        class.ready.pop_front()
    }

    fn place(&self, next: &Locked<usize>, cores: &Cores<'_>) -> Option<CoreId> {
        let index = next.with(|next| {
            *next = (*next + 1) % cores.count();
            *next
        });
        Some(cores.place_of(index))
    }
}

// ---------------------------------------------------------------------------------------------------------------------
// The wrapper: what users of the language see.

struct Office(EnvCell<Ledger>);

impl Office {
    const fn new() -> Self {
        Office(EnvCell::new(Ledger { turns: [0; DEPARTMENTS.len()], auditors: Waiters::new() }))
    }

    /// Does a piece of work for a department and gives the core to whoever it belongs to next. Whether there is more to do.
    fn turn(&self, department: usize, work: impl FnOnce()) -> Result<bool, Ended> {
        work();
        let more = self.0.request(Report { department })?;
        // Through the controller: here the assigner has its say.
        yield_now();
        Ok(more)
    }

    /// Waits until `at` pieces of work are done. The core runs others meanwhile.
    fn audit(&self, at: u64) -> Result<Page, Ended> {
        self.0.request(Audit { at })
    }
}

impl fmt::Display for Page {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let total: u64 = self.0.iter().sum();
        write!(f, "{total:>6} pieces")?;
        for ((name, _), turns) in DEPARTMENTS.iter().zip(self.0) {
            let eighths = turns as f64 * 8.0 / total as f64;
            write!(f, "   {name} {eighths:4.2} {:<10}", "▇".repeat((eighths * 2.0).round() as usize))?;
        }
        Ok(())
    }
}

// ---------------------------------------------------------------------------------------------------------------------
// A program in the new language.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let runtime = Runtime::builder().controllers(2).build()?;
    println!("{MEMBERS} members of each department do pieces of work; parts of eight, after every fifth of {TURNS}.\n");
    println!("The assigner that is there (everybody in turn):");
    runtime.start(office_hours)?.wait()?;
    println!("\nThe assigner `Shares` ({}):", DEPARTMENTS.map(|(name, share)| format!("{name} {share}")).join(", "));
    // A process may have an assigner of its own; what else runs in the program keeps the others.
    runtime.start_with(Shares, office_hours)?.wait()?;
    Ok(())
}

fn office_hours() {
    let office = Office::new();
    scope(|s| {
        s.spawn(|| {
            for fifth in 1..=5 {
                match office.audit(TURNS * fifth / 5) {
                    Ok(page) => println!("{page}"),
                    Err(ended) => return println!("the audit ended: {ended}"),
                }
            }
        });
        for _ in 0..MEMBERS {
            for (department, (name, share)) in DEPARTMENTS.into_iter().enumerate() {
                let office = &office;
                let member = move || while office.turn(department, piece_of_work) == Ok(true) {};
                if let Err(error) = s.spawn_with(VpBuilder::new().name(name).priority(share), member) {
                    println!("a member of the {name} could not be created: {error}");
                }
            }
        }
    });
}

/// The same for every department.
fn piece_of_work() {
    std::hint::black_box((0..2_000_u64).fold(0, |sum, n| std::hint::black_box(sum ^ n)));
}
