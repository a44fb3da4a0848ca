//! The signing key as a file: made on first use, for its owner only.

use anyhow::{Context, ensure};
use m87_core::sign::SigningKey;
use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

/// Reads the key, or makes it if the file is not there.
pub(crate) fn open(path: &Path) -> anyhow::Result<SigningKey> {
    match fs::metadata(path) {
        Ok(facts) => {
            let mode = facts.permissions().mode() & 0o777;
            ensure!(mode & 0o077 == 0, "{}: mode {mode:o} lets others read the key; run chmod 600", path.display());
            let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
            SigningKey::from_pem(&text).with_context(|| path.display().to_string())
        }
        Err(error) if error.kind() == ErrorKind::NotFound => make(path).with_context(|| path.display().to_string()),
        Err(error) => Err(error).with_context(|| path.display().to_string()),
    }
}

fn make(path: &Path) -> anyhow::Result<SigningKey> {
    let mut seed = [0; 32];
    getrandom::fill(&mut seed)?;
    let key = SigningKey::from_seed(&seed);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(key.to_pem()?.as_bytes())?;
    file.sync_all()?;
    Ok(key)
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
    }
}
