//! The texts in memory, in lower case.

use std::fs;
use std::path::PathBuf;

use crate::survey::{Kind, Problem, Survey};

/// What is counted.
#[derive(Debug, Default)]
pub(crate) struct Texts {
    /// Whatever was no UTF-8 is a replacement character, and no word.
    pub(crate) texts: Vec<String>,
    /// Of each of them.
    pub(crate) paths: Vec<PathBuf>,
    left_out: Survey,
}

impl Texts {
    /// Reads files, and what text files there are in folders.
    ///
    /// # Errors
    /// A sentence for the user if one of `paths` itself is not there or not readable.
    pub(crate) fn read(paths: &[PathBuf]) -> Result<Self, String> {
        let mut all = Self::default();
        for path in paths {
            let survey = Survey::below(path)?;
            all.left_out.problems.extend(survey.problems);
            for file in survey.files {
                match fs::read(&file.path) {
                    Ok(bytes) => {
                        all.texts.push(String::from_utf8_lossy(&bytes).to_lowercase());
                        all.paths.push(file.path);
                    }
                    Err(error) => {
                        all.left_out.problems.push(Problem { kind: Kind::of(&error), path: file.path });
                    }
                }
            }
        }
        Ok(all)
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.texts.iter().map(|text| text.len() as u64).sum()
    }

    /// One line for each file that is left out; of each reason at most `limit`.
    pub(crate) fn left_out(&self, limit: usize) -> Vec<String> {
        self.left_out.problem_lines(limit)
    }
}
