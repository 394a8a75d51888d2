//! Random programs give what they give when each task runs where it is made.
//!
//! `PROTO_GRAPHS` says how many of each kind are tried (100 000 in the deep run), `PROTO_SEED` with which one to begin.

use std::sync::atomic::{AtomicU64, Ordering};

use proto_core::Runtime;
use proto_lang_tasks::{Data, Flow, KeptGraph, Recorder, Reduction, dataflow};

/// Random numbers (xorshift64*), one sequence for each seed.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) % n
    }

    fn one_of<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize]
    }
}

fn mix(a: u64, b: u64) -> u64 {
    (a ^ b.rotate_left(23)).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(17)
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Input,
    Output,
    Inout,
    Concurrent,
    Commutative,
    Reduction,
}
use Kind::{Commutative, Concurrent, Inout, Input, Output};

const KINDS: [Kind; 6] = [Input, Output, Inout, Concurrent, Commutative, Kind::Reduction];

type Cell = AtomicU64;

static SUM: Reduction<Cell> =
    Reduction::new(|| Cell::new(0), |sum, part| *sum.get_mut() = sum.get_mut().wrapping_add(part.into_inner()));

/// What a task does: the same with each datum of a kind, whoever runs it.
fn step(number: u64, accesses: &[(Kind, &Cell)]) {
    let read = accesses.iter().filter(|(kind, _)| *kind == Input);
    let known = read.fold(mix(number, 1), |known, (_, cell)| mix(known, cell.load(Ordering::Relaxed)));
    for (kind, cell) in accesses {
        // Not in one: what nobody else may do at once.
        let before = cell.load(Ordering::Relaxed);
        match kind {
            Input => {}
            Output => cell.store(known, Ordering::Relaxed),
            Inout => cell.store(mix(before, known), Ordering::Relaxed),
            Concurrent => _ = cell.fetch_add(known, Ordering::Relaxed),
            Commutative | Kind::Reduction => cell.store(before.wrapping_add(known), Ordering::Relaxed),
        }
    }
}

fn on(kind: Kind, cell: &Cell) -> (Kind, &Cell) {
    (kind, cell)
}

#[derive(Clone, Debug)]
enum Act {
    Task(Vec<(Kind, usize)>, u8),
    Wait,
    WaitOn(usize),
    /// Reads it in the middle of all.
    Look(usize),
}

fn program(random: &mut Random, data: u64) -> Vec<Act> {
    let length = 1 + random.below(60);
    let prioritised = random.below(4) == 0;
    let act = |random: &mut Random| match random.below(30) {
        0 => Act::Wait,
        1 => Act::WaitOn(random.below(data) as usize),
        2 | 3 => Act::Look(random.below(data) as usize),
        _ => {
            let mut accesses: Vec<(Kind, usize)> = Vec::new();
            for _ in 0..random.below(4) {
                let of = if accesses.len() == 2 { &KINDS[..3] } else { &KINDS[..] };
                let access = (random.one_of(of), random.below(data) as usize);
                if accesses.iter().all(|other| other.1 != access.1) {
                    accesses.push(access);
                }
            }
            Act::Task(accesses, if prioritised { random.below(256) as u8 } else { 128 })
        }
    };
    (0..length).map(|_| act(random)).collect()
}

/// Each task where it is made. Gives what is looked at, then the data.
fn in_turn(program: &[Act], data: usize) -> Vec<u64> {
    let cells: Vec<Cell> = (0..data).map(|_| Cell::new(0)).collect();
    let mut seen = Vec::new();
    for (number, act) in program.iter().enumerate() {
        match act {
            Act::Task(accesses, _) => {
                let accesses: Vec<_> = accesses.iter().map(|&(kind, at)| (kind, &cells[at])).collect();
                step(number as u64, &accesses);
            }
            Act::WaitOn(at) | Act::Look(at) => seen.push(cells[*at].load(Ordering::Relaxed)),
            Act::Wait => {}
        }
    }
    seen.extend(cells.into_iter().map(Cell::into_inner));
    seen
}

macro_rules! declare {
    ($kind:expr, $data:expr, $builder:expr, [$($method:ident)*], $next:ident => $then:expr) => {
        match $kind {
            Input => { let $next = $builder.input($data); $then }
            Output => { let $next = $builder.output($data); $then }
            Inout => { let $next = $builder.inout($data); $then }
            $($method => declare!(@ $method, $data, $builder, $next => $then),)*
            #[allow(unreachable_patterns, reason = "where all kinds are listed")]
            kind => unreachable!("{kind:?} comes first"),
        }
    };
    (@ Concurrent, $data:expr, $builder:expr, $next:ident => $then:expr) => {{ let $next = $builder.concurrent($data); $then }};
    (@ Commutative, $data:expr, $builder:expr, $next:ident => $then:expr) => {{ let $next = $builder.commutative($data); $then }};
    (@ Sum, $data:expr, $builder:expr, $next:ident => $then:expr) => {{ let $next = $builder.reduction($data, &SUM); $then }};
}
use Kind::Reduction as Sum;

