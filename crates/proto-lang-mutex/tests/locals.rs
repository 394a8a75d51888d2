//! `thread_local!` and `LocalKey`, as code written for std uses them.

mod common;

use std::cell::{Cell, RefCell};

use common::on_1_2_4;
use proto_lang_mutex::thread::{self, LocalKey};
use proto_lang_mutex::thread_local;

thread_local! {
    static COUNT: Cell<u32> = const { Cell::new(1) };
    pub(crate) static WORDS: RefCell<Vec<&'static str>> = RefCell::new(vec!["first"])
}

#[test]
fn each_thread_has_its_own_and_all_of_stds_methods() {
    fn through(key: &'static LocalKey<Cell<u32>>) -> u32 {
        key.with(Cell::get) + key.try_with(Cell::get).unwrap()
    }
    on_1_2_4(|| {
        COUNT.set(5);
        WORDS.with_borrow_mut(|words| words.push("mine"));
        thread::spawn(|| {
            assert_eq!((COUNT.get(), through(&COUNT)), (1, 2));
            COUNT.set(7);
            thread::yield_now();
            assert_eq!((COUNT.replace(8), COUNT.take(), COUNT.get()), (7, 8, 0));
            assert_eq!(WORDS.with_borrow(Vec::len), 1);
            WORDS.set(vec!["another"]);
            assert_eq!(WORDS.replace(vec![]), ["another"]);
            assert!(WORDS.take().is_empty());
        })
        .join()
        .unwrap();
        assert_eq!(COUNT.get(), 5);
        assert_eq!(WORDS.take(), ["first", "mine"]);
    });
    COUNT.set(2);
    assert_eq!(std::thread::spawn(|| COUNT.get()).join().unwrap(), 1);
}

#[test]
fn a_value_that_is_set_first_is_never_made() {
    thread_local! {
        static NEVER: Cell<u32> = unreachable!("it is set before it is read");
    }
    on_1_2_4(|| {
        NEVER.set(3);
        NEVER.with(|never| {
            NEVER.set(4);
            assert_eq!(never.get(), 4, "setting changes the value that others look at");
        });
    });
}
