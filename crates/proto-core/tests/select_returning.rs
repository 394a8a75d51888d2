//! A select that offers values: what its branch left in a queue is taken, or comes back, and never both.

mod common;

use std::cell::Cell;
use std::time::{Duration, Instant};

use common::{runtime, sized, watched};
use proto_core::{Caller, Ended, EnvCell, Hidden, Kind, RequestHandler, Select, Waiters, scope, yield_now};

/// Where values are offered and taken.
#[derive(Default)]
struct Market {
    offered: Waiters<Result<(), usize>, Box<usize>>,
}

struct Offer(Box<usize>);
struct Take;
struct Close;

impl RequestHandler<Offer> for Market {
    type Reply = Result<(), usize>;
    fn handle(&mut self, Offer(value): Offer, caller: Caller<'_, Self::Reply>, hidden: &mut Hidden<'_>) {
        self.offered.push_returning(caller, value, |value, _| Err(*value), hidden);
    }
}

impl RequestHandler<Take> for Market {
    type Reply = Option<Box<usize>>;
    const KIND: Kind = Kind::Release;
    fn handle(&mut self, _: Take, caller: Caller<'_, Self::Reply>, hidden: &mut Hidden<'_>) {
        let taken = self.offered.resume_next(Ok(()), hidden).ok();
        hidden.answer(caller, taken.map(proto_core::Woken::into_data));
    }
}

impl RequestHandler<Close> for Market {
    type Reply = ();
    const KIND: Kind = Kind::Release;
    fn handle(&mut self, _: Close, caller: Caller<'_, ()>, hidden: &mut Hidden<'_>) {
        while self.offered.resume_next_with(|value| Err(*value + 1000), hidden).is_some() {}
        hidden.answer(caller, ());
    }
}

/// Which market bought it, and what it said.
type Sale = Result<(usize, Result<(), usize>), Ended>;

/// Offers `value` on both markets: whether it was sold, and what is in the hand afterwards.
fn offer(markets: &[EnvCell<Market>; 2], value: usize, deadline: Option<Instant>) -> (Sale, usize) {
    let hand = Cell::new(value);
    let take = || Offer(Box::new(hand.take()));
    let back = |lost: Result<(), usize>| hand.set(lost.unwrap_err());
    // One hand: the first branch leaves zero in it, and the second offers that.
    let select = Select::new();
    let select = select.on_returning(&markets[0], take, |sold| sold, back);
    let outcome = select.on(&markets[1], || Offer(Box::new(0)), |sold| sold).wait(deadline);
    (outcome, hand.get())
}

#[test]
fn what_was_offered_in_vain_comes_back() {
    watched("offered in vain", || {
        runtime(2)
            .run(|| {
                let markets = [EnvCell::new(Market::default()), EnvCell::new(Market::default())];
                let soon = Some(Instant::now() + Duration::from_millis(1));
                assert_eq!(offer(&markets, 7, soon), (Err(Ended::Deadline), 7));
                scope(|s| {
                    let offers = s.spawn(|| offer(&markets, 8, None));
                    while markets[1].release_asking(Take).flatten().is_none() {
                        yield_now();
                    }
                    assert_eq!(offers.join().unwrap(), (Ok((1, Ok(()))), 8), "the other branch won");
                    let offers = s.spawn(|| offer(&markets, 9, None));
                    while !offers.is_finished() {
                        markets[0].release(Close);
                        yield_now();
                    }
                    assert_eq!(offers.join().unwrap(), (Ok((0, Err(1009))), 0), "it came back by the reply");
                });
            })
            .unwrap();
    });
}

#[test]
fn an_offer_is_taken_or_comes_back_never_both() {
    watched("taken or back", || {
        for controllers in [1, 2, 4] {
            runtime(controllers)
                .run(|| {
                    let markets = [EnvCell::new(Market::default()), EnvCell::new(Market::default())];
                    let offers = sized(2000, 20);
                    let (sum_of_taken, over) = (Cell::new(0), std::sync::atomic::AtomicBool::new(false));
                    scope(|s| {
                        let seller = s.spawn(|| {
                            let mut sold = 0;
                            for value in 1..=offers {
                                let soon = Instant::now() + Duration::from_micros((value % 20) as u64);
                                let (outcome, hand) = offer(&markets, value, Some(soon));
                                assert!(outcome == Ok((0, Ok(()))) || hand == value, "a value is gone");
                                sold += value - hand;
                            }
                            over.store(true, std::sync::atomic::Ordering::Release);
                            sold
                        });
                        while !over.load(std::sync::atomic::Ordering::Acquire) {
                            for market in &markets {
                                if let Some(value) = market.release_asking(Take).flatten() {
                                    sum_of_taken.set(sum_of_taken.get() + *value);
                                }
                            }
                            yield_now();
                        }
                        assert_eq!(seller.join().unwrap(), sum_of_taken.get());
                    });
                })
                .unwrap();
        }
    });
}
