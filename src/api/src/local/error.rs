//! What is wrong with a file: where, what, and what to write instead.

use std::fmt;
use std::path::{Path, PathBuf};

/// One problem in one file. Shown as `FILE: OBJECT: FIELD: PROBLEM; HOW TO FIX`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadError {
    /// The file.
    pub file: PathBuf,
    /// The object in it, for example `run "refund-7"`; absent if the file cannot be read at all.
    pub object: Option<String>,
    /// The field's path, for example `spec.proposal.target`.
    pub field: Option<String>,
    /// What is wrong and what to do.
    pub problem: String,
}

impl ReadError {
    pub(super) fn file(file: &Path, problem: impl Into<String>) -> Self {
        Self { file: file.to_owned(), object: None, field: None, problem: problem.into() }
    }

    pub(super) fn of(self, object: impl Into<String>) -> Self {
        Self { object: Some(object.into()), ..self }
    }

    pub(super) fn at(&self, field: impl Into<String>) -> Self {
        Self { field: Some(field.into()), ..self.clone() }
    }

    pub(super) fn saying(&self, problem: impl Into<String>) -> Self {
        Self { problem: problem.into(), ..self.clone() }
    }
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.file.display())?;
        if let Some(object) = &self.object {
            write!(f, "{object}: ")?;
        }
        if let Some(field) = &self.field {
            write!(f, "{field}: ")?;
        }
        f.write_str(&self.problem)
    }
}

impl std::error::Error for ReadError {}

/// "did you mean …?" if a known name is near, else the list of known names.
pub(super) fn suggestion<'a>(unknown: &str, known: impl Iterator<Item = &'a str>) -> String {
    let mut known: Vec<&str> = known.collect();
    known.sort_unstable();
    let folded = unknown.to_lowercase();
    let near = known
        .iter()
        .map(|name| (strsim::osa_distance(&folded, &name.to_lowercase()), *name))
        .filter(|(distance, name)| *distance <= name.len().div_ceil(3))
        .min();
    match near {
        Some((_, name)) => format!("did you mean {name:?}?"),
        None => format!("known here are {}", known.join(", ")),
    }
}
