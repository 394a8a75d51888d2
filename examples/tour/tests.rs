//! Part 2 of the tour on folders that are hard to read: what it says, and that it goes on. In child processes, for their output is what counts.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode, Output, Stdio};
use std::{env, fs, process};

use clap::Parser;

use crate::folder::Folder;
use crate::{Arguments, compare, told, tour};

/// Carries a child's arguments, a line each.
const ARGUMENTS: &str = "TOUR_TEST_ARGUMENTS";

/// The tour's program is the test harness here, which has arguments of its own.
pub(crate) fn again(arguments: &[&OsStr]) -> io::Result<Command> {
    let mut command = Command::new(env::current_exe()?);
    command.args(["--exact", "tests::the_child", "--nocapture"]).env(ARGUMENTS, arguments.join(OsStr::new("\n")));
    Ok(command)
}

/// Does nothing unless it is run as a child.
#[test]
fn the_child() {
    let Some(text) = env::var_os(ARGUMENTS) else { return };
    let words = text.as_bytes().split(|byte| *byte == b'\n').map(|word| OsString::from_vec(word.to_vec()));
    let arguments = Arguments::parse_from([OsString::from("tour")].into_iter().chain(words));
    let done = match (arguments.child, &arguments.dir) {
        // The other parts say nothing of the folder, and take their time.
        (None, Some(dir)) => told(compare::run(dir, arguments.timelines as usize, 1, arguments.verbose)).is_some(),
        _ => tour(&arguments) == ExitCode::SUCCESS,
    };
    process::exit(i32::from(!done));
}

fn command(dir: &Path) -> Command {
    let mut command =
        again(&["--timelines", "8", "--"].map(OsStr::new).into_iter().chain([dir.as_os_str()]).collect::<Vec<_>>())
            .expect("this program");
    command.stdin(Stdio::null());
    command
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// What the tour says of a folder of which it can build no index.
fn refused(dir: &Path) -> String {
    let output = command(dir).output().expect("a child");
    assert!(!output.status.success(), "{}", text(&output));
    text(&output)
}

#[test]
fn a_folder_that_is_not_there_is_named_with_a_remedy() {
    let folder = Folder::new("none");
    let dir = folder.path().join("no such folder");
    let said = refused(&dir);
    for part in ["This part could not be done", "no such folder: No such file", "--example tour -- DIR"] {
        assert!(said.contains(part), "{part}: {said}");
    }
}

#[test]
fn a_folder_without_text_is_named_with_a_remedy() {
    let folder = Folder::new("empty");
    folder.file("binary", b"\x7fELF\0\0");
    let said = refused(folder.path());
    assert!(said.contains("binary (it holds zero bytes)"), "{said}");
    assert!(said.contains("no text in it; name a folder with text files"), "{said}");
}

#[test]
fn what_cannot_be_indexed_is_left_out_with_its_reason_and_the_rest_is_indexed() {
    let folder = Folder::new("all");
    folder.file("text", "alpha beta alpha\n");
    folder.file("latin 1", b"caf\xe9 alpha");
    folder.file("binary", b"alpha\0alpha");
    folder.file(".hidden", "alpha");
    fs::create_dir(folder.path().join("build")).expect("made");
    folder.file("build/CACHEDIR.TAG", "alpha");
    symlink("nowhere", folder.path().join("dangling")).expect("linked");
    symlink(".", folder.path().join("round")).expect("linked");
    // Opens, and gives an error when it is read.
    symlink("/proc/self/mem", folder.path().join("memory")).expect("linked");
    let _socket = UnixListener::bind(folder.path().join("socket")).expect("bound");
    let output = command(folder.path()).output().expect("a child");
    let said = text(&output);
    assert!(output.status.success(), "{said}");
    for part in [
        "2 text files",
        "passed over, as hidden or build output: 2",
        "binary: binary (it holds zero bytes)",
        "socket: a pipe, socket or device",
        "dangling: leads nowhere",
        "round: a link back to",
        "memory: cannot be read: ",
        "All 2 runs built the same index",
        "5 words, 3 different ones",
        "3  alpha",
    ] {
        assert!(said.contains(part), "{part:?} is missing in: {said}");
    }
}

#[test]
fn what_may_not_be_read_is_left_out_with_a_remedy() {
    const NOBODY: u32 = 65534;
    let folder = Folder::new("denied");
    folder.file("text", "alpha beta");
    let secret = folder.file("secret", "alpha");
    let locked = folder.path().join("locked");
    fs::create_dir(&locked).expect("made");
    for path in [&secret, &locked] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o000)).expect("closed");
    }
    // Nothing is closed to root, so there the child is nobody's.
    let root = fs::metadata("/proc/self").expect("this process").uid() == 0;
    let as_nobody = |dir: &Path| {
        let mut command = command(dir);
        if root {
            command.uid(NOBODY).gid(NOBODY);
        }
        command.output()
    };
    // The program itself may be where nobody but root comes.
    let reachable = !root
        || Command::new(env::current_exe().expect("this program"))
            .arg("--list")
            .uid(NOBODY)
            .gid(NOBODY)
            .output()
            .is_ok();
    if !reachable {
        return;
    }
    let output = as_nobody(folder.path()).expect("a child");
    let said = text(&output);
    assert!(output.status.success(), "{said}");
    for part in ["1 text file,", "secret: no permission: `chmod u+r` it", "locked: no permission", "2 words"] {
        assert!(said.contains(part), "{part:?} is missing in: {said}");
    }
    let output = as_nobody(&locked).expect("a child");
    let said = text(&output);
    assert!(!output.status.success(), "{said}");
    assert!(said.contains("locked: Permission denied"), "{said}");
}
