//! Reports: what waits for what, since when, and who holds it [design rule 10].
//!
//! | file | what lives there |
//! |---|---|
//! | `list` | reading the waits of timelines |
//! | `pace` | how often the runtime speaks by itself |
//! | `suspicion` | what may be one, and is said without consequences |
//! | `verdict` | when a report is certain, and what follows |

pub(crate) mod list;
pub(crate) mod pace;
pub(crate) mod suspicion;
pub(crate) mod verdict;

use std::fmt;
use std::panic::Location;
use std::time::Duration;

use crate::vp::VpName;

/// One timeline's wait.
///
/// # Examples
///
/// A line of a monitor, for each wait that has gone on for long:
///
/// ```
/// use std::time::Duration;
///
/// use proto_core::{OrUnwind, Runtime, Wait};
///
/// fn line(wait: &Wait) -> String {
///     let Wait { vp, request, environment, sent_from, made_at, object, holder, since, timed, binding, .. } = wait;
///     let mut line = format!("{vp} in {environment} for {request}, sent from line {}, for {since:?}", sent_from.line());
///     if let Some(place) = made_at {
///         line += &format!("; object of line {}", place.line());
///     }
///     if let Some((first, number)) = object {
///         line += &format!(", number {number} of {first}");
///     }
///     if let Some(holder) = holder {
///         line += &format!(", held by {}", holder.vp);
///     }
///     line + if *timed { "; ends by itself" } else { "" } + if *binding { "; no cancel ends it" } else { "" }
/// }
///
/// let runtime = Runtime::builder().controllers(1).build()?;
/// let (event, waker) = proto_core::external();
/// let process = runtime.start(move || event.wait(None).or_unwind())?;
/// let waits = loop {
///     let waits = runtime.waits();
///     if !waits.is_empty() { break waits }
/// };
/// assert!(line(&waits[0]).starts_with("vp 1:0 in "));
/// assert!(waits[0].since < Duration::from_secs(60));
/// waker.wake(());
/// process.wait()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Wait {
    /// Who waits.
    pub vp: VpName,
    /// The request it waits for, by its type: the construct.
    pub request: &'static str,
    /// The environment it waits in, by its type.
    pub environment: &'static str,
    /// Where the request was sent from.
    pub sent_from: &'static Location<'static>,
    /// Where the object was made, if it waits in one's queue.
    pub made_at: Option<&'static Location<'static>>,
    /// The object's name, for people: who requested something of it first, and which of its requests that was. As far as is known: from the
    /// beginning if [`Hooks`](crate::Hooks) are installed, else from those that wait now.
    pub object: Option<(VpName, u64)>,
    /// Who holds the object, if somebody does and its language says so.
    pub holder: Option<Holder>,
    /// How long it has waited, to about 10 ms.
    pub since: Duration,
    /// It has a deadline, and so ends by itself.
    pub timed: bool,
    /// A cancel does not end it.
    pub binding: bool,
}

/// Who holds an object.
///
/// # Examples
///
/// ```
/// use proto_core::{Holder, RawLock, Runtime, VpBuilder, scope};
///
/// fn told(holder: &Holder) -> String {
///     let Holder { vp, taken_at, ended, others, .. } = holder;
///     let place = taken_at.map_or("?".to_owned(), |place| format!("line {}", place.line()));
///     format!("{vp} took it in {place}{}, with {others} others", if *ended { " and ended" } else { "" })
/// }
/// let runtime = Runtime::builder().controllers(1).build()?;
/// let (event, waker) = proto_core::external::<()>();
/// let process = runtime.start(move || {
///     let lock = RawLock::new();
///     let held = lock.lock();
///     scope(|s| {
///         s.spawn_with(VpBuilder::new().name("second"), || drop(lock.lock())).unwrap();
///         event.wait(None).ok();
///         lock.give(held.grant, proto_core::PanicMark::now());
///     });
/// })?;
/// let told = loop {
///     if let Some(told) = runtime.waits().iter().find_map(|wait| wait.holder.as_ref().map(told)) { break told }
/// };
/// assert!(told.starts_with("vp 1:0 took it in line ") && told.ends_with(", with 0 others"));
/// waker.wake(());
/// process.wait()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Holder {
    /// Its name.
    pub vp: VpName,
    /// Where it took the object.
    pub taken_at: Option<&'static Location<'static>>,
    /// It has ended without giving the object back.
    pub ended: bool,
    /// How many hold it besides.
    pub others: u32,
}

impl fmt::Display for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} waits in {} of {} at {}", self.vp, short(self.request), short(self.environment), self.sent_from)?;
        if let Some(made_at) = self.made_at {
            write!(f, ", on the object made at {made_at}")?;
        }
        if let Some((by, number)) = &self.object {
            write!(f, " (object {number} of {by})")?;
        }
        if let Some(holder) = &self.holder {
            write!(f, ", held by {}", holder.vp)?;
            if holder.ended {
                f.write_str(", which has ended")?;
            }
            if holder.others > 0 {
                write!(f, " and {} more", holder.others)?;
            }
            if let Some(taken_at) = holder.taken_at {
                write!(f, " since {taken_at}")?;
            }
        }
        if self.timed {
            f.write_str(", with a deadline")?;
        }
        Ok(())
    }
}