/// Makes a task, in a graph that runs or in one that is kept.
macro_rules! makes {
    ($name:ident, $maker:ty, $run:ident) => {
        fn $name<'env>(df: &$maker, number: u64, accesses: &[(Kind, usize)], priority: u8, data: &'env [Data<Cell>]) {
            let task = df.task().priority(priority);
            match *accesses {
                [] => _ = task.$run(move || step(number, &[])),
                [(k, a)] => declare!(k, &data[a], task, [Concurrent Commutative Sum], task => {
                    task.$run(move |a| step(number, &[on(k, a)]));
                }),
                [(k, a), (l, b)] => declare!(k, &data[a], task, [Concurrent Commutative Sum], task => {
                    declare!(l, &data[b], task, [Concurrent Commutative Sum], task => {
                        task.$run(move |a, b| step(number, &[on(k, a), on(l, b)]));
                    })
                }),
                [(k, a), (l, b), (m, c), ..] => declare!(k, &data[a], task, [Concurrent Commutative Sum], task => {
                    declare!(l, &data[b], task, [Concurrent Commutative Sum], task => {
                        declare!(m, &data[c], task, [], task => {
                            task.$run(move |a, b, c| step(number, &[on(k, a), on(l, b), on(m, c)]));
                        })
                    })
                }),
            }
        }
    };
}

makes!(make, Flow<'_, 'env>, run);
makes!(make_kept, Recorder<'env>, again);

fn at_once(program: &[Act], count: usize, limit: usize) -> Vec<u64> {
    let data: Vec<Data<Cell>> = (0..count).map(|_| Data::default()).collect();
    let mut seen = dataflow(|df| {
        let mut seen = Vec::new();
        df.limit(limit);
        for (number, act) in program.iter().enumerate() {
            let look = |at: usize| df.task().input(&data[at]).undeferred().result(|cell| cell.load(Ordering::Relaxed));
            match act {
                Act::Task(accesses, priority) => make(df, number as u64, accesses, *priority, &data),
                Act::Wait => df.taskwait(),
                Act::Look(at) => seen.push(look(*at).join().expect("nobody panics")),
                Act::WaitOn(at) => {
                    df.taskwait_on(&data[*at]);
                    seen.push(look(*at).join().expect("nobody panics"));
                }
            }
        }
        seen
    });
    seen.extend(data.into_iter().map(|data| data.into_inner().into_inner()));
    seen
}

/// Calls `f` with as many seeds as are asked for, in a runtime of 1 to 3 controllers.
fn for_each_seed(f: impl Fn(u64) + Sync) {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let (first, count) = (number("PROTO_SEED").unwrap_or(1), number("PROTO_GRAPHS").unwrap_or(600));
    for controllers in 1..=3 {
        let runtime = Runtime::builder().controllers(controllers).build().expect("a runtime");
        runtime
            .run(|| (first..first + count / 3).for_each(|seed| f(seed * 3 + controllers as u64)))
            .expect("the process ends well");
    }
}

#[test]
fn random_programs_give_the_sequential_result() {
    for_each_seed(|seed| {
        let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        let data = 1 + random.below(6);
        let program = program(&mut random, data);
        let limit = random.one_of(&[1, 2, 10, 1000]);
        let (data, is) = (data as usize, at_once(&program, data as usize, limit));
        assert_eq!(is, in_turn(&program, data), "PROTO_SEED={seed}, limit {limit}: {program:?}");
    });
}

#[test]
fn random_kept_graphs_give_the_sequential_result_of_all_their_runs() {
    for_each_seed(|seed| {
        let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        let count = 1 + random.below(6) as usize;
        let tasks = program(&mut random, count as u64).into_iter().zip(0..);
        let tasks = tasks.filter_map(|(act, number)| match act {
            Act::Task(accesses, priority) => Some((number, accesses, priority)),
            _ => None,
        });
        let tasks: Vec<(u64, Vec<_>, u8)> = tasks.collect();
        let runs = 1 + random.below(3);

        let cells: Vec<Cell> = (0..count).map(|_| Cell::new(0)).collect();
        for (number, accesses, _) in (0..runs).flat_map(|_| &tasks) {
            let accesses: Vec<_> = accesses.iter().map(|&(kind, at)| (kind, &cells[at])).collect();
            step(*number, &accesses);
        }

        let data: Vec<Data<Cell>> = (0..count).map(|_| Data::default()).collect();
        let mut graph = KeptGraph::record(|df| {
            tasks.iter().for_each(|(number, accesses, priority)| make_kept(df, *number, accesses, *priority, &data));
        });
        (0..runs).for_each(|_| graph.run());
        drop(graph);
        let is = data.into_iter().map(|data| data.into_inner().into_inner());
        assert!(is.eq(cells.into_iter().map(Cell::into_inner)), "PROTO_SEED={seed}: {runs} runs of {tasks:?}");
    });
}

/// A program of tasks that make tasks.
#[derive(Debug)]
enum Nested {
    Task(u64, Vec<(Kind, usize)>),
    /// Its data, weakly, and what it makes.
    Nest(Vec<usize>, Vec<Nested>),
    Wait,
}

fn nested(random: &mut Random, data: &[usize], depth: u32) -> Vec<Nested> {
    let length = 1 + random.below(8);
    let act = |random: &mut Random| match random.below(8) {
        0 => Nested::Wait,
        1..=3 if depth > 0 => {
            let own: Vec<usize> = data.iter().copied().filter(|_| random.below(3) > 0).collect();
            let acts = if own.is_empty() { Vec::new() } else { nested(random, &own, depth - 1) };
            Nested::Nest(own, acts)
        }
        _ => {
            let first = (random.one_of(&KINDS), random.one_of(data));
            let second = (random.one_of(&KINDS), random.one_of(data));
            let accesses = if first.1 == second.1 { vec![first] } else { vec![first, second] };
            Nested::Task(random.below(1 << 30), accesses)
        }
    };
    (0..length).map(|_| act(random)).collect()
}

fn play_in_turn(acts: &[Nested], cells: &[Cell]) {
    for act in acts {
        match act {
            Nested::Task(number, accesses) => {
                let accesses: Vec<_> = accesses.iter().map(|&(kind, at)| (kind, &cells[at])).collect();
                step(*number, &accesses);
            }
            Nested::Nest(_, acts) => play_in_turn(acts, cells),
            Nested::Wait => {}
        }
    }
}

fn play<'env>(df: &Flow<'_, 'env>, acts: &'env [Nested], data: &'env [Data<Cell>]) {
    for act in acts {
        match act {
            Nested::Task(number, accesses) => make(df, *number, accesses, 128, data),
            Nested::Nest(own, acts) => {
                let task = own.iter().fold(df.task(), |task, &at| task.weak_inout(&data[at]));
                task.nest(move |df| play(df, acts, data));
            }
            Nested::Wait => df.taskwait(),
        }
    }
}

