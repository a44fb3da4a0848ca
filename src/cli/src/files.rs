//! Reading a file that somebody named, within bounds.

use anyhow::Context;
use std::io::Read;
use std::path::Path;

/// At most so many bytes of a regular file, or of the standard input for `-`.
pub(crate) fn read(file: &Path, limit: u64) -> anyhow::Result<Vec<u8>> {
    let place = || format!("{}: cannot be read", file.display());
    let mut bytes = Vec::new();
    if file == Path::new("-") {
        std::io::stdin().lock().take(limit + 1).read_to_end(&mut bytes).with_context(place)?;
    } else {
        let facts = std::fs::metadata(file).with_context(place)?;
        anyhow::ensure!(facts.is_file(), "{}: is not a regular file", file.display());
        let opened = std::fs::File::open(file).with_context(place)?;
        opened.take(limit + 1).read_to_end(&mut bytes).with_context(place)?;
    }
    anyhow::ensure!(bytes.len() as u64 <= limit, "{}: has more than {limit} bytes", file.display());
    Ok(bytes)
}
