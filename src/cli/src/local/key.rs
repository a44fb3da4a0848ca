//! The signing key as a file: made on first use, for its owner only.

use crate::files;
use anyhow::{Context, ensure};
use m87_core::sign::SigningKey;
use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

/// A key in PEM has less than 200.
const MAX_BYTES: u64 = 65_536;

/// Reads the key; makes it first if the file is not there.
pub(crate) fn open(path: &Path) -> anyhow::Result<SigningKey> {
    let place = || path.display().to_string();
    if fs::metadata(path).is_err_and(|error| error.kind() == ErrorKind::NotFound) {
        make(path).with_context(place)?;
    }
    let mode = fs::metadata(path).with_context(place)?.permissions().mode() & 0o777;
    ensure!(mode & 0o077 == 0, "{}: mode {mode:o} lets others read the key; run chmod 600", path.display());
    let text = String::from_utf8(files::read(path, MAX_BYTES)?).with_context(place)?;
    SigningKey::from_pem(&text).with_context(place)
}

/// Makes a key there: whole or not at all, and never in the place of another that was made meanwhile.
fn make(path: &Path) -> anyhow::Result<()> {
    let mut seed = [0; 32];
    getrandom::fill(&mut seed)?;
    let draft = path.with_extension(format!("new-{}", std::process::id()));
    // A process of that number may have been killed here.
    let _ = fs::remove_file(&draft);
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&draft)
        .context("a key cannot be made here; its folder must be there and writable")?;
    file.write_all(SigningKey::from_seed(&seed).to_pem()?.as_bytes())?;
    file.sync_all()?;
    let linked = fs::hard_link(&draft, path);
    fs::remove_file(&draft)?;
    match linked {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(error.into()),
        Ok(()) | Err(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use super::*;

    #[test]
    fn a_key_is_made_once_and_refused_when_others_may_read_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key.pem");
        let made = open(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(open(&path).unwrap().key_id(), made.key_id());
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        assert!(open(&path).unwrap_err().to_string().contains("chmod 600"));
        fs::write(folder.path().join("bad.pem"), "no key").unwrap();
        fs::set_permissions(folder.path().join("bad.pem"), fs::Permissions::from_mode(0o600)).unwrap();
        assert!(open(&folder.path().join("bad.pem")).is_err());
        let nowhere = open(&folder.path().join("nowhere/key.pem")).unwrap_err();
        assert!(format!("{nowhere:#}").contains("its folder must be there"), "{nowhere:#}");
        // Nobody writes to it: reading would wait for ever.
        let pipe = folder.path().join("pipe.pem");
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR, 0).unwrap();
        assert!(open(&pipe).unwrap_err().to_string().contains("not a regular file"));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 3, "no draft stays");
    }
}
