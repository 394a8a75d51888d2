//! Claims about the program, on small texts and on hard files.

use std::os::unix::fs::symlink;
use std::path::PathBuf;

use clap::Parser;

use crate::folder::Folder;
use crate::rivals::{Laps, With, runtime};
use crate::sorting::{Piece, Ranked, pieces, rank};
use crate::texts::Texts;
use crate::{Arguments, check, run};

fn ranked<'t>(with: With, pieces: &[Piece<'t>]) -> Vec<Ranked<'t>> {
    rank(with, pieces, &mut Laps::new())
}

fn texts(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| text.to_string()).collect()
}

#[test]
fn common_words_come_first_then_the_alphabet_and_the_first_text_is_known() {
    let texts = texts(&["zoo & the cat", "the cat; a 2nd x9\u{2014}the ...", "the th\u{e9}"]);
    let expected = [("the", 4, 0), ("cat", 2, 0), ("th\u{e9}", 1, 2), ("x9", 1, 1), ("zoo", 1, 0)];
    let expected = expected.map(|(word, count, first)| Ranked { word, count, first });
    for with in [With::Plain, With::Tasks, With::Rayon] {
        assert_eq!(ranked(with, &pieces(&texts)), expected, "{with:?}");
    }
}

#[test]
fn texts_that_are_cut_give_the_same_words_on_every_side() {
    // A megabyte with words of every length, one of them longer than a piece, and letters of several bytes.
    let mut text = "\u{e4}".repeat(100_000);
    for n in 0..100_000_u64 {
        let hash = n.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40;
        text += &format!(" {}{}", "w\u{f6}rd".repeat((hash % 4) as usize), char::from(b'a' + (hash % 26) as u8));
    }
    let texts = [text.clone(), "w\u{f6}rdb first".to_owned(), text];
    let pieces = pieces(&texts);
    assert!(pieces.len() > 20, "{} pieces", pieces.len());
    let plain = ranked(With::Plain, &pieces);
    assert_eq!(check::check(&plain, &texts), Ok(()));
    assert_eq!(ranked(With::Rayon, &pieces), plain, "rayon");
    for cores in [1, 2, 3] {
        let runtime = runtime(Some(cores)).expect("a runtime");
        let tasks = runtime.run(|| ranked(With::Tasks, &pieces)).expect("no panic");
        assert_eq!(tasks, plain, "tasks on {cores} cores");
    }
}

#[test]
fn a_wrong_result_is_named() {
    let texts = texts(&["one two two"]);
    let mut wrong = ranked(With::Plain, &pieces(&texts));
    wrong[1].count = 2;
    let error = check::check(&wrong, &texts).expect_err("one occurs once");
    assert!(error.starts_with("place 1 of the words is \"one\", 2 times"), "{error}");
    wrong.truncate(1);
    let error = check::check(&wrong, &texts).expect_err("one is missing");
    assert!(error.starts_with("place 1 of the words is nothing, and should be \"one\""), "{error}");
}

fn program(paths: &[PathBuf]) -> Result<(), String> {
    let words = ["wordsort", "--quick", "--"].map(Into::into).into_iter();
    run(&Arguments::parse_from(words.chain(paths.iter().map(|path| path.clone().into_os_string()))))
}

#[test]
fn files_and_folders_are_read_and_what_is_no_text_is_left_out_with_its_reason() {
    let folder = Folder::new("mixed");
    let text = folder.file("text", "Alpha BETA alpha");
    let binary = folder.file("binary", b"alpha\0alpha");
    symlink("nowhere", folder.path().join("dangling")).expect("linked");
    let read = Texts::read(&[folder.path().to_owned(), text.clone()]).expect("read");
    assert_eq!(read.texts, ["alpha beta alpha", "alpha beta alpha"], "once in the folder, and once by itself");
    let left_out = read.left_out(usize::MAX).join("\n");
    for part in ["binary: binary (it holds zero bytes)", "dangling: leads nowhere"] {
        assert!(left_out.contains(part), "{part:?} is missing in {left_out}");
    }
    assert_eq!(program(&[folder.path().to_owned(), text]), Ok(()));
    let error = program(&[binary]).expect_err("no text");
    assert!(error.contains("no text in what was named"), "{error}");
}

#[test]
fn a_path_that_is_not_there_is_refused_with_a_remedy() {
    let folder = Folder::new("none");
    let error = program(&[folder.path().join("no such file")]).expect_err("not there");
    for part in ["no such file: No such file", "--example wordsort -- "] {
        assert!(error.contains(part), "{part:?} is missing in {error}");
    }
}
