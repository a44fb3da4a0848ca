//! The out folder: everything of local runs, in one place that one process at a time works in.

use anyhow::{Context, bail};
use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The paths in an out folder.
#[derive(Debug, Clone)]
pub(crate) struct Folder(PathBuf);

/// The right to work in an out folder, until it is dropped.
#[derive(Debug)]
pub(crate) struct Held {
    _lock: File,
}

impl Folder {
    /// The folder at this path, as an absolute one: attempts remember it, and may be asked from anywhere.
    pub(crate) fn at(path: &Path) -> anyhow::Result<Self> {
        Ok(Self(std::path::absolute(path).with_context(|| path.display().to_string())?))
    }

    /// Makes what is missing, for its owner only, and keeps other processes out.
    pub(crate) fn hold(&self) -> anyhow::Result<Held> {
        for folder in [&self.0, &self.keys(), &self.receipts()] {
            let made = DirBuilder::new().recursive(true).mode(0o700).create(folder);
            made.with_context(|| folder.display().to_string())?;
        }
        let path = self.0.join("lock");
        let lock = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&path);
        let lock = lock.with_context(|| path.display().to_string())?;
        match lock.try_lock() {
            Ok(()) => Ok(Held { _lock: lock }),
            Err(TryLockError::WouldBlock) => {
                bail!("{}: another m87 works here; wait for it, or name another folder with --out", self.0.display())
            }
            Err(TryLockError::Error(error)) => Err(error).with_context(|| path.display().to_string()),
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    pub(crate) fn store(&self) -> PathBuf {
        self.0.join("store")
    }

    /// The store's main file.
    pub(crate) fn database(&self) -> PathBuf {
        self.store().join("authority.db")
    }

    pub(crate) fn engine(&self) -> PathBuf {
        self.0.join("engine")
    }

    pub(crate) fn artifacts(&self) -> PathBuf {
        self.0.join("artifacts")
    }

    pub(crate) fn attempts(&self) -> PathBuf {
        self.0.join("attempts")
    }

    pub(crate) fn receipts(&self) -> PathBuf {
        self.0.join("receipts")
    }

    pub(crate) fn log(&self) -> PathBuf {
        self.0.join("log")
    }

    pub(crate) fn checkpoints(&self) -> PathBuf {
        self.0.join("checkpoints")
    }

    pub(crate) fn keys(&self) -> PathBuf {
        self.0.join("keys")
    }

    /// The signing key, unless one is named on the command line.
    pub(crate) fn key(&self) -> PathBuf {
        self.keys().join("signing.pem")
    }

    /// The public half of the key that signs, for whoever verifies.
    pub(crate) fn public_key(&self) -> PathBuf {
        self.keys().join("signing.pub.pem")
    }

    /// The authority's own TLS identity.
    pub(crate) fn tls(&self) -> PathBuf {
        self.keys().join("authority-tls.json")
    }

    /// The credentials of the lanes, by lane.
    pub(crate) fn credentials(&self) -> PathBuf {
        self.keys().join("lanes")
    }

    /// Where the authority listens, for whoever has credentials.
    pub(crate) fn address(&self) -> PathBuf {
        self.0.join("authority.address")
    }
}
