//! Loops: every item once, in order where there is one, whoever takes part; panics lose and repeat nothing.

mod common;

use std::collections::BTreeSet;
use std::ops::Range;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex as StdMutex};
use std::thread::ThreadId;
use std::time::{Duration, Instant};

use common::{Dice, on_1_2_4, panic_of, runtime, sized, watched};
use proto_core::{Event, Hooks, Runtime, current_name, join, yield_now};
use proto_lang_mutex::sync::{Mutex, mpsc};
use proto_lang_tasks::{Divide, IntoPieces, JoinError, Pieces, chunks, chunks_mut, dku, over, par_for, spawn, work};

/// Now and then something that takes longer, or lets others in.
fn uneven(number: usize) {
    match number % 997 {
        0 => yield_now(),
        1 => {
            let until = Instant::now() + Duration::from_micros(30);
            while Instant::now() < until {
                std::hint::spin_loop();
            }
        }
        _ => {}
    }
}

#[test]
fn each_item_is_visited_once() {
    on_1_2_4("for_each", || {
        for len in [0, 1, 2, 3, 100, sized(30_000, 300)] {
            let mut seen = vec![0u32; len];
            over(&mut seen).enumerate().for_each(|(number, seen)| {
                uneven(number);
                *seen += 1;
            });
            assert!(seen.iter().all(|times| *times == 1), "of {len} items one was left out, or visited twice");
            let count = AtomicUsize::new(0);
            over(0..len).grain(10).for_each_block(|block: Range<usize>| {
                uneven(block.start);
                count.fetch_add(block.len(), Ordering::Relaxed);
            });
            assert_eq!(count.into_inner(), len);
        }
    });
}

#[test]
fn results_come_in_the_order_of_the_items() {
    on_1_2_4("map", || {
        for len in [0, 1, 2, 10, sized(20_000, 200)] {
            let text = |number: usize| {
                uneven(number);
                number.to_string()
            };
            let expected: Vec<_> = (0..len).map(|number| number.to_string()).collect();
            assert_eq!(over(0..len).map(text), expected);
            // Not commutative, but associative.
            let joined = over(0..len).map_reduce(text, |a, b| a + &b);
            assert_eq!(joined.unwrap_or_default(), expected.concat());
        }
    });
}

#[test]
fn a_fold_takes_the_items_in_their_order_and_begins_once_for_each_part() {
    on_1_2_4("fold", || {
        for len in [0, 1, 2, 10, sized(20_000, 200)] {
            let (begun, merged) = (AtomicUsize::new(0), AtomicUsize::new(0));
            let begin = || {
                begun.fetch_add(1, Ordering::Relaxed);
                Vec::new()
            };
            let step = |so_far: &mut Vec<_>, number| {
                uneven(number);
                so_far.extend(std::iter::repeat_n(number, number % 3));
            };
            let folded = over(0..len).fold(begin, step, |so_far, later| {
                merged.fetch_add(1, Ordering::Relaxed);
                so_far.extend(later);
            });
            assert!(folded.into_iter().eq((0..len).flat_map(|number| std::iter::repeat_n(number, number % 3))));
            assert_eq!(begun.into_inner(), merged.into_inner() + 1);
        }
    });
}

#[test]
fn sources_side_by_side_stop_with_the_shortest() {
    on_1_2_4("zip", || {
        let (a, b) = ([1, 2, 3, 4, 5], vec![10, 20, 30]);
        let mut c = [0; 4];
        par_for((&mut c, &a, &b), |(c, a, b)| *c = a + b);
        assert_eq!(c, [11, 22, 33, 0]);
        assert_eq!(over((chunks(&a, 2), -1..5i8)).map(|(row, n)| (row.len(), n)), [(2, -1), (2, 0), (1, 1)]);
        let mut d = [0u8; 7];
        par_for((chunks_mut(&mut d, 3), 1..9u8), |(row, n)| row.fill(n));
        assert_eq!(d, [1, 1, 1, 2, 2, 2, 3]);
        let all = over(i8::MIN..i8::MAX).map(i32::from);
        assert_eq!(all, (-128..127).collect::<Vec<_>>());
        assert_eq!(over(Range { start: 5, end: 2 }).map(|n| n), []);
        assert_eq!(over(1..=u8::MAX).map_reduce(u32::from, |a, b| a + b), Some(255 * 128));
        assert_eq!(over((&b, 1..=100u64)).map(|(b, n)| b * n), [10, 40, 90]);
    });
}

