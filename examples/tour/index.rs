//! The word index, written once for any kind of timelines.
//!
//! This file is compiled twice: below `on_threads.rs`, where `thread` and `sync` are the standard library's, and below
//! `on_vps.rs`, where they are the mutex language's. It does not know on what it runs.
//!
//! ```text
//!   readers ──pieces──► bounded queue ──► parsers ──► maps with locks ──► barrier ──► each ranks a stripe
//!   (1 in 4)                              (3 in 4)                          of all        of one map
//! ```
//!
//! Nobody starts before all are born (the gate), nobody ranks before all have merged (the barrier), and a timeline ends
//! after it has ranked: so all of them are alive at the same time.
//!
//! The gate also knows how many could be born. An operating system that refuses the 5 000th thread leaves a smaller
//! party with the same result.

use std::io;
use std::sync::Arc;

use super::sync::mpsc::{Receiver, SyncSender, sync_channel};
use super::sync::{Barrier, Condvar, Mutex};
use super::thread;
use crate::pieces::{self, Pieces};
use crate::sides::{Indexed, STACK};
use crate::survey::{Kind, Problem, Survey};
use crate::words::{self, Ranking, SHARDS, Shard};

/// Places in the queue between readers and parsers.
const QUEUE: usize = 64;

/// The words of a piece of a file.
struct Text {
    file: usize,
    bytes: Vec<u8>,
}

enum Role {
    /// Owns an end of the queue: when the last reader is done, the parsers see the queue's end.
    Reader(SyncSender<Text>),
    Parser,
}

#[derive(Clone)]
enum Gate {
    Closed,
    Open {
        born: usize,
        barrier: Arc<Barrier>,
    },
    /// There are not even two timelines: go home.
    CalledOff,
}

struct Index {
    survey: Survey,
    pieces: Mutex<Pieces>,
    queue: Mutex<Receiver<Text>>,
    shards: Vec<Mutex<Shard>>,
    ranking: Mutex<Ranking>,
    problems: Mutex<Vec<Problem>>,
    gate: Mutex<Gate>,
    gate_opened: Condvar,
}

/// Builds the index of the surveyed files on `wanted` timelines.
///
/// `progress` is told now and then how many percent have been read.
///
/// # Errors
/// If fewer than two timelines could be started, or one of them panicked.
pub(crate) fn build(survey: Survey, wanted: usize, progress: fn(u64)) -> Result<Indexed, String> {
    let (sender, receiver) = sync_channel(QUEUE);
    let index = Arc::new(Index {
        pieces: Mutex::new(Pieces::new(&survey.files, wanted)),
        survey,
        queue: Mutex::new(receiver),
        shards: (0..SHARDS).map(|_| Mutex::new(Shard::default())).collect(),
        ranking: Mutex::new(Ranking::default()),
        problems: Mutex::new(Vec::new()),
        gate: Mutex::new(Gate::Closed),
        gate_opened: Condvar::new(),
    });

    let mut timelines = Vec::with_capacity(wanted);
    let mut refused: Option<io::Error> = None;
    for me in 0..wanted {
        let role = if me % 4 == 0 { Role::Reader(sender.clone()) } else { Role::Parser };
        let index = Arc::clone(&index);
        let timeline = thread::Builder::new().stack_size(STACK).spawn(move || index.live(me, role, progress));
        match timeline {
            Ok(timeline) => timelines.push(timeline),
            Err(error) => {
                refused = Some(error);
                break;
            }
        }
    }
    drop(sender);

    let born = timelines.len();
    index.open_gate(born);
    for timeline in timelines {
        timeline.join().map_err(|_| "a timeline panicked".to_owned())?;
    }
    let refused = refused.map(|error| error.to_string());
    if born < 2 {
        return Err(refused.unwrap_or_else(|| "at least two timelines are needed".to_owned()));
    }
    let ranking = index.ranking.lock().unwrap().clone();
    let problems = std::mem::take(&mut *index.problems.lock().unwrap());
    Ok(Indexed { born, refused, ranking, problems })
}

impl Index {
    fn live(&self, me: usize, role: Role, progress: fn(u64)) {
        let (born, barrier) = match self.wait_at_gate() {
            Gate::Open { born, barrier } => (born, barrier),
            Gate::Closed | Gate::CalledOff => return,
        };
        match role {
            Role::Reader(queue) => self.read(queue, progress),
            Role::Parser => self.parse(),
        }
        barrier.wait();
        self.rank(me, born);
    }

    fn open_gate(&self, born: usize) {
        *self.gate.lock().unwrap() =
            if born < 2 { Gate::CalledOff } else { Gate::Open { born, barrier: Arc::new(Barrier::new(born)) } };
        self.gate_opened.notify_all();
    }

    fn wait_at_gate(&self) -> Gate {
        let gate = self.gate.lock().unwrap();
        self.gate_opened.wait_while(gate, |gate| matches!(gate, Gate::Closed)).unwrap().clone()
    }

    /// Reads pieces until none is left. They lie in the page cache mostly, so that reading one hardly holds the core.
    fn read(&self, queue: SyncSender<Text>, progress: fn(u64)) {
        let mut told = 0;
        loop {
            let next = self.pieces.lock().unwrap().next(&self.survey.files);
            let Some((piece, percent)) = next else { return };
            if percent >= told + 5 {
                progress(percent);
                told = percent;
            }
            let path = &self.survey.files[piece.file].path;
            match pieces::read_piece(path, piece) {
                Ok(bytes) if bytes.is_empty() => {}
                Ok(bytes) => {
                    if queue.send(Text { file: piece.file, bytes }).is_err() {
                        return;
                    }
                }
                Err(error) => {
                    let problem = Problem { path: path.clone(), kind: Kind::of(&error) };
                    self.problems.lock().unwrap().push(problem);
                }
            }
        }
    }

    /// Counts words until the queue's end, and merges them into the maps.
    fn parse(&self) {
        loop {
            // The lock is free again at this statement's end, before the work begins.
            let next = self.queue.lock().unwrap().recv();
            let Ok(text) = next else { return };
            for counted in words::count(&text.bytes) {
                let mut shard = self.shards[counted.shard].lock().unwrap();
                shard.add(counted, text.file);
            }
        }
    }

    /// Ranks this timeline's share: some maps if there are few timelines, a stripe of one map if there are many.
    fn rank(&self, me: usize, born: usize) {
        let mut mine = Ranking::default();
        for shard in (me % SHARDS..SHARDS).step_by(born) {
            let stripes = (born - 1 - me % SHARDS) / SHARDS + 1;
            self.shards[shard].lock().unwrap().rank(me / SHARDS, stripes, &mut mine);
        }
        self.ranking.lock().unwrap().merge(&mine);
    }
}