#[test]
fn random_programs_of_tasks_that_make_tasks_give_the_sequential_result() {
    for_each_seed(|seed| {
        let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        let count = 1 + random.below(5) as usize;
        let program = nested(&mut random, &Vec::from_iter(0..count), 3);
        let cells: Vec<Cell> = (0..count).map(|_| Cell::new(0)).collect();
        play_in_turn(&program, &cells);

        let data: Vec<Data<Cell>> = (0..count).map(|_| Data::default()).collect();
        dataflow(|df| play(df, &program, &data));
        let is = data.into_iter().map(|data| data.into_inner().into_inner());
        assert!(is.eq(cells.into_iter().map(Cell::into_inner)), "PROTO_SEED={seed}: {program:?}");
    });
}

#[derive(Clone, Copy, Debug)]
struct Range(Kind, usize, usize);

fn step_on(number: u64, kind: Kind, known: u64, part: &mut [u64]) {
    for (place, x) in part.iter_mut().enumerate() {
        *x = match kind {
            Output => mix(number, place as u64),
            Inout => mix(*x, known),
            _ => x.wrapping_add(known),
        };
    }
}

fn sum(part: &[u64]) -> u64 {
    part.iter().fold(0, |sum, &x| mix(sum, x))
}

#[test]
fn overlapping_parts_are_dependences() {
    const LENGTH: usize = 20;
    for_each_seed(|seed| {
        let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        let mut range = |kind| {
            let (a, b) = (random.below(LENGTH as u64 + 1) as usize, random.below(LENGTH as u64 + 1) as usize);
            Range(kind, a.min(b), a.max(b))
        };
        // Each task reads a part and writes another one.
        let program: Vec<(Range, Range)> = (0..40)
            .map(|number| (range(Input), range([Output, Inout, Commutative, Inout][(seed + number) as usize % 4])))
            .filter(|(read, write)| read.2 <= write.1 || write.2 <= read.1)
            .collect();

        let mut expected = vec![0; LENGTH];
        for (number, (read, write)) in program.iter().enumerate() {
            let known = sum(&expected[read.1..read.2]);
            step_on(number as u64, write.0, mix(known, number as u64), &mut expected[write.1..write.2]);
        }

        let cells: Data<[u64]> = Data::from(vec![0; LENGTH]);
        dataflow(|df| {
            for (number, &(read, write)) in program.iter().enumerate() {
                let (number, target) = (number as u64, cells.range(write.1..write.2));
                let task = df.task().input(cells.range(read.1..read.2));
                let f = move |read: &[u64], part: &mut [u64]| step_on(number, write.0, mix(sum(read), number), part);
                match write.0 {
                    Output => task.output(target).run(f),
                    Inout => task.inout(target).run(f),
                    _ => task.commutative(target).run(f),
                };
            }
        });
        assert_eq!(*cells.into_boxed_slice(), *expected, "PROTO_SEED={seed}: {program:?}");
    });
}
