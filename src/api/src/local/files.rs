//! Which files are meant, and their bytes. Only regular files are opened, so that a pipe in a folder cannot hang the reader.

use super::error::ReadError;
use std::collections::BTreeSet;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

/// The largest file that is read, in bytes.
pub const MAX_FILE_BYTES: u64 = 16 << 20;

/// The files behind `paths`, each once, folders in the order of names.
pub(super) fn expand(paths: &[PathBuf], errors: &mut Vec<ReadError>) -> Vec<PathBuf> {
    let mut seen = BTreeSet::new();
    let mut files = Vec::new();
    for path in paths {
        match within(path) {
            Ok(found) => files.extend(found.into_iter().filter(|file| seen.insert(identity(file)))),
            Err(error) => errors.push(error),
        }
    }
    files
}

fn identity(file: &Path) -> PathBuf {
    fs::canonicalize(file).unwrap_or_else(|_| file.to_owned())
}

fn within(path: &Path) -> Result<Vec<PathBuf>, ReadError> {
    let failed = |error: std::io::Error| ReadError::file(path, format!("cannot be read: {error}"));
    if !fs::metadata(path).map_err(failed)?.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut files = Vec::new();
    for entry in fs::read_dir(path).map_err(failed)? {
        let file = entry.map_err(failed)?.path();
        if is_manifest(&file) {
            files.push(file);
        }
    }
    files.sort();
    if files.is_empty() {
        return Err(ReadError::file(
            path,
            "holds no *.yaml, *.yml or *.json; name a folder that does (folders within are not searched)",
        ));
    }
    Ok(files)
}

fn is_manifest(file: &Path) -> bool {
    let hidden = file.file_name().is_none_or(|name| name.as_encoded_bytes().starts_with(b"."));
    let extension = file.extension().map(|extension| extension.to_ascii_lowercase());
    !hidden && extension.is_some_and(|extension| extension == "yaml" || extension == "yml" || extension == "json")
}

/// The bytes of one file.
pub(super) fn load(file: &Path) -> Result<Vec<u8>, ReadError> {
    let failed = |error: std::io::Error| ReadError::file(file, format!("cannot be read: {error}"));
    let facts = fs::metadata(file).map_err(failed)?;
    if !facts.is_file() {
        return Err(ReadError::file(file, "is not a regular file; name one, or a folder of them"));
    }
    let mut bytes = Vec::new();
    let opened = fs::File::open(file).map_err(failed)?;
    opened.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        let size = facts.len();
        return Err(ReadError::file(file, format!("has {size} bytes; at most {MAX_FILE_BYTES} are read, split it")));
    }
    Ok(bytes)
}
