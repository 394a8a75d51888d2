//! Nothing is allocated or freed under an environment's lock by what a handler does with its callers [design rule 2], however many wait and
//! however much they leave: a spinlock over a slow allocator stalls every core that wants the environment.

mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};

use common::{runtime, watched};
use proto_core::{Caller, Ended, EnvCell, Hidden, Kind, RequestHandler, Select, Suspended, Waiters, scope, yield_now};

struct Counting;

static IN_HANDLERS: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

fn note() {
    if INSIDE.get() {
        IN_HANDLERS.fetch_add(1, Ordering::Relaxed);
    }
}

// SAFETY: all is left to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note();
        // SAFETY: duties of the caller.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        note();
        // SAFETY: duties of the caller.
        unsafe { System.dealloc(place, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn inside<R>(f: impl FnOnce() -> R) -> R {
    INSIDE.set(true);
    let result = f();
    INSIDE.set(false);
    result
}

type Big = [u64; 6];

/// Eight queues, and one of timelines that leave something large.
struct Hall {
    rows: [Waiters<u64>; 8],
    left: Waiters<u64, Big>,
    tokens: [Option<Suspended<u64>>; 4],
}

impl Hall {
    const fn new() -> Hall {
        Hall { rows: [const { Waiters::new() }; 8], left: Waiters::new(), tokens: [const { None }; 4] }
    }
}

struct Sit(usize);
impl RequestHandler<Sit> for Hall {
    type Reply = u64;
    fn handle(&mut self, Sit(row): Sit, caller: Caller<'_, u64>, hidden: &mut Hidden<'_>) {
        inside(|| self.rows[row].push(caller, hidden));
    }
}

struct Leave(Big);
impl RequestHandler<Leave> for Hall {
    type Reply = u64;
    fn handle(&mut self, Leave(big): Leave, caller: Caller<'_, u64>, hidden: &mut Hidden<'_>) {
        inside(|| self.left.push_with(caller, big, hidden));
    }
}

struct LeaveReturning(Big);
impl RequestHandler<LeaveReturning> for Hall {
    type Reply = u64;
    fn handle(&mut self, LeaveReturning(big): LeaveReturning, caller: Caller<'_, u64>, hidden: &mut Hidden<'_>) {
        inside(|| self.left.push_returning(caller, big, |big, _| 1000 + big[5], hidden));
    }
}

struct Token(usize);
impl RequestHandler<Token> for Hall {
    type Reply = u64;
    fn handle(&mut self, Token(place): Token, caller: Caller<'_, u64>, hidden: &mut Hidden<'_>) {
        self.tokens[place] = Some(inside(|| hidden.suspend(caller)));
    }
}

/// Resumes everybody, and leaves two values to be dropped. The reply says how many, and the sum of what they had left.
struct Everybody(String, String);
impl RequestHandler<Everybody> for Hall {
    type Reply = (u64, u64);
    const KIND: Kind = Kind::Release;
    fn handle(&mut self, all: Everybody, caller: Caller<'_, (u64, u64)>, hidden: &mut Hidden<'_>) {
        let sums = inside(|| {
            let (mut count, mut sum) = (0, 0);
            for row in &mut self.rows {
                while row.resume_next(count, hidden).is_ok() {
                    count += 1;
                }
            }
            while let Ok(woken) = self.left.resume_next(count, hidden) {
                sum += woken.into_data().iter().sum::<u64>();
                count += 1;
            }
            for token in self.tokens.iter_mut().filter_map(Option::take) {
                count += u64::from(hidden.resume(token, count).is_ok());
            }
            hidden.drop_later(all.0);
            hidden.drop_later(all.1);
            (count, sum)
        });
        hidden.answer(caller, sums);
    }
}

#[test]
fn whatever_waits_and_leaves_things_takes_no_memory_under_the_lock() {
    watched("allocations", || {
        for controllers in [1, 2] {
            let runtime = runtime(controllers);
            runtime
                .run(|| {
                    let (hall, late) = (EnvCell::new(Hall::new()), EnvCell::new(Hall::new()));
                    scope(|s| {
                        for n in 0..100 {
                            let (hall, late) = (&hall, &late);
                            s.spawn(move || match n % 5 {
                                0 => drop(hall.request(Leave([n; 6])).unwrap()),
                                1 => drop(hall.request(LeaveReturning([n; 6])).unwrap()),
                                2 if n < 20 => drop(hall.request(Token(n as usize / 5)).unwrap()),
                                3 => drop(
                                    Select::new()
                                        .on(hall, || Leave([n; 6]), |r| r)
                                        .on(late, || LeaveReturning([n; 6]), |r| r)
                                        .wait(None)
                                        .unwrap(),
                                ),
                                _ => drop(hall.request(Sit(n as usize % 8)).unwrap()),
                            });
                        }
                        let (mut count, mut sum) = (0, 0);
                        while count < 100 {
                            let (more, left) = hall.release_asking(Everybody("a".to_owned(), "b".to_owned())).unwrap();
                            (count, sum) = (count + more, sum + left);
                            yield_now();
                        }
                        let left = (0..100).filter(|n| matches!(n % 5, 0 | 1 | 3));
                        assert_eq!(sum, left.map(|n| 6 * n).sum::<u64>());
                    });
                    assert_eq!(IN_HANDLERS.load(Ordering::Relaxed), 0, "{controllers} controllers");
                    let back = hall.request_until(LeaveReturning([7; 6]), Some(std::time::Instant::now()));
                    assert_eq!(back, Ok(1007), "what was left comes back");
                    let gone = hall.request_until(Leave([7; 6]), Some(std::time::Instant::now()));
                    assert_eq!(gone, Err(Ended::Deadline));
                })
                .unwrap();
        }
    });
}
