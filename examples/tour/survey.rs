//! Which files below a folder are text, and what was wrong with the others.
//!
//! Hidden entries and build folders (those that carry a `CACHEDIR.TAG`, as Cargo's `target` does) are passed over.
//! Links are followed; a link that leads back to a folder above it is reported and not entered. Everything that cannot
//! be used becomes one [`Problem`], and the survey goes on.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use indicatif::HumanCount;
use walkdir::{DirEntry, WalkDir};

/// A file is binary if one of its first bytes is zero: git looks at as many.
const SNIFFED: u64 = 8000;

/// A file to be indexed.
#[derive(Debug)]
pub(crate) struct TextFile {
    pub(crate) path: PathBuf,
    /// In bytes, when it was surveyed.
    pub(crate) len: u64,
}

/// Something that is left out of the index.
#[derive(Debug)]
pub(crate) struct Problem {
    pub(crate) path: PathBuf,
    pub(crate) kind: Kind,
}

/// Why something is left out, and what the reader can do about it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Binary,
    NotAFile,
    LinkLoop { back_to: PathBuf },
    NotFound,
    Denied,
    Unreadable(String),
}

impl Kind {
    pub(crate) fn of(error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::PermissionDenied => Self::Denied,
            io::ErrorKind::NotFound => Self::NotFound,
            _ => Self::Unreadable(error.to_string()),
        }
    }

    /// Problems of one kind are listed together.
    fn group(&self) -> u8 {
        match self {
            Self::Binary => 0,
            Self::NotAFile => 1,
            Self::LinkLoop { .. } => 2,
            Self::NotFound => 3,
            Self::Denied => 4,
            Self::Unreadable(_) => 5,
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Binary => f.write_str("binary (it holds zero bytes)"),
            Self::NotAFile => f.write_str("a pipe, socket or device"),
            Self::LinkLoop { back_to } => {
                write!(f, "a link back to {}; not followed", back_to.display())
            }
            Self::NotFound => f.write_str("leads nowhere: remove the link, or restore its target"),
            Self::Denied => f.write_str("no permission: `chmod u+r` it (a folder: `u+rx`), or run as its owner"),
            Self::Unreadable(error) => write!(f, "cannot be read: {error}"),
        }
    }
}

/// The text files below a folder, in an order that is the same in every process.
#[derive(Debug, Default)]
pub(crate) struct Survey {
    pub(crate) files: Vec<TextFile>,
    pub(crate) problems: Vec<Problem>,
    /// Number of hidden entries and build folders passed over.
    pub(crate) passed_over: usize,
    /// Changes when a file comes, goes, or is written to.
    pub(crate) fingerprint: u64,
}

impl Survey {
    /// Looks at everything below `root`.
    ///
    /// # Errors
    /// A sentence for the user if `root` itself cannot be used.
    pub(crate) fn below(root: &Path) -> Result<Self, String> {
        let advice = concat!(
            "give a folder that you may read: cargo run --release --example ",
            env!("CARGO_BIN_NAME"),
            " -- DIR"
        );
        let found = fs::metadata(root).map_err(|error| format!("{}: {error}; {advice}", root.display()))?;
        if found.is_dir() {
            fs::read_dir(root).map_err(|error| format!("{}: {error}; {advice}", root.display()))?;
        }
        let mut survey = Self::default();
        let mut hasher = DefaultHasher::new();
        let mut passed_over = 0;
        let entries = WalkDir::new(root).follow_links(true).sort_by_file_name().into_iter().filter_entry(|entry| {
            let wanted = entry.depth() == 0 || !(is_hidden(entry) || is_build_folder(entry));
            passed_over += usize::from(!wanted);
            wanted
        });
        for entry in entries {
            match entry.map_err(problem_of).and_then(|entry| sniff(entry, &mut hasher)) {
                Ok(file) => survey.files.extend(file),
                Err(problem) => survey.problems.push(problem),
            }
        }
        survey.passed_over = passed_over;
        survey.fingerprint = hasher.finish();
        survey.problems.sort_by_key(|problem| problem.kind.group());
        Ok(survey)
    }

    /// Size of all text files, in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.len).sum()
    }

    /// One line per problem; of each kind at most `limit`, and then how many more there are.
    pub(crate) fn problem_lines(&self, limit: usize) -> Vec<String> {
        let mut groups: BTreeMap<u8, Vec<&Problem>> = BTreeMap::new();
        for problem in &self.problems {
            groups.entry(problem.kind.group()).or_default().push(problem);
        }
        let mut lines = Vec::new();
        for problems in groups.values() {
            for problem in problems.iter().take(limit) {
                lines.push(format!("{}: {}", problem.path.display(), problem.kind));
            }
            if problems.len() > limit {
                let more = HumanCount((problems.len() - limit) as u64);
                lines.push(format!("… and {more} more like the last (--verbose lists them)"));
            }
        }
        lines
    }
}

fn is_hidden(entry: &DirEntry) -> bool {
    entry.file_name().as_encoded_bytes().starts_with(b".")
}

fn is_build_folder(entry: &DirEntry) -> bool {
    entry.file_type().is_dir() && entry.path().join("CACHEDIR.TAG").exists()
}

fn problem_of(error: walkdir::Error) -> Problem {
    let path = error.path().map(Path::to_path_buf).unwrap_or_default();
    let kind = match (error.loop_ancestor(), error.io_error()) {
        (Some(ancestor), _) => Kind::LinkLoop { back_to: ancestor.to_path_buf() },
        (None, Some(error)) => Kind::of(error),
        (None, None) => Kind::Unreadable(error.to_string()),
    };
    Problem { path, kind }
}

/// `Ok(None)` for folders; a text file is noted in the fingerprint.
fn sniff(entry: DirEntry, fingerprint: &mut DefaultHasher) -> Result<Option<TextFile>, Problem> {
    if entry.file_type().is_dir() {
        return Ok(None);
    }
    let path = entry.into_path();
    // Before it is opened: opening a pipe would wait for a writer.
    let looked_at = fs::metadata(&path).and_then(|found| {
        if !found.is_file() {
            return Ok(Err(Kind::NotAFile));
        }
        let mut head = Vec::new();
        File::open(&path)?.take(SNIFFED).read_to_end(&mut head)?;
        if head.contains(&0) {
            return Ok(Err(Kind::Binary));
        }
        (&path, found.len(), found.modified().ok()).hash(fingerprint);
        Ok(Ok(found.len()))
    });
    match looked_at {
        Ok(Ok(len)) => Ok(Some(TextFile { path, len })),
        Ok(Err(kind)) => Err(Problem { path, kind }),
        Err(error) => Err(Problem { path, kind: Kind::of(&error) }),
    }
}
