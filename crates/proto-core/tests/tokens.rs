//! Tokens of waiting timelines: dropped, leaked, used on another OS thread, used too late.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use common::desk::{Coin, Desk, TakeToken, Token};
use common::{runtime, watched};
use proto_core::{Ended, EnvCell, VpBuilder, scope, yield_now};

#[test]
fn a_dropped_token_says_so_and_names_the_request() {
    watched("dropped token", || {
        let runtime = runtime(2);
        for on_thread in [false, true] {
            let desk = EnvCell::new(Desk::new());
            runtime
                .run(|| {
                    scope(|s| {
                        let waiter = s.spawn(|| desk.request(Token).map(|coin| coin.number));
                        let token = loop {
                            if let Some(token) = desk.request(TakeToken).unwrap() {
                                break token;
                            }
                            yield_now();
                        };
                        if on_thread {
                            std::thread::spawn(|| drop(token)).join().unwrap()
                        } else {
                            drop(token)
                        }
                        match waiter.join().unwrap() {
                            Err(Ended::Abandoned(name)) => assert!(name.ends_with("Token"), "{name}"),
                            other => panic!("{other:?}"),
                        }
                    });
                })
                .unwrap();
        }
    });
}

#[test]
fn a_leaked_token_is_still_listed_with_its_construct_and_place() {
    watched("leaked token", || {
        let runtime = runtime(2);
        let desk = Arc::new(EnvCell::new(Desk::new()));
        let of_vp = desk.clone();
        let process = runtime
            .start(move || {
                let vp = VpBuilder::new().name("leaked").spawn(move || drop(of_vp.request(Token))).unwrap();
                drop(vp.join());
            })
            .unwrap();
        loop {
            if let Some(token) = desk.request(TakeToken).unwrap() {
                std::mem::forget(token);
                break;
            }
            std::thread::yield_now();
        }
        // The VP may just be on its way to its controller: then the next listing has it.
        let wait = loop {
            if let Some(wait) = runtime.waits().into_iter().find(|wait| wait.vp.user() == Some("leaked")) {
                break wait;
            }
        };
        assert!(wait.request.ends_with("Token"), "{wait}");
        assert!(wait.sent_from.file() == file!(), "{wait}");
        assert!(!wait.binding && !wait.timed);
        process.cancel().unwrap();
        // The seed may have had its join's answer before it met the cancel: then it has returned.
        drop(process.wait());
        assert!(runtime.waits().is_empty());
    });
}

#[test]
fn a_token_resumed_from_an_os_thread_or_too_late() {
    watched("token on an OS thread", || {
        let runtime = runtime(2);
        let alive = Arc::new(AtomicUsize::new(0));
        let desk = Arc::new(EnvCell::new(Desk::new()));
        let (of_vp, of_thread, coins) = (desk.clone(), desk.clone(), alive.clone());
        let process = runtime.start(move || {
            let first = of_vp.request(Token).unwrap().number;
            let late = of_vp.request_until(Token, Some(Instant::now())).map(|coin| coin.number);
            (first, late)
        });
        std::thread::spawn(move || {
            let take = || loop {
                match of_thread.request(TakeToken).unwrap() {
                    Some(token) => break token,
                    None => std::thread::yield_now(),
                }
            };
            assert!(take().resume(Coin::new(&coins, 1)).is_ok());
            let second = take();
            let mut coin = Coin::new(&coins, 2);
            // The deadline is past; either way it comes back or arrives, never both.
            match second.resume(coin) {
                Ok(()) => {}
                Err(back) => {
                    coin = back;
                    assert_eq!(coin.number, 2);
                }
            }
        })
        .join()
        .unwrap();
        let (first, late) = process.unwrap().wait().unwrap();
        assert_eq!(first, 1);
        assert!(matches!(late, Ok(2) | Err(Ended::Deadline)), "{late:?}");
        assert_eq!(alive.load(Ordering::Relaxed), 0);
    });
}
