//! Small private files: mode 0600, and either the old content or the new, whatever happens meanwhile.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

/// No private file of m87 is larger.
const MAX_BYTES: u64 = 1 << 20;

/// Replaces the file's content. When this returns, it is on the disk.
pub(crate) fn write_private(path: &Path, content: &[u8]) -> io::Result<()> {
    let temporary = path.with_extension("new");
    match std::fs::remove_file(&temporary) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Err(_) | Ok(()) => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary)?;
    file.write_all(content)?;
    file.sync_all()?;
    std::fs::rename(&temporary, path)?;
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => File::open(folder)?.sync_all(),
        Some(_) | None => File::open(".")?.sync_all(),
    }
}

/// Reads the file; `None` if it is not there. Refuses one that others may read.
pub(crate) fn read_private(path: &Path) -> io::Result<Option<Vec<u8>>> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let mode = file.metadata()?.permissions().mode() & 0o777;
    if mode & 0o077 != 0 {
        let message = format!("mode {mode:o} lets others read it; run chmod 600");
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, message));
    }
    let mut content = Vec::new();
    file.take(MAX_BYTES).read_to_end(&mut content)?;
    Ok(Some(content))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use super::*;

    #[test]
    fn private_files_are_replaced_whole_and_refused_when_others_may_read_them() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secret");
        assert_eq!(read_private(&path).unwrap(), None);
        for content in [b"one".as_slice(), b"three"] {
            write_private(&path, content).unwrap();
            assert_eq!(read_private(&path).unwrap().unwrap(), content);
        }
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
        assert_eq!(read_private(&path).unwrap_err().kind(), io::ErrorKind::PermissionDenied);
    }
}
