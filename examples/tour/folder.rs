//! Folders for tests.

use std::path::{Path, PathBuf};
use std::{env, fs, process};

/// A folder for one test, removed at its end.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new(test: &str) -> Folder {
        let path = env::temp_dir().join(format!("{}-{test}-{}", env!("CARGO_BIN_NAME"), process::id()));
        fs::create_dir_all(&path).expect("a folder for temporary files");
        Folder(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// Writes a file into it.
    pub(crate) fn file(&self, name: &str, contents: impl AsRef<[u8]>) -> PathBuf {
        let path = self.0.join(name);
        fs::write(&path, contents).expect("written");
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // Best effort: it is the system's folder for such things.
        let _ = fs::remove_dir_all(&self.0);
    }
}