/// The threads that took part in a loop, which goes on until there were `wanted`, or for long.
fn threads_of(wanted: usize, each: impl Fn(&(dyn Fn() + Sync))) -> usize {
    let threads = StdMutex::new(BTreeSet::new());
    let enough = AtomicBool::new(false);
    let visit = || {
        if enough.load(Ordering::Relaxed) {
            return;
        }
        let mut threads = threads.lock().unwrap();
        threads.insert(format!("{:?}", std::thread::current().id()));
        enough.store(threads.len() >= wanted, Ordering::Relaxed);
        drop(threads);
        uneven(1);
    };
    each(&visit);
    threads.into_inner().unwrap().len()
}

#[test]
fn a_core_that_asks_gets_a_part() {
    watched("shared loops", || {
        let two = runtime(2);
        let steps = sized(100_000, 2_000);
        let threads = two.run(|| threads_of(2, |visit| par_for(0..steps, |_| visit()))).unwrap();
        assert_eq!(threads, 2, "nobody was given a part of a loop of seconds");
    });
}

#[test]
fn a_loop_counts_as_one_child_however_often_it_was_cut() {
    on_1_2_4("names", || {
        let after = || join(|| (), || current_name().to_string()).1;
        let name = after();
        par_for(0..sized(5_000, 100), uneven);
        let (prefix, number) = name.rsplit_once('.').unwrap();
        assert_eq!(after(), format!("{prefix}.{}", number.parse::<u32>().unwrap() + 2));
    });
}

/// The names of all VPs that were born.
#[derive(Default)]
struct Births(StdMutex<BTreeSet<String>>);

impl Hooks for Births {
    fn event(&self, event: &Event) {
        if let Event::Born { vp } = event {
            self.0.lock().unwrap().insert(vp.to_string());
        }
    }
}

#[test]
fn who_watches_sees_the_same_cuts_in_every_run() {
    watched("hooks", || {
        let births = |controllers| {
            let births = Arc::new(Births::default());
            let runtime = Runtime::builder().controllers(controllers).pin(false).hooks(births.clone()).build().unwrap();
            runtime.run(|| par_for(0..sized(5_000, 200), uneven)).unwrap();
            drop(runtime);
            births.0.lock().unwrap().clone()
        };
        let expected = births(1);
        assert_eq!(expected.len(), 1 + 1 + 63, "the seed, the loop, and its parts but the first");
        assert_eq!(births(3), expected);
    });
}

/// Counts those that are there.
struct Counted<'a>(&'a AtomicUsize, usize);