/// The name of a type or function without its path, and without the parameters of it that stand at the end.
fn short(name: &str) -> &str {
    let mut depth = 0_usize;
    let opens = |(_, byte): &(usize, &u8)| {
        depth = match byte {
            b'>' => depth + 1,
            b'<' => depth.saturating_sub(1),
            _ => depth,
        };
        depth == 0
    };
    let end = match name.ends_with('>') {
        true => name.as_bytes().iter().enumerate().rev().find(opens).map_or(name.len(), |(at, _)| at),
        false => name.len(),
    };
    let start = name[..end].rfind("::").map_or(0, |at| at + 2);
    &name[start..end]
}

/// What was found out about waits that end by nobody.
///
/// # Examples
///
/// ```
/// use proto_core::{Finding, ProcessError, RawLock, Report, Runtime, VpBuilder, scope};
///
/// fn report(outcome: Result<(), ProcessError>) -> Option<Box<Report>> {
///     match outcome {
///         Err(ProcessError::Deadlock(report)) => Some(report),
///         _ => None,
///     }
/// }
/// let runtime = Runtime::builder().controllers(1).build()?;
/// let deadlock = runtime.run(|| {
///     let lock = RawLock::new();
///     scope(|s| {
///         s.spawn_with(VpBuilder::new().name("thief"), || drop(lock.lock())).unwrap(); // never given back
///     });
///     lock.lock();
/// });
/// let report = report(deadlock).expect("a holder has ended");
/// assert_eq!((report.finding, report.certain), (Finding::HolderEnded, true));
/// let holder = report.waits[0].holder.as_ref().expect("it is known");
/// assert_eq!((holder.vp.user(), holder.ended, holder.others), (Some("thief"), true, 0));
/// assert!(report.to_string().contains("'thief'"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Report {
    /// Why nothing goes on.
    pub finding: Finding,
    /// A verdict: nobody could have ended these waits any more. Otherwise it is a suspicion: somebody outside still might.
    pub certain: bool,
    /// The waits concerned. For a cycle those come first that form it, in its order.
    pub waits: Vec<Wait>,
}

/// Why nothing goes on.
///
/// # Examples
///
/// ```
/// use proto_core::{Finding, ProcessError, Runtime, SetOnce};
///
/// fn advice(finding: Finding) -> String {
///     match finding {
///         Finding::Cycle { length, .. } => format!("take these {length} in one order everywhere"),
///         Finding::HolderEnded => "give it back in a destructor".to_owned(),
///         Finding::AllWait | _ => "somebody has to go on".to_owned(),
///     }
/// }
/// let runtime = Runtime::builder().controllers(1).build()?;
/// let deadlock = runtime.run(|| {
///     SetOnce::<()>::new().wait(false, None); // nobody else knows of it
/// });
/// let Err(ProcessError::Deadlock(report)) = deadlock else { panic!("it waits for ever") };
/// assert_eq!(advice(report.finding), "somebody has to go on");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Finding {
    /// Each of the first `length` waits is for an object that the next one's timeline holds, and the last one's for the first's.
    Cycle {
        /// How many.
        length: usize,
    },
    /// The first wait is for an object whose holder has ended.
    HolderEnded,
    /// Everything waits, and nobody is left who could end a wait; as a suspicion: everything in the process waits.
    AllWait,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.certain { "deadlock: " } else { "suspected deadlock: " })?;
        match self.finding {
            Finding::Cycle { length } => writeln!(f, "a cycle of {length} that wait for each other")?,
            Finding::HolderEnded => writeln!(f, "an object's holder has ended without giving it back")?,
            Finding::AllWait if self.certain => writeln!(f, "everything waits, and nobody is left to end a wait")?,
            Finding::AllWait => {
                writeln!(f, "everything in the process waits, and only somebody outside could end a wait")?
            }
        }
        for (index, wait) in self.waits.iter().enumerate() {
            let mark = matches!(self.finding, Finding::Cycle { length } if index < length);
            writeln!(f, "  {} {wait}", if mark { "*" } else { "-" })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod test {
    use super::short;

    #[test]
    fn a_name_is_shown_without_path_and_parameters() {
        assert_eq!(short("Acquire"), "Acquire");
        assert_eq!(short("a::b::Acquire"), "Acquire");
        assert_eq!(short("a::Wait<b::Inner<c::D>, '_>"), "Wait");
        assert_eq!(short("a::Lock<b::C>::take_later"), "take_later");
        assert_eq!(short("a::<impl b::Lock>::wait_in<c::Env, d::<impl E>::f::{{closure}}>"), "wait_in");
    }
}