impl<'a> Counted<'a> {
    fn new(count: &'a AtomicUsize, number: usize) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Counted(count, number)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[test]
fn a_panic_goes_on_and_results_are_dropped_once() {
    on_1_2_4("panics", || {
        let len = sized(5_000, 100);
        for culprit in [0, 1, len / 2, len - 1] {
            let count = AtomicUsize::new(0);
            let visit = |number| {
                uneven(number);
                if number == culprit {
                    resume_unwind(Box::new(number));
                }
                Counted::new(&count, number)
            };
            assert_eq!(panic_of::<usize, _>(|| over(0..len).map(visit)), culprit);
            assert_eq!(count.load(Ordering::Relaxed), 0, "results were lost, or dropped twice");
            let visit = |number| drop(visit(number));
            assert_eq!(panic_of::<usize, _>(|| par_for(0..len, visit)), culprit);
            let results = over(0..len).map(|number| Counted::new(&count, number));
            assert!(results.iter().enumerate().all(|(number, result)| result.1 == number));
            assert_eq!(count.load(Ordering::Relaxed), len);
            drop(results);
            assert_eq!(count.load(Ordering::Relaxed), 0);
            fn later<'a>(_: Counted<'a>, b: Counted<'a>) -> Counted<'a> {
                b
            }
            let last = over(0..len).map_reduce(|number| Counted::new(&count, number), later);
            assert_eq!(last.map(|last| last.1), Some(len - 1));
            let reduced = panic_of::<usize, _>(|| {
                over(0..len).map_reduce(
                    |number| Counted::new(&count, number),
                    |a, b| match b.1 % 10 {
                        9 => resume_unwind(Box::new(culprit)),
                        _ => later(a, b),
                    },
                )
            });
            assert_eq!(reduced, culprit);
            assert_eq!(count.load(Ordering::Relaxed), 0);
        }
    });
}

#[test]
fn a_panic_leaves_out_the_rest_of_its_piece_only_and_the_first_one_wins() {
    watched("panics of pieces", || {
        // 64 pieces of a hundred steps.
        let steps = 6400;
        for controllers in [1, 3] {
            let births = Arc::<Births>::default();
            let runtime = Runtime::builder().controllers(controllers).pin(false).hooks(births).build().unwrap();
            for culprits in [&[150][..], &[4020, 150], &[199, 0, 6399]] {
                let mut visited = vec![false; steps];
                let run = || {
                    panic_of::<usize, _>(|| {
                        over(&mut visited).enumerate().for_each(|(number, visited)| {
                            if culprits.contains(&number) {
                                resume_unwind(Box::new(number));
                            }
                            *visited = true;
                        });
                    })
                };
                assert_eq!(Some(&runtime.run(run).unwrap()), culprits.iter().min());
                let left_out =
                    |number| culprits.iter().any(|culprit| (*culprit..culprit / 100 * 100 + 100).contains(&number));
                assert!(visited.iter().enumerate().all(|(number, visited)| *visited != left_out(number)));
            }
        }
    });
}

#[test]
fn results_of_any_size_are_filled_in_and_dropped_once() {
    on_1_2_4("sizes of results", || {
        let steps = sized(2_000, 100);
        let large = over(0..steps).map(|number| {
            uneven(number);
            [number; 300]
        });
        assert!(large.iter().enumerate().all(|(number, large)| *large == [number; 300]));
        let units = over(0..=steps).map(uneven);
        assert_eq!(units.len(), steps + 1);
        static NOTHINGS: AtomicUsize = AtomicUsize::new(0);
        struct Nothing;
        impl Drop for Nothing {
            fn drop(&mut self) {
                NOTHINGS.fetch_sub(1, Ordering::Relaxed);
            }
        }
        let nothing = |number| {
            uneven(number);
            NOTHINGS.fetch_add(1, Ordering::Relaxed);
            Nothing
        };
        let nothings = over(0..steps).map(nothing);
        assert_eq!((nothings.len(), NOTHINGS.load(Ordering::Relaxed)), (steps, steps));
        drop(nothings);
        assert_eq!(NOTHINGS.load(Ordering::Relaxed), 0, "results without bytes were lost, or dropped twice");
    });
}

#[test]
fn a_sequence_that_gives_less_than_it_said_is_found_out() {
    /// Says that it is one longer than it is.
    struct Liar(Range<u8>);
    impl Pieces for Liar {
        type Item = u8;
        type Iter = Range<u8>;
        fn count(&self) -> usize {
            self.0.len() + 1
        }
        fn cut(self, at: usize) -> (Self, Self) {
            let (first, second) = self.0.cut(at);
            (Liar(first), Liar(second))
        }
        fn items(self) -> Self::Iter {
            self.0
        }
    }
    impl IntoPieces for Liar {
        type Pieces = Self;
        fn into_pieces(self) -> Self {
            self
        }
    }
    watched("liars", || {
        let lie = || panic_of::<String, _>(|| over(Liar(0..3)).grain(10).map(|number| number));
        assert_eq!(runtime(1).run(lie).unwrap(), "1 of 4 places of a vector were left empty");
    });
}

#[test]
fn a_body_may_wait() {
    on_1_2_4("waits", || {
        let sum = Mutex::new(0);
        par_for(0..sized(2_000, 50), |number| {
            let mut sum = sum.lock().unwrap();
            uneven(number);
            *sum += 1;
        });
        assert_eq!(sum.into_inner().unwrap(), sized(2_000, 50));
    });
}

#[test]
fn a_cancel_ends_a_loop_without_end() {
    static UNWOUND: AtomicUsize = AtomicUsize::new(0);
    on_1_2_4("cancelled loops", || {
        let lock = Arc::new(Mutex::new(0));
        let (begin, begun) = mpsc::channel();
        let body = {
            let lock = Arc::clone(&lock);
            move |number: u64| {
                let _unwound = Counted::new(&UNWOUND, 0);
                *lock.lock().unwrap() += 1;
                if number == 0 {
                    begin.send(()).unwrap();
                }
            }
        };
        let running = spawn(move || par_for(0..u64::MAX, body));
        begun.recv().unwrap();
        running.cancel().unwrap();
        assert!(matches!(running.join(), Err(JoinError::Cancelled)));
        assert_eq!(UNWOUND.load(Ordering::Relaxed), 0, "a body still runs");
        assert!(*lock.lock().unwrap() > 0);
    });
}

#[test]
fn loops_nest_and_run_from_os_threads() {
    watched("nested", || {
        let side = sized(100, 10);
        let table = || {
            let mut table = vec![0; side * side];
            over(chunks_mut(&mut table, side)).enumerate().for_each(|(y, row)| {
                over(row).enumerate().for_each(|(x, cell)| *cell = x * y);
            });
            assert!(table.iter().enumerate().all(|(at, cell)| *cell == (at % side) * (at / side)));
        };
        runtime(3).run(table).unwrap();
        let thread: ThreadId = std::thread::current().id();
        table();
        assert!(over(0..3u8).map(|_| std::thread::current().id()).iter().all(|id| *id != thread), "it runs on a core");
    });
}

/// A tree with random shape: the children of each node.
struct Node(Vec<Node>);

fn grow(dice: &mut Dice, nodes: usize) -> Node {
    let mut left = nodes - 1;
    let mut children = Vec::new();
    while left > 0 {
        let part = 1 + dice.below(left as u64) as usize;
        children.push(grow(dice, part));
        left -= part;
    }
    Node(children)
}

struct Count<'a> {
    left: Vec<&'a Node>,
    counted: usize,
    bit: usize,
}

impl Divide for Count<'_> {
    fn kernel(&mut self) -> bool {
        for _ in 0..self.bit {
            let Some(node) = self.left.pop() else { return false };
            self.counted += 1;
            uneven(self.counted);
            self.left.extend(&node.0);
        }
        true
    }

    fn divide(&mut self) -> Option<Self> {
        let half = self.left.len() / 2;
        (half > 0).then(|| Count { left: self.left.drain(..half).collect(), counted: 0, bit: self.bit })
    }

    fn undivide(&mut self, part: Self) {
        assert!(self.left.is_empty() && part.left.is_empty(), "taken back before it was done");
        self.counted += part.counted;
    }
}

#[test]
fn work_of_any_shape_is_done_once() {
    on_1_2_4("divide", || {
        let mut dice = Dice::new(1);
        for _ in 0..sized(10, 1) {
            let nodes = 1 + dice.below(sized(5_000, 50) as u64) as usize;
            let root = grow(&mut dice, nodes);
            assert_eq!(work(Count { left: vec![&root], counted: 0, bit: 7 }).counted, nodes);
            fn pair(mut nodes: Vec<&Node>) -> Result<(Vec<&Node>, Vec<&Node>), Vec<&Node>> {
                if nodes.len() < 2 {
                    return Err(nodes);
                }
                let second = nodes.split_off(nodes.len() / 2);
                Ok((nodes, second))
            }
            fn count(nodes: &[&Node]) -> usize {
                nodes.iter().map(|node| 1 + count(&node.0.iter().collect::<Vec<_>>())).sum()
            }
            let counted = dku(root.0.iter().collect(), pair, |piece| count(&piece), |a, b| a + b);
            assert_eq!(counted, nodes - 1);
        }
    });
}
